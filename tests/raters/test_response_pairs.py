"""Products of pairs of responses: the same numbers as without them, wherever they come up often."""

import numpy as np
import pytest
from typed_crowds import random_rows

import bayesfuse as bf
from bayesfuse.raters.confusion import OFTEN, pair_up
from bayesfuse.testing import assert_close


def crowd(n_items, n_raters, n_classes, seed):
    """Responses of few raters to many items, some missing, some repeated, one item unanswered."""
    rng = np.random.default_rng(seed)
    rows = rng.random((n_items, n_raters)) < 0.9
    item, rater = np.nonzero(rows | (rng.random(rows.shape) < 0.02))
    again = rng.random(len(item)) < 0.03
    item, rater = np.append(item, item[again]), np.append(rater, rater[again])
    label = rng.choice(n_classes, len(item), p=rng.dirichlet(np.full(n_classes, 3.0)))
    return bf.Responses.from_long(
        {"item": item, "rater": rater, "label": label},
        items=range(n_items + 1),
        raters=range(n_raters),
        classes=range(n_classes),
    )


def arranged(responses, gold=None):
    """The channel's structure, checked to have pairs."""
    gold = np.full(responses.n_items, -1) if gold is None else gold
    structure = bf.Confusion(None).structure(responses, gold)
    assert len(structure[2]) > 0
    return structure


def log_confusion(n_raters, n_classes, seed):
    return np.log(random_rows((n_raters, n_classes, n_classes), seed))


def plain_sum(table, responses):
    """Sum over the responses one by one."""
    total = np.zeros((responses.n_items, responses.n_classes))
    np.add.at(total, responses.item, table[responses.rater, :, responses.label])
    return total


def test_rows_are_the_responses_in_their_order():
    responses = crowd(900, 3, 2, seed=1)
    start, row, pair, _ = arranged(responses)
    n_cells = 6
    for n in range(responses.n_items):
        named = row[start[n] : start[n + 1]]
        cells = [c for r in named for c in ([r] if r < n_cells else pair[r - n_cells])]
        given = responses.cell[responses.start[n] : responses.start[n + 1]]
        assert cells == given.tolist()
        assert (named >= n_cells).sum() == len(given) // 2
    assert responses.per_item.min() == 0 and (responses.per_item % 2 == 1).any()
    assert row.dtype == start.dtype == pair.dtype == np.uint32


def test_pairs_must_come_up_often():
    """Two raters, four pairs, and the guard against tables of pairs larger than the responses."""
    cell = np.tile(np.uint32([0, 2, 0, 3, 1, 2, 1, 3]), OFTEN)
    start = np.arange(0, len(cell) + 1, 2, dtype=np.uint32)
    assert pair_up(start, cell, 4)[2].tolist() == [[0, 2], [0, 3], [1, 2], [1, 3]]
    for begin, cells, n_cells in [
        (start[:-1], cell[:-2], 4),  # once less
        (start, cell, int(np.sqrt(len(cell))) + 1),
        (start[:1], cell[:0], 4),
    ]:
        found = pair_up(begin, cells, n_cells)
        assert found[0] is begin and found[1] is cells and found[2].shape == (0, 2)


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5])
def test_likelihood_is_the_plain_sum(n_classes):
    responses = crowd(3000, 3, n_classes, seed=n_classes)
    table = log_confusion(3, n_classes, 3)
    with np.errstate(divide="ignore"):  # a label that one rater never gives to one class
        table[1, 0] = np.log(np.append(0.0, np.full(n_classes - 1, 1 / (n_classes - 1))))
    gold = np.where(np.arange(responses.n_items) % 7 == 3, 1, -1)
    expected = plain_sum(table, responses)
    expected[gold == 1, :1] = expected[gold == 1, 2:] = -np.inf
    found = bf.Confusion(None).log_lik((table,), arranged(responses, gold))
    assert (expected == -np.inf).sum() > 1000
    assert_close(found, expected, "log-likelihood")


def test_products_that_underflow_keep_their_digits():
    """A pair's product is zero in floating point, its logarithm is not."""
    responses = crowd(900, 3, 2, seed=7)
    table = log_confusion(3, 2, 1) - np.array([380.0, 400.0])[:, None]
    found = bf.Confusion(None).log_lik((table,), arranged(responses))
    assert_close(found, plain_sum(table, responses), "log-likelihood")


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_counts_are_those_of_the_responses(n_classes):
    responses = crowd(3000, 3, n_classes, seed=n_classes)
    structure, tables = arranged(responses), (log_confusion(3, n_classes, 3),)
    rng = np.random.default_rng(n_classes)
    labels = rng.integers(0, n_classes, responses.n_items)
    expected = np.zeros((3, n_classes, n_classes))
    np.add.at(expected, (responses.rater, labels[responses.item], responses.label), 1.0)
    channel = bf.Confusion(None)
    (hard,) = channel.tally(tables, labels, structure, rng)
    np.testing.assert_array_equal(hard, expected)
    (soft,) = channel.tally(tables, np.eye(n_classes)[labels], structure, rng)
    assert_close(soft, expected, "expected counts")
