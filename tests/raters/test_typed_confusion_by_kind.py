"""The channel that counts types by what is known of the items, against the one that does not."""

from __future__ import annotations

import numpy as np
import pytest
from typed_crowds import random_crowd, random_rows

import bayesfuse as bf
from bayesfuse.raters import TypedConfusionByKind
from bayesfuse.testing import assert_close

KIND = np.arange(41) % 3


def both(responses, gold):
    """Return both channels with their structures, and tables of one or the other."""
    known = np.full(responses.n_items, -1)
    for n, k in gold.items():
        known[n] = k
    channels = bf.TypedConfusion(None, None), TypedConfusionByKind(None, None, KIND)
    share, confusion = random_rows((3, 4), 1), random_rows((5, 4, 3), 2)
    tables = channels[0].expand((np.log(share), np.log(confusion)), 3, np)
    return [(channel, channel.structure(responses, known)) for channel in channels], tables


def test_it_is_the_same_channel():
    responses = random_crowd(40, 4, 3, seed=4)
    ((plain, of_plain), (by_kind, of_kinds)), tables = both(responses, {3: 1})
    one, other = plain.log_lik(tables, of_plain), by_kind.log_lik(tables, of_kinds)
    assert_close(np.exp(other), np.exp(one), "likelihood")
    weight = random_rows((responses.n_items, 3), 7)
    for found, wanted in zip(
        by_kind.expected_kernel(*tables, weight, *of_kinds),
        plain.expected_kernel(*tables, weight, *of_plain),
        strict=True,
    ):
        assert_close(found, wanted, "expected counts")


@pytest.mark.parametrize("copies", [False, True])
def test_draws_are_the_same_and_counted_by_kind(copies):
    """But for items without responses and of unknown class: types of these say nothing."""
    responses = random_crowd(40, 4, 3, seed=4)  # the last item has no responses
    assert responses.per_item[-1] == 0
    ((plain, of_plain), (by_kind, of_kinds)), tables = both(responses, {3: 1, 17: 0})
    labels = np.random.default_rng(1).integers(0, 3, responses.n_items)
    labels[[3, 17]] = 1, 0
    drawn = 2 * np.eye(3)[labels] if copies else labels
    expected = plain.tally(tables, drawn, of_plain, np.random.default_rng(5))
    *found, counts = by_kind.tally(tables, drawn, of_kinds, np.random.default_rng(5))
    assert_close(found[1], expected[1], "answers")
    left_out = expected[0] - found[0]
    assert left_out.min() == 0 and left_out.sum() == 1 + copies
    assert_close(counts.sum(axis=1), found[0].sum(axis=1), "types of unknown and known class")
    sizes = np.bincount(KIND[:40], minlength=3) * (1 + copies)
    assert_close(counts.sum(axis=(0, 2)), sizes, "items by kind")
    assert_close(counts[1].sum(axis=1), [1 + copies, 0, 1 + copies], "known items by kind")


def test_items_of_other_tables_are_of_one_kind():
    responses = random_crowd(10, 4, 3, seed=4)
    channel = TypedConfusionByKind(None, None, KIND)
    assert not channel.structure(responses, np.full(responses.n_items, -1))[-1].any()
    assert channel.taken(np.array([5, 1])).kind.tolist() == [2, 1]
