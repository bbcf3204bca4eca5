"""Label probabilities of new items, by raters who are known from a fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, plain, shown
from bayesfuse.data.names import places
from bayesfuse.data.responses import Responses, each_batch
from bayesfuse.data.sequences import Sequences
from bayesfuse.data.tables import ITEM, LABEL, RATER, Table, read_table
from bayesfuse.errors import ImpossibleDataError, ModelError, require_count, warn
from bayesfuse.labels.base import LabelPrior
from bayesfuse.observation import Observation
from bayesfuse.results.compatibility import fitted_by
from bayesfuse.results.contents import class_names, constants
from bayesfuse.results.draws import sum_up, weigh_up
from bayesfuse.results.fitted import Fitted, see
from bayesfuse.results.posterior import add_constants

KEPT = 4 * 10**6  # label probabilities by draw, item and class that are kept at a time


def predict(
    result: xr.DataTree,
    responses: Table,
    *,
    item: str = ITEM,
    rater: str = RATER,
    label: str = LABEL,
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

    Labels of a new item follow by Bayes' rule, :math:`p(y \mid x, \theta)`, averaged over
    posterior draws of :math:`\theta` with weights :math:`p(x \mid \theta)`, as in a fit with this
    item. A result saved as a file is enough.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.find_map``, whose point counts as one draw, or from
        ``bf.fuse``.
    responses : Responses, DataFrame or array
        Responses to the new items, as tables of ``bf.fuse``, with some or all classes of the
        result, in any order. Raters are matched by name; for new ones see the notes.
    item, rater, label : str
        Columns of a DataFrame, as in :func:`bayesfuse.fuse`.
    model : pymc.Model, optional
        The model of the result. Needed for label priors and rater channels of your own, and where
        the result does not hold a parameter.
    sequences, graph, populations, covariates, classifier : optional
        What is known about the new items, for models that used it for the fitted ones: order,
        adjacency, populations of the fit, covariates of the same names. As in
        :class:`bayesfuse.models.DawidSkene`; of sequences as in
        :class:`bayesfuse.models.HiddenMarkov`, on a graph as in
        :class:`bayesfuse.models.MarkovRandomField`.
    draws : int, default 400
        Maximum number of posterior draws, evenly spaced, equally many (rounded up) of every chain.
    batch_size : int, default 100,000
        Items at a time, in whole sequences. Items on a graph are treated at once.

    Returns
    -------
    DataTree
        ``label_posterior`` (``probability`` and, for several draws, the Monte Carlo error ``mcse``
        by item and class; attributes say how labels were summed out, and whether exactly), for
        ``bf.label_probabilities``, ``bf.decisions`` and plots of labels; ``raters``: ``source`` by
        rater, "fitted" if the result knows the rater, else "pool" or "prior"; ``constant_data`` and
        ``observed_data``, the responses. The attribute ``draws`` is the number of draws.

    Raises
    ------
    ModelError
        Unknown classes; new raters that the model does not describe; ``sequences``, ``graph``, …
        missing or not needed; parameters that the result does not hold; a model of another result.
    ImpossibleDataError
        Every draw rules out the responses to some item.
    ResponsesError
        Sequences or a graph of other items; unknown populations, other covariates.

    Warns
    -----
    UserWarning
        All raters are new ones.

    Notes
    -----
    The new responses inform the labels of their own items only. If the prevalence or the raters
    change, fit again. Draws have equal weights for items of the fit (of the same name and
    responses), which have informed the parameters already, and for labels in sequence or on a
    graph, where few draws would have all the weight. Without weights, probabilities are too near
    1/K after small fits: on simulated tables of 20 items and three classes, 24 % of the labels are
    expected to be wrong and 20 % are. Draws that rule out the responses to an item do not count.

    Sequences are new ones with the fitted transition; the coupling of a graph is that of the fit,
    so the new graph must have similar degrees.

    A rater without fitted responses has, at every draw, the expected row of a new rater: the mean
    of the pool (``pooled=True``, ``ItemTypes``) or of the prior, if all raters have the same. This
    is exact for a rater who answers one item once (for ``raters="graded"`` to about .001), because
    the likelihood is linear in the row; what several responses say of the row is not used.

    Examples
    --------
    Two patients after those of the fit; doctor 6 is not among the fitted ones:

    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> new = {"item": [46, 47, 47], "rater": [1, 1, 6], "label": [1, 2, 3]}
    >>> prediction = bf.predict(point, bf.Responses.from_long(new))
    >>> bf.label_probabilities(prediction).round(2).values.tolist()
    [[0.93, 0.07, 0.0, 0.0], [0.08, 0.92, 0.0, 0.0]]
    >>> prediction["raters"]["source"].values.tolist()
    ['fitted', 'prior']
    """
    classes = None if isinstance(responses, Responses) else class_names(result)
    responses, *_ = read_table(responses, item=item, rater=rater, label=label, classes=classes)
    require_count("draws", draws)
    require_count("batch_size", batch_size)
    told = {"sequences": sequences, "graph": graph, "populations": populations}
    told |= {"covariates": covariates, "classifier": classifier}
    if model is None and hasattr(type(result), "predict"):  # an answer of several models
        found = result.predict(responses, draws=int(draws), **told)
    else:
        fitted = fitted_by(result, model).thinned(int(draws))
        found = _predict(result, fitted, responses, told, int(batch_size))
    if not (found["raters"]["source"] == "fitted").any():
        warn(
            "No rater of the new responses is in the result, so nothing is known of how good they "
            "are; names are compared as they are, and 1 is not '1'. Got: raters "
            f"{shown(responses.raters, 3)}."
        )
    return found


def predict_batches(
    result: xr.DataTree,
    batches: Iterable[Responses],
    *,
    model: pm.Model | None = None,
    draws: int = 400,
) -> Iterator[xr.DataTree]:
    """Predict the labels of items that arrive in batches, one batch at a time.

    For more items than fit into memory.

    Parameters
    ----------
    result, model, draws
        As in :func:`predict`.
    batches : iterable of Responses
        Read one by one, when the labels are requested.

    Yields
    ------
    DataTree
        As :func:`predict` returns, for :func:`bayesfuse.write_labels` for example.

    Raises
    ------
    ModelError, ImpossibleDataError
        As :func:`predict`; ``batches`` is not an iterable of responses; labels depend on more than
        the responses to the item (``sequences``, ``graph``, …): predict these batch by batch.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.datasets.anesthesia()
    >>> days = [responses.take(range(first, first + 15)) for first in (0, 15, 30)]
    >>> result = bf.find_map(bf.models.DawidSkene(responses))
    >>> labels = bf.predict_batches(result, days)
    >>> [bf.label_probabilities(each).sizes["item"] for each in labels]
    [15, 15, 15]
    """
    require_count("draws", draws)
    checked = each_batch(batches)
    fitted = fitted_by(result, model).thinned(int(draws))
    if fitted.needs:
        raise ModelError(
            "Batches are tables of responses alone; where labels depend on more, call "
            "bf.predict(result, batch, …) for each with what it needs. Got: a result of "
            f"{fitted.labels.__name__} labels, which need {fitted.needs[0]}."
        )
    return (_predict(result, fitted, batch, {}, batch_size=100_000) for batch in checked)


def _predict(
    result: xr.DataTree,
    fitted: Fitted,
    responses: Responses,
    told: Mapping[str, Any],
    batch_size: int,
) -> xr.DataTree:
    observation, values, source = see(fitted, responses, told)
    found = labels_of(observation, values, batch_size, _informed(result, observation.responses))
    predicted = xr.DataTree.from_dict({"label_posterior": found})
    predicted["raters"] = xr.Dataset({"source": ("rater", source)}, {"rater": responses.raters})
    add_constants(predicted, observation)
    predicted.attrs["draws"] = int(np.prod(fitted.sizes))
    return predicted


def labels_of(
    observation: Observation,
    values: Mapping[str, Any],
    batch_size: int,
    informed: NDArray[np.bool_] | None = None,
) -> xr.Dataset:
    """Return label probabilities and errors, for items that ``informed`` the parameters or not."""
    sizes = next(iter(values.values())).shape[:2]
    responses, table, n_draws = observation.responses, observation.table, int(np.prod(sizes))
    if informed is None or observation.labels.unit != "item" or n_draws == 1:
        informed = np.ones(responses.n_items, dtype=bool)
    means, errors = np.empty((2, table.n_items, table.n_classes))
    mean, error = np.empty((2, responses.n_items, responses.n_classes))
    attrs: dict[str, Any] = {}
    for weighted, own in enumerate((informed, ~informed)):
        if not own.any():
            continue
        most = max(KEPT // (n_draws * table.n_classes), 1) if weighted else batch_size
        for items, part in _batches(observation, min(batch_size, most)):
            if weighted:
                means[items], errors[items], attrs = weigh_up(part, values, sizes)
            else:
                found = sum_up(part, values, None, sizes, log_likelihood=False)
                (means[items], errors[items]), attrs = found.result(), found.how()
        mean[own], error[own] = (observation.by_item(each)[own] for each in (means, errors))
    total = mean.sum(axis=1, keepdims=True)  # below one where draws rule out the responses
    if len(broken := np.flatnonzero(~(total[:, 0] > 0))):
        raise ImpossibleDataError(
            "Every item must be possible at some draw, else it has no label: zeros in the rows or "
            "in the label prior rule out what was observed. Got: probability zero for item "
            f"{plain(responses.items[broken[0]])!r} ({len(broken)} such)."
        )
    pair = ("item", "class")
    variables = {"probability": (pair, mean / total)}
    if n_draws > 1:
        variables["mcse"] = (pair, error / total)
    return xr.Dataset(variables, {"item": responses.items, "class": responses.classes}, attrs)


def _informed(result: xr.DataTree, responses: Responses) -> NDArray[np.bool_]:
    """Return which items (items,) are known to be of a fit, with the same responses."""
    if tables := result.attrs.get("tables"):  # of several, those of each
        parts = [result.children[str(name)] for name in tables]
        return np.any([_informed(part, responses) for part in parts], axis=0)
    known, found = constants(result), np.zeros(responses.n_items, dtype=bool)
    observed = result["observed_data"].dataset if "observed_data" in result.children else known
    rows = known["item_index"].dims if "item_index" in known else ()
    label = [each.values for each in observed.data_vars.values() if each.dims == rows]
    if "rater_index" not in known or "item" not in known.coords or len(label) != 1:
        return found
    item = places(as_array(responses.items), known["item"].values)
    rater = places(as_array(responses.raters), known["rater"].values)
    old = known["item_index"].values, known["rater_index"].values, label[0]
    new = item[responses.item], rater[responses.rater], responses.label
    rows = pd.DataFrame(np.hstack([old, new]).T)
    rows["side"] = np.repeat([1, -1], [len(old[0]), len(new[0])])
    number = rows.groupby([0, 1, 2])["side"].sum()
    differ = number.index.get_level_values(0)[number != 0]
    return (item >= 0) & ~np.isin(item, differ)


def _batches(
    observation: Observation, batch_size: int
) -> Iterator[tuple[NDArray[np.int64], Observation]]:
    """Cut the items of ``table`` into batches of whole units, where the label prior allows it."""
    table, labels = observation.table, observation.labels
    if table.n_items <= batch_size or type(labels).part is LabelPrior.part:
        yield np.arange(table.n_items), observation
        return
    size = np.bincount(labels.unit_of(table))
    batch = (np.cumsum(size) - size) // batch_size  # of the first item of every unit
    for number in np.unique(batch):
        units = np.flatnonzero(batch == number)
        yield labels.part(observation.label_structure, units)[0], observation.part(units)
