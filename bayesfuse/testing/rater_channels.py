"""The contract of rater channels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.factor import weight_of
from bayesfuse.raters.base import RaterChannel
from bayesfuse.testing.comparisons import assert_close

HIDDEN = 1000
"""Draws of a channel's hidden variables whose mean is compared with its expectation."""


def check_rater_channel(
    channel: RaterChannel, tables: tuple[Array, ...], responses: Responses, *, step: float = 1e-6
) -> None:
    """Check the kernels of a rater channel.

    The probabilities of all possible answers to an item must sum to one for every truth; expected
    counts must be the derivative of the weighted log-likelihood (central differences); the
    log-likelihood must not lie below its tangent, which EM maximises; a known truth must rule out
    the other classes.

    Raises
    ------
    AssertionError
        Names the quantity and its worst entry.

    Examples
    --------
    A channel that passes:

    >>> import numpy as np, bayesfuse as bf
    >>> from bayesfuse.testing import check_rater_channel
    >>> responses = bf.Responses.from_matrix([[0, 1], [1, 1], [0, -1]], missing=-1)
    >>> tables = (np.log([[[0.8, 0.2], [0.3, 0.7]], [[0.9, 0.1], [0.4, 0.6]]]),)
    >>> channel = bf.Confusion(None)  # kernels take the tables, not the variables of a model
    >>> check_rater_channel(channel, tables, responses)
    """
    n_items, n_classes = responses.n_items, responses.n_classes
    unknown = np.full(n_items, -1)
    structure = channel.structure(responses, unknown)
    rng = np.random.default_rng(0)
    weight = rng.random((n_items, n_classes))

    def total(*changed: Array) -> float:
        return float((weight * channel.log_lik(changed, structure)).sum())

    found = channel.expected_kernel(*tables, weight, *structure)
    for which, table in enumerate(tables):
        slope = np.empty_like(table)
        for place in np.ndindex(table.shape):
            moved = [t.copy() for t in tables]
            moved[which][place] += step
            above = total(*moved)
            moved[which][place] -= 2 * step
            slope[place] = (above - total(*moved)) / (2 * step)
        scale = max(abs(total(*tables)), 1.0)
        # central differences lose rounding / step, and the third derivative times step²
        assert_close(found[which], slope, "expected counts", atol=scale * 1e-15 / step + 1e-6)
    labels = channel.log_lik(tables, structure).argmax(axis=1)
    expected = channel.expected_kernel(*tables, np.eye(n_classes)[labels], *structure)
    drawn = [channel.tally(tables, labels, structure, rng) for _ in range(HIDDEN)]
    for counts, weighed in zip(zip(*drawn, strict=True), expected, strict=True):
        # of what is rarely drawn, the sample says little about its own variance
        error = np.sqrt(np.maximum(np.var(counts, axis=0), np.minimum(weighed, 1.0)) / HIDDEN)
        gap = np.abs(np.mean(counts, axis=0) - weighed)
        assert (gap <= 5 * error + 1e-3 * weighed + 1e-9).all(), "tally differs from expectation"
    check_tangent(channel, tables, structure)
    gold = np.arange(n_items) % n_classes
    known = channel.log_lik(tables, channel.structure(responses, gold))
    free = channel.log_lik(tables, structure)
    only = np.where(np.arange(n_classes) == gold[:, None], free, -np.inf)
    assert_close(known, only, "log-likelihood of known labels")
    first = int(np.argmax(responses.per_item))
    mass = np.zeros(n_classes)
    for other in channel.outcomes(responses, first):
        mass += np.exp(channel.log_lik(tables, channel.structure(other, unknown))[first])
    assert_close(mass, np.ones(n_classes), "sum of the probabilities of all answers")


def check_tangent(
    channel: RaterChannel, tables: tuple[Array, ...], structure: tuple[Any, ...]
) -> None:
    """Fail if a log-likelihood at random other tables lies below its tangent at these.

    EM maximises the tangent, so it must be a lower bound. It is one where the likelihood is a sum
    of exponentials of linear functions of the tables.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> from bayesfuse.testing import check_tangent
    >>> responses = bf.Responses.from_matrix([[0, 1], [1, 1], [0, -1]], missing=-1)
    >>> tables = (np.log([[[0.8, 0.2], [0.3, 0.7]], [[0.9, 0.1], [0.4, 0.6]]]),)
    >>> channel = bf.Confusion(None)  # kernels take the tables, not the variables of a model
    >>> check_tangent(channel, tables, channel.structure(responses, np.full(3, -1)))
    """
    rng = np.random.default_rng(1)
    other = [np.array(table + rng.standard_normal(table.shape)) for table in tables]
    for table, moved in zip(tables, other, strict=True):
        rows = np.isclose(np.exp(np.atleast_1d(table)).sum(axis=-1), 1.0)  # sum to one again
        moved[rows] -= logsumexp(moved[rows], axis=-1, keepdims=True)
    log_lik, tangent = (channel.log_lik(each, structure) for each in (tuple(other), tables))
    for weight in np.eye(tangent.size).reshape(-1, *tangent.shape):  # one item, one class
        slope = channel.expected_kernel(*tables, weight, *structure)
        tangent += weight * (weight_of(tuple(other), slope) - weight_of(tables, slope))
    name = "log-likelihood below its tangent, but EM needs it convex in the tables"
    assert_close(np.minimum(log_lik, tangent), tangent, name, rtol=1e-9, atol=1e-9)
