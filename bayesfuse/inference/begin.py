"""Where chains begin: at a start that all share, dispersed by a sweep of each its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm

from bayesfuse.errors import ModelError, require_mapping
from bayesfuse.inference import gibbs, pooling
from bayesfuse.inference.gradients import gradients_of, natural
from bayesfuse.inference.plan import Plan, require_value
from bayesfuse.inference.start import Start, find_start
from bayesfuse.observation import Rows
from bayesfuse.parameters.contract import Prior


class Beginning:
    """The start (a method, or values of variables) and the points around it where chains begin."""

    def __init__(
        self, plan: Plan, start: str | Mapping[str, Any], whole: pm.Model | None = None
    ) -> None:
        self.plan, self.rest = plan, None
        if not isinstance(start, str):
            require_mapping("start, unless it is a word,", start)
            model = plan.model if whole is None else whole
            known = {variable.name: variable for variable in model.free_RVs}
            if unknown := set(start) - set(known):
                raise ModelError(
                    "A start must give values to free variables of the model, "
                    f"{sorted(known)}. Got: {sorted(unknown)}."
                )
            for name, value in start.items():
                require_value(model, known[name], value)
            own = {variable.name for variable in plan.model.free_RVs}
            self.start = Start({}, "given", values={n: v for n, v in start.items() if n in own})
        elif plan.pooled:
            self.rest = pooling.rest_of(plan)
            self.start = pooling.begin(plan, start, self.rest)
        else:
            self.rest = gradients_of(plan)
            self.start = find_start(plan.begun(), plan.continuous_priors(), start, self.rest)

    def start_rows(self) -> Rows:
        """Return the parameters of the start, at which all chains may begin."""
        return self.start.rows if self.start.values is None else self._given(self.start.values)

    def rows(self, rng: np.random.Generator) -> Rows:
        """Return all parameters, in kernel coordinates, where a chain begins."""
        if self.start.values is not None:
            return self._given(self.start.values)
        if self.plan.pooled:
            return pooling.disperse(self.plan, self.start.rows, rng, self.rest)
        rows: Rows = {**self.start.rows, **self.plan.indices()}
        priors: dict[str, Prior] = self.plan.priors()
        if self.rest is not None:
            priors |= self.rest.priors(rows)
        drawn = tuple(name for name, prior in priors.items() if prior.free)
        sweep = gibbs.Sweep(self.plan.observation, priors, drawn)
        begun = {n: prior.centre() for n, prior in priors.items()} | rows
        found = gibbs.step(sweep, sweep.begin(begun), rng).rows
        if self.rest is None:
            return found
        _, counts = self.plan.observation.expected(rows)
        return self.rest.disperse(found, counts, rng)

    def values(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return values of the model's variables at which a chain begins, off any boundary."""
        if self.start.values is not None:
            return dict(self.start.values)
        return natural(self.plan, self.rest, self.rows(rng))

    def _given(self, values: Mapping[str, Any]) -> Rows:
        """Return the rows of given values, and of PyMC's initial ones where none are given."""
        rows, point = self.plan.priors(), self.plan.model.initial_point(0)
        found: Rows = {name: prior.centre() for name, prior in rows.items() if not prior.free}
        with np.errstate(divide="ignore"):  # zero is a legal probability
            for block in self.plan.all_blocks:
                name, given = block.parameter, values.get(block.variable.name)
                if given is None:
                    found[name] = np.asarray(block.read(point))
                else:
                    found[name] = np.asarray(block.support.to_kernel(np.asarray(given)))
        for pooled in self.plan.pools:
            found |= pooled.rows(pooled.values(found))
        return found
