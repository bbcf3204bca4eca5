"""Label probabilities of new items, by raters who are known from a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, plain, shown
from bayesfuse.data.item_tables import read_populations
from bayesfuse.data.names import places
from bayesfuse.data.responses import Responses, from_key
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ImpossibleDataError, ModelError, require_count, require_kind
from bayesfuse.labels.base import LabelPrior
from bayesfuse.observation import Observation
from bayesfuse.results.fitted import Fitted, from_model, from_result
from bayesfuse.results.posterior import add_constants, sum_up


def predict(
    result: xr.DataTree,
    responses: Responses,
    *,
    model: pm.Model | None = None,
    sequences: Sequences | None = None,
    graph: Any = None,
    populations: Any = None,
    covariates: Any = None,
    classifier: Any = None,
    draws: int = 400,
    batch_size: int = 100_000,
) -> xr.DataTree:
    r"""Predict the labels of new items from their responses, without fitting again.

    The parameters keep their posterior, and the labels of the new items follow by Bayes' rule,
    :math:`p(y \mid x, \theta)`, averaged over draws of :math:`\theta`. Neither the fitted responses
    nor, for the models of this package, the model are needed, so a result that was saved as a file
    is enough.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.find_map``, whose point counts as one draw.
    responses : Responses
        Responses to the new items. Classes must be classes of the result, some or all, in any
        order. Raters are known by name; for others see the notes.
    model : pymc.Model, optional
        The model of the result. Needed for label priors and rater channels of your own, and where
        the result does not hold a parameter.
    sequences : Sequences, optional
        The order of the new items, for models of labels in sequence.
    graph : Graph, optional
        Adjacency of the new items, for models of labels on a graph.
    populations, covariates, classifier : optional
        What is known about the new items, for models that were told it of the fitted ones:
        populations of the fit, covariates of the same names. As in
        :class:`bayesfuse.models.DawidSkene`; populations of sequences as in
        :class:`bayesfuse.models.HiddenMarkov`.
    draws : int, default 400
        Posterior draws, evenly spaced, the same number (rounded up) of every chain; all if there
        are fewer.
    batch_size : int, default 100,000
        Items at a time, in whole sequences. Items on a graph are treated at once.

    Returns
    -------
    DataTree
        ``label_posterior`` (``probability`` and, of several draws, the Monte Carlo error ``mcse``
        by item and class), so that ``bf.label_probabilities``, ``bf.decisions`` and the plots of
        labels work; ``raters``: ``source`` by rater, "fitted" if the result knows the rater, else
        "pool" or "prior"; ``constant_data`` and ``observed_data``, the responses. The attribute
        ``draws`` is the number of draws; those of ``label_posterior`` say whether labels were
        summed out exactly, and how.

    Raises
    ------
    ModelError
        Classes that the result does not know; new raters of a model that says nothing of them;
        what places the items (``sequences``, ``graph``, …) missing, or given in vain;
        parameters that the result does not hold; a model of another result.
    ImpossibleDataError
        Every draw rules out the responses to some item.
    ResponsesError
        Sequences or a graph of other items; populations that the result does not know, other
        covariates.

    Notes
    -----
    The new responses inform the labels of their own items only, not the parameters: new items are
    to be few, or like the fitted ones. Where the prevalence or the raters change, fit again.
    Sequences are new ones with the fitted transition; the coupling of a graph is that of the fit,
    so the new graph must have similar degrees.

    A rater without fitted responses has, at every draw, the expected row of a new rater: with
    ``pooled=True`` and in ``ItemTypes`` the mean of the pool, else the mean of the prior, if all
    raters have the same prior. The likelihood of an item is linear in the row of every response,
    so the expected row is exact for a rater who answers one item once. Several responses of such a
    rater would also inform the row, which is left out here.

    Draws that rule out the responses to an item (zeros in rows) do not count for the item.

    Examples
    --------
    Two patients after those of the fit, both seen by doctor 1, the second also by doctor 6, who is
    not among the fitted ones:

    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> point = bf.find_map(DawidSkene(bf.datasets.anesthesia()))
    >>> new = bf.Responses.from_long(
    ...     {"item": [46, 47, 47], "rater": [1, 1, 6], "label": [1, 2, 3]}
    ... )
    >>> prediction = bf.predict(point, new)
    >>> bf.label_probabilities(prediction).round(2).values.tolist()
    [[0.93, 0.07, 0.0, 0.0], [0.08, 0.92, 0.0, 0.0]]
    >>> prediction["raters"]["source"].values.tolist()
    ['fitted', 'prior']
    """
    require_kind("responses", responses, Responses)
    require_count("draws", draws)
    require_count("batch_size", batch_size)
    fitted = from_result(result) if model is None else from_model(result, model)
    told = {"sequences": sequences, "graph": graph, "populations": populations}
    given = _places(fitted, told | {"covariates": covariates, "classifier": classifier})
    fitted = fitted.thinned(int(draws))
    responses = _with_classes(responses, fitted.class_names)
    of_raters, index, source = fitted.of_raters(responses.raters)
    values: dict[str, Any] = {**of_raters}
    if "populations" in given:
        given["populations"] = _numbered(fitted, responses, values, given)
    if fitted.items is not None:
        known = (given.pop(name, None) for name in ("populations", "covariates", "classifier"))
        given["populations"], values["log_odds"] = fitted.items.rows(responses, *known)
    observation = _observe(fitted, responses, values, index, given)
    found = _label_posterior(observation, values, int(batch_size))
    tree = {
        "label_posterior": found,
        "raters": xr.Dataset({"source": ("rater", source)}, {"rater": responses.raters}),
    }
    predicted = xr.DataTree.from_dict(tree)
    add_constants(predicted, observation)
    predicted.attrs["draws"] = int(np.prod(fitted.sizes))
    return predicted


def _places(fitted: Fitted, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what places the new items, or raise ModelError if it is missing or given in vain."""
    labels = fitted.labels.__name__
    given = {name: each for name, each in given.items() if each is not None}
    if missing := [name for name in fitted.needs if name not in given]:
        raise ModelError(
            f"Labels depend on the {missing[0]} in this model, so those of the new items must be "
            f"known: give {missing[0]}=. Got: no {missing[0]}, for a result of {labels} labels."
        )
    if vain := [name for name in given if name not in fitted.needs]:
        raise ModelError(
            f"{vain[0]}= is for labels that depend on it; leave it out, or fit a model of such "
            f"labels. Got: {vain[0]} for a result of {labels} labels."
        )
    return given


def _numbered(
    fitted: Fitted, responses: Responses, values: Mapping[str, Any], given: Mapping[str, Any]
) -> NDArray[np.int64]:
    """Return the number of the population of every new item or sequence."""
    names, unit = fitted.population_names, fitted.labels.unit
    if names is None:  # a model of the user's own, which numbers them
        of_raters = {parameter.name for parameter in fitted.raters.declared}
        first = next(name for name in values if name not in of_raters)
        names = np.arange(values[first].shape[2])
    units = given["sequences"].names if unit == "sequence" else responses.items
    return read_populations(units, given["populations"], names, unit)[1]


def _with_classes(responses: Responses, classes: NDArray[Any]) -> Responses:
    """Return the same responses with the classes of a fit."""
    place = places(as_array(responses.classes), classes)
    if (place < 0).any():
        unknown = responses.classes[place < 0]
        raise ModelError(
            "Classes of new responses must be classes of the result, because nothing is known of "
            f"others. Got: {plain(unknown[0])!r} ({len(unknown)} such), which is not among "
            f"{shown(classes)}."
        )
    if np.array_equal(place, np.arange(len(classes))):
        return responses
    key = responses.item * responses.n_raters + responses.rater
    key = key * len(classes) + place[responses.label]
    table = from_key(key, responses.items, responses.raters, classes)
    stated = responses.stated
    if stated is not None:
        stated = stated.with_classes(place, len(classes))
    return replace(
        table, multiplicity=responses.multiplicity, silent=responses.silent, stated=stated
    )


def _observe(
    fitted: Fitted,
    responses: Responses,
    values: Mapping[str, Any],
    index: NDArray[np.int64],
    given: Mapping[str, Any],
) -> Observation:
    """Return the new responses as seen through the fitted label prior and channel."""
    first = {name: drawn[0, 0] for name, drawn in values.items()}
    of_raters = {parameter.name for parameter in fitted.raters.declared}
    own = [
        {name: first[name] for name in first if (name in of_raters) is raters}
        for raters in (False, True)
    ]
    labels = fitted.labels.anew(own[0], fitted.label_settings, **given)
    raters = fitted.raters.anew(own[1], fitted.rater_settings, index)
    for parameter in (*labels.used_parameters, *raters.used_parameters):
        if "item" in parameter.dims:
            raise ModelError(
                "Parameters must be shared by all items, because those of new items are not "
                f"known. Got: {parameter.name}, which belongs to single items."
            )
    shapes = {name: value.shape for name, value in first.items()}
    labels.check(shapes, responses)
    raters.check(shapes, responses)
    return Observation.build(responses, labels, raters)


def _label_posterior(
    observation: Observation, values: Mapping[str, Any], batch_size: int
) -> xr.Dataset:
    """Return label probabilities and their Monte Carlo error, batch by batch."""
    n_chains, n_draws = next(iter(values.values())).shape[:2]
    table = observation.table
    mean, error = np.empty((2, table.n_items, table.n_classes))
    attrs: dict[str, Any] = {}
    for items, part in _batches(observation, batch_size):
        draws = sum_up(part, values, None, (n_chains, n_draws), log_likelihood=False)
        found = draws.label_posterior()
        mean[items], error[items], attrs = found["probability"], found["mcse"], found.attrs
    total = mean.sum(axis=1, keepdims=True)  # below one where draws rule out the responses
    if len(broken := np.flatnonzero(~(total[:, 0] > 0))):
        raise ImpossibleDataError(
            "Every item must be possible at some draw, else it has no label: zeros in the rows or "
            "in the label prior rule out what was observed. Got: probability zero for item "
            f"{plain(table.items[broken[0]])!r} ({len(broken)} such)."
        )
    pair = ("item", "class")
    variables = {"probability": (pair, observation.by_item(mean / total))}
    if n_chains * n_draws > 1:
        variables["mcse"] = (pair, observation.by_item(error / total))
    responses = observation.responses
    return xr.Dataset(variables, {"item": responses.items, "class": responses.classes}, attrs)


def _batches(
    observation: Observation, batch_size: int
) -> Iterator[tuple[NDArray[np.int64], Observation]]:
    """Cut the items of ``table`` into batches of whole units, where the label prior allows it."""
    table, labels = observation.table, observation.labels
    if table.n_items <= batch_size or type(labels).part is LabelPrior.part:
        whole = replace(observation, responses=table, inverse=np.arange(table.n_items))
        yield np.arange(table.n_items), whole
        return
    size = np.bincount(labels.unit_of(table))
    batch = (np.cumsum(size) - size) // batch_size  # of the first item of every unit
    for number in np.unique(batch):
        units = np.flatnonzero(batch == number)
        yield labels.part(observation.label_structure, units)[0], observation.part(units)
