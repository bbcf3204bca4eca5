"""Draws of what lies above the rows of item types leave the joint law with counts as it is."""

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
from kept import assert_kept

from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import Counts
from bayesfuse.parameters.typed_rows import FLOOR, says
from bayesfuse.testing import assert_close

REPLICATES = 300
TILT = np.array([[0.0, 0.0], [2.0, 0.5], [-1.0, 1.5]])
"""Log-odds of the classes of three kinds of items."""
N_ITEMS = np.array([[4, 3, 2], [2, 1, 1]])
"""Of unknown and of known class, by kind."""
N_ANSWERS = np.array([[5, 3, 0], [4, 2, 1]])
"""Of two raters to items of three types."""


def from_prior(pool, rng):
    """Draw members from the prior, in which every class has been seen ``pool.imaginary`` times."""
    drawn = draw_prior(pool, 20 * REPLICATES, rng)
    weight = ((prevalence_of(drawn) * pool.n_classes) ** pool.imaginary).prod(axis=1)
    taken = np.flatnonzero(rng.random(len(weight)) < weight)[:REPLICATES]  # weights are at most one
    assert len(taken) == REPLICATES
    drawn = {role: value[taken] for role, value in drawn.items()}
    rows = base_of(pool, drawn)
    if "row_concentration" in pool.members:
        spread = drawn["row_concentration"][:, None, :, None]
        rows = np.exp(draw_dirichlet(np.maximum(spread * rows, 1e-300), rng))
    return drawn, rows


def counts_of(values, rows, tilt, rng):
    """Draw the types and classes of items, and the answers to them."""
    joint = values["type_share"][:, None] + values["class_of_type"] + tilt[:, None]
    joint = np.exp(joint - joint.max(axis=(1, 2), keepdims=True)).reshape(len(tilt), -1)
    joint /= joint.sum(axis=1, keepdims=True)
    items = rng.multinomial(N_ITEMS, joint).reshape(2, len(tilt), *values["class_of_type"].shape)
    answers = rng.multinomial(N_ANSWERS, rows / rows.sum(axis=-1, keepdims=True)).astype(float)
    by_class = items.sum(axis=1).swapaxes(1, 2).astype(float)  # (known, classes, types)
    return by_class, answers, items.sum(axis=3).astype(float)


def functions(pool, values, tables):
    """Return bounded functions of the members, and of these and the counts."""
    found = {role: bounded(role, values[role]) for role in pool.members}
    by_class, answers, _ = tables
    found["share of items"] = by_class.sum(axis=(0, 1)) @ np.exp(values["type_share"])
    found["classes"] = (by_class[1].T * np.exp(values["class_of_type"])).sum(axis=1)
    base = base_of(pool, {role: value[None] for role, value in values.items()})[0]
    return found | {"answers": (answers * base).sum(axis=2)}


CASES = {
    "all": {"imaginary": 1},
    "no competence": {"leave_out": COMPETENCE, "imaginary": 1},
    "trust given": {"fixed": {"trust": 1.7}, "leave_out": ("row_concentration",), "imaginary": 0},
    "types only": {"leave_out": (*COMPETENCE, "row_concentration"), "imaginary": 2},
}


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("all", 0),
        ("trust given", 0),
        ("types only", 3),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (("no competence", 0), ("all", 3))
        ),
    ],
)
def test_draws_leave_the_prior_as_it_is(name, kinds):
    """Also where something is known of the items, so that their classes have a tilt."""
    pool = pool_of(2, 3, 2, priors=SETTLED, kinds=kinds, **CASES[name])
    tilt, rng = TILT if kinds else np.zeros((3, 2)), np.random.default_rng(1)
    drawn, rows = from_prior(pool, rng)
    before, after = [], []
    for n in range(REPLICATES):
        values = {role: value[n] for role, value in drawn.items()}
        tables = counts_of(values, rows[n], tilt, rng)
        raters = tables if kinds else tables[:2]
        counts = Counts({"type_confusion": tables[1]}, (), raters)
        before.append(functions(pool, values, tables))
        for _ in range(2):
            values = pool.draw(values | ({"tilt": tilt} if kinds else {}), counts, rng)
        after.append(functions(pool, values, tables))
    assert_kept(before, after)


def test_a_consensus_says_its_power():
    mu = np.array([[0.7, 0.2, 0.1], [0.05, 0.05, 0.9]])
    for trust in (0.3, 1.0, 2.5):
        expected = mu**trust / (mu**trust).sum(axis=1, keepdims=True)
        assert_close(says(np.log(mu), trust), expected, "classes", rtol=0, atol=3 * FLOOR)
        assert_close(says(np.log(mu), trust).sum(axis=1), np.ones(2), "sum")
    certain = says(np.array([[0.0, -600.0]]), 3.0)
    assert_close(certain, [[1 - FLOOR, FLOOR]], "certain")
    assert_close(meaning(np.log(mu)[None], np.array([1.3]))[0], says(np.log(mu), 1.3), "both")
