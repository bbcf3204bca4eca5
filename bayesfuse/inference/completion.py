"""What follows from the draws of a sampler, computed until it is complete or interrupted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pymc as pm
import xarray as xr

from bayesfuse import errors
from bayesfuse.inference.plan import Plan
from bayesfuse.numerics.threads import (
    accept,
    extension,
    hold,
    is_over,
    seconds_left,
    threads,
)
from bayesfuse.pymc.evaluate import check_convergence, evaluate, with_deterministics
from bayesfuse.results import joint_labels, schema
from bayesfuse.results.build import build
from bayesfuse.results.collapse import warn_of_collapse
from bayesfuse.results.draws import Draws
from bayesfuse.results.label_summary import LabelSummary
from bayesfuse.results.storage import Storage

SECONDS = 0.6  # for the labels of draws that were interrupted


@dataclass(frozen=True)
class Run:
    """Draws of all chains, other groups, sums over labels, whether cut short, and attributes."""

    posterior: xr.Dataset
    stats: dict[str, xr.Dataset]
    sums: Draws | None
    is_cut: bool
    attributes: dict[str, Any]


class _Completion:
    """Deterministics and labels of a run; what an interruption leaves out is missing."""

    def __init__(
        self, run: Run, model: pm.Model, plans: Mapping[str, Plan], log_likelihood: bool | None
    ) -> None:
        self.run, self.model, self.plans = run, model, plans
        self.posterior, self.log_likelihood = run.posterior, log_likelihood
        self.summaries = {name: LabelSummary(plan.observation) for name, plan in plans.items()}
        self.expected = {schema.LABEL_POSTERIOR}
        if log_likelihood:
            self.expected.add(schema.LOG_LIKELIHOOD)
        if len(plans) == 1:
            (plan,) = plans.values()
            (summary,) = self.summaries.values()
            if joint_labels.max_stored_draws(plan.observation):
                self.expected.add(schema.LABEL_DRAWS)
            if run.sums is not None:
                summary.add(run.sums)
                if run.sums.drawn:
                    self.expected = summary.groups

    def advance(self, seconds: float, cores: int | None) -> None:
        """Compute what is missing, with labels of fewer draws if all take more ``seconds``."""
        with threads(cores):
            if self._missing_variables():
                self.posterior = with_deterministics(self.model, self.posterior)
            if self.run.sums is not None and self.run.sums.drawn:
                return
            seconds /= 2 * len(self.plans)  # half for the probabilities, half for joint draws
            for name, plan in self.plans.items():
                values = evaluate(plan.model, self.posterior, plan.variables)
                summary = self.summaries[name]
                if summary.probabilities is None or self.run.sums is None:
                    summary.compute(values, log_likelihood=self.log_likelihood, seconds=seconds)
                summary.draw(values, self.posterior, seconds)

    def _missing_variables(self) -> set[str]:
        return {v.name for v in self.model.deterministics} - set(self.posterior)

    def missing(self) -> set[str]:
        """Return the names of variables and groups that are expected, but not computed."""
        groups = [self.expected - summary.groups for summary in self.summaries.values()]
        return self._missing_variables().union(*groups)

    def labels(self) -> dict[str, LabelSummary]:
        """Return the labels by child of the result, "" for the result itself."""
        if len(self.summaries) > 1:
            return self.summaries
        return {"": next(iter(self.summaries.values()))}


def complete(
    run: Run,
    model: pm.Model,
    plans: Mapping[str, Plan],
    storage: Storage,
    cores: int | None,
    *,
    checks: bool,
) -> xr.DataTree:
    """Return the result of a run, after an interruption in about a second.

    Label probabilities are then averaged over as many draws as there is time for. A second
    interruption leaves out the rest, with a warning.
    """
    completion = _Completion(run, model, plans, storage.log_likelihood)
    is_interrupted = is_over()
    hold(False)
    try:
        if not is_interrupted:
            try:
                completion.advance(seconds_left(), cores)
            except KeyboardInterrupt:
                is_interrupted = True
        if is_interrupted:
            with extension(math.inf):
                completion.advance(SECONDS, cores)
    except KeyboardInterrupt:
        is_interrupted = True
    if is_interrupted:
        accept()
    missing = completion.missing() if is_interrupted else set()
    attributes = {**run.attributes, schema.INTERRUPTED: int(is_interrupted or run.is_cut)}
    if len(plans) > 1:
        attributes["tables"] = list(plans)
    if missing:
        attributes[schema.MISSING] = ", ".join(sorted(missing))
    if missing - {schema.LOG_LIKELIHOOD}:
        errors.warn(
            "An interrupted result keeps the draws of the parameters that were made before it "
            f"was completed. Got: an interruption before {attributes[schema.MISSING]}.",
            errors.IncompleteWarning,
        )
    labels, posterior = completion.labels(), completion.posterior
    result = build(model, posterior, labels, run.stats, attributes, precision=storage.precision)
    if checks and not is_interrupted:
        try:
            check_convergence(posterior, run.stats[schema.SAMPLE_STATS], model)
            if len(plans) == 1:
                warn_of_collapse(result, next(iter(plans.values())).observation)
        except KeyboardInterrupt:
            accept()
            result.attrs[schema.INTERRUPTED] = 1
    return result
