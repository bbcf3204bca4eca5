"""Label probabilities: stored in a result or recomputed, shares of votes, Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from bayesfuse.data.known import gold_labels
from bayesfuse.data.names import listed
from bayesfuse.data.tables import Table, read_gold, read_table
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Spread
from bayesfuse.pymc.evaluate import evaluate
from bayesfuse.pymc.model import observed, parameter_variables
from bayesfuse.results.compatibility import observation_of, parameters, require_same
from bayesfuse.results.contents import all_draws, kept_labels, of_all_draws, require_result
from bayesfuse.results.draws import sum_up
from bayesfuse.results.posterior import identity, of_items


def label_probabilities(
    result: xr.DataTree | xr.DataArray | pd.DataFrame, model: pm.Model | None = None
) -> xr.DataArray:
    """Return the posterior probability of every class for every item.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.find_map``. Label probabilities are returned
        unchanged, as are those of a DataFrame, items × classes.
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
        labels = kept_labels(result) if observation.labels.moves_labels else None
        draws = sum_up(observation, values, labels, sizes, log_likelihood=False)
        return draws.label_posterior()
    got = "other draws than those of the mean" if there else f"groups {sorted(result.children)}"
    raise ModelError(
        "Label probabilities are means over all draws, in the group label_posterior of results: "
        "bf.label_probabilities(result, model) computes others from the parameters. Got: "
        f"{got}, and no model."
    )


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
    data = xr.Dataset(of_items(responses, known), coords, identity(responses, known))
    return xr.DataTree.from_dict({"label_posterior": labels, "constant_data": data})


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
        ``part-00000.parquet`` and so on, one for each partition, which readers of Parquet take as
        one data set. Columns: ``item``; ``label``, the most probable class;
        ``probability_<class>`` for every class. A file appears when it is complete.

    Raises
    ------
    ModelError
        A model of responses that are not in partitions; a result of another model; a folder that
        holds Parquet files.

    Examples
    --------
    >>> import bayesfuse as bf, pandas as pd, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> bf.datasets.anesthesia().to_frame().to_parquet(f"{folder}/all.parquet")
    >>> model = bf.models.DawidSkene(bf.Responses.from_parquet(f"{folder}/all.parquet"))
    >>> (file,) = bf.label_partitions(bf.find_map(model), model, f"{folder}/labels")
    >>> pd.read_parquet(file)["label"].head(3).tolist()
    [1, 3, 2]
    """
    variable, observation = observed(model)
    if not isinstance(observation, Spread):
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


def _write(part: Observation, values: Mapping[str, Array], folder: Path, number: int) -> Path:
    sizes: Any = next(iter(values.values())).shape[:2]
    mean, _ = sum_up(part, values, None, sizes, log_likelihood=False).result()
    probability, responses = part.by_item(mean), part.responses
    columns = {"item": responses.items, "label": responses.classes[probability.argmax(axis=1)]}
    for name, column in zip(listed(responses.classes), probability.T, strict=True):
        columns[f"probability_{name}"] = column
    path = folder / f"part-{number:05d}.parquet"
    unfinished = path.with_suffix(".unfinished")
    pd.DataFrame(columns).to_parquet(unfinished, engine="pyarrow", index=False)
    return unfinished.replace(path)
