"""Silence is told from missing responses, and every table keeps it."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from digests import digest
from refusals import refused_table

import bayesfuse as bf
from bayesfuse.models import DawidSkene

NAN = float("nan")
SAID = [[0, -1, 1], [-1, 1, -1], [1, 1, 0], [-1, 0, -1]]
SOME = [[0, -1, 1], [-1, NAN, -1], [1, 1, 0], [NAN, 0, -1]]


def written(responses):
    """By item and source what was said, in order: labels, "silent"; nothing of who is unknown."""
    raters = responses.raters.tolist()
    cells = {(item, rater): [] for item in responses.items.tolist() for rater in raters}
    for row in responses.to_frame().itertuples():
        cells[row.item, row.rater].append(row.label)
    silent = responses.silent
    if silent is not None and silent.complete:
        for cell in cells.values():
            cell.extend([] if cell else ["silent"])
    elif silent is not None:
        start, rater = silent.pairs
        for n, item in enumerate(responses.items.tolist()):
            for m in rater[start[n] : start[n + 1]]:
                cells[item, raters[m]].append("silent")
    return cells


def expected(matrix, labels=(0, 1)):
    """The same from a matrix in which −1 is silence and NaN is missing."""
    return {
        (n, m): [] if value != value else ["silent"] if value == -1 else [labels[int(value)]]
        for n, row in enumerate(matrix)
        for m, value in enumerate(row)
    }


def long(matrix, labels, silence):
    """Columns of a long table, without rows for what is missing."""
    cells = [(n, m, v) for n, row in enumerate(matrix) for m, v in enumerate(row) if v == v]
    item, rater, value = zip(*cells, strict=True)
    said = [silence if each == -1 else labels[int(each)] for each in value]
    return {"item": item, "rater": rater, "label": said}


of_matrix, of_long = bf.Responses.from_matrix, bf.Responses.from_long
WORDS = {-1: "?", 0: "ham", 1: "spam"}


def words(matrix):
    kind = pd.CategoricalDtype(["spam", "?", "ham"])
    return pd.DataFrame(matrix).replace(WORDS).astype(kind)


def coded(matrix):
    return np.nan_to_num(np.array(matrix), nan=-9).astype(int)


def masked(matrix):
    return np.ma.masked_invalid(np.array(matrix, dtype=float))


@pytest.mark.parametrize("matrix", [SAID, SOME])
@pytest.mark.parametrize(
    ("read", "labels"),
    [
        (lambda m: of_matrix(m, abstain=-1), (0, 1)),
        (lambda m: of_matrix(masked(m), abstain=-1, classes=[0, 1]), (0, 1)),
        (lambda m: of_matrix(coded(m), abstain=-1, missing=-9), (0, 1)),
        (lambda m: of_matrix(words(m), abstain="?"), ("ham", "spam")),
        (lambda m: of_long(long(m, (0, 1), "?"), abstain="?"), (0, 1)),
        (
            lambda m: of_long(
                long(m, "ab", "?"), abstain="?", items=range(4), raters=range(3), classes="ab"
            ),
            "ab",
        ),
    ],
)
def test_silence_is_read(read, labels, matrix):
    responses = read(matrix)
    assert sorted(responses.classes.tolist()) == sorted(labels)
    assert written(responses) == expected(matrix, labels)
    assert responses.silent.complete is (matrix is SAID)  # no pair is stored where all are known


def test_categories_keep_their_order_without_silence():
    labels = pd.Categorical(["good", "?", "bad", "good"], categories=["good", "?", "bad"])
    frame = pd.DataFrame({"item": [0, 1, 1, 2], "rater": list("xxyy"), "label": labels})
    responses = bf.Responses.from_long(frame, abstain="?")
    assert responses.classes.tolist() == ["good", "bad"]
    assert responses.to_frame()["label"].tolist() == ["good", "bad", "good"]


def test_patterns_have_silence():
    table = bf.Responses.from_counts({"0-1": 40, "01.": 7, "---": 13}, missing=".", abstain="-")
    assert table.multiplicity.tolist() == [40, 7, 13]
    assert written(table)["01.", 2] == [] and written(table)["---", 2] == ["silent"]


def test_missing_stays_missing():
    assert bf.Responses.from_matrix(SAID).silent is None
    labels = np.array(["a", "?", "b", ""])[np.array([[0, 1, 2], [2, 3, 0], [1, 0, 2]])]
    responses = bf.Responses.from_matrix(labels, abstain="?", missing="")
    assert written(responses)[1, 1] == [] and written(responses)[0, 1] == ["silent"]
    other = bf.Responses.from_matrix([[0, 9, -1], [1, 0, 1]], abstain=9)  # −1 as ever
    assert written(other) == {
        (0, 0): [0], (0, 1): ["silent"], (0, 2): [], (1, 0): [1], (1, 1): [0], (1, 2): [1],
    }  # fmt: skip


def test_repeats_count_each():
    """Of a source that is asked again, all that it said and did not say."""
    frame = {"item": [0, 0, 0, 1, 1], "rater": list("aaaab"), "label": [1, -1, -1, 0, 1]}
    responses = bf.Responses.from_long(frame, abstain=-1)
    assert written(responses)[0, "a"] == [1, "silent", "silent"]
    full = {"item": [0, 0, 1, 1], "rater": list("abab"), "label": [1, -1, 0, 1]}
    assert bf.Responses.from_long(full, abstain=-1).silent.complete
    again = {name: [*values, values[1]] for name, values in full.items()}  # silent twice
    assert not bf.Responses.from_long(again, abstain=-1).silent.complete


def with_labels(*labels, **given):
    n = len(labels)
    return of_long({"item": range(n), "rater": [0] * n, "label": labels}, **given)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (
            lambda: of_matrix(SAID, abstain=1, classes=[0, 1]),
            r"neither a class.*Got: 1 in abstain= and in classes=",
        ),
        (
            lambda: of_matrix(SAID, abstain=-1, missing=-1),
            r"nor a mark.*Got: -1 in abstain= and in missing=",
        ),
        (lambda: of_matrix(SAID, abstain=NAN), r"one label.*Got: abstain=nan"),
        (
            lambda: of_matrix([[0, -1, -1], [1, -1, 0]], abstain=-1),
            r"respond at least once.*raters=.*Got: \[1\], only silent \(1 such\)",
        ),
        (lambda: of_matrix([[-1, NAN]], abstain=-1, raters="ab"), "silence in all 1 rows"),
        (
            lambda: with_labels(2, abstain=2, raters=[0]),
            r"classes must be declared.*Got: silence in all 1 rows",
        ),
        (lambda: of_matrix([[0, -1], [0, 0]], abstain=-1), r"at least two classes.*Got: \[0\]"),
        (lambda: with_labels(-1, None, 1, abstain=-1), "a missing value in row 1,"),
        (lambda: with_labels("?", "a", "c", abstain="?", classes="ab"), "Got: 'c' in row 2,"),
    ],
)
def test_odd_input(read, message):
    refused_table(message, read)


def test_declared_sources_may_be_silent_on_all_items():
    """As in a few new items, of which no more may be said."""
    names = {"raters": list("abc"), "classes": [0, 1]}
    for matrix in ([[1, -1, -1]], [[-1, -1, -1], [-1, -1, -1]]):
        responses = bf.Responses.from_matrix(matrix, abstain=-1, **names)
        assert responses.silent.complete and responses.n_raters == 3
    assert responses.n_responses == 0
    frame = {"item": [0, 1], "rater": ["a", "b"], "label": [-1, -1]}
    none = bf.Responses.from_long(frame, abstain=-1, **names)
    assert none.n_responses == 0 and written(none)[0, "a"] == ["silent"]


def doubled(matrix):
    return bf.Responses.from_matrix([*matrix, *matrix[::-1], matrix[0]], abstain=-1)


@pytest.mark.parametrize("matrix", [SAID, SOME])
def test_tables_keep_silence(matrix):
    responses = doubled(matrix)
    cells = written(responses)
    taken = responses.take(np.array([6, 1, 1, 8]))
    for n, item in enumerate([6, 1, 1, 8]):
        one = written(taken.take(np.array([n])))
        assert one == {(item, m): cells[item, m] for m in range(3)}
    assert written(responses.head(5)) == {cell: cells[cell] for cell in cells if cell[0] < 5}
    merged, inverse = responses.merged()
    assert merged.n_items == 4 and merged.multiplicity.tolist() == [3, 2, 2, 2]
    own = written(merged)
    for n in range(9):
        of = merged.items.tolist()[inverse[n]]
        assert [cells[n, m] for m in range(3)] == [own[of, m] for m in range(3)]
    opened = merged.expand()
    assert opened.n_items == 9 and opened.silent.complete is (matrix is SAID)
    assert opened.merged()[0].multiplicity.tolist() == [3, 2, 2, 2]
    few, _ = responses.condensed()
    assert few.n_items == 4 and written(few) == own
    label = 1 - responses.label
    other = responses.relabelled(label)
    swapped = {0: [1], 1: [0]}
    assert written(other) == {
        cell: swapped.get(said[0], said) if said else said for cell, said in cells.items()
    }
    assert responses.without_silence().silent is None


def test_items_with_other_silence_are_not_merged():
    matrix = [[0, -1, NAN], [0, NAN, -1], [0, -1, NAN], [0, -1, -1], [1, 1, 0]]
    responses = bf.Responses.from_matrix(matrix, abstain=-1)
    merged, inverse = responses.merged()
    assert inverse.tolist() == [0, 1, 0, 2, 3] and merged.multiplicity.tolist() == [2, 1, 1, 1]
    assert responses.without_silence().merged()[0].n_items == 2
    assert responses.completed().merged()[0].n_items == 2  # equal votes suffice


def test_results_know_which_silence_was_observed():
    said, some = (bf.Responses.from_matrix(each, abstain=-1) for each in (SAID, SOME))
    plain, full = said.without_silence(), some.completed()
    assert len({digest(each) for each in (said, some, plain, some.without_silence(), full)}) == 5
    read = bf.Responses.from_long(
        pd.DataFrame(long(SOME, (0, 1), -1)).sample(frac=1, random_state=1), abstain=-1
    )
    assert digest(read) == digest(some)
    assert digest(plain.completed()) == digest(said)
    other = bf.Responses.from_matrix([[NAN, *row[1:]] if n == 1 else row
                                      for n, row in enumerate(SOME)], abstain=-1)  # fmt: skip
    assert digest(other) != digest(some)


def test_silence_is_not_written_out():
    """A thousand rules on twenty thousand items: a byte for each pair would be 20 MB."""
    rng = np.random.default_rng(1)
    n_items, n_rules, n_votes = 20_000, 1000, 40_000
    votes = {
        "item": rng.integers(0, n_items, n_votes),
        "rater": rng.integers(0, n_rules, n_votes),
        "label": rng.integers(0, 2, n_votes),
    }
    responses = bf.Responses.from_long(votes, items=range(n_items), raters=range(n_rules))
    tracemalloc.start()
    responses = responses.completed()
    merged, _ = responses.merged()
    model = DawidSkene(responses)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert responses.silent.complete and merged.n_items < n_items
    assert peak < 1.2e7, peak
    assert model.free_RVs


@pytest.mark.parametrize("of", [np.array, pd.DataFrame, list])
def test_skipped_tasks_are_missing_in_a_matrix_as_in_an_answer(of):
    """Matrices of labelling functions from other tools write ABSTAIN."""
    votes = [["spam", "ABSTAIN", "ham"], ["ABSTAIN", "ham", "ham"], ["spam", "spam", "ABSTAIN"]]
    with pytest.warns(UserWarning, match="3 responses 'ABSTAIN' are read as missing, unless"):
        table = bf.Responses.from_matrix(of(votes))
    assert table.classes.tolist() == ["ham", "spam"] and table.n_responses == 6
    kept = bf.Responses.from_matrix(of(votes), classes=["ham", "spam", "ABSTAIN"])
    assert kept.n_responses == 9 and kept.n_classes == 3
    silent = bf.Responses.from_matrix(of(votes), abstain="ABSTAIN")
    assert silent.n_responses == 6 and silent.silent is not None
    assert bf.Responses.from_matrix(of(votes), missing="ham").n_classes == 2
