"""Label probabilities: of a result, of new items, shares of votes, Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, as_python, shown
from bayesfuse.data.gold_tables import read_gold
from bayesfuse.data.known import gold_labels
from bayesfuse.data.names import listed, places
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.data.tables import ITEM, LABEL, RATER, Table, read_table
from bayesfuse.errors import ImpossibleDataError, ModelError, NewRatersWarning, require_count, warn
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import interruptible
from bayesfuse.observation import ChunkedResponseModel, ResponseModel
from bayesfuse.observation.evaluate import evaluate
from bayesfuse.observation.model import observed, parameter_variables
from bayesfuse.results import schema
from bayesfuse.results.build import build, item_columns, table_attributes
from bayesfuse.results.compatibility import fitted_by, observation_of, parameters, require_same
from bayesfuse.results.contents import (
    all_draws,
    class_names,
    constants,
    observed_rows,
    of_all_draws,
    require_result,
    stored_label_draws,
)
from bayesfuse.results.draws import accumulate, weigh_up
from bayesfuse.results.fitted import bind
from bayesfuse.results.label_summary import LabelSummary

MAX_VALUES = 4 * 10**6  # label probabilities by draw, item and class that are kept at a time
BATCH = 100_000  # items at a time, of those whose probabilities are summed up over draws


@explains_keywords
def label_probabilities(
    result: xr.DataTree | xr.DataArray | pd.DataFrame, model: pm.Model | None = None
) -> xr.DataArray:
    """Return the posterior probability of every class for every item.

    Parameters
    ----------
    result : DataTree
        Or label probabilities, as a DataArray or as a DataFrame, items × classes.
    model : pymc.Model, optional
        The model of the result, to recompute the mean if draws have been dropped.

    Returns
    -------
    DataArray, dims (item, class)
        The mean of exact probabilities over the posterior of the parameters. Its Monte Carlo error
        is ``result["label_posterior"]["mcse"]``.

    Raises
    ------
    ModelError
        No label posterior, or one of other draws, and no model; a result of another model.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> bf.label_probabilities(point).sel(item=1).round(2).values.tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    if isinstance(result, pd.DataFrame):
        coords = {"item": result.index.to_numpy(), "class": result.columns.to_numpy()}
        return xr.DataArray(result.to_numpy(), coords, ("item", "class"))
    if isinstance(result, xr.DataArray):
        if set(result.dims) != {"item", "class"}:
            dims = list(map(str, result.dims))
            raise ModelError(f"Label probabilities have dimensions item and class. Got: {dims}.")
        return result.transpose("item", "class")
    return label_posterior(result, model)["probability"]


def label_posterior(result: xr.DataTree, model: pm.Model | None = None) -> xr.Dataset:
    """Return label probabilities and, if averaged over draws, their Monte Carlo error."""
    observation = None if model is None else observation_of(result, model)
    there = "label_posterior" in require_result(result).children
    if there and of_all_draws(result):
        return result["label_posterior"].dataset
    if observation is not None and model is not None:
        values = parameters(result, model)
        sizes = next(iter(values.values())).shape[:2]
        moves_labels = observation.labels.capabilities.moves_labels
        labels = stored_label_draws(result) if moves_labels else None
        draws = accumulate(observation, values, labels, sizes, log_likelihood=False)
        return draws.label_posterior()
    got = "other draws than those of the mean" if there else f"groups {sorted(result.children)}"
    raise ModelError(
        "Label probabilities are means over all draws, in the group label_posterior of results: "
        "bf.label_probabilities(result, model) computes others from the parameters. Got: "
        f"{got}, and no model."
    )


@explains_keywords
def vote_shares(responses: Table, gold: Any = None) -> xr.DataTree:
    """Return the shares of the votes for every class as label probabilities.

    One more vote is spread over all classes, so that none is impossible.

    Parameters
    ----------
    responses, gold
        A table and known labels, as in :func:`bayesfuse.fuse`.

    Returns
    -------
    DataTree
        ``label_posterior`` (``probability`` by item and class), for functions of labels.

    Raises
    ------
    ResponsesError
        Gold labels of unknown items or classes.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([["no", "no", "yes"], ["yes", None, None]])
    >>> bf.label_probabilities(bf.vote_shares(responses)).values
    array([[0.625, 0.375],
           [0.25 , 0.75 ]])
    """
    responses = read_table(responses)[0]
    gold = read_gold(gold, responses)
    shares = responses.votes() + 1.0 / responses.n_classes
    shares /= shares.sum(axis=1, keepdims=True)
    known = gold_labels(responses, gold)
    at = np.flatnonzero(known >= 0)
    shares[at] = np.eye(responses.n_classes)[known[at]]
    coords = {"item": responses.items, "class": responses.classes}
    labels = xr.Dataset({"probability": (("item", "class"), shares)}, coords)
    constants = item_columns(responses, known)
    data = xr.Dataset(constants, coords, table_attributes(responses, known))
    return build(None, None, LabelSummary(None, labels), {schema.CONSTANT_DATA: data})


@explains_keywords
@interruptible
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
) -> xr.DataTree:
    r"""Predict the labels of new items from their responses, without fitting again.

    Labels of a new item follow by Bayes' rule, :math:`p(y \mid x, \theta)`, averaged over posterior
    draws of :math:`\theta` with weights :math:`p(x \mid \theta)`, as in a fit with this item; with
    equal ones for items of the fit (of the same name and responses), in sequence or on a graph (of
    degrees as in the fit). New raters have the mean row of their pool, or of the prior of all.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit``, ``bf.find_map`` (one draw) or ``bf.fuse``.
    responses : Responses, DataFrame or array
        With some or all classes of the result. Raters are matched by name.
    item, rater, label : str
        Columns of a DataFrame, as in :func:`bayesfuse.fuse`.
    model : pymc.Model, optional
        Needed for factors of your own, and where the result does not hold a parameter.
    sequences, graph, populations, covariates, classifier : optional
        What is known about the new items, as in the model of the result.
    draws : int, default 400
        Maximum number of posterior draws, evenly spaced in every chain.

    Returns
    -------
    DataTree
        ``label_posterior`` (``probability`` and, for several draws, ``mcse``, its error);
        ``raters``: ``source`` of each, "fitted", "pool" or "prior"; the responses.

    Raises
    ------
    ModelError
        Unknown classes; new raters that the model does not describe; inputs or parameters missing.
    ImpossibleDataError
        Every draw rules out the responses to some item.
    ResponsesError
        Sequences or a graph of other items; unknown populations, other covariates.

    Warns
    -----
    NewRatersWarning
        Raters that are not in the result, with their names.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> new = {"item": [46, 47, 47], "rater": [1, 1, 5], "label": [1, 2, 3]}
    >>> prediction = bf.predict(point, bf.Responses.from_long(new))
    >>> bf.label_probabilities(prediction).round(2).values.tolist()
    [[0.93, 0.07, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    """
    classes = None if isinstance(responses, Responses) else class_names(result)
    responses, *_ = read_table(responses, item=item, rater=rater, label=label, classes=classes)
    require_count("draws", draws)
    inputs = {"sequences": sequences, "graph": graph, "populations": populations}
    inputs |= {"covariates": covariates, "classifier": classifier}
    if model is None and hasattr(type(result), "predict"):  # an answer of several models
        tree = result.predict(responses, draws=int(draws), **inputs)
    else:
        fitted = fitted_by(result, model).thinned(int(draws))
        observation, values, source = bind(fitted, responses, inputs)
        labels = _labels(observation, values, _informed(result, observation.responses))
        raters = xr.Dataset({"source": ("rater", source)}, {"rater": responses.raters})
        summary = LabelSummary(observation, labels)
        attributes = {"draws": int(np.prod(fitted.sizes))}
        tree = build(None, None, summary, {schema.RATERS: raters}, attributes)
    is_active = responses.per_rater > 0
    if responses.stated is not None:
        is_active[responses.stated.rater] = True
    is_new = (tree["raters"]["source"].values != "fitted") & is_active
    if is_new.any():
        warn(
            "Raters that are not in the result count as average ones; names are compared as they "
            f"are, and 1 is not '1'. Got: new raters {shown(responses.raters[is_new], 3)} "
            f"({is_new.sum():,} of {is_active.sum():,}; the result has {_some_names(result)}).",
            NewRatersWarning,
        )
    return tree


def _some_names(result: xr.DataTree) -> str:
    """Return the first raters of a result."""
    known = constants(result)
    return shown(known["rater"].values, 3) if "rater" in known.coords else "others"


def _labels(
    observation: ResponseModel, values: Mapping[str, Any], informed: NDArray[np.bool_]
) -> xr.Dataset:
    """Return label probabilities and errors, for items that ``informed`` the parameters or not."""
    sizes = next(iter(values.values())).shape[:2]
    responses, table, n_draws = observation.responses, observation.table, int(np.prod(sizes))
    if observation.labels.unit != "item" or n_draws == 1:
        informed = np.ones(responses.n_items, dtype=bool)
    means, errors = np.empty((2, table.n_items, table.n_classes))
    mean, error = np.empty((2, responses.n_items, responses.n_classes))
    attrs: dict[str, Any] = {}
    for weighted, is_part in enumerate((informed, ~informed)):
        if not is_part.any():
            continue
        most = max(MAX_VALUES // (n_draws * table.n_classes), 1) if weighted else BATCH
        for items, part in _batches(observation, min(BATCH, most)):
            if weighted:
                means[items], errors[items], attrs = weigh_up(part, values, sizes)
            else:
                summed = accumulate(part, values, None, sizes, log_likelihood=False)
                (means[items], errors[items]), attrs = summed.result(), summed.how()
        mean[is_part], error[is_part] = (
            observation.by_item(each)[is_part] for each in (means, errors)
        )
    total = mean.sum(axis=1, keepdims=True)  # below one where draws rule out the responses
    if len(broken := np.flatnonzero(~(total[:, 0] > 0))):
        raise ImpossibleDataError(
            "Every item must be possible at some draw, else it has no label: zeros in the rows or "
            "in the label prior rule out what was observed. Got: probability zero for item "
            f"{as_python(responses.items[broken[0]])!r} ({len(broken)} such)."
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
    old, known = observed_rows(result), constants(result)
    if old is None or "item" not in known.coords:
        return np.zeros(responses.n_items, dtype=bool)
    item = places(as_array(responses.items), known["item"].values)
    rater = places(as_array(responses.raters), known["rater"].values)
    new = item[responses.item], rater[responses.rater], responses.label
    rows = pd.DataFrame(np.hstack([old, new]).T)
    rows["side"] = np.repeat([1, -1], [len(old[0]), len(new[0])])
    number = rows.groupby([0, 1, 2])["side"].sum()
    differ = number.index.get_level_values(0)[number != 0]
    return (item >= 0) & ~np.isin(item, differ)


def _batches(
    observation: ResponseModel, most: int
) -> Iterator[tuple[NDArray[np.int64], ResponseModel]]:
    """Cut the items of ``table`` into batches of whole units, where the label prior allows it."""
    table, labels = observation.table, observation.labels
    if table.n_items <= most or not labels.capabilities.separable:
        yield np.arange(table.n_items), observation
        return
    size = np.bincount(labels.unit_of(table))
    batch = (np.cumsum(size) - size) // most  # of the first item of every unit
    for number in np.unique(batch):
        units = np.flatnonzero(batch == number)
        yield labels.part(observation.label_structure, units)[0], observation.part(units)


def label_partitions(result: xr.DataTree, model: pm.Model, to: str | Path) -> list[Path]:
    """Write the label probabilities of all partitions to Parquet files.

    Parameters
    ----------
    result, model
        A result and its model, of responses in partitions.
    to : path
        A folder. The workers of a Dask cluster, where there is one, write to it themselves.

    Returns
    -------
    list of Path
        ``part-00000.parquet`` and so on, one for each partition. Columns: ``item``; ``label``, the
        most probable class; ``probability_<class>`` for every class.

    Raises
    ------
    ModelError
        Responses not in partitions; a result of another model; a folder with Parquet files.

    Examples
    --------
    >>> import bayesfuse as bf, pandas as pd, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> bf.datasets.anesthesia().to_frame().to_parquet(f"{folder}/all.parquet")
    >>> model = bf.models.DawidSkene(bf.Responses.from_parquet(f"{folder}/all.parquet"))
    >>> (file,) = bf.io.label_partitions(bf.find_map(model), model, f"{folder}/labels")
    >>> pd.read_parquet(file)["label"].head(3).tolist()
    [1, 3, 2]
    """
    variable, observation = observed(model)
    if not isinstance(observation, ChunkedResponseModel):
        raise ModelError(
            "label_partitions writes labels of responses in partitions; bf.label_probabilities "
            f"has those of others. Got: {type(observation.responses).__name__}."
        )
    require_same(result, observation.fingerprint, observation.responses)
    values = evaluate(model, all_draws(result), parameter_variables(variable))
    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    if there := sorted(folder.glob("*.parquet")):
        raise ModelError(
            "Labels are written to a folder without other Parquet files, because readers take all "
            f"of a folder for one table. Got: {there[0].name} in {folder} ({len(there)} such)."
        )
    return list(observation.parts.map(_write, (values, folder), range(len(observation.parts))))


def _write(part: ResponseModel, values: Mapping[str, Array], folder: Path, number: int) -> Path:
    sizes: Any = next(iter(values.values())).shape[:2]
    mean, _ = accumulate(part, values, None, sizes, log_likelihood=False).result()
    probability, responses = part.by_item(mean), part.responses
    columns = {"item": responses.items, "label": responses.classes[probability.argmax(axis=1)]}
    for name, column in zip(listed(responses.classes), probability.T, strict=True):
        columns[f"probability_{name}"] = column
    path = folder / f"part-{number:05d}.parquet"
    unfinished = path.with_suffix(".unfinished")
    pd.DataFrame(columns).to_parquet(unfinished, engine="pyarrow", index=False)
    return unfinished.replace(path)
