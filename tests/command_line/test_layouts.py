"""A table is read alike from a frame, a file and the command line, or one question is asked."""

import json
from pathlib import Path

import pandas as pd
import pytest
from films import rows_of

import bayesfuse as bf
from bayesfuse.__main__ import main
from bayesfuse.command_line.arguments import parse
from bayesfuse.command_line.tables import read_tables
from bayesfuse.data.tables import read_table
from bayesfuse.errors import ResponsesError

N = 12
ITEM = [f"i{n // 2}" for n in range(N)]
RATER = [("u", "v", "w")[n % 3] for n in range(N)]
LABEL = ["pos", "neg", "pos", "pos", "neg", "neg", "pos", "neg", "pos", "neg", "neg", "pos"]
CODE = [int(label == "pos") for label in LABEL]
TASK = [n // 2 + 70 for n in range(N)]
TEXT = [f"text {n // 2}" for n in range(N)]
TIME = [f"2024-01-01 10:{n:02d}:00" for n in range(N)]
SECONDS = [3.5, 9.1, 12.4, 8.8, 4.2, 77.0, 6.6, 5.1, 9.4, 3.3, 10.0, 2.5]
TESTS = {"culture": [1, 0, 1, 0, 1, 0, 0, 1], "pcr": [1, 0, 1, 0, 1, 1, 0, 1],
         "elisa": [0, 0, 1, 0, 1, 0, 0, 1]}  # fmt: skip
YES = {"x": ["yes", "no", "no", "yes"], "y": ["yes", "no", "yes", "yes"]}
ANSWER = ["accept" if label == "pos" else "reject" for label in LABEL]

LONG = {  # columns, and those that are read
    "rows with ids": (
        {"response_id": range(100, 112), "item": ITEM, "annotator": RATER, "choice": LABEL},
        ("item", "annotator", "choice"),
    ),
    "answers with ids": (
        {"answer_id": range(N), "question_id": ITEM, "worker": RATER, "answer": LABEL},
        ("question_id", "worker", "answer"),
    ),
    "uuids, times and comments": (
        {"uuid": [f"{n:08x}-a" for n in range(N)], "task_id": TASK, "Worker ID": RATER,
         "Label": LABEL, "submitted_at": TIME, "comment": [f"c {n}" for n in range(N)]},
        ("task_id", "Worker ID", "Label"),
    ),
    "an id beside the item": (
        {"id": range(N), "item": ITEM, "rater": RATER, "label": LABEL},
        ("item", "rater", "label"),
    ),
    "raters that are numbers": (
        {"task": TASK, "worker": [n % 3 for n in range(N)], "answer": CODE},
        ("task", "worker", "answer"),
    ),
    "Label Studio": (
        {"annotation_id": range(N), "annotator": RATER, "choice": LABEL, "created_at": TIME,
         "id": TASK, "lead_time": SECONDS, "text": TEXT},
        ("id", "annotator", "choice"),
    ),
    "doccano": (
        {"id": TASK, "data": TEXT, "label": LABEL, "user": RATER}, ("id", "user", "label")
    ),
    "Prodigy": (
        {"_input_hash": TASK, "_task_hash": [-n for n in TASK], "text": TEXT, "label": "INSULT",
         "answer": ANSWER, "_session_id": RATER, "_timestamp": range(N)},
        ("_input_hash", "_session_id", "answer"),
    ),
    "judges": (
        {"question_id": ITEM, "question": TEXT, "judge": RATER, "verdict": LABEL},
        ("question_id", "judge", "verdict"),
    ),
    "melted": ({"item": ITEM, "variable": RATER, "value": LABEL}, ("item", "variable", "value")),
    "with an index": (
        {"Unnamed: 0": range(N), "item": ITEM, "rater": RATER, "label": LABEL},
        ("item", "rater", "label"),
    ),
}  # fmt: skip
WIDE = {  # columns, and those of raters
    "an id and tests": ({"patient_id": range(1, 9)} | TESTS, [*TESTS]),
    "an id of text": ({"ID": [f"P{n}" for n in range(8)]} | TESTS, [*TESTS]),
    "no items": (TESTS, [*TESTS]),
    "an index": ({"Unnamed: 0": [f"P{n}" for n in range(8)]} | TESTS, [*TESTS]),
    "raters with names of columns": (
        {"item": range(4), "user": YES["x"], "expert": YES["y"]},
        ["user", "expert"],
    ),
}
QUESTIONS = {  # columns, and a part of the question
    "MTurk": (
        {"HITId": ITEM, "HITTypeId": "T", "AssignmentId": range(N), "WorkerId": RATER,
         "WorkTimeInSeconds": SECONDS, "Input.text": TEXT, "Answer.output": LABEL},
        r"give label= \(did you mean 'Answer.output'\?\)",
    ),
    "MTurk, two answers": (
        {"HITId": ITEM, "WorkerId": RATER, "Answer.a": LABEL, "Answer.b": LABEL[::-1]},
        "did you mean 'Answer.a' or 'Answer.b'",
    ),
    "Label Studio, a name of its own": (
        {"annotation_id": range(N), "annotator": RATER, "sentiment": CODE, "id": TASK},
        r"give label= \(did you mean 'sentiment'\?\)",
    ),
    "ids of votes only": (
        {"vote_id": range(N), "item": ITEM, "annotator": RATER, "opinion": LABEL},
        r"label= \(did you mean 'opinion'\?\)",
    ),
    "Prodigy, several labels": (
        {"_task_hash": TASK, "label": ["A", "B"] * 6, "answer": ANSWER, "_annotator_id": RATER},
        r"label= \(did you mean 'label' or 'answer'\?\)",
    ),
    "attributes of the items and times": (
        {"Tweet Nr": ITEM, "Worker": RATER, "Mood": LABEL, "Seconds": [n / 4 for n in range(N)],
         "Lang": ["en"] * 6 + ["de"] * 6},
        r"'Tweet Nr'\?\) and .*label=? \(did you mean 'Mood'",
    ),
    "doccano, one user": (
        {"id": range(N), "data": TEXT, "label": LABEL},
        r"give item= \(did you mean 'id'\?\) and rater=",
    ),
    "judges and scores": (
        {"question_id": ITEM, "judge": RATER, "verdict": LABEL, "score": [1, 2, 3] * 4},
        "did you mean 'verdict' or 'score'",
    ),
    "Zooniverse": (
        {"classification_id": range(N), "user_name": RATER, "subject_ids": TASK,
         "annotations": [json.dumps({"value": label}) for label in LABEL]},
        r"label= \(did you mean 'annotations'\?\)",
    ),
    "a form": (
        {"Timestamp": TIME[:4], "Email Address": [f"p{n}@x.org" for n in range(4)]} | YES,
        "'Timestamp' with a name that raters seldom have",
    ),
    "names of its own": (
        {"film": [n // 3 for n in range(N)], "critic": [0, 1, 2] * 4, "stars": [0, 1, 1] * 4},
        r"columns \['film', 'critic'\] that have no pair",
    ),
    "items alone": (
        {"item": ITEM, "critic": RATER, "stars": CODE}, "'i0' in several rows"
    ),
    "raters or roles": (
        {"item": range(8), "user": TESTS["pcr"], "expert": TESTS["elisa"]}, "give label="
    ),
    "raters or names of raters": (
        {"item": range(4), "judge": YES["x"], "answer": YES["y"]}, "with the same values"
    ),
    "a class beside raters": ({"item": range(4), "class": YES["x"]} | YES, "give rater="),
    "a covariate": ({"ID": range(8), "sex": [0, 1] * 4} | TESTS, "'sex' with a name"),
    "ages": ({"ID": range(8), "years": range(30, 70, 5)} | TESTS, "'years' with 8 labels"),
    "the truth": ({"item": range(8), "gold": [0, 1] * 4} | TESTS, "'gold' with a name .* gold="),
    "remarks": ({"item": range(4)} | YES | {"z": YES["x"], "why": ["dark"] + [None] * 3},
                "'why' with labels of no other"),
}  # fmt: skip


def by_three_routes(frame, tmp_path, **names):
    """Read a frame, its file and the file on the command line: rows as text, or the error."""
    frame.to_csv(tmp_path / "t.csv", index=False)
    compressed, tabs = tmp_path / "t.csv.gz", tmp_path / "t.tsv"
    frame.to_csv(compressed, index=False, encoding="utf-8-sig")
    frame.to_csv(tabs, index=False, sep="\t")
    options = [word for role, name in names.items() for word in (f"--{role}", name)]
    routes = [lambda: read_table(frame, **names)[:2]]
    routes += [lambda p=p: read_table(p, **names)[:2] for p in (tmp_path / "t.csv", compressed)]
    for path in (tmp_path / "t.csv", tabs):
        routes.append(lambda p=path: vars_of(read_tables(parse(["doctor", str(p), *options]))))
    found = []
    for route in routes:
        try:
            table, words = route()
            found.append((sorted([str(n) for n in row] for row in rows_of(table)), words))
        except ValueError as error:
            found.append(error)
        except Exception as error:  # of the command line
            found.append(ResponsesError(str(error)))
    return found


def vars_of(tables):
    return tables.responses, tables.read


@pytest.mark.parametrize("kind", LONG)
def test_long_tables_are_recognised(tmp_path, kind):
    columns, roles = LONG[kind]
    frame = pd.DataFrame(columns)
    expected = sorted(frame[[*roles]].astype(str).to_numpy().tolist())
    words = f"Read as a long table, one row per response (columns {roles[0]}, {roles[1]} and "
    for found in by_three_routes(frame, tmp_path):
        assert found == (expected, f"{words}{roles[2]}).")


@pytest.mark.parametrize("kind", WIDE)
def test_wide_tables_are_recognised(tmp_path, kind):
    columns, raters = WIDE[kind]
    frame = pd.DataFrame(columns)
    found = by_three_routes(frame, tmp_path)
    names = frame.iloc[:, 0] if len(frame.columns) > len(raters) else range(len(frame))
    long = frame[raters].assign(**{"": names}).melt("")
    assert all(rows == sorted(long.astype(str).to_numpy().tolist()) for rows, _ in found)
    assert all(words.startswith("Read as a wide table") for _, words in found)


@pytest.mark.parametrize("kind", QUESTIONS)
def test_other_tables_lead_to_a_question(tmp_path, kind):
    columns, question = QUESTIONS[kind]
    for found in by_three_routes(pd.DataFrame(columns), tmp_path):
        with pytest.raises(ValueError, match=question):
            raise found if isinstance(found, Exception) else AssertionError(found)
        assert "@" not in str(found) and "p0" not in str(found)


@pytest.mark.parametrize("shift", [0, 1])
def test_skipped_tasks_are_missing_and_reported(tmp_path, shift):
    labels = ["accept", "ignore", "Skipped", "reject", "reject", "ignore"]
    frame = pd.DataFrame({"item": [1, 1, 1, 2, 2, 2], "rater": list("abc") * 2, "label": labels})
    expected = [["1", "a", "accept"], ["2", "a", "reject"], ["2", "b", "reject"]]
    if shift:
        frame = frame.pivot(index="item", columns="rater", values="label").reset_index()
    for rows, words in by_three_routes(frame, tmp_path):
        assert rows == expected
        assert "2 responses 'ignore' are read as missing, unless " in words
        assert "1 response 'Skipped' is read as missing, unless " in words
    path = str(tmp_path / "t.csv")
    kept = read_tables(parse(["doctor", path, "--classes", "accept,reject,ignore,Skipped"]))
    assert kept.responses.n_responses == 6 and "missing, unless" not in kept.read
    only = frame.replace({"reject": "accept"})
    for error in by_three_routes(only, tmp_path):
        assert "only one class remains without them" in str(error)


NO_HEADER = {
    "codes": "0,1,0\n1,1,1\n0,0,0\n1,,1\n0,0,1\n",
    "text": "yes,no\nno,no\nyes,no\n",
    "items": "img1,yes,no,yes\nimg2,no,no,yes\nimg3,yes,yes,yes\n",
    "long": "1,a,yes\n1,b,no\n2,a,yes\n2,b,yes\n",
}


@pytest.mark.parametrize("kind", NO_HEADER)
def test_a_file_without_a_header_loses_no_row(tmp_path, kind):
    path, lines = tmp_path / "t.csv", NO_HEADER[kind].splitlines()
    path.write_text(NO_HEADER[kind])
    for given in (path, pd.read_csv(path)):
        with pytest.raises(ResponsesError, match=r"header=None\) \(--no-header\)"):
            read_table(given)
    with pytest.raises(ResponsesError, match="which are also values"):
        read_tables(parse(["doctor", str(path)]))
    roles = {"items": {"item": 0}, "long": {"item": 0, "rater": 1, "label": 2}}.get(kind, {})
    options = [word for role, name in roles.items() for word in (f"--{role}", str(name))]
    shell = read_tables(parse(["doctor", str(path), "--no-header", *options])).responses
    frame = read_table(pd.read_csv(path, header=None), **roles)[0]
    assert rows_of(shell) == rows_of(frame)
    assert shell.n_items == (2 if kind == "long" else len(lines))


def test_names_of_columns_are_no_responses(tmp_path):
    """Names that look like values are names if another name is a usual one."""
    for header in ("item,1,2", ",1,2", "film,1,2"):
        (tmp_path / "t.csv").write_text(f"{header}\n7,1,2\n8,2,2\n9,1,1\n")
        names = {"item": "film"} if header[0] == "f" else {}
        assert read_table(tmp_path / "t.csv", **names)[0].raters.tolist() == ["1", "2"]


IMPORT_ID = ",".join(f'"{{""ImportId"":""{name}""}}"' for name in ("id", "Q1", "Q2", "Q3"))
DATA = "R_1,Yes,No,Yes\nR_2,Yes,No,No\nR_3,Yes,Yes,Yes\n"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (f"Person,Q1,Q2,Q3\nPerson,Toxic?,Toxic?,Toxic?\n{IMPORT_ID}\n{DATA}", "2 rows"),
        (f"Person,Q1,Q2,Q3\n{IMPORT_ID}\n{DATA}".replace("Yes", "10").replace("No", "2"), "1 row"),
        (f"item,a,b,c\n{DATA}item,a,b,c\n", "1 row"),
    ],
)
def test_rows_of_headings_are_no_items(tmp_path, text, number):
    path = tmp_path / "t.csv"
    path.write_text(text)
    names = {"item": text[: text.index(",")]}
    for table, words in (
        read_table(path, **names)[:2],
        read_table(pd.read_csv(path), **names)[:2],
        vars_of(read_tables(parse(["doctor", str(path), "--item", names["item"]]))),
    ):
        assert table.items.tolist() == ["R_1", "R_2", "R_3"] and table.n_responses == 9
        assert table.classes.tolist() in (["No", "Yes"], [2, 10])
        assert f"Left out as headings: {number}." in words
    half = f"ResponseId,a,b,c\nResponse ID,Toxic?,Toxic?,Toxic?\n{DATA}"
    path.write_text(half)
    with pytest.raises(ResponsesError, match="further lines of headings"):
        read_table(path)


@pytest.mark.parametrize("separator", ["\t", ",", ";"])
@pytest.mark.parametrize("in_header", [True, False])
def test_separators_at_the_ends_of_lines_are_no_columns(tmp_path, separator, in_header):
    lines = ["item,rater,label", "1,a,x", "1,b,y", "2,a,x"]
    text = "\n".join(line + "," * (n > 0 or in_header) for n, line in enumerate(lines))
    path = Path(tmp_path, "t.csv")
    path.write_text("\ufeff" + text.replace(",", separator) + "\n", encoding="utf-8")
    read = read_table(path)[0]
    assert rows_of(read) == [[1, "a", "x"], [1, "b", "y"], [2, "a", "x"]]
    assert rows_of(read_tables(parse(["doctor", str(path)])).responses) == rows_of(read)


@pytest.mark.parametrize("empty", [None, "", "NA", "n/a", "nan", "-1", "skip", "?"])
def test_the_same_known_labels_are_missing_in_every_form(tmp_path, empty):
    responses = read_table(pd.DataFrame({"item": list("aabb"), "rater": list("xyxy"),
                                         "label": ["no", "yes", "no", "no"]}))[0]  # fmt: skip
    frame = pd.DataFrame({"item": ["a", "b"], "label": ["yes", empty]})
    frame.to_csv(tmp_path / "gold.csv", index=False)
    (tmp_path / "tabs.tsv").write_text(frame.to_csv(index=False, sep="\t").replace("\n", "\t\n"))
    series = frame.set_index("item")["label"]
    series.rename_axis(None).to_csv(tmp_path / "series.csv")
    files = [tmp_path / name for name in ("gold.csv", "tabs.tsv", "series.csv")]
    truth = frame.rename(columns={"label": "truth"})
    for given in (frame, truth, series, series.to_dict(), series.to_frame(), *files):
        assert bf.checks.identifiability(responses, given).facts["known"] == 1
    (tmp_path / "t.csv").write_text("item,rater,label\na,x,no\na,y,yes\nb,x,no\n")
    for path in files:
        shell = read_tables(parse(["doctor", str(tmp_path / "t.csv"), "--gold", str(path)]))
        assert shell.gold.to_dict() == {"a": "yes"}


@pytest.mark.parametrize("quote", ["", '"'])
def test_spaces_after_commas_are_no_part_of_names(quote, tmp_path):
    lines = [("item", "x", "y"), ("a", "no", "yes"), ("b", "yes", "no")]
    text = "\n".join(", ".join(f"{quote}{cell}{quote}" for cell in line) for line in lines)
    path = tmp_path / "table.csv"
    path.write_text(text)
    for table in (read_table(path)[0], read_tables(parse(["fit", str(path)])).responses):
        assert table.raters.tolist() == ["x", "y"] and table.classes.tolist() == ["no", "yes"]


def test_options_of_verdicts_mean_what_they_mean_in_python(tmp_path):
    rows = [(n // 4, ("new", "old")[n // 2 % 2], "xy"[n % 2]) for n in range(16)]
    frame = pd.DataFrame(rows, columns=["question", "system", "judge"])
    frame["verdict"] = ["Good", "bad", "good", "good", "Bad", "bad", "good", "bad"] * 2
    frame.to_csv(path := tmp_path / "verdicts.csv", index=False)
    options = "--item question,system --normalise --positive bad --by system"
    read = read_tables(parse(f"fit {path} --format verdicts {options}".split()))
    wanted, items, _ = bf.io.read_verdicts(
        frame, item=["question", "system"], normalise=True, positive="bad"
    )
    assert read.responses.classes.tolist() == wanted.classes.tolist()
    assert wanted.classes[-1].casefold() == "bad"
    assert read.responses.to_frame().equals(wanted.to_frame())
    assert read.groups.to_dict() == items["system"].to_dict()


def test_the_order_of_pairs_is_an_option_of_verdicts(tmp_path, capsys):
    frame = pd.DataFrame({"item": [1, 1, 2, 2], "judge": "x", "verdict": list("ABAB")})
    frame["swapped"] = [0, 1, 0, 1]
    frame.to_csv(path := tmp_path / "pairs.csv", index=False)
    read = read_tables(parse(f"fit {path} --format verdicts --swapped swapped".split()))
    assert read.responses.to_frame()["label"].tolist() == ["A"] * 4
    assert main(f"doctor {path} --swapped swapped --label verdict".split()) == 2
    assert "--swapped describes verdicts" in capsys.readouterr().err


def test_what_is_asked_can_be_copied(tmp_path, capsys):
    frame = pd.DataFrame({"film": ITEM, "critic": RATER, "grade": LABEL})
    with pytest.raises(ResponsesError, match='such as item="film", rater="critic", label="grade"'):
        read_table(frame)
    frame.to_csv(path := tmp_path / "films.csv", index=False)
    assert main(["doctor", str(path)]) == 2
    assert '--item "film" --rater "critic" --label "grade"' in capsys.readouterr().err
    wide = pd.DataFrame({"item": [1, 1, 2, 3], "ann": list("yyny"), "bob": list("ynny")})
    with pytest.raises(ResponsesError, match=r"melt\(id_vars='item', var_name='rater'"):
        read_table(wide)
    long = wide.melt(id_vars="item", var_name="rater", value_name="label")
    assert read_table(long)[0].n_responses == 8
    long.assign(system=list("abababab")).to_csv(path, index=False)
    assert main(f"fit {path} --by system".split()) == 2
    assert "--format verdicts --item item,system" in capsys.readouterr().err


def test_code_that_reads_a_table_has_no_empty_conditions():
    frame = pd.DataFrame({"item": ITEM, "rater": RATER, "label": [None, *LABEL[1:]]})
    for labels, condition in ((frame["label"], False), (["skip", *LABEL[1:]], True)):
        code = read_table(frame.assign(label=labels), missing="drop")[2]
        assert ".isin([])" not in code and (".isin(" in code) is condition
        exec(code, space := {"frame": frame.assign(label=labels), "bf": bf})
        assert space["responses"].n_responses == len(frame) - 1
