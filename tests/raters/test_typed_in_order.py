"""Gibbs sampling of item types where labels depend on each other: in sequences and on graphs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from kept import assert_kept
from typed_crowds import random_crowd

import bayesfuse as bf
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import Observation
from bayesfuse.parameters.pool import SCALE, Member, SharedMean
from bayesfuse.parameters.simplex import SIMPLEX

SHARE = np.array([[4.0, 2.0, 1.0], [1.0, 1.0, 5.0]])
TRANSITION = np.array([[5.0, 2.0], [2.0, 3.0]])
INITIAL = np.array([2.0, 3.0])
MEAN = np.array([[6.0, 2.0], [2.0, 2.0], [1.0, 4.0]])
"""Of the rows of three types, which all raters share."""
NEAR = 4.0, 0.5
"""Shape and rate of their concentrations."""
N_ITEMS, N_RATERS = 6, 3


def labels_in_sequences():
    initial = pm.Dirichlet("initial", INITIAL)
    transition = bf.dirichlet("transition", TRANSITION)
    return bf.MarkovChain(initial, transition, bf.Sequences.from_lengths([4, 2]))


def labels_on_a_graph():
    edges = [(0, 1), (1, 2), (2, 0), (3, 4), (1, 4)]
    return bf.Potts(pm.Gamma("coupling", 3.0, 4.0), bf.Graph.from_edges(edges, items=range(6)))


def build(responses, labels, pooled):
    """Return a model of one's own: shares of types by class, rows around means, or of their own."""
    with pm.Model() as model:
        share = bf.dirichlet("share", SHARE)
        if pooled:
            mean = pm.Dirichlet("mean", MEAN)
            near = pm.Gamma("near", *NEAR, shape=3)
            base = pt.alloc(near[:, None] * mean, N_RATERS, 3, 2)
            rows = pm.Dirichlet("rows", base)
            members = {"mean": Member(mean, SIMPLEX), "concentration": Member(near, SCALE)}
            model.pools = [SharedMean("type_confusion", members, MEAN, *NEAR, N_RATERS)]
        else:
            rows = bf.dirichlet("rows", np.tile(MEAN, (N_RATERS, 1, 1)))
        bf.observe(responses, labels=labels(), raters=bf.TypedConfusion(share, rows))
    return model


def from_prior(step, pooled, rng):
    """Draw all parameters."""
    rows = {"share": draw_dirichlet(SHARE, rng)}
    if "transition" in step.observation.labels.parameters:
        rows["initial"] = draw_dirichlet(INITIAL, rng)
        rows["transition"] = draw_dirichlet(TRANSITION, rng)
    else:
        rows["coupling"] = np.asarray(rng.gamma(3.0, 1 / 4.0))
    if not pooled:
        rows["type_confusion"] = draw_dirichlet(np.tile(MEAN, (N_RATERS, 1, 1)), rng)
        return rows
    (block,) = step.pools
    values = {
        "mean": draw_dirichlet(MEAN, rng),
        "concentration": rng.gamma(NEAR[0], 1 / NEAR[1], size=3),
    }
    rows |= block.rows(values)
    return rows | {"type_confusion": draw_dirichlet(block.pool.prior(values).concentration, rng)}


ALL_LABELS = np.array(list(product(range(2), repeat=N_ITEMS)))


def draw_truth(observation, rows, rng):
    """Draw labels from their prior by enumeration."""
    tables, structure = observation.label_tables(rows), observation.label_structure
    log = np.array([observation.labels.log_prob(tables, y, structure) for y in ALL_LABELS])
    weight = np.exp(log - log.max())
    return ALL_LABELS[rng.choice(len(ALL_LABELS), p=weight / weight.sum())]


def functions(observation, rows):
    """Return bounded functions of the parameters, and of these and the responses."""
    found = {
        name: np.exp(value) if np.ndim(value) > 1 else value / (1 + np.abs(value))
        for name, value in rows.items()
    }
    likelihood, _ = observation.likelihood(rows)
    return found | {"likelihood": likelihood[:, 0] / likelihood.sum(axis=1)}


def check(labels, *, pooled, size, sweeps, seed=0):
    responses = random_crowd(N_ITEMS - 1, N_RATERS - 1, 2, seed=6)
    step = bf.LabelGibbs(model=build(responses, labels, pooled), rng=seed)
    whole, rng = step.observation, np.random.default_rng(seed)
    before, after = [], []
    for _ in range(size):
        rows = from_prior(step, pooled, rng)
        truth = draw_truth(whole, rows, rng)
        label = whole.raters.simulate(whole.tables(rows), truth, responses, rng)
        gold = {2: int(truth[2])}
        step.observation = Observation.build(
            responses.relabelled(label), whole.labels, whole.raters, gold
        )
        step.labels = truth
        before.append(functions(step.observation, rows))
        for _ in range(sweeps):
            rows = rows | step.sweep(rows, step.fixed)
        after.append(functions(step.observation, rows))
    assert_kept(before, after)


@pytest.mark.slow
@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("labels", [labels_in_sequences, labels_on_a_graph])
def test_sweeps_leave_the_posterior_as_it_is(labels, pooled):
    check(labels, pooled=pooled, size=400, sweeps=3)


@pytest.mark.slow
@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("labels", [labels_in_sequences, labels_on_a_graph])
def test_many_sweeps_leave_it_as_it_is(labels, pooled):
    check(labels, pooled=pooled, size=4000, sweeps=8, seed=1)


@pytest.mark.parametrize("labels", [labels_in_sequences, labels_on_a_graph])
def test_chains_begin_where_only_some_parameters_have_a_pool(labels):
    """Labels come from a start without types, whose shares are none of its parameters."""
    responses = random_crowd(N_ITEMS - 1, N_RATERS - 1, 2, seed=6)
    model = build(responses, labels, pooled=True)
    found = bf.sample(model, 30, tune=20, chains=2, random_seed=1, progressbar=False, quiet=True)
    assert found["posterior"]["share"].shape == (2, 30, 2, 3)
    assert found["posterior"]["share"].std(("chain", "draw")).min() > 0.01
