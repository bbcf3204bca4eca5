"""The sampler of item types leaves the posterior as it is, and agrees with NUTS."""

from __future__ import annotations

import numpy as np
import pytest
from item_types import SETTLED, base_of, bounded, draw_prior, prevalence_of
from kept import assert_kept

import bayesfuse as bf
from bayesfuse.models import ItemTypes
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import Observation
from bayesfuse.testing import assert_within_mcse


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
    """Draw from the prior, in which every class has been seen ``pool.imaginary`` times."""
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


def check(n_classes, revealed, size, *, sweeps=3, seed=0, spread=1.5, **arguments):
    """Simulate parameters, truths and responses; go on from the parameters by Gibbs sweeps.

    What is known of items has random log-odds of standard deviation ``spread``.
    """
    responses = design(10, 3, n_classes)
    model = ItemTypes(responses, types=n_classes + 1, **arguments)
    step, rng = bf.LabelGibbs(model=model, rng=seed), np.random.default_rng(seed)
    (pooled,) = step.pools
    whole = step.observation
    drawn, type_rows = simulations(pooled.pool, size, rng)
    before, after = [], []
    for i in range(size):
        values = {role: value[i] for role, value in drawn.items()}
        if pooled.inputs:
            values["tilt"] = rng.normal(0, spread, (pooled.pool.n_kinds, n_classes))
        rows = pooled.rows(values)
        if type_rows is not None:
            rows["type_confusion"] = type_rows[i]
        truth, label = whole.simulate(rows, rng)
        gold = {n: int(truth[n]) for n in revealed}
        step.observation = Observation.build(
            responses.relabelled(label), whole.labels, whole.raters, gold
        )
        before.append(functions(step.observation, pooled, rows))
        for _ in range(sweeps):
            rows = rows | step.sweep(rows, step.fixed)
        after.append(functions(step.observation, pooled, rows))
    assert_kept(before, after)


@pytest.mark.slow
def test_sweeps_leave_the_posterior_as_it_is():
    check(2, [1, 4, 7], 600, priors=SETTLED)


@pytest.mark.slow
def test_sweeps_leave_it_where_more_is_known_of_items():
    check(2, [1, 4], 250, populations=np.arange(10) % 3, priors=SETTLED)


CASES = {
    "default": {},
    "no competence": {"competence": False},
    "rows in common": {"own_rows": False},
    "types only": {"competence": False, "own_rows": False},
    "trust given": {"trust": 1.7},
    "no class need occur": {"every_class": 0},
    "every class often": {"every_class": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("revealed", [[], [0, 2, 3, 7]])
@pytest.mark.parametrize("name", CASES)
def test_many_sweeps_leave_it_as_it_is(name, revealed):
    """Without and with known classes, two classes with the model's own priors, and three."""
    check(2, revealed, 1500, **CASES[name])
    check(3, revealed, 800, seed=1, priors=SETTLED, **CASES[name])


KNOWN = {
    "populations": {"populations": np.arange(10) % 3},
    "merged items": {"populations": np.arange(10) % 2},
    "a covariate": {"covariates": np.arange(10.0)[:, None] % 7},
    "and no class need occur": {"covariates": np.arange(10.0)[:, None], "every_class": 0},
    "and every class is often": {"populations": np.arange(10) % 3, "every_class": 2},
    "and trust is given": {"populations": np.arange(10) % 3, "trust": 1.7},
}


@pytest.mark.slow
@pytest.mark.parametrize("revealed", [[], [0, 2, 3, 7]])
@pytest.mark.parametrize("name", KNOWN)
def test_many_sweeps_leave_it_where_more_is_known_of_items(name, revealed):
    """Log-odds that overrule most responses, and weaker ones."""
    check(2, revealed, 1500, spread=2.5, **KNOWN[name])
    check(3, revealed, 800, seed=1, priors=SETTLED, **KNOWN[name])


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{}, {"competence": False, "own_rows": False}])
def test_gibbs_and_nuts_agree(arguments):
    """On PyMC's density, which the sampler does not use; with known classes."""
    rng = np.random.default_rng(2)
    responses = design(8, 2, 2)
    responses = responses.relabelled(rng.choice(2, responses.n_responses, p=[0.35, 0.65]))
    model = ItemTypes(responses, types=2, gold={1: 0, 5: 1}, priors=SETTLED, **arguments)
    settings = {"chains": 2, "progressbar": False, "quiet": True}
    gibbs = bf.sample(model, 5000, sweeps=2, random_seed=1, **settings)
    nuts = bf.sample(
        model,
        1000,
        tune=700,
        sampler="nuts",
        nuts_sampler="pymc",
        random_seed=2,
        target_accept=0.95,
        **settings,
    )
    assert gibbs.attrs["sampler"] == "gibbs" and nuts.attrs["sampler"] == "nuts"
    names = [variable.name for variable in model.free_RVs] + ["prevalence", "confusion"]
    assert_within_mcse(gibbs["posterior"].dataset, nuts["posterior"].dataset, names)
    one, other = (result["label_posterior"].dataset for result in (gibbs, nuts))
    allowed = 5 * np.hypot(one["mcse"].values, other["mcse"].values) + 1e-9
    assert (np.abs(one["probability"].values - other["probability"].values) <= allowed).all()
