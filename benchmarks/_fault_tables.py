"""Cases of `faults.py` on names: columns and headings, classes, the positive class, known labels.

A table in many disguises must be read as the same responses, from a frame, from a file and in the
shell, or be refused by all three.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import unicodedata
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import bayesfuse as bf
from bayesfuse.command_line import CommandError
from bayesfuse.command_line.arguments import parse
from bayesfuse.command_line.tables import read_tables
from bayesfuse.data.gold_tables import read_gold
from bayesfuse.data.tables import read_table

N_ITEMS, RATERS = 12, ["ann", "bob", "cy"]
ITEM, RATER = np.indices((N_ITEMS, 3)).reshape(2, -1)
IS_YES = np.random.default_rng(4).random(3 * N_ITEMS) < 0.5


def long(yes="p", no="n"):
    """Return a table with one row per response."""
    label = np.where(IS_YES, yes, no)
    names = {"item": [f"t{n}" for n in ITEM], "rater": np.array(RATERS)[RATER]}
    return pd.DataFrame(names | {"label": label})


def wide(yes="p", no="n"):
    """Return the same with one row per item."""
    order = [f"t{n}" for n in range(N_ITEMS)]
    matrix = long(yes, no).pivot(index="item", columns="rater", values="label").loc[order]
    return matrix.rename_axis(columns=None).reset_index()


def rows(table):
    """Return responses as sorted rows of text."""
    names = table.to_frame()[["item", "rater", "label"]].astype(str)
    return sorted(map(tuple, names.to_numpy().tolist()))


EXPECTED = rows(bf.Responses.from_long(long()))


def read(how, frame=None, text=None, **settings):
    """Return responses by one reader."""
    if how == "frame" and frame is not None:
        return read_table(frame, **settings)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_text(frame.to_csv(index=False) if text is None else text, encoding="utf-8")
        if how in ("file", "frame"):
            return read_table(path, **settings)[0]
        given = [f"--{k}" if v is True else f"--{k}={v}" for k, v in settings.items()]
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                return read_tables(parse(["fit", str(path), *given])).responses
        except CommandError as error:  # which ends with what it got, as the others do
            raise bf.errors.ResponsesError(str(error)) from None


READERS = "frame", "file", "shell"


def check_rows(how, frame=None, text=None, expected=EXPECTED, classes=None, **settings):
    """Check that a table is read as these rows, and as these classes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        table = read(how, frame, text, **settings)
    if expected is not None:
        assert rows(table) == expected, f"read as {table.n_items} items by {table.raters[:4]}"
    if classes is not None:
        assert table.classes.tolist() == classes, f"classes {table.classes[:4].tolist()}"


NAMES_OF_ITEMS = "item task question_id HITId doc_id Image example_id _task_hash sentence".split()
NAMES_OF_RATERS = "rater worker_id WorkerId annotator judge User _session_id coder".split()
NAMES_OF_LABELS = "label answer choice verdict Response vote annotation decision category".split()


def nuisances(frame):
    """Yield a table with columns that are neither items nor raters nor labels."""
    number = np.arange(len(frame))
    yield "nothing else", frame
    for name in (
        "response_id",
        "answer_id",
        "vote_id",
        "annotation_id",
        "label_id",
        "AssignmentId",
    ):
        yield name, pd.concat([pd.Series(100 + number, name=name), frame], axis=1)
    yield "times", frame.assign(timestamp=[f"2026-01-01T00:{n:02}" for n in number], seconds=number)
    yield "comments", frame.assign(comment="", lang="en")
    yield "an index", pd.concat([pd.Series(number, name="Unnamed: 0"), frame], axis=1)
    yield "a constant", frame.assign(batch="pilot", confidence=(number % 5) / 5)


def disguised():
    """Yield long tables of other tools, whose names rotate."""
    for place, (a, b) in enumerate(product(NAMES_OF_LABELS, NAMES_OF_RATERS)):
        c = NAMES_OF_ITEMS[place % len(NAMES_OF_ITEMS)]
        frame = long().set_axis([c, b, a], axis=1)
        several = list(nuisances(frame))
        for at in (place % len(several), (place * 7 + 3) % len(several)):
            title, table = several[at]
            yield f"long: {c}, {b}, {a}, {title}", table


def headed():
    """Yield texts of files with headings and odd separators, and how they are to be read."""
    for kind, frame in (("wide", wide()), ("long", long())):
        text = frame.to_csv(index=False)
        lines = text.splitlines()
        quoted = [",".join(f'"{cell}"' for cell in line.split(",")) for line in lines]
        for title, other in {
            "a heading again": "\n".join([*lines[:5], lines[0], *lines[5:]]),
            "separators at the ends": "\n".join(f"{line},," for line in lines),
            "separators below": "\n".join([lines[0], *(f"{line}," for line in lines[1:])]),
            "semicolons": text.replace(",", ";"),
            "tabs": text.replace(",", "\t"),
            "tabs at the ends": text.replace(",", "\t").replace("\n", "\t\n"),
            "spaces after commas": text.replace(",", ", "),
            "a byte-order mark": f"\ufeff{text}",
            "line ends of Windows": text.replace("\n", "\r\n"),
            "blank lines": text.replace("\n", "\n\n"),
            "quotes": "\n".join(quoted),
            "quotes after spaces": "\n".join(quoted).replace(",", ", "),
            "an index": frame.to_csv(),
        }.items():
            yield f"{title}, {kind}", other, {}
    yield "items as the index", wide().set_index("item").rename_axis(None).to_csv(), {}
    lines = wide().rename(columns={"item": "ResponseId"}).to_csv(index=False).splitlines()
    questions = ",".join(["Response ID", *[f"Is it so; {name}?" for name in RATERS]])
    imports = ",".join(f'"{{""ImportId"":""Q{n}""}}"' for n in range(4))
    for title, above in {"three": [questions, imports], "two": [imports]}.items():
        text = "\n".join([lines[0], *above, *lines[1:]])
        yield f"Qualtrics, {title} rows", text, {"item": "ResponseId"}


def columns_and_headings():
    """Yield tables of other names, headings and skipped tasks, by every reader."""
    for title, table in disguised():
        for how in READERS:
            yield f"{title}: {how}", partial(check_rows, how, table), "right"
    for title, text, settings in headed():
        for how in READERS[1:]:
            run = partial(check_rows, how, None, text, **settings)
            yield f"headings: {title}: {how}", run, "right"
    for title, table in {
        "letters": wide()[RATERS],
        "numbers": wide(1, 0)[RATERS],
        "with items": wide(1, 0),
        "a gap": wide()[RATERS].mask(np.eye(N_ITEMS, 3, -1, dtype=bool)),
        "long": long(),
    }.items():
        text = table.to_csv(index=False, header=False)
        for how in READERS[1:]:
            yield f"no header, {title}: {how}", partial(read, how, None, text), "error"
    for constant, wanted in product(("INSULT", 1, "tag"), ("answer", "choice", "decision")):
        yes_no = ("accept", "reject") if constant != 1 else ("p", "n")
        table = long(*yes_no).rename(columns={"label": wanted}).assign(label=constant)
        expected = rows(bf.Responses.from_long(long(*yes_no)))
        for how in READERS:
            run = partial(check_rows, how, table, expected=expected)
            yield f"constant label {constant} beside {wanted}: {how}", run, "right"
    skipped = np.arange(len(ITEM)) % 5 == 2
    expected = rows(bf.Responses.from_long(long()[~skipped]))
    for mark in ("ignore", "Skip", "skipped", "IGNORE"):
        table = long().assign(label=long()["label"].mask(skipped, mark))
        matrix = table.pivot(index="item", columns="rater", values="label").reset_index()
        for (kind, frame), how in product({"long": table, "wide": matrix}.items(), READERS):
            run = partial(check_rows, how, frame, expected=expected, classes=["n", "p"])
            yield f"{mark}, {kind}: {how}", run, "right"
    names = ["item", "rater", "answer"]
    for title, table in {
        "no label": long().set_axis(["item", "rater", "x"], axis=1).assign(y=long()["label"]),
        "MTurk": long().set_axis(["HITId", "WorkerId", "Answer.output"], axis=1).assign(t="t"),
        "two labels": long().set_axis(names, axis=1).assign(choice=np.where(IS_YES, "n", "p")),
        "two of one name": pd.concat([long(), long()["label"]], axis=1),
    }.items():
        for how in READERS:
            yield f"question: {title}: {how}", partial(read, how, table), "error"


PAIRS = [
    ("+", "-"), ("diseased", "healthy"), ("yes", "no"), ("pos", "neg"), ("true", "false"),
    ("case", "control"), ("1", "0"), ("positive", "negative"), ("present", "absent"), ("Y", "N"),
    ("abnormal", "normal"), ("affected", "unaffected"), ("spam", "ham"), ("malignant", "benign"),
    ("toxic", "not toxic"), ("detected", "not detected"), ("D+", "D-"), ("sick", "healthy"),
    ("infected", "not infected"), ("hate", "none"), ("reactive", "non-reactive"), ("T", "F"),
    ("ja", "nein"), ("oui", "non"), ("si", "no"), ("unsafe", "safe"), ("relevant", "irrelevant"),
]  # fmt: skip
SPELT = {
    "as they are": str,
    "upper case": str.upper,
    "title case": str.title,
    "spaces": lambda name: f" {name} ",
}


def check_classes(how, yes, no, classes, **settings):
    """Check the order of two classes; of text in files, as these are read."""
    frame = long(yes, no)
    if how == "matrix":
        table = bf.Responses.from_matrix(wide(yes, no).set_index("item"), **settings)
    else:
        table = read(how, frame, None, **settings)
    plain = [str(name).strip().casefold() for name in table.classes.tolist()]
    assert plain == [name.strip().casefold() for name in classes], f"classes {plain}"


def positive_classes():
    """Yield pairs of classes: the positive one must be last by every reader and in any spelling."""
    for (yes, no), (title, spell) in product(PAIRS, SPELT.items()):
        a, b = spell(yes), spell(no)
        for how in ("matrix", *READERS):
            run = partial(check_classes, how, a, b, [b, a])
            yield f"positive: {yes}/{no}, {title}: {how}", run, "right"
            # files hold truth values and numbers, which other text does not name
            if title == "as they are" and (how != "file" or yes not in ("true", "1")):
                run = partial(check_classes, how, a, b, [a, b], positive=b)
                yield f"positive={no} of {yes}/{no}: {how}", run, "right"
    for yes, no in PAIRS[:8]:
        declared = partial(sensitivity, yes, no)
        yield f"sensitivity of {yes}/{no}", declared, "right"


def sensitivity(yes, no):
    """Check that a rater who never misses has the sensitivity, and that it names its class."""
    frame = long(yes, no)
    truth = dict(zip(frame["item"], np.where(ITEM % 3 == 0, yes, no), strict=True))
    frame["label"] = np.where((ITEM % 3 == 0) | ((RATER == 0) & (ITEM % 2 == 0)), yes, no)
    point = bf.find_map(bf.models.DawidSkene(frame, gold=truth))["point"]
    rates = point["sensitivity"].values[0], point["specificity"].values[0]
    assert rates[0] > 0.7 > rates[1], f"sensitivity and specificity {rates}"
    assert str(point["sensitivity"].attrs["positive"]) == yes


def spellings(name):
    """Return spellings of one class."""
    return {
        "case": name.swapcase(),
        "spaces at the end": f"{name}  ",
        "a no-break space": f"\u00a0{name}",
        "decomposed": unicodedata.normalize("NFD", name),
        "full width": "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in name),
        "a zero-width space": f"{name}\u200b",
    }


def class_names():
    """Yield class names that are spelt in several ways, sets of labels and verdicts of judges."""
    for name, other in (("café", "thé"), ("Yes", "No"), ("not sure", "sure"), ("straße", "weg")):
        for title, spelling in spellings(name).items():
            if spelling == name:
                continue
            table = long(name, other)
            table.loc[IS_YES & (RATER == 1), "label"] = spelling
            once = rows(bf.Responses.from_long(long(name, other)))
            for how in READERS:
                run = partial(check_rows, how, table, None, once, normalise=True)
                yield f"normalise {name}, {title}: {how}", run, "right"
            yield f"report {name}, {title}", partial(check_reported, table), "right"
    for separator in ("#", ",", ";", "|", "+", " | "):
        yield f"sets by {separator!r}", partial(check_sets, separator), "right"
    for title, (verdicts, expected) in VERDICTS.items():
        run = partial(check_verdicts, verdicts, expected)
        yield f"verdicts: {title}", run, "error" if expected is None else "right"


def check_reported(table):
    """Check that spellings are reported with their counts, and stay classes of their own."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = bf.Responses.from_long(table)
    assert found.n_classes == 3, f"{found.n_classes} classes"
    assert any("normalise=True" in str(warning.message) for warning in caught), "no warning"
    assert any("normalise=True" in note for note in bf.checks.identifiability(found).problems)


def check_sets(separator):
    """Check that sets of labels in two orders are named."""
    sets = [["x", "y"], ["y", "z"], ["x", "z"], ["x"], ["y"], ["z"]] * 6
    one, other = ([separator.join(own[::step]) for own in sets] for step in (1, -1))
    table = {"item": [*range(36)] * 2, "rater": ["a"] * 36 + ["b"] * 36, "label": one + other}
    problems = bf.checks.identifiability(bf.Responses.from_long(table)).problems
    assert any("sets" in note and "orders" in note for note in problems), "no note on sets"


AB = ["A", "B", "tie"]
VERDICTS = {  # what judges write, and how it is read; None: refused
    "letters": (["A", "B", "tie"], AB),
    "brackets": (["[[A]]", "[[B]]", "[[C]]"], AB),
    "reasons": (["Both are fine, but [[A]]", "My verdict: [[B]]", "I say [[C]]"], AB),
    "names": (["model_a", "Model B", "tie"], AB),
    "assistants": (["Assistant A", "assistant_b", "Tie"], AB),
    "signs": (["A>B", "B > A", "A=B"], AB),
    "strong": (["A>>B", "B>>A", "A=B"], AB),
    "inconsistent": (["A", "B", "tie (inconsistent)"], AB),
    "both bad": (["model_a", "model_b", "both bad"], AB),
    "bothbad": (["model_a", "model_b", "tie (bothbad)"], AB),
    "neither": (["A", "B", "neither"], AB),
    "sentences": (["A is better", "B wins", "Neither"], AB),
    "JSON": (['{"winner": "A"}', '{"winner": "B"}', '{"winner": "tie"}'], AB),
    "JSON in a fence": ([f"```json\n{json.dumps({'verdict': v})}\n```" for v in AB], AB),
    "labelled": ([f"Verdict: {v}" for v in AB], AB),
    "bold": ([f"**{v}**" for v in AB], AB),
    "grades": (["8", "7", "10"], [8, 7, 10]),
    "grades in brackets": (["[[8]]", "[[7]]", "[[10]]"], [8, 7, 10]),
    "grades of ten": (["8/10", "7/10", "10/10"], [8, 7, 10]),
    "grades in words": (["Rating: 8", "Score: 7", "rating: [[10]]"], [8, 7, 10]),
    "grades out of": (["8 out of 10", "7 out of 10", "10 out of 10"], [8, 7, 10]),
    "JSON grades": (['{"score": 8}', '{"score": 7}', '{"score": "10"}'], [8, 7, 10]),
    "points": (["8 points", "7 points", "10 points"], [8, 7, 10]),
    "stars": (["1 star", "2 stars", "4 stars"], [1, 2, 4]),
    "several scales": (["8/10", "4/5", "3/5"], None),
    "two marks": (["[[A]] or [[B]]", "[[A]]", "[[B]]"], None),
    "broken JSON": (['{"winner": "A"', '{"winner": "B"}', "tie"], None),
    "JSON without a verdict": (['{"why": "A"}', '{"why": "B"}', '{"why": "C"}'], None),
    "letters and numbers": (["[[A]]", "8", "tie"], None),
    "grades and words": (["[[8]]", "7", "good"], None),
    "classes": (["safe", "unsafe", "unsafe"], ["safe", "unsafe", "unsafe"]),
}


def check_verdicts(verdicts, expected):
    """Check how verdicts are read; preferences are turned back where the order was swapped."""
    table = pd.DataFrame({"item": range(3), "judge": "x", "verdict": verdicts})
    found = bf.io.read_verdicts(table).responses.to_frame()["label"].tolist()
    assert found == expected, f"read as {found}"
    if expected == AB:
        turned = bf.io.read_verdicts(table.assign(swapped=1), swapped="swapped").responses
        assert turned.to_frame()["label"].tolist() == ["B", "A", "tie"], "not turned back"


MARKS = [
    None,
    np.nan,
    pd.NA,
    pd.NaT,
    "",
    " ",
    "NA",
    "N/A",
    "nan",
    "<NA>",
    -1,
    "-1",
    "skip",
    "Ignore",
]
KINDS = {"text": ("p", "n"), "numbers": (1, 0), "truth values": (True, False)}


def known_labels():
    """Yield known labels of which some are missing, as a dict, Series, frame and file."""
    for mark, (kind, pair) in product(MARKS, KINDS.items()):
        for form in ("dict", "Series", "frame", "truth", "columns", "file", "upper case", "tabs"):
            run = partial(check_known, form, mark, *pair)
            yield f"known labels: {mark!r} in a {form} of {kind}", run, "right"


def check_known(form, mark, yes, no):
    """Check that a mark of a missing label is none in one form of known labels."""
    label = pd.Series(np.where(IS_YES, yes, no).astype(object))
    table = bf.Responses.from_long(long().assign(label=label))
    given = {"t0": yes, "t1": mark, "t2": no, "t3": mark}
    frame = pd.Series(given, dtype=object).rename_axis("item").reset_index(name="label")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("gold.tsv" if form == "tabs" else "gold.csv")
        text = frame.to_csv(index=False, sep="\t" if form == "tabs" else ",")
        text = text.replace("\n", "\t\n") if form == "tabs" else text
        if form == "upper case":
            text = text.replace("True", "TRUE").replace("False", "FALSE")
        path.write_text(text)
        forms = {"dict": given, "Series": pd.Series(given, dtype=object), "frame": frame}
        forms["truth"] = frame.rename(columns={"label": "truth"})
        forms["columns"] = frame.rename(columns={"item": "task_id", "label": "gold"})
        found = dict(read_gold(forms.get(form, path), table).items())
    assert found == {"t0": yes, "t2": no}, f"read as {found}"
