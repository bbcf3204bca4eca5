"""``bf.update``: a variational fit is continued by new responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse import errors
from bayesfuse.data.arrays import as_array, shown
from bayesfuse.data.gold_tables import read_gold
from bayesfuse.data.names import listed, places, unique_names
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.data.tables import Table, read_table
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.inference import cavi
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import interruptible
from bayesfuse.observation import LogParameters, ResponseModel, in_blocks
from bayesfuse.observation.evaluate import PRIOR, common_mean, kind
from bayesfuse.observation.model import one_against_rest
from bayesfuse.results import natural, schema
from bayesfuse.results.build import build
from bayesfuse.results.collapse import warn_of_collapse
from bayesfuse.results.contents import class_names, constants
from bayesfuse.results.fitted import Fitted, bind, confusion_at, from_result, with_classes
from bayesfuse.results.label_summary import LabelSummary
from bayesfuse.results.natural import DirichletPosterior

DERIVED = "confusion", "sensitivity", "specificity", "prevalence"  # follow from parameters


@explains_keywords
@interruptible
def update(
    result: xr.DataTree,
    responses: Table,
    *,
    gold: Any = None,
    sequences: Sequences | None = None,
    populations: Any = None,
    forgetting: float = 0.0,
    draws: int = 1000,
    random_seed: Any = None,
) -> xr.DataTree:
    """Update a variational fit with new responses: its distribution is the prior for them.

    Parameters
    ----------
    result : DataTree
        From ``bf.fit`` with ``method="cavi"`` (the default for conjugate models), or from
        ``bf.update``. It is not changed.
    responses : Responses, DataFrame or array
        Responses to new items, as tables of ``bf.fuse``, with classes of the result. Raters are
        matched by name; new ones get the prior of the fitted ones, if that was the same for all.
    gold, sequences, populations : optional
        Of new items: known classes, as in :func:`bayesfuse.fuse`, and what the model was given for
        the fitted ones, as in :func:`bayesfuse.predict`.
    forgetting : float, default 0
        Share of the earlier information that is discarded first, to follow raters who change.
    draws, random_seed : optional
        Number of independent draws from the new distribution, which itself is deterministic.

    Returns
    -------
    DataTree
        As ``bf.fit`` returns it, of all raters so far, new ones last. ``label_posterior`` and the
        data are of the new items; there is no ``log_likelihood``. ``elbo`` bounds the log evidence
        of the new responses given the earlier ones; ``batches`` is the number of tables so far.

    Raises
    ------
    ModelError, ImpossibleDataError
        The result holds no Dirichlet distributions; there are no responses, or they have been used
        already; unknown classes; new raters where the fitted ones had different priors; labels on
        a graph; parameters without a Dirichlet distribution that vary; factors of your own.

    Notes
    -----
    If q are the Dirichlet concentrations so far and p those of the prior, a batch is fitted by
    coordinate ascent under the prior p + (1 − ``forgetting``)(q − p): streaming variational Bayes,
    or a power prior. Earlier labels are not revised, so the first table should be large enough to
    distinguish the raters. An item of an earlier name counts as another; the same table is refused.

    References
    ----------
    Broderick, Boyd, Wibisono, Wilson & Jordan (2013), Streaming variational Bayes, NeurIPS, eq. 2.
    Ibrahim, Chen, Gwon & Chen (2015), The power prior, Statistics in Medicine 34, 3724–3749.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(400, 5, 2, accuracy=(0.8, 0.95), random_seed=1)
    >>> first, second = (made.responses.take(range(begin, begin + 200)) for begin in (0, 200))
    >>> fitted = bf.fit(bf.models.DawidSkene(first), random_seed=1)
    >>> result = bf.update(fitted, second, random_seed=1)
    >>> result.attrs["batches"], bf.label_probabilities(result).sizes["item"]
    (2, 200)
    """
    if not isinstance(responses, Responses):
        responses = read_table(responses, classes=class_names(result))[0]
    gold = read_gold(gold, responses)
    errors.require_count("draws", draws)
    forgetting = errors.require_number("forgetting", forgetting, most=1.0)
    rng = errors.require_seed(random_seed)
    dirichlets, fitted = natural.read(result), from_result(result)
    known = constants(result)
    prediction = json.loads(known.attrs[schema.PREDICTION])
    ordered = bool(known.attrs[schema.ORDERED_CLASSES])
    inputs = {"sequences": sequences, "populations": populations}
    observation, dirichlets, held = _bind_table(
        fitted, dirichlets, responses, ordered, inputs, gold
    )
    observation = _described_as(observation, result, prediction)
    digests = _with_digest(result["fit"].dataset[natural.DIGESTS].values, observation)
    prior = {name: value.fading(forgetting) for name, value in dirichlets.items()}
    fit = cavi.fit(in_blocks(observation), cavi.expected_log(prior), prior, held=held)
    if not fit.converged:
        errors.warn(
            "The bound of the log evidence was still rising when the update ended, so the labels "
            f"of the new items have not settled. Got: {len(fit.trace)} iterations.",
            errors.PoorFitWarning,
        )
    rows = cavi.draw_rows(fit.approximation, int(draws), rng)
    for name, value in held.items():  # does not vary
        rows[name] = np.broadcast_to(value, (int(draws), *np.shape(value)))
    values = {name: observation.support(name).from_kernel(rows[name])[None] for name in rows}
    posterior = _posterior(result, prediction["parameters"], observation, dirichlets, values)
    summary = LabelSummary(observation)
    summary.compute(values, log_likelihood=False)
    dirichlets = {
        name: replace(dirichlets[name], posterior=q) for name, q in fit.approximation.items()
    }
    groups = {schema.FIT: natural.fit_group(posterior, dirichlets, fit.trace, digests)}
    homes = [home for home in prediction["parameters"].values() if home and "constant" in home]
    if homes:
        groups[schema.CONSTANT_DATA] = known[[home["constant"] for home in homes]]
    attributes = {
        "method": "cavi",
        "converged": int(fit.converged),
        "iterations": len(fit.trace),
        "elbo": float(fit.trace[-1]),
        "forgetting": forgetting,
        "batches": len(digests),
    }
    updated = build(None, posterior, summary, groups, attributes)
    warn_of_collapse(updated, observation)
    return updated


def _with_digest(before: NDArray[Any], observation: ResponseModel) -> NDArray[Any]:
    """Return the digests of all tables, or raise ModelError if this one was added before."""
    digest = natural.digest(observation)
    if digest in before:
        raise errors.ModelError(
            "Every table counts once, else the same responses would count as new evidence; items "
            "that only share names with earlier ones need names of their own. Got: the responses "
            f"of batch {int(np.flatnonzero(before == digest)[0])} (the first is 0) again."
        )
    return np.append(before, digest)


def _bind_table(
    fitted: Fitted,
    dirichlets: dict[str, DirichletPosterior],
    responses: Responses,
    ordered: bool,
    inputs: Mapping[str, Any],
    gold: Mapping[Any, Any] | None,
) -> tuple[ResponseModel, dict[str, DirichletPosterior], LogParameters]:
    """Return new responses of all raters so far bound to a fit, its distributions, and the rest."""
    if "graph" in fitted.needs:
        raise errors.ModelError(
            "Batches must be independent given the parameters, as items or whole sequences are; "
            "labels on a graph depend on those of all other items. Got: a result of "
            f"{fitted.labels.__name__} labels."
        )
    if responses.n_items == 0 or not (responses.n_responses or responses.stated is not None):
        raise errors.ModelError(
            "A batch must have responses, because the fit learns from these alone. Got: "
            f"{responses.n_items} items without a response."
        )
    declared = {p.name: p for p in (*fitted.labels.declared, *fitted.raters.declared)}
    defaults: dict[str, Any] = {}
    values = {}
    for name, value in dirichlets.items():
        values[name] = declared[name].support.from_kernel(value.posterior.centre())[None, None]
        if declared[name].dims[:1] == ("rater",):  # rows to be replaced, or why there are none
            mean = common_mean(value.prior)
            defaults[name] = mean if isinstance(mean, str) else (values[name][0, 0, 0], PRIOR)
    for name, drawn in fitted.values.items():
        if name not in dirichlets:
            values[name] = drawn[:1, :1]
            if (drawn != values[name]).any():
                raise errors.ModelError(
                    "An update keeps parameters without a Dirichlet distribution fixed, so they "
                    f"must not vary: fit without sweeps=. Got: draws of {name} that vary."
                )
    raters, new = fitted.rater_names, places(as_array(responses.raters), fitted.rater_names) < 0
    if new.any():
        raters = unique_names([*listed(raters), *listed(responses.raters[new])], "rater")
    responses = _with_raters(raters, with_classes(responses, fitted.class_names))
    responses = replace(responses, ordered=ordered)
    point = replace(fitted, values=values, new_rater_defaults=defaults)
    observation, values, _ = bind(point, responses, inputs, gold)
    count = len(raters) - len(fitted.rater_names)
    dirichlets = {
        name: value.with_new_raters(count) if declared[name].dims[:1] == ("rater",) else value
        for name, value in dirichlets.items()
    }
    rows = observation.rows({name: value[0, 0] for name, value in values.items()})
    held = {name: rows[name] for name in rows if name not in dirichlets}
    return observation, dirichlets, held


def _with_raters(raters: NDArray[Any], responses: Responses) -> Responses:
    """Return the same responses in a table of all these raters."""
    if np.array_equal(raters, responses.raters):
        return responses
    if responses.silent is not None or responses.stated is not None:
        raise errors.ModelError(
            "Batches with silence or stated probabilities must have the sources of the fit, in "
            "their order, because a source that is not in the table was not asked: declare them "
            f"with raters=. Got: {shown(responses.raters)}, not {shown(raters)}."
        )
    place = places(as_array(responses.raters), raters)
    codes = responses.item, place[responses.rater], responses.label
    return responses.with_rows(*codes, raters=raters)


def _posterior(
    result: xr.DataTree,
    parameters: Mapping[str, Any],
    observation: ResponseModel,
    dirichlets: Mapping[str, DirichletPosterior],
    values: Mapping[str, Array],
) -> xr.Dataset:
    """Return draws of all variables, named as in the result before."""
    before = result["posterior"].dataset
    homes = {name: (where or {}).get("variable") for name, where in parameters.items()}
    updated = {variable: values[name] for name, variable in homes.items() if variable is not None}
    prefix = "".join(next(iter(dirichlets.values())).variable.rpartition("::")[:2])
    if wanted := {prefix + name for name in DERIVED} & set(before) - set(updated):
        derived = {
            prefix + name: values_of for name, values_of in _derived(observation, values).items()
        }
        updated |= {name: derived[name] for name in sorted(wanted)}
    variables = {name: (before[name].dims, values_of) for name, values_of in updated.items()}
    used = {dim for dims, _ in variables.values() for dim in dims}
    coords = {dim: before[dim].values for dim in used.intersection(before.coords)}
    coords |= {"rater": observation.responses.raters} if "rater" in used else {}
    draws = np.arange(next(iter(updated.values())).shape[1])
    return xr.Dataset(variables, coords | {"chain": [0], "draw": draws})


def _derived(observation: ResponseModel, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return deterministics of the parameters, by their names in models of this package."""
    names = observation.labels.parameters
    n_classes = observation.table.n_classes
    drawn = []
    for draw in range(next(iter(values.values())).shape[1]):
        point = {name: value[0, draw] for name, value in values.items()}
        label_values, structure = tuple(point[name] for name in names), observation.label_structure
        confusion = confusion_at(observation, observation.rows(point))
        share = observation.labels.prevalence(label_values, n_classes, structure, np)
        drawn.append((confusion, *one_against_rest(confusion, share, n_classes), share))
    columns = zip(*drawn, strict=True)
    return {name: np.array(value)[None] for name, value in zip(DERIVED, columns, strict=True)}


def _described_as(
    observation: ResponseModel, result: xr.DataTree, prediction: Mapping[str, Any]
) -> ResponseModel:
    """Return new responses under the names that the result has for those before."""
    prediction = {**prediction, "raters": kind(observation.raters)}
    observation = replace(observation, prediction=prediction)
    if "observed_data" not in result.children:  # of responses in partitions
        return observation
    (name, label), *_ = result["observed_data"].dataset.data_vars.items()
    return replace(observation, name=str(name), rows_name=str(label.dims[0]))
