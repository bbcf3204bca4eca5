"""The start of every fit: a cheap estimate of the labels, refined by some EM steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ImpossibleDataError, ModelError, MomentsError, require_choice
from bayesfuse.inference import em
from bayesfuse.inference.em import Nonconjugate, Priors
from bayesfuse.moments.views import from_teams, incidence
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import shares
from bayesfuse.observation import LogParameters, ResponseModel, through_matrices
from bayesfuse.parameters.contract import Role
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.priors import WEIGHT
from bayesfuse.results import schema

DEFAULT = "moments"

STEPS_OF_ALL = 5  # EM steps with all partitions, after a start from the first one
POLISH = 20  # EM steps of every candidate: enough to leave a bad estimate, far from convergence
MAX_CLIMB = 100  # gradient steps of other variables, given the labels at the start
DIVISIONS = 40  # of raters into teams; those of low posterior density are left out
MANY_CLASSES = 10  # more classes have fewer divisions, whose cost is the fourth power of classes
MANY_RESPONSES = 50_000  # more have fewer divisions, down to a quarter: their moments are precise
FIRST_STEPS = 10  # EM steps of every division; then twice as many of the best quarter, and so on
FIRST_CHUNK = 200_000  # of more responses, divisions are compared on a sample of the items
UNIFORM = 0.03  # share of uniform responses mixed into rows, whose zeros would be certainties
TIE = 1e-3  # nats for correct responses, which decide between equally probable permutations


@dataclass(frozen=True)
class Start:
    """Log parameters at which a fit begins, the method chosen, and all candidates after EM."""

    rows: LogParameters
    method: str
    polished: dict[str, em.PointFit] = field(default_factory=dict)
    left_out: str = ""

    def record(self) -> dict[str, Any]:
        """Return the start as attributes that NetCDF can hold."""
        record: dict[str, Any] = {"start": self.method}
        for name, fit in self.polished.items():
            record[f"start_log_evidence_{name}"] = fit.log_evidence
            record[f"start_log_posterior_{name}"] = float(fit.trace[-1])
        return record | ({"start_without_moments": self.left_out} if self.left_out else {})


def find_start(
    observation: ResponseModel,
    priors: Priors,
    method: str | xr.DataTree = DEFAULT,
    nonconjugate: Nonconjugate | None = None,
) -> Start:
    """Choose the start with the highest posterior density after a few EM steps.

    The likelihood alone is invariant to permutations of the classes. ``method`` may be a result,
    whose label probabilities are then the only candidate.
    """
    if observation.first_chunk is not observation:
        initial = find_start(observation.first_chunk, priors, method, nonconjugate)
        fit = em.fit(observation, initial.rows, priors, iterations=STEPS_OF_ALL)
        rows = move_off_boundary(observation, fit.rows, priors)
        return replace(initial, rows=rows, polished=initial.polished | {"all_partitions": fit})
    middle = em.centre(priors)
    if nonconjugate is not None:
        middle, nonconjugate = nonconjugate.begin(middle), nonconjugate.only(hyperparameters=False)
    if not isinstance(method, xr.DataTree):
        require_choice("start", method, "moments", "majority", "prior")
        if method == "prior":
            return Start(middle, method)

    def polish(share: Array) -> em.PointFit:
        counts = observation.counts_from_labels(share, middle)
        rows = em.updated(observation, middle, counts, priors, nonconjugate, "expect")
        rows = rows if nonconjugate is None else nonconjugate.climb(rows, counts, MAX_CLIMB)
        return em.fit(observation, rows, priors, nonconjugate=nonconjugate, iterations=POLISH)

    polished, left_out = {}, ""
    if isinstance(method, xr.DataTree):
        polished["result"] = polish(labels_of(method, observation))
    else:
        if method == "moments":
            try:
                polished["moments"] = polish(by_moments(observation, priors, middle))
            except (MomentsError, ImpossibleDataError) as error:
                left_out = str(error)
        polished["majority"] = polish(majority(observation))
    best = max(polished, key=lambda name: polished[name].trace[-1])
    rows = move_off_boundary(observation, polished[best].rows, priors, nonconjugate)
    return Start(rows, best, polished, left_out)


def majority(observation: ResponseModel) -> Array:
    """Return vote shares, or the known labels: (table items, classes)."""
    table = observation.table
    share = shares(observation.raters.votes(table), 1 / table.n_classes)
    gold = np.flatnonzero(observation.gold >= 0)
    share[observation.inverse[gold]] = np.eye(table.n_classes)[observation.gold[gold]]
    return share


def labels_of(result: xr.DataTree, observation: ResponseModel) -> Array:
    """Return the label probabilities of a result, (table items, classes)."""
    if schema.LABEL_POSTERIOR not in result.children:
        raise ModelError(
            "A result at which a fit starts has the group label_posterior. Got: "
            f"{sorted(result.children)}."
        )
    labels = result[schema.LABEL_POSTERIOR].dataset["probability"]
    responses = observation.responses
    number = pd.Index(labels["item"].values).get_indexer(responses.items)
    if (number < 0).any() or labels["class"].values.tolist() != responses.classes.tolist():
        raise ModelError(
            "A result at which a fit starts has label probabilities of the same items and classes. "
            f"Got: {(number < 0).sum():,} items that it lacks, and classes "
            f"{labels['class'].values.tolist()}."
        )
    probability: Array = labels.transpose("item", "class").values[number]
    return probability[observation.firsts]


def move_off_boundary(
    observation: ResponseModel,
    rows: LogParameters,
    priors: Priors,
    nonconjugate: Nonconjugate | None = None,
) -> LogParameters:
    """Replace modes, perhaps on the boundary, by means given expected counts."""
    _, counts = observation.expected(rows)
    rows = em.updated(observation, rows, counts, priors, nonconjugate, "interior")
    return (
        rows
        if nonconjugate is None
        else nonconjugate.only(hyperparameters=True).climb(rows, counts, MAX_CLIMB)
    )


def by_moments(observation: ResponseModel, priors: Priors, middle: LogParameters) -> Array:
    """Estimate label probabilities (table items, classes) from the moments of teams of raters.

    Every random division of the raters into three teams gives confusion matrices up to a
    permutation of the classes (Leurgans, Ross & Abel 1993), which the prior and known labels
    determine. The division with the highest density after EM is used. ``middle`` are typical values
    of all parameters.
    """
    table = observation.table
    if observation.labels.capabilities.adds_states:
        raise MomentsError(
            "Moments need raters who answer the same items, which those of different labels do "
            f"not. Got: {type(observation.labels).__name__}."
        )
    gold = observation.table_gold
    prior = _prior(observation, priors, middle)
    rng = np.random.default_rng(0)
    size = min(table.n_items, round(table.n_items * FIRST_CHUNK / max(table.n_responses, 1)))
    sampled = np.sort(rng.choice(table.n_items, max(size, 1), replace=False))
    sample_model = through_matrices(table.take(sampled), gold[sampled])
    points = list(_estimates(sample_model, prior, rng))
    if not points:
        raise MomentsError(
            "Moments need three teams of raters who answer the same items and tell the classes "
            f"apart. Got: none in {_divisions(sample_model.table)} divisions of "
            f"{np.count_nonzero(table.per_rater)} raters with responses."
        )
    steps = FIRST_STEPS
    while len(points) > 1:
        fits = [em.fit(sample_model, rows, prior, iterations=steps) for rows in points]
        fits.sort(key=lambda fit: -fit.trace[-1])
        points = [fit.rows for fit in fits[: -(-len(fits) // 4)]]
        steps *= 2
    response_model = through_matrices(table, gold)
    return response_model.by_item(response_model.marginal(points[0]).probability)


def _prior(
    observation: ResponseModel, priors: Priors, middle: LogParameters
) -> dict[str, Dirichlet]:
    """Return Dirichlet priors of prevalence and confusion, those of the model where it has them."""
    n_classes = observation.table.n_classes
    confusion = priors.get(observation.raters.named(Role.ANSWERS) or "")
    if not isinstance(confusion, Dirichlet):
        tables = observation.tables(middle)
        rows = observation.raters.confusion(tables, n_classes, np)
        confusion = Dirichlet((n_classes + WEIGHT) * rows)
    prevalence = priors.get(observation.labels.named(Role.CLASS_SHARES) or "")
    if not isinstance(prevalence, Dirichlet):
        prevalence = Dirichlet(np.ones(n_classes))
    # permutations are compared class by class, for which a mixture over classes is no product
    prevalence = Dirichlet(prevalence.at(prevalence.centre()))
    return {"prevalence": prevalence, "confusion": confusion}


def _divisions(table: Responses) -> int:
    by_classes = DIVISIONS * MANY_CLASSES**2 // max(table.n_classes, MANY_CLASSES) ** 2
    by_responses = DIVISIONS * MANY_RESPONSES // max(table.n_responses, MANY_RESPONSES)
    return max(min(by_classes, max(by_responses, DIVISIONS // 4)), 4)


def _estimates(
    sample_model: ResponseModel, prior: dict[str, Dirichlet], rng: np.random.Generator
) -> Iterator[LogParameters]:
    """Yield the estimates of prevalence and confusion of random divisions of the raters."""
    table, gold = sample_model.table, sample_model.table_gold
    even = np.full(table.n_classes, -np.log(table.n_classes))
    known = (gold[:, None] == np.arange(table.n_classes)) * 1.0
    unknown = (gold < 0)[:, None]
    middle = em.centre(prior)
    gold_counts = sample_model.counts_from_labels(known, middle)
    prior = {name: prior[name] + gold_counts[name] for name in prior}
    used = incidence(table).tocsc()
    for _ in range(_divisions(table)):
        with np.errstate(all="ignore"):  # too few responses may leave numbers that are not finite
            confusion = from_teams(table, used, rng)
        if confusion is None or not np.isfinite(confusion).all():
            continue
        mixed = np.log((1 - UNIFORM) * confusion + UNIFORM / table.n_classes)
        share = sample_model.marginal({"prevalence": even, "confusion": mixed}).probability
        counts = sample_model.counts_from_labels(unknown * share, middle)
        order = order_of_classes(counts, prior)
        means = prior["confusion"] + counts["confusion"][:, order]
        shares_of = prior["prevalence"] + counts["prevalence"][order]
        yield {"prevalence": shares_of.centre(), "confusion": means.centre()}


def order_of_classes(counts: LogParameters, prior: dict[str, Any]) -> NDArray[np.int64]:
    """Return the most probable permutation of the estimated classes, rows integrated out."""
    from scipy.optimize import linear_sum_assignment  # half a second to import

    n_classes = counts["prevalence"].size
    gain = scipy.special.gammaln(
        prior["prevalence"].concentration[:, None] + counts["prevalence"]
    )  # (class, estimated)
    for j in range(n_classes):
        total = prior["confusion"] + counts["confusion"][:, [j]]
        gain[:, j] += total.log_beta().sum(axis=0)
    right = counts["confusion"].sum(axis=0).T  # (class, estimated): number of correct responses
    gain += TIE * right / max(right.sum(), 1.0)
    # the normalising constant of the prior is the same for every permutation
    return linear_sum_assignment(gain, maximize=True)[1]
