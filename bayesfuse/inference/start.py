"""Where every fit begins: a cheap estimate of the labels, polished by a handful of EM steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesfuse.errors import ModelError
from bayesfuse.inference import em
from bayesfuse.observation import Observation, Rows
from bayesfuse.simplex import Array, draw_dirichlet

DEFAULT = "majority"

POLISH = 20
"""EM steps given to every candidate: enough to leave a bad estimate, far from convergence."""


@dataclass(frozen=True)
class Start:
    """Where a fit begins: ``rows``, the ``method`` that won, every candidate's log evidence.

    ``values`` holds the user's own starting values where they gave some instead.
    """

    rows: Rows
    method: str
    log_evidence: dict[str, float]
    values: dict[str, Any] | None = None

    def record(self) -> dict[str, Any]:
        """Say it in attributes that NetCDF can hold."""
        candidates = {f"start_log_evidence_{name}": x for name, x in self.log_evidence.items()}
        return {"start": self.method, **candidates}


def find_start(observation: Observation, concentration: Rows, method: str = DEFAULT) -> Start:
    """Choose a starting point by the marginal likelihood after a few EM steps.

    Parameters
    ----------
    observation : Observation
    concentration : dict of ndarray
        Dirichlet concentrations of all rows.
    method : {"majority", "prior"}
        Which candidates compete; majority vote always does, unless the prior mean is asked for.

    Returns
    -------
    Start
    """
    if method not in CANDIDATES:
        raise ModelError(f"start must be one of {sorted(CANDIDATES)}, or values. Got: {method!r}.")
    if method == "prior":
        return Start(_mean(concentration), method, {})
    polished = {
        name: em.fit(
            observation, propose(observation, concentration), concentration, iterations=POLISH
        )
        for name, propose in ((name, CANDIDATES[name]) for name in _competing(method))
    }
    best = max(polished, key=lambda name: polished[name].log_evidence)
    rows = settle(observation, polished[best].rows, concentration)
    return Start(rows, best, {name: fit.log_evidence for name, fit in polished.items()})


def _competing(method: str) -> tuple[str, ...]:
    return ("majority",) if method == "majority" else (method, "majority")


def majority(observation: Observation, concentration: Rows) -> Rows:
    """Take the shares of the votes as label probabilities."""
    table = observation.table
    votes = table.votes().astype(float)
    total = votes.sum(axis=1, keepdims=True)
    share = np.divide(votes, total, out=np.full_like(votes, 1 / table.n_classes), where=total > 0)
    gold = np.flatnonzero(observation.gold >= 0)
    share[observation.inverse[gold]] = np.eye(table.n_classes)[observation.gold[gold]]
    return from_labels(observation, share, concentration)


def from_labels(observation: Observation, probability: Array, concentration: Rows) -> Rows:
    """Return the posterior mean rows if the labels had these probabilities (items, classes)."""
    weight = probability * observation.table.multiplicity[:, None]
    counts = observation.tally(_mean(concentration), weight, np.random.default_rng(0))
    return _mean({name: alpha + counts[name] for name, alpha in concentration.items()})


def settle(observation: Observation, rows: Rows, concentration: Rows) -> Rows:
    """Replace a mode, which may lie on the boundary, by the mean given its expected counts."""
    _, counts = observation.expected(rows)
    least = np.finfo(float).tiny  # counts that are derivatives may be negative
    return _mean(
        {
            name: np.where(alpha > 0, np.maximum(alpha + counts[name], least), 0.0)
            for name, alpha in concentration.items()
        }
    )


def disperse(
    observation: Observation, rows: Rows, concentration: Rows, rng: np.random.Generator
) -> Rows:
    """Draw labels given the rows, and rows given the labels: as far apart as the posterior is."""
    drawn = observation.draw(rows, rng)
    counts = observation.tally(rows, drawn, rng)
    return {
        name: draw_dirichlet(alpha + counts[name], rng) for name, alpha in concentration.items()
    }


def _mean(concentration: Rows) -> Rows:
    with np.errstate(divide="ignore"):  # a concentration of zero: an entry that is always zero
        return {
            name: np.log(alpha / alpha.sum(axis=-1, keepdims=True))
            for name, alpha in concentration.items()
        }


CANDIDATES: dict[str, Callable[[Observation, Rows], Rows]] = {
    "majority": majority,
    "prior": lambda observation, concentration: _mean(concentration),
}
"""Estimates by name; the best of those that compete is where the fit starts."""
