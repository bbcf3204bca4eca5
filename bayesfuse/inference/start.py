"""Where every fit begins: a cheap estimate of the labels, polished by a handful of EM steps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayesfuse.errors import ImpossibleDataError, ModelError, MomentsError
from bayesfuse.inference import em, spectral
from bayesfuse.inference.em import Priors, Rest
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import shares
from bayesfuse.observation import Observation, Rows, Spread

DEFAULT = "moments"

METHODS = ("moments", "majority", "prior")

STEPS_OF_ALL = 5  # EM steps with all partitions, after a start from the first one
POLISH = 20
"""EM steps given to every candidate: enough to leave a bad estimate, far from convergence."""


@dataclass(frozen=True)
class Start:
    """Where a fit begins: rows or the user's values, the winning method, and the others."""

    rows: Rows
    method: str
    polished: dict[str, em.PointFit] = field(default_factory=dict)
    left_out: str = ""
    values: dict[str, Any] | None = None

    def record(self) -> dict[str, Any]:
        """Say it in attributes that NetCDF can hold."""
        said: dict[str, Any] = {"start": self.method}
        for name, fit in self.polished.items():
            said[f"start_log_evidence_{name}"] = fit.log_evidence
            said[f"start_log_posterior_{name}"] = float(fit.trace[-1])
        return said | ({"start_without_moments": self.left_out} if self.left_out else {})


CLIMB = 100  # gradient steps at most to where given labels, or given leaves, put other variables


def find_start(
    observation: Observation, priors: Priors, method: str = DEFAULT, rest: Rest | None = None
) -> Start:
    """Choose a start by the posterior density after a few EM steps: likelihoods know no names."""
    if isinstance(observation, Spread):
        begun = find_start(observation.pilot, priors, method, rest)
        fit = em.fit(observation, begun.rows, priors, iterations=STEPS_OF_ALL)
        rows = settle(observation, fit.rows, priors)
        return replace(begun, rows=rows, polished=begun.polished | {"all_partitions": fit})
    if method not in METHODS:
        raise ModelError(
            f"start must be one of {list(METHODS)} (or, in bf.sample, a mapping of variable names "
            f"to values). Got: {method!r}."
        )
    middle = em.centre(priors)
    if rest is not None:
        middle, rest = rest.begin(middle), rest.only(upper=False)
    if method == "prior":
        return Start(middle, method)

    def polish(share: Array) -> em.PointFit:
        counts = observation.expected_given(share, middle)
        rows = em.updated(observation, middle, counts, priors, rest, "expect")
        rows = rows if rest is None else rest.climb(rows, counts, CLIMB)
        return em.fit(observation, rows, priors, rest=rest, iterations=POLISH)

    polished, left_out = {}, ""
    if method == "moments":
        try:
            share = spectral.label_probabilities(observation, priors, middle)
            polished["moments"] = polish(share)
        except (MomentsError, ImpossibleDataError) as error:
            left_out = str(error)
    polished["majority"] = polish(majority(observation))
    best = max(polished, key=lambda name: polished[name].trace[-1])
    rows = settle(observation, polished[best].rows, priors, rest)
    return Start(rows, best, polished, left_out)


def majority(observation: Observation) -> Array:
    """Return the shares of the votes, known labels in their place: (table items, classes)."""
    table = observation.table
    share = shares(observation.raters.votes(table), 1 / table.n_classes)
    gold = np.flatnonzero(observation.gold >= 0)
    share[observation.inverse[gold]] = np.eye(table.n_classes)[observation.gold[gold]]
    return share


def settle(observation: Observation, rows: Rows, priors: Priors, rest: Rest | None = None) -> Rows:
    """Replace modes, perhaps on the boundary, by means given expected counts."""
    _, counts = observation.expected(rows)
    rows = em.updated(observation, rows, counts, priors, rest, "inside")
    return rows if rest is None else rest.only(upper=True).climb(rows, counts, CLIMB)
