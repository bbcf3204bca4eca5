"""Stated probabilities are read as they are, and every table keeps them."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.data import fingerprint
from bayesfuse.errors import ResponsesError

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
        (changed("cat", 0.8), {}, r"sum to one.*1\.1"),
        (changed("cat", -0.1), {}, r"from 0 to 1.*-0\.1"),
        (changed("cat", 0.7 + 2e-6), {}, "sum to one"),
        (changed("cat", NAN), {}, "missing value in row 0"),
        (changed("cat", "a"), {}, "Got: .*'cat'"),
        (long(), {"classes": NAMES[:2]}, r"declared class.*Got: 'eel'"),
        (long(), {"classes": [*NAMES, "fox"]}, r"must have a column.*no column for 'fox'"),
        (long(), {"raters": ["net"]}, r"among the declared ones.*Got: 'ann'"),
        ({"item": [1], "rater": [1], "a": [1.0]}, {}, r"at least two classes.*Got: \['a'\]"),
        (NONE, {}, "at least one row"),
        (np.ones((2, 2)), {}, r"items × raters × classes"),
        (np.full((2, 2, 2), NAN), {}, "all missing"),
        ([[["a", "b"]]], {}, r"which are numbers.*Got: "),
    ],
)
def test_odd_input(given, declared, message):
    with pytest.raises(ResponsesError, match=message):
        bf.Responses.from_probabilities(given, **declared)


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
    with pytest.raises(ResponsesError, match="same classes"):
        soft.joined(other)
    counts = bf.Responses.from_counts({("cat", "dog"): 4, ("dog", "eel"): 2})
    with pytest.raises(ResponsesError, match=r"expand\(\)"):
        counts.joined(soft)
    with pytest.raises(ResponsesError, match=r"completed\(\)"):
        soft.joined(hard().completed())


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
    def of(responses):
        return fingerprint.of_responses(responses)["responses"]

    tables = [
        long(),
        long(ROWS[:-1]),
        long([("y", *ROWS[0][1:]), *ROWS[1:]]),
        long([("x", "ann", ROWS[0][2]), *ROWS[1:]]),
        long([("x", "net", [0.7, 0.2 + 1e-9, 0.1]), *ROWS[1:]]),
    ]
    found = [of(hard().joined(bf.Responses.from_probabilities(each))) for each in tables]
    assert len({*found, of(hard())}) == len(tables) + 1
    again = bf.Responses.from_probabilities(pd.DataFrame(long()).sample(frac=1, random_state=3))
    assert of(hard().joined(again)) == found[0]
    for classes in (["eel", "cat", "dog"], ["dog", "cat", "eel"]):
        other = bf.Responses.from_probabilities(long(), classes=classes)
        assert of(other) == of(bf.Responses.from_probabilities(long()))  # classes have a digest


def test_a_joined_table_keeps_the_order_of_the_first():
    grades = ["low", "high"]
    hard = bf.Responses.from_matrix([grades], classes=grades, ordered=True)
    stated = {"item": [0], "rater": [7], "low": [0.2], "high": [0.8]}
    soft = bf.Responses.from_probabilities(stated, classes=grades)
    assert hard.joined(soft).ordered and not soft.joined(hard).ordered
