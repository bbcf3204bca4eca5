"""Variables behind the prevalence of every item: populations, covariates, a classifier."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from bayesfuse import priors
from bayesfuse.data.arrays import shown
from bayesfuse.data.known import read_classifier, read_covariates, read_populations
from bayesfuse.data.names import listed
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_shape
from bayesfuse.labels.independent import Independent, ItemRows, log_word
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.item_log_odds import SCALES, ItemLogOdds

# shape and rate of the gamma prior of standard deviations of differences
SLOPE_SCALE = 2.0, 2.0  # of slopes
SHIFT_SCALE = 2.0, 2.0  # of populations' shifts
# names of the class shares of average items, without and with populations
SHARE = {False: "average_prevalence", True: "population_prevalence"}
ROLES = "population_shift", "standard_slope", *SCALES  # variables that move log-odds
DEPENDENT = 1e-8  # share of a column that others leave unexplained, below which it is a copy


@dataclass(frozen=True)
class KnownOfItems:
    """Inputs of kinds of items, the kinds, and variables that move their log-odds."""

    log_odds: ItemLogOdds
    kind: NDArray[np.int64]
    variables: dict[str, Any]


def independent_labels(responses: Responses, prevalence_prior: Any, *known: Any) -> Independent:
    """Register ``prevalence`` given populations, covariates and classifier (or None each)."""
    needs, populations = _needs(known), known[0]
    number, dims = None, ["class"]
    if populations is None:
        concentration = priors.prevalence(prevalence_prior, responses)
        if not needs:
            return Independent(pm.Dirichlet("prevalence", concentration, dims="class"))
    else:
        names, number = _populations(responses, populations)
        dims = ["population", "class"]
        concentration = _by_population(prevalence_prior, names, responses)
    share = pm.Dirichlet(SHARE[populations is not None], concentration, dims=dims)
    return _labels(responses, needs, share, number, known)[0]


def tilted_labels(
    responses: Responses, share: Any, *known: Any
) -> tuple[Independent, KnownOfItems | None]:
    """As :func:`independent_labels`, where ``share`` (classes,) follows from other variables."""
    needs, populations = _needs(known), known[0]
    if not needs:
        return Independent(pm.Deterministic("prevalence", share, dims="class")), None
    share = pm.Deterministic(SHARE[False], share, dims="class")
    number, n_populations = None, 0
    if populations is not None:
        names, number = _populations(responses, populations)
        n_populations = len(names)
        spread = pm.Gamma("population_scale", *SHIFT_SCALE)
        shift = _contrasts("population_shift", spread, ("population", "class"))
        share = pt.special.softmax(pt.log(share) + shift, axis=1)
        share = pm.Deterministic(SHARE[True], share, dims=("population", "class"))
    labels, rows = _labels(responses, needs, share, number, known)
    if rows is None:
        rows = ItemRows(np.asarray(number), np.arange(n_populations), None, None)
    log_odds = ItemLogOdds(
        n_kinds=rows.n_kinds,
        n_classes=responses.n_classes,
        population=rows.population,
        n_populations=n_populations,
        covariates=rows.covariates,
        classifier=rows.word,
        prior=(SHIFT_SCALE, SLOPE_SCALE),
    )
    model = pm.modelcontext(None)
    named = {role: model.named_vars.get(model.name_for(role)) for role in ROLES}
    members = {role: variable for role, variable in named.items() if variable is not None}
    return labels, KnownOfItems(log_odds, rows.kind, members)


def _needs(known: tuple[Any, ...]) -> tuple[str, ...]:
    names = zip(("populations", "covariates", "classifier"), known, strict=True)
    return tuple(name for name, value in names if value is not None)


def _labels(
    responses: Responses, needs: Any, share: Any, number: Any, known: Any
) -> tuple[Independent, ItemRows | None]:
    """Return the label prior of items with these populations, covariates and probabilities."""
    rows = None
    if needs == ("populations",):
        labels = Independent(share, population=number)
    else:
        rows, slope, scale = _known_rows(responses, number, *known[1:])
        log_odds = rows.log_odds(share, slope, scale, pt)
        labels = Independent(log_odds=log_odds, population=rows.kind)
        labels.inputs = rows.inputs
    labels.needs = needs
    values = tuple(labels.parameters.values())
    overall = labels.prevalence(values, responses.n_classes, labels.structure(responses), pt)
    pm.Deterministic("prevalence", overall, dims="class")
    return labels, rows


def _populations(responses: Responses, populations: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the names of the populations and the number of every item's; register both."""
    names, number = read_populations(responses.items, populations)
    pm.modelcontext(None).add_coord("population", listed(names))
    pm.Data("population_index", number, dims="item")
    return names, number


def _by_population(prior: Any, names: NDArray[Any], responses: Responses) -> Array:
    """Return concentrations (populations, classes) of a prior for all, for each, or by name."""
    rows = [prior] * len(names)
    if isinstance(prior, Mapping):
        known = names.tolist()
        if unknown := [name for name in prior if name not in known]:
            raise ModelError(
                f"prevalence_prior must name populations, of {known}. Got: {unknown[0]!r}."
            )
        rows = [prior.get(name) for name in known]
    elif np.ndim(prior) == 2:
        axes = {"populations": len(names), "classes": responses.n_classes}
        require_shape("prevalence_prior", np.shape(prior), **axes)
        rows = prior
    return np.stack([priors.prevalence(row, responses) for row in rows])


def _known_rows(
    responses: Responses, number: Any, covariates: Any, classifier: Any
) -> tuple[ItemRows, Any, Any]:
    """Return the inputs of items, equal ones merged, and their slopes and scale."""
    x = word = slope = scale = None
    if covariates is not None:
        x = _standardised(responses, covariates)
        spread = pm.Gamma("slope_scale", *SLOPE_SCALE)
        slope = _contrasts("standard_slope", spread, ("covariate", "class"))
        against_first = slope[:, 1:] - slope[:, 0, None]
        sd = pm.modelcontext(None)["covariate_sd"]
        pm.Deterministic("slope", against_first / sd[:, None], dims=("covariate", "other_class"))
    if classifier is not None:
        word = log_word(read_classifier(responses, classifier))
        mean, _ = _moments(responses, word)
        pm.Data("classifier_mean", mean, dims="class")
        word = word - mean
        scale = pm.HalfNormal("classifier_scale", 1.0)
    return ItemRows.build(responses.n_items, number, x, word), slope, scale


def _contrasts(name: str, spread: Any, dims: tuple[str, str]) -> Any:
    """Return a variable that sums to zero over the classes, whose differences have a spread."""
    return pm.ZeroSumNormal(name, sigma=spread / math.sqrt(2.0), dims=dims)


def _moments(responses: Responses, table: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of columns over items, each with its multiplicity."""
    weight = responses.multiplicity / responses.multiplicity.sum()
    mean: Array = weight @ table
    return mean, np.sqrt(weight @ (table - mean) ** 2)


def _standardised(responses: Responses, covariates: Any) -> Array:
    """Return covariates of mean zero and standard deviation one, and register both moments."""
    names, table = read_covariates(responses, covariates)
    mean, sd = _moments(responses, table)
    is_constant = sd <= DEPENDENT * np.maximum(np.abs(mean), 1.0)
    sd = np.where(is_constant, 1.0, sd)  # a constant says nothing of any item
    standardised: Array = np.where(is_constant, 0.0, (table - mean) / sd)
    weight = responses.multiplicity / responses.multiplicity.sum()
    varying = [name for name, is_same in zip(names, is_constant, strict=True) if not is_same]
    columns = standardised[:, ~is_constant] * np.sqrt(weight)[:, None]
    residual_norm = np.zeros(len(varying))  # with more columns than items, the last have none
    diagonal = np.abs(np.diag(np.linalg.qr(columns, mode="r")))
    residual_norm[: len(diagonal)] = diagonal
    if collinear := [varying[j] for j in np.flatnonzero(residual_norm < DEPENDENT)]:
        raise ModelError(
            "Covariates must not be collinear, because their slopes are not identified: leave out "
            "redundant columns, such as one of a full set of indicators, or use principal "
            f"components. Got: {shown(collinear, 3)}, which follows from the columns before it."
        )
    model = pm.modelcontext(None)
    model.add_coord("covariate", names)
    model.add_coord("other_class", listed(responses.classes)[1:])
    pm.Data("covariate_mean", mean, dims="covariate")
    pm.Data("covariate_sd", sd, dims="covariate")
    return standardised
