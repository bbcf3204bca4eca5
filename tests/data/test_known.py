"""What is known of items and classes, and probabilities that sources state: read and kept."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from digests import digest
from refusals import refused, refused_table
from scipy import stats

import bayesfuse as bf
from bayesfuse.data.known import (
    gold_labels,
    read_classifier,
    read_covariates,
    read_populations,
    read_shares,
)
from bayesfuse.errors import ResponsesError

RESPONSES = bf.Responses.from_long(
    {"item": ["b", "a", "c", "b"], "rater": [1, 1, 2, 2], "label": ["no", "yes", "no", "no"]}
)
"""Items a, b, c and classes no, yes."""


def population(responses, given):
    return read_populations(responses.items, given)


covariates = read_covariates


def series(values, items="cab", **more):
    return pd.Series(values, index=list(items), **more)


@pytest.mark.parametrize(
    "given",
    [
        {"c": "south", "a": "north", "b": "south"},
        series(["south", "north", "south"]),
        series(["south", "north", "south", "south"], "cabb"),  # a column of the responses
        ["north", "south", "south"],
        np.array(["north", "south", "south"], dtype=object),
        pd.Categorical(["north", "south", "south"]),
    ],
)
def test_populations_by_name_and_in_order(given):
    names, number = read_populations(RESPONSES.items, given)
    assert names.tolist() == ["north", "south"]
    assert number.tolist() == [0, 1, 1]


def test_populations_that_are_numbers_and_those_of_another_table():
    names, number = read_populations(RESPONSES.items, {"a": 7, "b": 3, "c": 7})
    assert (names.tolist(), number.tolist()) == ([3, 7], [1, 0, 1])
    _, number = read_populations(RESPONSES.items, [9, 3, 9], np.array([3, 5, 9]))
    assert number.tolist() == [2, 0, 2]
    with pytest.raises(ResponsesError, match=r"fit, \[3, 7\].*Got: 9 for item 'a' \(2 such\)"):
        read_populations(RESPONSES.items, [9, 3, 9], names)


FRAME = pd.DataFrame({"age": [30, 10, 20], "male": [True, False, True]}, index=list("cab"))


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (FRAME, ["age", "male"]),
        (np.array([[10, 0], [20, 1], [30, 1]]), ["x1", "x2"]),
        ([[10, 0], [20, 1], [30, 1]], ["x1", "x2"]),
    ],
)
def test_covariates_by_name_and_in_order(given, names):
    found, table = read_covariates(RESPONSES, given)
    assert found == names
    assert table.tolist() == [[10, 0], [20, 1], [30, 1]]


def test_one_covariate_and_covariates_of_another_table():
    names, table = read_covariates(RESPONSES, series([3.0, 1.0, 2.0], name="age"))
    assert (names, table.ravel().tolist()) == (["age"], [1.0, 2.0, 3.0])
    names, table = read_covariates(RESPONSES, FRAME, ["male", "age"])
    assert (names, table[2].tolist()) == (["male", "age"], [1.0, 30.0])
    with pytest.raises(ResponsesError, match=r"columns \['age'\]. Got: \['age', 'male'\]"):
        read_covariates(RESPONSES, FRAME, ["age"])


WORD = pd.DataFrame({"yes": [0.9, 0.2, 0.5], "no": [0.1, 0.8, 0.5]}, index=list("abc"))


@pytest.mark.parametrize(
    "given",
    [
        WORD,
        WORD.loc[list("cab")],
        xr.DataArray(WORD.to_numpy().T, {"class": ["yes", "no"], "item": list("abc")}),
        WORD[["no", "yes"]].to_numpy(),
    ],
)
def test_a_classifier_by_name_and_in_order(given):
    assert read_classifier(RESPONSES, given).tolist() == [[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("read", "given", "match"),
    [
        (population, {"a": 1, "b": 1}, r"Every item.*\['c'\] missing"),
        (population, series([1, 2, 1, 3], "cabb"), r"item has one .* Got: several for 'b'"),
        (population, [1, 2], r"3 items in their order.*list of shape \(2,\)"),
        (population, [1.0, np.nan, 2.0], r"belong to a population.*\['b'\]"),
        (population, ["x", 1, "x"], "one kind"),
        (covariates, FRAME.loc[["a", "b"]], r"Every item.*\['c'\] missing"),
        (covariates, FRAME.set_index(pd.Index(list("aba"))), "item has one value or row.*'a'"),
        (covariates, FRAME.assign(age=[1.0, np.nan, 2.0]), r"finite.*nan in 'age' for item 'a'"),
        (covariates, FRAME.assign(age=["old", "young", "old"]), "must hold numbers"),
        (covariates, FRAME.set_axis(["age", "age"], axis=1), r"different names.*\['age', 'age'\]"),
        (covariates, [1.0, 2.0, 3.0], r"each of the 3 items.*shape \(3,\)"),
        (read_classifier, WORD.assign(maybe=0.0), r"Got: \['yes', 'no', 'maybe'\]"),
        (read_classifier, WORD.to_numpy()[:, :1], "Got: 1 columns"),
        (read_classifier, WORD * 2, r"sum to one. Got: \[0.2, 1.8\] for item 'a' \(3 such\)"),
    ],
)
def test_odd_tables_of_items(read, given, match):
    refused_table(match, read, RESPONSES, given)


GOLD = bf.Responses.from_matrix([["a"], ["b"], ["a"]], items=[1, 2, 3])
GOOD_GOLD = [
    (pd.Series(["b"], index=[2]), [-1, 1, -1]),
    (pd.Series(["b", "b"], index=[2, 2]), [-1, 1, -1]),
    (pd.Series(pd.Categorical(["b", "a"]), index=[2.0, 1.0]), [0, 1, -1]),
    ({np.int8(3): np.str_("a")}, [-1, -1, 0]),
    (pd.Series([], dtype=str), [-1, -1, -1]),
]
BAD_GOLD = [
    (pd.DataFrame({"a": [1]}), "Got: DataFrame"),
    (["a", "b", "a"], "Got: list"),
    (pd.Series(["a", "b"], index=[2, 2]), "'b' and 'a' for item 2"),
    (pd.Series(["a", None], index=[1, 2]), "leave out items whose class is not known"),
    ({1: float("nan")}, "Got: nan for item 1"),
    ({(1, 2): "a", (3, 4): "b"}, "Got: (1, 2), which is not (2 such)"),
    ({1: ["a"]}, "Got: ['a'] for item 1"),
    ({True: "a"}, "Got: True, which is not"),
    ({"1": "a"}, "only the type differs, so give items as int, not str"),
]


def test_gold_in_all_its_forms():
    for gold, known in GOOD_GOLD:
        assert gold_labels(GOLD, gold).tolist() == known
    for gold, told in BAD_GOLD:
        refused_table(told, gold_labels, GOLD, gold)
    refused_table("Got: True for item 1", gold_labels, bf.datasets.anesthesia(), {1: True})


TABLE = bf.Responses.from_matrix([["a", "b"]], classes=["a", "b", "c"])


def test_numbers_in_order_or_by_name():
    known, concentration = read_shares([0.5, 0.3, 0.2], TABLE)
    assert concentration is None and known.tolist() == [0.5, 0.3, 0.2]
    assert read_shares({"c": 0.2, "a": 0.5, "b": 0.3}, TABLE)[0].tolist() == known.tolist()
    assert read_shares(None, TABLE) == (None, None)


def test_intervals_hold_ninety_percent_of_the_prior():
    given = {"a": (0.4, 0.6), "b": (0.2, 0.4), "c": (0.1, 0.3)}
    _, concentration = read_shares(given, TABLE)
    total = concentration.sum()
    assert np.allclose(concentration / total, [0.5, 0.3, 0.2])
    for (low, high), one in zip(given.values(), concentration, strict=True):
        inside = np.diff(stats.beta(one, total - one).cdf([low, high]))[0]
        assert 0.86 < inside < 0.96


@pytest.mark.parametrize(("given", "words"), [
    ([0.5, 0.3, 0.3], "sum to one"),
    ([0.5, 0.5, 0.0], "leave out"),
    ({"a": 0.5, "b": 0.5}, r"Got: \['a', 'b'\]"),
    ({"a": 0.5, "b": 0.3, "d": 0.2}, r"Got: \['a', 'b', 'd'\]"),
    ({"a": 0.5, "b": 0.3, "c": (0.1, 0.3)}, "numbers only"),
    ([(0.4, 0.3), (0.2, 0.4), (0.1, 0.3)], "low below high"),
    ([(0.1, 0.2), (0.2, 0.3), (0.1, 0.3)], "sum to one"),
])  # fmt: skip
def test_impossible_shares_are_refused(given, words):
    refused(words, read_shares, given, TABLE)


NAN = float("nan")
ROWS = [
    ("x", "net", [0.7, 0.2, 0.1]),
    ("x", "ann", [0.0, 1.0, 0.0]),
    ("y", "net", [0.1, 0.3, 0.6]),
    ("z", "ann", [0.25, 0.25, 0.5]),
    ("x", "net", [0.5, 0.5, 0.0]),
]
NAMES = ["cat", "dog", "eel"]


def long(rows=ROWS, names=NAMES):
    item, rater, said = zip(*rows, strict=True)
    return {"item": item, "rater": rater, **dict(zip(names, np.transpose(said), strict=True))}


def written(responses):
    """By item and source everything that was stated, in order."""
    stated, found = responses.stated, {}
    items, raters = responses.items.tolist(), responses.raters.tolist()
    for n, m, said in zip(stated.item, stated.rater, stated.probability.tolist(), strict=True):
        found.setdefault((items[n], raters[m]), []).append(said)
    return found


EXPECTED = {
    ("x", "ann"): [[0.0, 1.0, 0.0]],
    ("x", "net"): [[0.5, 0.5, 0.0], [0.7, 0.2, 0.1]],
    ("y", "net"): [[0.1, 0.3, 0.6]],
    ("z", "ann"): [[0.25, 0.25, 0.5]],
}


@pytest.mark.parametrize(
    "frame", [long(), pd.DataFrame(long()).sample(frac=1, random_state=1), long(ROWS[::-1])]
)
def test_tables_are_read(frame):
    responses = bf.Responses.from_probabilities(frame)
    assert responses.classes.tolist() == NAMES and responses.n_responses == 0
    assert written(responses) == EXPECTED
    assert responses.to_frame().empty
    other = bf.Responses.from_probabilities(frame, classes=["eel", "cat", "dog"])
    assert written(other)["y", "net"] == [[0.6, 0.1, 0.3]]
    columns = pd.DataFrame(frame).rename(columns={"item": "film", "rater": "who"})
    renamed = bf.Responses.from_probabilities(columns, item="film", rater="who", items="wxyz")
    assert written(renamed) == EXPECTED and renamed.items.tolist() == list("wxyz")


def test_arrays_are_read():
    cells = np.full((3, 2, 2), NAN)
    cells[0, 1], cells[2, 0] = [0.9, 0.1], [0.4, 0.6]
    plain = bf.Responses.from_probabilities(cells, classes=["no", "yes"])
    assert written(plain) == {(0, 1): [[0.9, 0.1]], (2, 0): [[0.4, 0.6]]}
    coords = {"item": list("abc"), "rater": ["m", "n"], "class": [0, 1]}
    named = bf.Responses.from_probabilities(xr.DataArray(cells, coords, list(coords)))
    assert written(named) == {("a", "n"): [[0.9, 0.1]], ("c", "m"): [[0.4, 0.6]]}
    assert named.classes.tolist() == [0, 1] and named.n_items == 3
    low = bf.Responses.from_probabilities(cells.astype(np.float32)).stated.probability
    assert low[0].tolist() == np.float32([0.9, 0.1]).tolist()  # not rescaled


def changed(column, value):
    return long() | {column: [value, *long()[column][1:]]}


NONE = {"item": [], "rater": [], "a": np.empty(0), "b": np.empty(0)}


@pytest.mark.parametrize(
    ("given", "declared", "message"),
    [
        (changed("cat", 0.8), {}, r"sum to one.*\[0\.8, 0\.2, 0\.1\]"),
        (changed("cat", -0.1), {}, r"from 0 to 1.*-0\.1"),
        (changed("cat", 0.7 + 2e-6), {}, "sum to one"),
        (changed("cat", NAN), {}, "missing value in row 0"),
        (changed("cat", "a"), {}, "Got: .*'cat'"),
        (long(), {"classes": NAMES[:2]}, r"declared class.*Got: \['eel'\] not among"),
        (long(), {"classes": [*NAMES, "fox"]}, r"must have a column.*\['fox'\] missing"),
        (long(), {"raters": ["net"]}, r"among the declared ones.*Got: 'ann'"),
        ({"item": [1], "rater": [1], "a": [1.0]}, {}, r"at least two classes.*Got: \['a'\]"),
        (NONE, {}, "at least one row"),
        (np.ones((2, 2)), {}, r"items × raters × classes"),
        (np.full((2, 2, 2), NAN), {}, "all missing"),
        ([[["a", "b"]]], {}, r"which are numbers.*Got: "),
    ],
)
def test_odd_input(given, declared, message):
    refused_table(message, bf.Responses.from_probabilities, given, **declared)


def hard():
    frame = {"item": list("wxxzz"), "rater": ["bob", "ann", "bob", "bob", "bob"],
             "label": ["dog", "cat", "dog", "eel", "cat"]}  # fmt: skip
    return bf.Responses.from_long(frame)


def test_hard_and_soft_tables_are_joined():
    soft = bf.Responses.from_probabilities(long(), classes=["eel", "dog", "cat"])
    both = hard().joined(soft)
    assert both.classes.tolist() == NAMES
    assert both.items.tolist() == list("wxzy") and both.raters.tolist() == ["ann", "bob", "net"]
    assert written(both) == EXPECTED
    assert sorted(both.to_frame().itertuples(index=False, name=None)) == sorted(
        hard().to_frame().itertuples(index=False, name=None)
    )
    other = soft.joined(hard())
    assert other.classes.tolist() == ["eel", "dog", "cat"]
    backwards = {cell: sorted(s[::-1] for s in said) for cell, said in EXPECTED.items()}
    assert written(other) == backwards
    assert other.to_frame().value_counts().to_dict() == both.to_frame().value_counts().to_dict()
    twice = both.joined(soft)
    assert len(twice.stated.rater) == 10 and twice.n_responses == 5
    assert hard().joined(hard()).stated is None and hard().joined(hard()).n_responses == 10
    assert both.without_statements().stated is None


def test_tables_that_cannot_be_joined():
    soft = bf.Responses.from_probabilities(long())
    other = bf.Responses.from_matrix([["cat"]], classes=[*NAMES, "fox"])
    refused_table("same classes", soft.joined, other)
    counts = bf.Responses.from_counts({("cat", "dog"): 4, ("dog", "eel"): 2})
    refused_table(r"expand\(\)", counts.joined, soft)
    refused_table(r"completed\(\)", soft.joined, hard().completed())


def test_tables_keep_statements():
    both = hard().joined(bf.Responses.from_probabilities(long()))
    taken = both.take(np.array([3, 1]))
    assert taken.items.tolist() == ["y", "x"]
    assert written(taken) == {cell: EXPECTED[cell] for cell in EXPECTED if cell[0] in "xy"}
    assert written(both.head(2)) == {cell: EXPECTED[cell] for cell in EXPECTED if cell[0] == "x"}
    other = both.relabelled(2 - both.label)
    assert written(other) == EXPECTED and other.to_frame()["label"][0] == "dog"
    assert other.to_frame()["label"][1] == "eel"
    votes = both.votes()
    assert votes[0].tolist() == [0.0, 1.0, 0.0]
    assert votes[1] == pytest.approx([1 + 0.7 + 0.5, 1 + 0.2 + 1 + 0.5, 0.1])
    assert both.agreement() == 0.0  # of hard labels


def test_items_with_statements_stay_apart():
    matrix = [[0, 1]] * 6 + [[1, 1]] * 6
    plain = bf.Responses.from_matrix(matrix)
    table = {"item": [0, 1, 7], "rater": ["n"] * 3, 0: [0.9, 0.9, 0.9], 1: [0.1, 0.1, 0.1]}
    both = bf.Responses.from_matrix(matrix, raters=["a", "b"]).joined(
        bf.Responses.from_probabilities(table)
    )
    assert plain.merged()[0].n_items == 2
    merged, inverse = both.merged()
    assert merged.n_items == 5 and merged.multiplicity.tolist() == [1, 1, 4, 5, 1]
    assert len(np.unique(inverse[[0, 1, 7]])) == 3 and inverse[2] == inverse[5]
    few, _ = both.condensed()
    assert few.n_items == 5 and written(few) == written(both)
    assert written(few.expand()).keys() == {(f"{n}/1", "n") for n in (0, 1, 7)}


def test_results_know_what_was_stated():
    tables = [
        long(),
        long(ROWS[:-1]),
        long([("y", *ROWS[0][1:]), *ROWS[1:]]),
        long([("x", "ann", ROWS[0][2]), *ROWS[1:]]),
        long([("x", "net", [0.7, 0.2 + 1e-9, 0.1]), *ROWS[1:]]),
    ]
    found = [digest(hard().joined(bf.Responses.from_probabilities(each))) for each in tables]
    assert len({*found, digest(hard())}) == len(tables) + 1
    again = bf.Responses.from_probabilities(pd.DataFrame(long()).sample(frac=1, random_state=3))
    assert digest(hard().joined(again)) == found[0]
    for classes in (["eel", "cat", "dog"], ["dog", "cat", "eel"]):
        other = bf.Responses.from_probabilities(long(), classes=classes)
        assert digest(other) == digest(
            bf.Responses.from_probabilities(long())
        )  # classes have a digest


def test_a_joined_table_keeps_the_order_of_the_first():
    grades = ["low", "high"]
    hard = bf.Responses.from_matrix([grades], classes=grades, ordered=True)
    stated = {"item": [0], "rater": [7], "low": [0.2], "high": [0.8]}
    soft = bf.Responses.from_probabilities(stated, classes=grades)
    assert hard.joined(soft).ordered and not soft.joined(hard).ordered


@pytest.mark.parametrize("yes", ["True", "TRUE", "true"])
def test_truth_values_in_files_of_known_labels_are_in_any_case(yes, tmp_path):
    table = bf.Responses.from_matrix([[True, False], [True, True]], items=["a", "b"])
    (tmp_path / "gold.csv").write_text(f"item,label\na,{yes}\nb,\n")
    assert dict(bf.models.DawidSkene(table, gold=tmp_path / "gold.csv").gold) == {"a": True}


@pytest.mark.parametrize("columns", [["pair_id", "label"], ["pair_id", "verdict", "checked by"]])
def test_items_of_known_labels_are_recognised_by_their_names(columns):
    table = bf.Responses.from_matrix([["A", "B"], ["B", "B"]], items=["p1", "p2"])
    gold = pd.DataFrame([["p2", "A", "me"]], columns=["pair_id", "verdict", "checked by"])
    gold.columns = [*columns, "checked by"][:3]
    model = bf.models.DawidSkene(table, gold=gold)
    assert bf.label_probabilities(bf.find_map(model)).sel(item="p2").values.tolist() == [1.0, 0.0]


def test_shares_of_counts_are_named():
    counts = pd.DataFrame({"x": [0, 0, 1, 1], "y": [0, 1, 0, 1]})
    table = bf.Responses.from_counts(counts, [30, 5, 4, 20])
    place = pd.Series(["north", "south", "south", "north"], index=[*"abcd"])
    with pytest.raises(ResponsesError, match=r"\.to_numpy\(\) leaves it out"):
        bf.models.DawidSkene(table, populations=place)
    model = bf.models.DawidSkene(table, populations=place.to_numpy())
    result = bf.sample(model, 20, random_seed=1, progressbar=False, quiet=True)
    with pytest.raises(bf.errors.ModelError, match=r"bf.summary\(result, \['population_prev"):
        bf.class_shares(result)
    assert len(bf.summary(result, ["population_prevalence"])) >= 2
