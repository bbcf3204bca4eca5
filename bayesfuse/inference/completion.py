"""Labels and deterministics of draws, computed until they are complete or interrupted."""

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
from bayesfuse.observation.evaluate import check_convergence, evaluate, with_deterministics
from bayesfuse.results import joint_labels, schema
from bayesfuse.results.build import build
from bayesfuse.results.collapse import warn_of_collapse
from bayesfuse.results.draws import Draws
from bayesfuse.results.error_runs import warn_of_repeated_errors
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
    """Deterministics and labels of a run, missing where an interruption left them out."""

    def __init__(
        self, run: Run, model: pm.Model, plans: Mapping[str, Plan], log_likelihood: bool | None
    ) -> None:
        self.run, self.model, self.plans = run, model, plans
        self.posterior, self.log_likelihood = run.posterior, log_likelihood
        self.labels = {name: LabelSummary(plan.observation) for name, plan in plans.items()}
        if run.sums is not None:
            next(iter(self.labels.values())).add(run.sums)

    def advance(self, seconds: float, cores: int | None) -> None:
        """Compute what is missing, with labels of fewer draws if all take more ``seconds``."""
        with threads(cores):
            if not {v.name for v in self.model.deterministics} <= set(self.posterior):
                self.posterior = with_deterministics(self.model, self.posterior)
            if self.run.sums is not None and self.run.sums.drawn:
                return  # labels that were drawn cannot be computed again
            seconds /= 2 * len(self.plans)  # half for the probabilities, half for joint draws
            for name, plan in self.plans.items():
                values = evaluate(plan.model, self.posterior, plan.variables)
                if self.run.sums is None:
                    options: dict[str, Any] = {"log_likelihood": self.log_likelihood}
                    self.labels[name].compute(values, seconds=seconds, **options)
                self.labels[name].draw(values, self.posterior, seconds)

    def missing(self) -> set[str]:
        """Return the names of variables and groups that are expected, but not computed."""
        missing = {v.name for v in self.model.deterministics} - set(self.posterior)
        if self.run.sums is not None and self.run.sums.drawn:
            return missing
        for name, plan in self.plans.items():
            expected = {schema.LABEL_POSTERIOR}
            expected |= {schema.LOG_LIKELIHOOD} if self.log_likelihood else set()
            if joint_labels.max_stored_draws(plan.observation):
                expected.add(schema.LABEL_DRAWS)
            missing |= expected - self.labels[name].groups
        return missing


def complete(
    run: Run,
    model: pm.Model,
    plans: Mapping[str, Plan],
    storage: Storage,
    cores: int | None,
    *,
    checks: bool,
) -> xr.DataTree:
    """Return the result of a run, after an interruption within about a second.

    Label probabilities are then averaged over fewer draws; a second interruption leaves the rest
    out, with a warning.
    """
    several = len(plans) > 1
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
    if several:
        attributes["tables"] = list(plans)
    if missing:
        attributes[schema.MISSING] = ", ".join(sorted(missing))
    if missing - {schema.LOG_LIKELIHOOD}:
        what, call = "labels", "label_probabilities"
        if schema.LABEL_POSTERIOR not in missing:
            what, call = "joint draws of labels", "draw_labels"
        errors.warn(
            f"Parameters are kept, {what} are not computed: call bf.{call}(result, model). Got: an "
            "interruption.",
            errors.IncompleteWarning,
        )
    posterior = completion.posterior
    labels = completion.labels if several else next(iter(completion.labels.values()))
    result = build(model, posterior, labels, run.stats, attributes, precision=storage.precision)
    if checks and not is_interrupted:
        try:
            check_convergence(posterior, run.stats[schema.SAMPLE_STATS], model)
            if not several:
                observation = next(iter(plans.values())).observation
                warn_of_collapse(result, observation)
                warn_of_repeated_errors(result, model, observation)
        except KeyboardInterrupt:
            accept()
            result.attrs[schema.INTERRUPTED] = 1
    return result
