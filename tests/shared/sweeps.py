"""Whether a model's Gibbs sampler leaves the posterior as it is."""

from __future__ import annotations

import numpy as np
import pymc as pm
from kept import assert_kept

import bayesfuse as bf
from bayesfuse.observation import Observation
from bayesfuse.parameters.compiled import plain_python
from bayesfuse.pymc.model import observed, parameter_variables


def assert_sweeps_keep(build, responses, *, revealed=(), simulations=150, sweeps=4, seed=0):
    """Draw parameters, truths and responses, go on from the parameters by Gibbs steps, compare.

    ``revealed`` are the numbers of items whose truth is known to the sampler.
    """
    model = build(responses)
    step = bf.LabelGibbs(model=model, rng=seed, sweeps=sweeps)
    whole, rng = step.observation, np.random.default_rng(seed)
    variables = parameter_variables(observed(model)[0])
    variables |= {block.parameter: block.variable for block in step.blocks}
    with plain_python():
        drawn = pm.draw(list(variables.values()), draws=simulations, random_seed=seed)
    before, after = [], []
    for number in range(simulations):
        values = dict(zip(variables, (each[number] for each in drawn), strict=True))
        with np.errstate(divide="ignore"):  # zero is a legal probability
            own = {b: b.support.to_kernel(values[b.parameter]) for b in step.blocks}
        point = {b.value: np.asarray(b.write(value)) for b, value in own.items()}
        rows = whole.rows(values)
        truth, table = whole.redraw(rows, rng)
        gold = {responses.items[n]: responses.classes[truth[n]] for n in revealed}
        step.observation = Observation.build(table, whole.labels, whole.raters, gold)
        step.labels = truth.astype(np.int32)
        before.append(functions(step, rows, point))
        after.append(functions(step, rows, step.step(point)[0]))
    assert_kept(before, after)


def functions(step, rows, point):
    """Return bounded functions of the parameters, and of these and the responses."""
    own = {block.parameter: block.read(point) for block in step.blocks}
    natural = {block.parameter: block.natural(own[block.parameter]) for block in step.blocks}
    rows = rows | own
    for pooled in step.pools:
        rows |= pooled.rows(pooled.values(rows))
    marginal = step.observation.marginal(rows)
    labels = step.observation.by_item(marginal.probability)
    return {name: value / (1 + np.abs(value)) for name, value in natural.items()} | {
        "evidence": np.array(marginal.total / step.observation.n_responses),
        "labels": labels[:, 0],
        "label counts": labels.mean(axis=0),
    }
