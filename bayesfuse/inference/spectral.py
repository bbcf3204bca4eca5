"""Label probabilities from spectral moments, to be compared with majority vote where fits begin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from bayesfuse import priors as defaults
from bayesfuse.errors import MomentsError
from bayesfuse.inference import em
from bayesfuse.inference.em import Priors
from bayesfuse.moments.views import from_teams, incidence
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Rows, through_matrices
from bayesfuse.parameters.contract import Role
from bayesfuse.parameters.dirichlet import Dirichlet, RowPrior

DIVISIONS = 40  # ways to divide raters into teams; the posterior density tells which are bad
MANY_CLASSES = 10  # above, there are fewer divisions: each costs the fourth power of the classes
POLISH = 10  # EM steps for every division; then twice as many for the best quarter, and so on
PILOT = 200_000  # of more responses, a sample of the items decides which division is best
UNIFORM = 0.03  # share of uniform responses mixed into rows, whose zeros would be certainties
TIE = 1e-3  # nats for all responses being right, which decides between equal names of classes


def label_probabilities(observation: Observation, priors: Priors, middle: Rows) -> Array:
    """Estimate label probabilities (table items, classes) from the moments of teams of raters.

    Random divisions of raters into three teams give confusion matrices (Leurgans, Ross & Abel
    1993), whose classes the prior and known labels name; the one from which EM reaches the highest
    posterior density wins. ``middle`` are all parameters at typical values.
    """
    table = observation.table
    gold = observation.table_gold
    prior = _prior(observation, priors, middle)
    rng = np.random.default_rng(0)
    size = min(table.n_items, round(table.n_items * PILOT / max(table.n_responses, 1)))
    sample = np.sort(rng.choice(table.n_items, max(size, 1), replace=False))
    pilot = through_matrices(table.take(sample), gold[sample])
    points = list(_estimates(pilot, prior, rng))
    if not points:
        raise MomentsError(
            "Moments need three teams of raters who answer the same items and tell the classes "
            f"apart. Got: none in {_divisions(table.n_classes)} divisions of "
            f"{np.count_nonzero(table.per_rater)} raters with responses."
        )
    steps = POLISH
    while len(points) > 1:
        fits = [em.fit(pilot, rows, prior, iterations=steps) for rows in points]
        fits.sort(key=lambda fit: -fit.trace[-1])
        points = [fit.rows for fit in fits[: -(-len(fits) // 4)]]
        steps *= 2
    whole = through_matrices(table, gold)
    return whole.by_item(whole.marginal(points[0]).probability)


def _prior(observation: Observation, priors: Priors, middle: Rows) -> dict[str, RowPrior]:
    """Return the model's own priors of these two, or what other parameters imply about them."""
    n_classes = observation.table.n_classes
    confusion = priors.get(observation.raters.named(Role.ANSWERS) or "")
    if not isinstance(confusion, RowPrior):
        tables = observation.tables(middle)
        weight = defaults.diagonal(n_classes).sum(axis=1, keepdims=True)
        confusion = Dirichlet(weight * observation.raters.confusion(tables, n_classes, np))
    prevalence = priors.get(observation.labels.named(Role.CLASS_SHARES) or "")
    if not isinstance(prevalence, RowPrior):
        prevalence = Dirichlet(np.ones(n_classes))
    # names are given to one class at a time, and a mixture over all classes is no product of such
    prevalence = Dirichlet(prevalence.at(prevalence.centre()))
    return {"prevalence": prevalence, "confusion": confusion}


def _divisions(n_classes: int) -> int:
    return max(DIVISIONS * MANY_CLASSES**2 // max(n_classes, MANY_CLASSES) ** 2, 4)


def _estimates(
    pilot: Observation, prior: dict[str, RowPrior], rng: np.random.Generator
) -> Iterator[Rows]:
    """Yield the rows that each division of the raters leads to."""
    table, gold = pilot.table, pilot.table_gold
    used = incidence(table).tocsc()
    even = np.full(table.n_classes, -np.log(table.n_classes))
    known = (gold[:, None] == np.arange(table.n_classes)) * table.multiplicity[:, None] * 1.0
    unknown = np.where(gold < 0, table.multiplicity, 0)[:, None]
    middle = em.centre(prior)
    seen = pilot.tally(middle, known, rng)
    prior = {name: prior[name] + seen[name] for name in prior}
    for _ in range(_divisions(table.n_classes)):
        with np.errstate(all="ignore"):  # too few responses may leave numbers that are not finite
            confusion = from_teams(table, used, rng)
        if confusion is None or not np.isfinite(confusion).all():
            continue
        mixed = np.log((1 - UNIFORM) * confusion + UNIFORM / table.n_classes)
        share = pilot.marginal({"prevalence": even, "confusion": mixed}).probability
        counts = pilot.tally(middle, unknown * share, rng)
        order = _names(counts, prior)
        yield em.centre(
            {
                "prevalence": prior["prevalence"] + counts["prevalence"][order],
                "confusion": prior["confusion"] + counts["confusion"][:, order],
            }
        )


def _names(counts: Rows, prior: dict[str, Any]) -> NDArray[np.int64]:
    """Return the most probable classes of the estimated ones, with the rows integrated out."""
    from scipy.optimize import linear_sum_assignment  # half a second to import

    n_classes = counts["prevalence"].size
    gain = scipy.special.gammaln(
        prior["prevalence"].concentration[:, None] + counts["prevalence"]
    )  # (class, estimated)
    for j in range(n_classes):
        total = prior["confusion"] + counts["confusion"][:, [j]]
        gain[:, j] += total.log_beta().sum(axis=0)
    right = counts["confusion"].sum(axis=0).T  # (class, estimated): how often these said that
    gain += TIE * right / max(right.sum(), 1.0)
    # (what the prior's normalisation adds is the same for every permutation)
    return linear_sum_assignment(gain, maximize=True)[1]
