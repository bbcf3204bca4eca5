"""Names of classes: the positive one of two, spellings of one, sets of labels, by every reader."""

import unicodedata
import warnings
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from refusals import refused_table

import bayesfuse as bf
from bayesfuse.command_line.arguments import parse
from bayesfuse.command_line.tables import read_tables

PAIRS = [
    *(
        ("Correct", "Incorrect"),
        ("+", "-"),
        ("diseased", "healthy"),
        ("yes", "no"),
        ("pos", "neg"),
        ("Positive", "negative"),
    ),
    *(("TRUE", "false"), ("case", "control"), ("1", "0"), ("spam", "ham"), ("present", "absent")),
    *(("abnormal", "normal"), ("toxic", "non-toxic"), ("hate", "not_hate"), ("hate", "nothate")),
    *(("unsafe", "safe"), ("spam", "Not spam"), ("disease", "no disease"), ("HER2+", "HER2-")),
    *(
        ("Case", "control "),
        ("\uff0b", "\u2212"),
        ("covid positive", "covid negative"),
        ("D+", "D-"),
    ),
    *(("glaucoma", "Healthy"), ("infected", "uninfected"), ("is toxic", "is not toxic")),
    *(("disease present", "disease absent"), ("Yes, toxic", "no, not toxic"), ("+1", "-1")),
]
UNCERTAIN = [
    *(
        ("bad", "good"),
        ("fail", "pass"),
        ("negative", "neutral"),
        ("A", "B"),
        ("healthy", "normal"),
    ),
    *(("female", "male"), ("0", "2")),
]
ITEM, RATER = np.indices((60, 2)).reshape(2, -1)
TRUTH = np.arange(60) % 3 == 0
SAYS = np.column_stack([TRUTH | (np.arange(60) % 5 == 0), TRUTH & (np.arange(60) % 4 > 0)])
"""Of two raters, the first never misses a positive, the second never calls one falsely."""


def long(positive, negative):
    label = np.where(SAYS.ravel(), positive, negative)
    return pd.DataFrame({"item": ITEM, "rater": np.array(["x", "y"])[RATER], "label": label})


def readers(frame, folder, **naming):
    """Return the same table by every reader, by its name."""
    matrix = frame.pivot(index="item", columns="rater", values="label")
    patterns = matrix.value_counts()
    path = folder / "table.csv"
    frame.to_csv(path, index=False)
    options = [f"--{k}" if v is True else f"--{k}={v}" for k, v in naming.items()]
    partitions = {}
    if find_spec("pyarrow"):  # which the oldest dependencies lack
        (folder / "parts").mkdir(exist_ok=True)
        frame.to_parquet(folder / "parts" / "1.parquet")
        partitions["from_parquet"] = bf.Responses.from_parquet(folder / "parts", **naming).head
    counts = dict(zip(map(tuple, patterns.index), patterns.tolist(), strict=True))
    judged = frame.rename(columns={"rater": "judge", "label": "verdict"})
    return {
        "from_long": bf.Responses.from_long(frame, **naming),
        "categorical": bf.Responses.from_long(frame.astype({"label": "category"}), **naming),
        "from_matrix": bf.Responses.from_matrix(matrix, **naming),
        "array": bf.Responses.from_matrix(matrix.to_numpy(), raters=["x", "y"], **naming),
        "from_counts": bf.Responses.from_counts(counts, raters=["x", "y"], **naming),
        **partitions,
        "read_verdicts": bf.io.read_verdicts(judged, **naming).responses,
        "shell": read_tables(parse(["fit", str(path), *options])).responses,
    }


def positives(table):
    """Return how many responses of each rater are the last class."""
    said = table.multiplicity[table.item] * (table.label == 1)
    return np.bincount(table.rater, said, minlength=2).astype(int).tolist()


@pytest.mark.parametrize("pair", PAIRS, ids="/".join)
def test_certain_pairs_are_recognised_in_any_order_and_spelling(pair):
    for names in (pair, pair[::-1]):
        for spelt in (names, [n.upper() for n in names], [f" {n.title()}" for n in names]):
            read = bf.Responses.from_matrix([spelt]).classes
            assert read[1] == spelt[names.index(pair[0])], spelt
    table = bf.Responses.from_long(long(*pair))
    assert table.classes.tolist() == [pair[1], pair[0]] and positives(table) == SAYS.sum(0).tolist()
    assert "positive class" in repr(table) and "(by its name)" in repr(table)
    chosen = bf.Responses.from_long(long(*pair), classes=pair)  # declared classes win
    assert chosen.classes.tolist() == list(pair) and "(as declared)" in repr(chosen)


@pytest.mark.parametrize("pair", UNCERTAIN, ids="/".join)
def test_other_classes_stay_in_order_and_the_last_is_stated(pair):
    table = bf.Responses.from_long(long(*pair))
    assert table.classes.tolist() == sorted(pair) and "(the last one)" in repr(table)


@pytest.mark.parametrize("pair", [("+", "-"), ("diseased", "healthy"), ("Case", "control")])
def test_every_reader_puts_the_positive_class_last(pair, tmp_path):
    for name, table in readers(long(*pair), tmp_path).items():
        assert table.classes.tolist() == [pair[1], pair[0]], name
        assert positives(table) == SAYS.sum(axis=0).tolist(), name
    for name, table in readers(long(*pair), tmp_path, positive=pair[1]).items():
        assert table.classes.tolist() == list(pair), name
        assert positives(table) == (~SAYS).sum(axis=0).tolist(), name
    stated = pd.DataFrame(
        {"item": [0, 1], "rater": "net", pair[0]: [0.9, 0.2], pair[1]: [0.1, 0.8]}
    )
    table = bf.Responses.from_probabilities(stated)
    assert table.classes[1] == pair[0] and table.stated.probability.tolist() == [
        [0.1, 0.9],
        [0.8, 0.2],
    ]


def test_sensitivities_are_of_the_positive_class():
    truth = dict(enumerate(np.where(TRUTH, "+", "-")))
    for frame in (long("+", "-"), long("+", "-")[::-1]):
        point = bf.find_map(bf.models.DawidSkene(frame, gold=truth))["point"]
        assert point["sensitivity"].values[0] > 0.9 > 0.85 > point["sensitivity"].values[1]
        assert point["specificity"].values[1] > 0.9 > point["specificity"].values[0]
        assert point["sensitivity"].attrs["positive"] == "+"
    new = bf.predict(
        bf.find_map(bf.models.DawidSkene(frame, gold=truth)),
        bf.Responses.from_long(long("+", "-").iloc[:20], classes=["+", "-"]),
    )
    labels = bf.label_probabilities(new).sel({"class": "+"}).to_series()
    assert labels[3] > 0.9 > 0.1 > labels[1]  # two votes for +, and none


def test_positive_is_one_of_two_and_does_not_contradict():
    frame = long("+", "-")
    read = bf.Responses.from_long
    refused_table(
        r"classes= declares already.* Got: '-'", read, frame, classes=["-", "+"], positive="-"
    )
    assert read(frame, classes=["-", "+"], positive="+").classes.tolist() == ["-", "+"]
    refused_table(r"one of the classes \['\+', '-'\]\. Got: 'x'", read, frame, positive="x")
    refused_table(r"one of the classes \['\+', '-'\]\. Got: \[\]", read, frame, positive=[])
    three = frame.assign(label=["a", "b", "c"] * 40)
    refused_table(r"every class has a sensitivity.* Got: 3", read, three, positive="a")
    numbers = frame.assign(label=SAYS.ravel().astype(int))
    table = read(numbers, positive=0)
    assert table.classes.tolist() == [1, 0] and not table.ordered
    refused_table(r"ordered classes have already", read, numbers, ordered=True, positive=0)
    grades = frame.assign(label=pd.Categorical(frame["label"], ["+", "-"], ordered=True))
    assert read(grades).classes.tolist() == ["+", "-"]  # an order that the user chose
    refused_table(r"ordered classes have already", read, grades, positive="+")


VARIANTS = {
    "yes": ["yes", "Yes", "yes ", "\u00a0YES", "\uff59\uff45\uff53", "yes"],
    "café": ["café", unicodedata.normalize("NFD", "café"), "Café", "café\u200b", " café", "café"],
}


def test_normalise_reads_every_spelling_as_one_class_by_every_reader(tmp_path):
    clean = long("yes", "café")
    messy = clean.assign(label=[VARIANTS[n][(7 * k) % 6] for k, n in enumerate(clean["label"])])
    expected = bf.Responses.from_long(clean)
    for name, table in readers(messy, tmp_path, normalise=True).items():
        assert table.classes.tolist() == ["café", "yes"], name
        assert positives(table) == positives(expected), name
    turned = bf.Responses.from_long(messy, normalise=True, classes=["Yes", "CAFÉ"])
    assert (
        turned.classes.tolist() == ["Yes", "CAFÉ"]
        and positives(turned)[0] == 60 - positives(expected)[0]
    )
    read = bf.Responses.from_long(messy, normalise=True, positive="cafe\u0301 ")
    assert read.classes[1] == "café"
    wrong = {"classes": ["Yes", "yes", "café"], "normalise": True}
    refused_table("apart from spelling", bf.Responses.from_long, messy, **wrong)
    silent, wrong = clean.assign(label=["Unsure", "no"] * 60), {"abstain": "unsure "}
    refused_table(
        "missing response or silence", bf.Responses.from_long, silent, normalise=True, **wrong
    )


def test_a_class_is_spelt_as_in_most_responses_by_every_reader(tmp_path):
    """Spaces do not split the count, and patterns count as often as they stand for an item."""
    clean = long("yes", "No")
    often = ["No", "No", "NO ", " NO", "NO  "]
    label = [often[k % 5] if name == "No" else name for k, name in enumerate(clean["label"])]
    for name, table in readers(clean.assign(label=label), tmp_path, normalise=True).items():
        assert table.classes.tolist() == ["NO", "yes"], name
    frame = pd.DataFrame({"x": ["no", "No", "No"], "y": "yes"})
    for patterns in (frame, frame.to_numpy()):
        raters = {} if patterns is frame else {"raters": ["x", "y"]}
        table = bf.Responses.from_counts(patterns, [9, 1, 1], normalise=True, **raters)
        assert table.classes.tolist() == ["no", "yes"]


def test_later_tables_match_the_classes_of_a_fit_in_any_spelling():
    first = bf.Responses.from_long(long("Yes", "no"), normalise=True)
    fit = bf.find_map(bf.models.DawidSkene(first))
    same = bf.label_probabilities(bf.predict(fit, first))
    other = long(" yes", "NO")
    new = bf.predict(fit, bf.Responses.from_long(other, normalise=True))
    np.testing.assert_array_equal(bf.label_probabilities(new).values, same.values)
    for capitals in (long("YES", "NO"), long("YES", "no")):  # in one order, or another
        named = bf.predict(fit, bf.Responses.from_long(capitals, normalise=True))
        assert named["label_posterior"]["class"].values.tolist() == first.classes.tolist()
    with pytest.raises(bf.errors.ModelError, match="classes of the result"):
        bf.predict(fit, bf.Responses.from_long(other))


def test_spellings_are_reported_with_counts_and_change_nothing_by_default():
    frame = long("Yes", "no")
    frame.loc[:9, "label"] = "no "
    with pytest.warns(UserWarning, match=r"'no' \(\d+\), 'no ' \(10\)\. .*normalise=True"):
        table = bf.Responses.from_long(frame)
    assert table.classes.tolist() == ["Yes", "no", "no "]
    assert "'no ' (10)" in repr(table)
    (note,) = [n for n in bf.checks.identifiability(table).problems if "normalise=True" in n]
    assert "'no ' (10)" in note
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # declared classes differ, and so may two letters
        bf.Responses.from_long(frame, classes=table.classes)
        bf.Responses.from_long(frame.assign(label=["a", "A"] * 60))
    with pytest.warns(bf.errors.QuickAnswerWarning):
        naming = {"normalise": True, "positive": "NO", "gold": {0: "YES "}}
        fused = bf.fuse(table, **naming, minutes=1e-9, progressbar=False, random_seed=1)
    assert fused.probabilities().columns.tolist() == ["Yes", "no"]
    assert fused.probabilities().loc[0, "Yes"] == 1.0
    refused_table(r"spell 'Yes' as the class is", bf.models.DawidSkene, table, gold={0: "YES "})


def test_raters_who_share_no_class_are_named():
    """Two tests that name their results differently are no table of four classes."""
    rows = [(n, "rapid", "neg" if n % 3 else "pos") for n in range(12)]
    rows += [(n, "ELISA", "non-reactive" if n % 4 else "reactive") for n in range(12)]
    frame = pd.DataFrame(rows, columns=["item", "rater", "label"])
    words = r"\['neg', 'pos'\] of \['rapid'\]"
    with pytest.warns(UserWarning, match=words):
        table = bf.Responses.from_long(frame)
    assert any("share no class" in note for note in bf.checks.identifiability(table).problems)
    shared = frame.replace({"label": {"reactive": "pos"}})
    once = pd.concat([shared, pd.DataFrame({"item": [0, 1], "rater": "x", "label": ["u", "v"]})])
    declared = sorted(frame["label"].unique())
    for accepted, classes in ((shared, None), (once, None), (frame, declared)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            bf.Responses.from_long(accepted, classes=classes)


@pytest.mark.parametrize("separator", ["#", ",", ";", "|", "+", ", "])
def test_sets_of_labels_in_two_orders_are_named(separator):
    sets = [["x", "y"], ["y", "z"], ["x"], ["y"]] * 5
    labels = [separator.join(own) for own in sets] + [separator.join(own[::-1]) for own in sets]
    frame = {"item": [*range(20)] * 2, "rater": ["a"] * 20 + ["b"] * 20, "label": labels}
    table = bf.Responses.from_long(frame)
    (note,) = [n for n in bf.checks.identifiability(table).problems if "sets" in n]
    assert f"'x{separator}y' (5), 'y{separator}x' (5)" in note and "different classes" in note
    assert "sets in two orders" in repr(table)
    plain = bf.Responses.from_long(frame | {"label": ["Paris, France", "Rome, Italy"] * 20})
    assert not any("sets" in note for note in bf.checks.identifiability(plain).problems)


def test_joined_tables_match_spellings_of_known_labels():
    """If one of the two was read so; the other states probabilities, of names as they are."""
    hard = bf.Responses.from_long(
        {"item": [1, 2], "rater": ["a", "a"], "label": ["yes", "no"]}, normalise=True
    )
    soft = bf.Responses.from_probabilities({"item": [1], "rater": ["b"], "no": [0.5], "yes": [0.5]})
    for table in (hard.joined(soft), soft.joined(hard)):
        labels = bf.label_probabilities(bf.vote_shares(table, gold={2: "No"}))
        assert labels.sel({"item": 2, "class": "no"}) == 1.0
