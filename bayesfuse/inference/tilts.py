"""Where chains begin if more is known of items than responses: the slopes of Dawid and Skene.

Slopes, shifts and scales that other steps than the pool's draw would begin at zero or one, labels
elsewhere, and each would hold the other back. So they begin together: EM for labels, one confusion
matrix per rater, class shares of average items and slopes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
import scipy

from bayesfuse.inference.gradients import VALUE, Gradients, appear_above
from bayesfuse.inference.plan import Plan
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Counts, Observation, Rows
from bayesfuse.parameters.compiled import plain_python, value_function

AVERAGE = "log-odds of average items"
"""The value that stands for the class shares which the members of a pool imply."""


class Tilts(Gradients):
    """The variables behind the inputs of a pool, without its members, under other class shares.

    ``plan`` has one pool, whose input is the ``tilt`` of the label prior's log-odds.
    """

    def __init__(self, plan: Plan, observation: Observation) -> None:
        self.plan, self.observation = plan, observation
        model, (pooled,) = plan.model, plan.pools
        members = {block.variable for block in pooled.members.values()}
        own = [v for v in plan.others if v not in members]
        value = {v: model.rvs_to_values[v].name for v in own}
        self.start = {**model.initial_point(0), AVERAGE: np.zeros(observation.table.n_classes)}
        self.moved = [*value.values(), AVERAGE]
        self._upper = [value[v] for v in appear_above(model, own)]
        (self._label,) = observation.labels.parameters
        ((self._key, tilt),) = pooled.inputs.items()
        with plain_python():
            self._implied = _without_average(value_function(model, {self._key: tilt}))
            self._natural = _without_average(value_function(model, {v.name: v for v in own}))
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


def _without_average(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that also takes points with the class shares of average items."""
    return lambda point: function({name: v for name, v in point.items() if name != AVERAGE})
