"""Rows of graded raters, and rows of raters around a common mean (partial pooling)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayesfuse import priors
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_numbers, require_shape
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.contract import DRAWN
from bayesfuse.parameters.dirichlet import DirichletMixture
from bayesfuse.parameters.graded_rows import POSITION_GAP, PRIORS, GradedRows, even_positions
from bayesfuse.parameters.pool import SMALLEST, MeansOfGroups, Member, SharedMean
from bayesfuse.parameters.simplex import PROBABILITY, SIMPLEX
from bayesfuse.parameters.variables import LogRatio, dirichlet
from bayesfuse.raters.confusion import Confusion, OneCoin
from bayesfuse.raters.graded import Graded, graded_rows, require_ordered

LOG_NODES = 10  # log2 of the number of points at which the expected rows are evaluated


def graded_raters(responses: Responses, pooled: bool) -> tuple[Graded, GradedRows, Any]:
    """Register the variables of graded raters; return channel, pool and rows of a new rater."""
    require_ordered(responses)
    n_raters, n_classes = responses.n_raters, responses.n_classes
    members: dict[str, Member] = {}

    def add(variable: Any, support: Any = DRAWN) -> Any:
        members[variable.name.rpartition("::")[2]] = Member(variable, support)
        return variable

    by_role, means, spreads = {}, {}, {}
    for role, kind in (
        ("strictness", pm.Normal),
        ("threshold_gap", pm.LogNormal),
        ("precision", pm.LogNormal),
        ("guess_log_odds", pm.Normal),
    ):
        if role == "threshold_gap" and n_classes == 2:
            continue
        inner = ("gap",) if role == "threshold_gap" else ()
        mean, spread, of_means, of_spreads, _ = PRIORS[role]
        if pooled:
            of_mean = add(kind(f"{role}_mean", mean, of_means, dims=inner or None))
            spread = add(pm.HalfNormal(f"{role}_spread", of_spreads))
            mean = pt.log(of_mean) if kind is pm.LogNormal else of_mean
        by_role[role] = add(kind(role, mean, spread, dims=("rater", *inner)))
        means[role], spreads[role] = mean, spread
    positions = even_positions(n_classes)
    if n_classes > 2:
        shares = np.full(n_classes - 1, POSITION_GAP)
        share = add(dirichlet("position_gap", shares, dims="distance"), SIMPLEX)
        ends = pt.concatenate([pt.zeros(1), pt.cumsum(share)])
        positions = (n_classes - 1) * (ends - 0.5)
    positions = pm.Deterministic("position", pt.as_tensor(positions), dims="class")
    cuts = thresholds(by_role["strictness"], by_role.get("threshold_gap"), positions, n_classes)
    cuts = pt.specify_shape(cuts, (n_raters, n_classes - 1))
    pm.Deterministic("thresholds", cuts, dims=("rater", "threshold"))
    rate = pm.Deterministic("guess_rate", pm.math.sigmoid(by_role["guess_log_odds"]), dims="rater")
    rows = graded_rows(cuts, by_role["precision"], rate, positions=positions)
    rows = pm.Deterministic("confusion", rows, dims=("rater", "class", "answer"))
    pool = GradedRows(members, n_raters, n_classes, pooled, has_mode=not pooled)
    newcomer = pm.Deterministic(
        "confusion_mean", _newcomer(means, spreads, positions, n_classes), dims=("class", "answer")
    )
    return Graded.of_rows(rows), pool, newcomer


def names_of_thresholds(classes: Any) -> dict[str, list[str]]:
    """Return coordinates: a threshold lies between two classes, a gap between two thresholds."""
    names = [str(name) for name in classes.tolist()]
    between = [f"{one}|{other}" for one, other in pairwise(names)]
    return {"threshold": between, "gap": names[1:-1], "distance": between}


def thresholds(strictness: Any, gap: Any, positions: Any, n_classes: int) -> Any:
    """Return thresholds (…, classes − 1) whose mean shift is the strictness, (…,)."""
    middles = (positions[1:] + positions[:-1]) / 2
    if n_classes == 2:
        return strictness[..., None] + middles
    steps = pt.cumsum(gap * (middles[1:] - middles[:-1]), axis=-1)
    steps = pt.concatenate([pt.zeros_like(steps[..., :1]), steps], axis=-1)
    shift = strictness - (steps - middles).mean(axis=-1)
    return steps + shift[..., None]


def _newcomer(means: Any, spreads: Any, positions: Any, n_classes: int) -> Any:
    """Return the expected rows (classes, answers) of a rater without responses.

    Strictness is integrated in closed form, precision and gaps by a Sobol sequence. Entries are
    within .001 for up to ten classes; with spreads drawn from their prior, within .006.
    """
    node = _normal_nodes(n_classes - 1)
    gap = None
    if n_classes > 2:
        gap = pt.exp(means["threshold_gap"] + spreads["threshold_gap"] * node[:, 1:])
    cuts = thresholds(pt.as_tensor(means["strictness"]), gap, positions, n_classes)
    precision = pt.exp(means["precision"] + spreads["precision"] * node[:, 0])
    # noise and strictness are both normal
    precision = precision / pt.sqrt(1.0 + (precision * spreads["strictness"]) ** 2)
    # not `graded_rows`, which is slow at so many points where results are evaluated in Python
    z = precision[:, None, None] * (cuts[..., None, :] - positions[:, None])
    below = (0.5 * pt.erfc(-np.sqrt(0.5) * z)).mean(axis=0)  # (classes, cuts)
    ends = pt.zeros((n_classes, 1)), pt.ones((n_classes, 1))
    informed = pt.diff(pt.concatenate([ends[0], below, ends[1]], axis=1), axis=1)
    log_odds = means["guess_log_odds"] + spreads["guess_log_odds"] * node[:, 0]
    rate = pm.math.sigmoid(log_odds).mean()
    return (1.0 - rate) * informed + rate / n_classes


@cache
def _normal_nodes(n_columns: int) -> Array:
    """Return points of equal weight that stand for independent standard normals, (nodes, n)."""
    from scipy.special import ndtri  # both are slow to import
    from scipy.stats import qmc

    even = qmc.Sobol(n_columns, scramble=False).random_base2(LOG_NODES)
    return ndtri(even + 0.5 / len(even))


CONCENTRATION = 1.0, 0.1  # shape and rate of the gamma prior of concentrations


def pooled_raters(
    raters: str, prior: Any, responses: Responses
) -> tuple[Confusion | OneCoin, SharedMean]:
    """Register rows or accuracies around common ones; return their channel and prior."""
    n_classes, by_class = responses.n_classes, raters == "class"
    if raters == "confusion":
        _require_one(prior, {"classes": n_classes, "labels": n_classes})
        rows: Any = priors.confusion(prior, responses)
        rows_of_raters = shared_rows(
            "confusion", rows[0], CONCENTRATION, responses.n_raters, ("class",)
        )
        return Confusion(rows_of_raters[0]), rows_of_raters[1]
    classes = {"classes": n_classes} if by_class else {}
    outcomes = {priors.RIGHT_WRONG: 2}
    _require_one(prior, classes | outcomes, outcomes)
    accuracy = [
        rows_of_prior[0] for rows_of_prior in priors.accuracy(prior, responses, by_class=by_class)
    ]
    rows, dims = np.stack(accuracy, axis=-1), ("class",) if by_class else ()
    rows_of_raters = shared_shares("accuracy", rows, CONCENTRATION, responses.n_raters, dims)
    return OneCoin(rows_of_raters[0]), rows_of_raters[1]


def shared_shares(
    name: str,
    prior: Array,
    near: tuple[float, float],
    n_raters: int,
    dims: tuple[str, ...] = (),
    of: str = "rater",
) -> tuple[Any, SharedMean]:
    """Register probabilities (raters, …) around a common one with a beta prior (…, 2).

    ``of`` is the dimension of the rows, where these are not of raters.
    """
    prior = np.asarray(prior)
    mean = pm.Beta(f"{name}_mean", prior[..., 0], prior[..., 1], dims=dims or None)
    concentration = pm.Gamma(f"{name}_concentration", *near, dims=dims or None)
    base = [
        pt.alloc(pt.maximum(concentration * share, SMALLEST), n_raters, *prior.shape[:-1])
        for share in (mean, 1 - mean)
    ]
    share = pm.Beta(name, *base, dims=(of, *dims))
    members = {"mean": Member(mean, PROBABILITY), "concentration": Member(concentration, DRAWN)}
    return share, SharedMean(name, members, prior, *near, n_raters)


def shared_rows(
    name: str, prior: Array, near: tuple[float, float], n_raters: int, dims: tuple[str, ...] = ()
) -> tuple[Any, SharedMean]:
    """Register rows (raters, …, answers) around common ones with a Dirichlet prior (…, answers)."""
    mean = dirichlet(f"{name}_mean", prior, dims=(*dims, "answer"))
    concentration = pm.Gamma(f"{name}_concentration", *near, dims=dims or None)
    base = pt.maximum(concentration[..., None] * mean, SMALLEST)
    shape = n_raters, *np.shape(prior)
    rows = pm.Dirichlet(
        name,
        pt.alloc(base, *shape),
        dims=("rater", *dims, "answer"),
        default_transform=LogRatio(np.broadcast_to(prior, shape)),
    )
    members = {"mean": Member(mean, SIMPLEX), "concentration": Member(concentration, DRAWN)}
    return rows, SharedMean(name, members, prior, *near, n_raters)


def grouped_rows(
    name: str, prior: Array, near: tuple[float, float], n_rows: int, dims: tuple[str, str]
) -> tuple[Any, MeansOfGroups]:
    """Register rows in groups of ``n_rows`` around a mean of the group: (raters, classes, answers).

    ``prior`` (groups, classes, answers) is that of the means; ``dims`` are of groups and classes.
    """
    mean = dirichlet(f"{name}_mean", prior, dims=(*dims, "answer"))
    concentration = pm.Gamma(f"{name}_concentration", *near, dims=dims)
    base = pt.repeat(pt.maximum(concentration[..., None] * mean, SMALLEST), n_rows, axis=0)
    shape = (len(prior) * n_rows, *prior.shape[1:])
    rows = pm.Dirichlet(
        name,
        pt.specify_shape(base, shape),
        dims=("rater", dims[1], "answer"),
        default_transform=LogRatio(np.repeat(prior, n_rows, axis=0)),
    )
    members = {"mean": Member(mean, SIMPLEX), "concentration": Member(concentration, DRAWN)}
    return rows, MeansOfGroups(name, members, prior, *near, n_rows)


def _require_one(prior: Any, *shapes: Mapping[str, int]) -> None:
    """Raise ModelError unless a prior is None or the same for all raters, of one of the shapes."""
    if prior is None:
        return
    rule = (
        "With pooled=True all raters share one mean, so confusion_prior must be the concentrations "
        "of its prior, the same for all raters: no mapping, no mixture, no axis of raters. Got: "
    )
    if isinstance(prior, Mapping | DirichletMixture):
        raise ModelError(f"{rule}{type(prior).__name__}.")
    concentration: Array = require_numbers("confusion_prior", prior)
    if concentration.ndim > max(map(len, shapes)):
        raise ModelError(f"{rule}shape {concentration.shape}.")
    if concentration.shape not in [tuple(shape.values()) for shape in shapes]:
        require_shape("confusion_prior", concentration.shape, **shapes[0])
