"""The sampler of item types leaves the posterior as it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from item_types import SETTLED, base_of, bounded, draw_prior, prevalence_of
from kept import assert_kept

import bayesfuse as bf
from bayesfuse.inference.gibbs import Sweep, step
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import ItemTypes
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import Observation


def design(n_items, n_raters, n_classes):
    """Four fifths of all pairs, some of them twice."""
    rng = np.random.default_rng(9)
    item, rater = np.nonzero(rng.random((n_items, n_raters)) < 0.8)
    item, rater = np.append(item, item[:4]), np.append(rater, rater[:4])
    label = np.arange(len(item)) % n_classes
    return bf.Responses.from_long(
        {"item": item, "rater": rater, "label": label},
        items=range(n_items),
        raters=range(n_raters),
        classes=range(n_classes),
    )


def simulations(pool, size, rng):
    """Draw from the prior, in which every class has been seen ``pool.imaginary`` times.

    In logarithms: PyMC's draws of small probabilities would be zero.
    """
    drawn = draw_prior(pool, 20 * size, rng)
    weight = ((prevalence_of(drawn) * pool.n_classes) ** pool.imaginary).prod(axis=1)
    taken = np.flatnonzero(rng.random(len(weight)) < weight)[:size]  # weights are at most one
    assert len(taken) == size
    drawn = {role: value[taken] for role, value in drawn.items()}
    rows = None
    if "row_concentration" in pool.members:
        spread = drawn["row_concentration"][:, None, :, None]
        rows = draw_dirichlet(np.maximum(spread * base_of(pool, drawn), 1e-300), rng)
    return drawn, rows


def functions(observation, pooled, rows):
    """Return bounded functions of the parameters, and of these and the responses."""
    values = pooled.values(rows)
    found = {role: bounded(role, values[role]) for role in pooled.members}
    marginal = observation.marginal(rows)
    found["evidence"] = np.array(marginal.total / observation.responses.n_responses)
    found["labels"] = observation.by_item(marginal.probability)[:, 0]
    (parameter,) = observation.labels.parameters
    found["prevalence"] = np.exp(rows[parameter])  # the pool returns normalised rows
    found["confusion"] = np.exp(rows["type_confusion"])
    return found


CASES = {
    "the model's own priors": (2, [1, 4], {"priors": None}),
    "no competence": (2, [], {"competence": False, "every_class": 2}),
    "rows in common": (2, [1, 4], {"own_rows": False, "trust": 1.7}),
    "populations": (2, [1, 4], {"populations": np.arange(10) % 3}),
    "a covariate": (3, [1, 4], {"covariates": np.arange(10.0)[:, None] % 7, "every_class": 0}),
}


@pytest.mark.parametrize("name", CASES)
def test_sweeps_leave_the_posterior_as_it_is(name):
    """Simulate parameters, truths and responses; go on from the parameters by Gibbs sweeps.

    What is known of items has random log-odds.
    """
    n_classes, revealed, given = CASES[name]
    responses = design(10, 3, n_classes)
    model = ItemTypes(responses, types=n_classes + 1, **{"priors": SETTLED} | given)
    plan, rng = make_plan(model), np.random.default_rng(0)
    sweep, whole, size = Sweep.of(plan), plan.observation, 150
    (pooled,) = plan.pools
    drawn, type_rows = simulations(pooled.pool, size, rng)
    before, after = [], []
    for i in range(size):
        values = {role: value[i] for role, value in drawn.items()}
        if pooled.inputs:
            values["tilt"] = rng.normal(0, 1.5, (pooled.pool.n_kinds, n_classes))
        rows = pooled.rows(values)
        if type_rows is not None:
            rows["type_confusion"] = type_rows[i]
        truth, label = whole.simulate(rows, rng)
        gold = {n: int(truth[n]) for n in revealed}
        seen = Observation.build(responses.relabelled(label), whole.labels, whole.raters, gold)
        before.append(functions(seen, pooled, rows))
        own = replace(sweep, observation=seen)
        state = own.begin(rows)
        for _ in range(3):
            state = step(own, state, rng)
        after.append(functions(seen, pooled, state.rows))
    assert_kept(before, after)
