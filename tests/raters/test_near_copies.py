"""Near copies among votes, and how dispersed their meetings are."""

import numpy as np
from rules import rules

import bayesfuse as bf
from bayesfuse.models import LabellingFunctions
from bayesfuse.raters import dependence


def test_copies_share_a_column_and_others_do_not():
    responses, _ = rules(1, copies=3)
    column = dependence.columns(responses, np.array([0.5, 0.5]))
    first = column[0, 0]
    assert column[14:, 0].tolist() == [first] * 3
    assert len(np.unique(column[column >= 0])) == 14
    assert (column[:, 0] >= 0).tolist() == [m % 2 == 0 for m in range(14)] + [True] * 3


def test_rules_that_meet_as_often_as_perfect_ones_are_no_copies():
    """Of a class of one item in ten, two rules that are always right meet on all its items."""
    matrix = np.full((1000, 3), -1)
    matrix[:100, :2], matrix[100:900, 2] = 1, 0
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    apart = dependence.columns(responses, np.array([0.9, 0.1]))
    assert len(np.unique(apart[apart >= 0])) == 3
    together = dependence.columns(responses, np.array([0.5, 0.5]))
    assert together[0, 1] == together[1, 1]


def test_counted_tables_have_the_columns_of_expanded_ones():
    table = bf.Responses.from_counts({"0.1": 40, "00.": 60, ".11": 30, "...": 50}, missing=".")
    found = [dependence.columns(each, np.array([0.6, 0.4])) for each in (table, table.expand())]
    assert (found[0] == found[1]).all()


def test_dispersion_by_hand(monkeypatch):
    """Three single-label sources, every pair once, in blocks of one row as in one block."""
    matrix = [[0, 0, -1], [0, -1, 1], [0, 0, 1], [-1, 0, -1]]
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    votes = bf.Votes(None, [[0, -1], [1, -1], [-1, 2]])
    share = np.array([[0.5, 0.4, 0.1], [0.3, 0.1, 0.6]])
    probability = np.array([[0.9, 0.1], [0.5, 0.5], [0.6, 0.4], [1.0, 0.0]])
    pairs = np.array([2.0, 2.0, 6.0, 0.0]) @ probability  # T (T - 1) by class
    weight = pairs / (1 - (share**2).sum(axis=1))
    expected = (share.T * weight) @ share
    met = {(0, 1): 2, (0, 2): 2, (1, 2): 1}
    total = sum((o - expected[p]) ** 2 / max(expected[p], 1.0) for p, o in met.items())
    informative = sum(min(expected[p], 1.0) for p in met)
    prior = dependence.PAIRS * dependence.EXPECTED
    by_hand = (prior + total) / (dependence.PAIRS + informative)
    assert np.isclose(dependence.dispersion(votes, responses, share, probability), by_hand)
    monkeypatch.setattr(dependence, "BLOCK", 1)
    assert np.isclose(dependence.dispersion(votes, responses, share, probability), by_hand)


def test_two_labels_of_one_source_are_no_pair():
    matrix = [[0, -1], [1, 1], [0, 1], [1, -1]]
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    votes = bf.Votes(None, [[0, 1], [-1, 2]])
    share, even = np.array([[0.6, 0.2, 0.2], [0.2, 0.4, 0.4]]), np.full((4, 2), 0.5)
    again = share[:, :2].sum(axis=1) ** 2 + share[:, 2] ** 2  # by source
    met = {(0, 2): 1, (1, 2): 1}
    expected = {p: (2 * share[:, p[0]] * share[:, p[1]] / (1 - again)).sum() for p in met}
    total = sum((o - expected[p]) ** 2 / max(expected[p], 1.0) for p, o in met.items())
    informative = sum(min(expected[p], 1.0) for p in met)
    prior = dependence.PAIRS * dependence.EXPECTED
    by_hand = (prior + total) / (dependence.PAIRS + informative)
    assert np.isclose(dependence.dispersion(votes, responses, share, even), by_hand)


def test_a_large_table_is_sampled():
    responses, _ = rules(3, n_items=40_000)
    assert float(LabellingFunctions(responses).notes["dispersion"]) < 1.6
