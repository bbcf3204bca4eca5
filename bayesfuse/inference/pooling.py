"""Where chains begin if rater rows share a mean: at the labels of a model where they do not.

Under a pool the density is highest where all raters are alike. So labels come from the model
without the pool, or from Dawid and Skene's, and hyperparameters and rows are drawn given labels.
Where a pool has inputs (what is known of items), their slopes begin with the labels, by EM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
import scipy

from bayesfuse import priors
from bayesfuse.inference.gibbs import Sweep
from bayesfuse.inference.gradients import VALUE, Gradients, appear_above
from bayesfuse.inference.plan import Plan
from bayesfuse.inference.start import Start, find_start
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Counts, Observation, Rows, Spread
from bayesfuse.parameters.compiled import plain_python, value_function
from bayesfuse.parameters.contract import Prior, draw_all
from bayesfuse.parameters.dirichlet import Dirichlet

SETTLING = 10  # draws of hyperparameters given the same labels, before a chain begins
AVERAGE = "log-odds of average items"  # the value that stands for the class shares


class Tilts(Gradients):
    """What is behind the input of the one pool of a plan: the ``tilt`` of labels' log-odds."""

    def __init__(self, plan: Plan, observation: Observation) -> None:
        self.plan, self.observation = plan, observation
        model = plan.model
        (pooled,) = (each for each in plan.pools if each.inputs)
        members = {block.variable for each in plan.pools for block in each.members.values()}
        own = [v for v in plan.others if v not in members]
        value = {v: model.rvs_to_values[v].name for v in own}
        self.start = {**model.initial_point(0), AVERAGE: np.zeros(observation.table.n_classes)}
        self.moved = [*value.values(), AVERAGE]
        self._upper = [value[v] for v in appear_above(model, own)]
        (self._label,) = observation.labels.parameters
        ((self._key, tilt),) = pooled.inputs.items()
        with plain_python():
            self._implied = value_function(model, {self._key: tilt})
            self._natural = value_function(model, {v.name: v for v in own})
            self._objective = self._compile_tilt(own, tilt)

    def begin(self, rows: Rows) -> Rows:
        """Complete the raters' rows: variables where PyMC begins, and equal class shares."""
        return self.implied(rows | {VALUE + name: self.start[name] for name in self.moved})

    def priors(self, rows: Rows) -> dict[str, Any]:
        """Return none: all priors of the raters' rows are fixed."""
        return {}

    def implied(self, rows: Rows) -> Rows:
        """Return rows with the tilt and the label prior's parameter that follow."""
        found: Rows = self._implied(self._point(rows))
        odds = scipy.special.log_softmax(rows[VALUE + AVERAGE] + found[self._key], axis=1)
        return rows | found | {self._label: odds}

    def _point(self, rows: Rows) -> dict[str, Any]:
        others = {n.removeprefix(VALUE): v for n, v in rows.items() if n.startswith(VALUE)}
        return self.start | others

    def _compile_tilt(self, own: list[Any], tilt: Any) -> Callable[..., Any]:
        """Compile the log density of all plus the expected one of labels, and slopes."""
        model = self.plan.model
        counts, average = pt.dmatrix(), pt.dvector()
        (moved,) = model.replace_rvs_by_values([tilt])
        total = sum((t.sum() for t in model.logp(own, sum=False)), pt.constant(0.0))
        total += pt.special.log_softmax(average).sum()  # of a flat prior of the class shares
        total += (counts * pt.special.log_softmax(average + moved, axis=1)).sum()
        values = [*(model.rvs_to_values[v] for v in own), average]
        slopes = pt.grad(total, values, disconnected_inputs="ignore")
        function = model.compile_fn([total, *slopes], inputs=[*values, counts], point_fn=False)

        def evaluate(point: dict[str, Array], given: Counts) -> Any:
            total, *slopes = function(*(point[name] for name in names), given.labels[0])
            return total, dict(zip(names, slopes, strict=True))

        names = [*(model.rvs_to_values[v].name for v in own), AVERAGE]
        return evaluate


def rest_of(plan: Plan) -> Gradients | None:
    """Return what a start moves along gradients, None if there is nothing of the kind."""
    return Tilts(plan, _plain(plan)) if any(pooled.inputs for pooled in plan.pools) else None


def begin(plan: Plan, method: str, rest: Gradients | None = None) -> Start:
    """Find parameters of the model without the pool, as :func:`find_start` does."""
    observation = _plain(plan)
    if isinstance(observation, Spread):
        observation = observation.pilot
    if rest is not None:  # slopes settle sooner without items of which no response is known
        told = (observation.table.per_item > 0) | (observation.table_gold >= 0)
        observation = observation.part(np.flatnonzero(told))
    return find_start(observation, _plain_priors(plan), method, rest)


def disperse(
    plan: Plan, begun: Rows, rng: np.random.Generator, rest: Gradients | None = None
) -> Rows:
    """Draw labels, then all parameters given these."""
    observation, plain, sweep, rows = plan.observation, _plain(plan), Sweep.of(plan), dict(begun)
    if rest is not None:
        rows = rest.disperse(rows, plain.expected(rows)[1], rng)
    rows = {name: prior.centre() for name, prior in sweep.priors.items()} | rows
    for pooled in plan.pools:
        rows |= pooled.rows(pooled.begin(rows, rng))
    rows |= {name: prior.centre() for name, prior in sweep.below_pools(rows).items()}
    # labels and hidden variables of the channel are drawn once
    counts = observation.draw_counts(rows, rng, by=(plain.raters, dict(begun)))
    for _ in range(SETTLING):
        for pooled in plan.pools:
            values = pooled.values(rows)
            rows |= pooled.rows(values | pooled.pool.draw(values, counts, rng))
    said, priors = observation.statistics(rows, counts), {**sweep.priors, **sweep.below_pools(rows)}
    return rows | draw_all({name: priors[name] for name in sweep.drawn}, said, rows, rng)


def _plain(plan: Plan) -> Observation:
    """Return the observation in the model without pools, or with one confusion matrix per rater."""
    pooled = _unpooled(plan) is None
    return plan.observation.with_matrices() if pooled else plan.observation


def _plain_priors(plan: Plan) -> Mapping[str, Prior]:
    """Return fixed priors, those of the model where it has some."""
    observation, own = _plain(plan), plan.priors()
    if (rows := _unpooled(plan)) is not None:
        return {**own, **rows}
    responses = observation.responses
    confusion: Any = priors.confusion(None, responses)
    flat = Dirichlet(np.ones(responses.n_classes))
    moved = any(pooled.inputs for pooled in plan.pools)  # class shares follow from slopes
    shares = {n: own.get(n, flat) for n in observation.labels.parameters if not moved}
    return shares | {"confusion": Dirichlet(confusion)}


def _unpooled(plan: Plan) -> dict[str, Prior] | None:
    """Return the priors of pooled parameters without their pools, None if some have none."""
    found: dict[str, Prior] = {}
    for pooled in plan.pools:
        prior = pooled.pool.unpooled()
        if prior is None:
            return None
        found[pooled.pool.parameter] = prior
    return found
