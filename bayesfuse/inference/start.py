"""Where every fit begins: a cheap estimate of the labels, polished by a handful of EM steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayesfuse.errors import ImpossibleDataError, ModelError, MomentsError
from bayesfuse.inference import em, spectral
from bayesfuse.inference.em import Priors
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import shares
from bayesfuse.observation import Observation, Rows
from bayesfuse.parameters.contract import draw_all

DEFAULT = "moments"

METHODS = ("moments", "majority", "prior")

POLISH = 20
"""EM steps given to every candidate: enough to leave a bad estimate, far from convergence."""


@dataclass(frozen=True)
class Start:
    """Where a fit begins: ``rows``, and the ``method`` that won.

    ``polished`` holds what EM made of every candidate, ``left_out`` why the moments did not
    compete, ``values`` the user's own starting values where they gave some instead.
    """

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


def find_start(observation: Observation, priors: Priors, method: str = DEFAULT) -> Start:
    """Choose a starting point by the posterior density after a few EM steps.

    Parameters
    ----------
    observation : Observation
    priors : dict of Prior
        Of every parameter.
    method : {"moments", "majority", "prior"}
        "moments" lets an estimate from spectral moments compete with majority vote, which is there
        whenever the moments are not: too few raters or responses are no error. The other two are
        majority vote alone, and the prior mean, not polished.

    Returns
    -------
    Start

    Raises
    ------
    ModelError
        No such method.
    ImpossibleDataError
        The prior or the gold labels rule out some item's responses.

    Notes
    -----
    The density counts the prior of the parameters, up to a constant, besides the likelihood of the
    responses. That alone does not tell a labelling from its permutations, one of which puts most
    raters in the wrong.
    """
    if method not in METHODS:
        raise ModelError(
            f"start must be one of {list(METHODS)} (or, in bf.sample, a mapping of variable names "
            f"to values). Got: {method!r}."
        )
    if method == "prior":
        return Start(em.centre(priors), method)

    def polish(share: Array) -> em.PointFit:
        rows = from_labels(observation, share, priors)
        return em.fit(observation, rows, priors, iterations=POLISH)

    polished, left_out = {}, ""
    if method == "moments":
        try:
            share = spectral.label_probabilities(observation, priors)
            polished["moments"] = polish(share)
        except (MomentsError, ImpossibleDataError) as error:
            left_out = str(error)
    polished["majority"] = polish(majority(observation))
    best = max(polished, key=lambda name: polished[name].trace[-1])
    rows = settle(observation, polished[best].rows, priors)
    return Start(rows, best, polished, left_out)


def majority(observation: Observation) -> Array:
    """Return the shares of the votes, known labels in their place: (table items, classes)."""
    table = observation.table
    share = shares(observation.raters.votes(table), 1 / table.n_classes)
    gold = np.flatnonzero(observation.gold >= 0)
    share[observation.inverse[gold]] = np.eye(table.n_classes)[observation.gold[gold]]
    return share


def from_labels(observation: Observation, probability: Array, priors: Priors) -> Rows:
    """Return where the parameters would be if the labels had these probabilities."""
    middle = em.centre(priors)
    counts = observation.expected_given(probability, middle)
    statistics = observation.statistics(middle, counts)
    return {name: prior.expect(statistics[name], middle[name]) for name, prior in priors.items()}


def settle(observation: Observation, rows: Rows, priors: Priors) -> Rows:
    """Replace a mode, which may lie on the boundary, by the mean given its expected counts."""
    _, counts = observation.expected(rows)
    statistics = observation.statistics(rows, counts)
    return {name: prior.inside(statistics[name], rows[name]) for name, prior in priors.items()}


def disperse(
    observation: Observation, rows: Rows, priors: Priors, rng: np.random.Generator
) -> Rows:
    """Draw labels given the rows, and all parameters given the labels.

    That is as far apart as the posterior is. It is also a sweep of the Gibbs sampler, for which
    ``priors`` holds those of parameters that the channel draws itself, too.
    """
    drawn = observation.draw(rows, rng)
    found, statistics = observation.redraw(rows, drawn, priors, rng)
    others = {name: prior for name, prior in priors.items() if name in statistics and prior.free}
    return found | draw_all(others, statistics, rows, rng)
