"""What lies above the rows of item types, against draws of the prior that are weighted."""

from __future__ import annotations

import numpy as np
import pytest
from item_types import (
    COMPETENCE,
    SETTLED,
    base_of,
    bounded,
    draw_prior,
    meaning,
    pool_of,
    prevalence_of,
)
from scipy.special import gammaln

from bayesfuse.observation import Counts
from bayesfuse.parameters.typed_rows import FLOOR, says
from bayesfuse.testing import assert_close

BY_CLASS = np.array(
    [
        [[3.0, 0.0, 1.0], [1.0, 2.0, 0.0]],  # items of unknown class, (classes, types)
        [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]],  # items of known class
    ]
)
ANSWERS = np.array([[[4.0, 0.0], [1.0, 2.0], [0.0, 1.0]], [[3.0, 1.0], [0.0, 3.0], [0.0, 0.0]]])
"""Of two raters to items of three types, (raters, types, answers)."""


BY_KIND = np.array(
    [
        [[1.0, 2.0, 0.0], [2.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
        [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]],
    ]
)
"""The same items by what is known of them, (unknown and known class, kinds, types)."""
TILT = np.array([[0.0, 0.0], [2.0, 0.5], [-1.0, 1.5]])
"""Log-odds of the classes of every kind."""


def counts_of(*tables):
    return Counts({"type_confusion": tables[1]}, (), tables)


def log_multinomial(alpha, counts):
    rising = (gammaln(alpha + counts) - gammaln(alpha)).sum(axis=-1)
    total = alpha.sum(axis=-1)
    return rising + gammaln(total) - gammaln(total + counts.sum(axis=-1))


def log_tilted(values, by_kind):
    """Return the log probability of the types, labels of unknown class summed out."""
    odds = np.exp(TILT)
    by_type = np.exp(values["class_of_type"]) @ odds.T  # (size, types, kinds)
    of_kind = np.einsum("sz,szr->sr", np.exp(values["type_share"]), by_type)
    logs = (by_kind[0].T * np.log(by_type)).sum(axis=(1, 2))
    return logs - (by_kind.sum(axis=(0, 2)) * np.log(of_kind)).sum(axis=1)


def labels_of(values, by_kind, tilt, rng):
    """Draw the labels of items of unknown class given their types, (classes, types)."""
    found = np.zeros((2, by_kind.shape[2]))
    for r, z in zip(*by_kind[0].nonzero(), strict=True):
        weight = np.exp(values["class_of_type"][z] + tilt[r])
        found[:, z] += rng.multinomial(int(by_kind[0, r, z]), weight / weight.sum())
    return found


def by_importance(pool, by_class, answers, by_kind=None, *, size=60_000, seed=0):
    """Return means, variances and their errors, of bounded functions, by weighted prior draws."""
    rng = np.random.default_rng(seed)
    values = draw_prior(pool, size, rng)
    base = base_of(pool, values)
    if "row_concentration" in pool.members:
        spread = values["row_concentration"][:, None, :, None]
        log_weight = log_multinomial(np.maximum(spread * base, 1e-300), answers).sum(axis=(1, 2))
    else:
        log_weight = (answers * np.log(base)).sum(axis=(1, 2, 3))
    log_weight += (by_class.sum(axis=(0, 1)) * values["type_share"]).sum(axis=1)
    log_weight += (by_class[1].T * values["class_of_type"]).sum(axis=(1, 2))
    if by_kind is not None:
        log_weight += log_tilted(values, by_kind)
    with np.errstate(divide="ignore"):
        log_weight += np.log(prevalence_of(values) ** pool.imaginary).sum(axis=1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1 / (weight**2).sum() > 300  # as good as so many draws
    found = {}
    for role, value in values.items():
        each = bounded(role, value)
        mean = np.tensordot(weight, each, axes=1)
        square = (each - mean) ** 2
        variance = np.tensordot(weight, square, axes=1)
        errors = np.tensordot(weight**2, square, 1), np.tensordot(weight**2, square**2, 1)
        found[role] = (mean, variance), np.sqrt(errors)
    return found


def run(pool, *tables, draws, tilt=TILT, chains=4, seed=1):
    """Return bounded functions of the members along chains of the pool's own draws."""
    counts, kept = counts_of(*tables), []
    for rng in np.random.default_rng(seed).spawn(chains):
        values, chain = pool.begin(rng), []
        for turn in range(draws + 100):
            if len(tables) == 3:
                values["tilt"] = tilt
                drawn = labels_of(values, tables[2], tilt, rng)
                counts = counts_of(np.stack([drawn, tables[0][1]]), *tables[1:])
            values = pool.draw(values, counts, rng)
            if turn >= 100:
                chain.append({role: bounded(role, value) for role, value in values.items()})
        kept.append({role: np.array([each[role] for each in chain]) for role in pool.members})
    return {role: np.array([chain[role] for chain in kept]) for role in pool.members}


BATCHES = 40
"""Parts of all chains, many times longer than the draws depend on each other."""


def assert_same(chains, exact):
    """Fail if means or variances differ by more than five standard errors."""
    for role, (expected, errors) in exact.items():
        for drawn, wanted, error in zip(
            (chains[role], (chains[role] - expected[0]) ** 2), expected, errors, strict=True
        ):
            means = drawn.reshape(BATCHES, -1, *wanted.shape).mean(axis=1)
            own = means.std(axis=0, ddof=1) / np.sqrt(BATCHES)
            gap = np.abs(means.mean(axis=0) - wanted) / np.hypot(error, own)
            assert gap.max() < 5, (role, gap, means.mean(axis=0), wanted)


TYPES_ONLY = {"leave_out": (*COMPETENCE, "row_concentration"), "imaginary": 2}


@pytest.mark.parametrize(
    "options",
    [
        {"imaginary": 1},
        {"fixed": {"trust": 1.7}, "imaginary": 0, "leave_out": ("row_concentration",)},
        TYPES_ONLY,
        pytest.param({"leave_out": COMPETENCE, "imaginary": 1}, marks=pytest.mark.slow),
    ],
)
def test_members_have_the_means_of_weighted_prior_draws(options):
    pool = pool_of(2, 3, 2, priors=SETTLED, **options)
    assert_same(run(pool, BY_CLASS, ANSWERS, draws=300), by_importance(pool, BY_CLASS, ANSWERS))


def test_members_have_them_under_a_tilt():
    """Labels are drawn anew before every draw of the pool, as a sampler does."""
    pool = pool_of(2, 3, 2, priors=SETTLED, kinds=3, **TYPES_ONLY)
    tables = BY_CLASS, ANSWERS, BY_KIND
    exact = by_importance(pool, *tables, size=40_000)
    assert_same(run(pool, *tables, draws=150), exact)


def test_a_consensus_says_its_power():
    mu = np.array([[0.7, 0.2, 0.1], [0.05, 0.05, 0.9]])
    for trust in (0.3, 1.0, 2.5):
        expected = mu**trust / (mu**trust).sum(axis=1, keepdims=True)
        assert_close(says(np.log(mu), trust), expected, "classes", rtol=0, atol=3 * FLOOR)
        assert_close(says(np.log(mu), trust).sum(axis=1), np.ones(2), "sum")
    certain = says(np.array([[0.0, -600.0]]), 3.0)
    assert_close(certain, [[1 - FLOOR, FLOOR]], "certain")
    assert_close(meaning(np.log(mu)[None], np.array([1.3]))[0], says(np.log(mu), 1.3), "both")
