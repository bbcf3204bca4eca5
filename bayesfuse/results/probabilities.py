"""Label probabilities: stored in a result or recomputed, shares of votes, Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

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
        The model of the result. Needed if draws have been dropped from the result
        (``result.isel(chain=[0])``, thinning), to recompute the mean.

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
    >>> from bayesfuse.models import DawidSkene
    >>> point = bf.find_map(DawidSkene(bf.datasets.anesthesia()))
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
    if there:
        raise ModelError(
            "The label posterior is a mean over all draws, some of which have been dropped from "
            "the result: bf.label_probabilities(result, model) recomputes it. Got: other draws "
            "than those of the mean, and no model."
        )
    raise ModelError(
        "Label probabilities are read from the group label_posterior of results of bf.sample, "
        "bf.fit and bf.find_map; bf.label_probabilities(result, model) computes them from the "
        f"parameters. Got: groups {sorted(result.children)}."
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


def write_labels(
    results: Iterable[xr.DataTree | xr.DataArray], folder: str | os.PathLike[str]
) -> list[Path]:
    """Write the labels of several results as Parquet files, one file for each.

    Parameters
    ----------
    results : iterable of DataTree or DataArray
        With label probabilities; those of :func:`bayesfuse.predict_batches` are in memory one at a
        time.
    folder : path
        Created if it does not exist.

    Returns
    -------
    list of Path
        ``part-00000.parquet`` and so on, which readers of Parquet take as one data set. Columns:
        ``item``; ``label``, the most probable class; ``probability_<class>`` for every class. A
        file appears under its name when it is complete.

    Raises
    ------
    ModelError
        Not an iterable of results; no label probabilities; a folder with Parquet files.
    ImportError
        Without pyarrow: ``pip install "bayesfuse[parquet]"``.

    Examples
    --------
    >>> import tempfile, pandas as pd, bayesfuse as bf
    >>> shares = bf.vote_shares([["no", "no"], ["yes", "yes"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (path,) = bf.write_labels([shares], folder)
    ...     pd.read_parquet(path).columns.tolist()
    ['item', 'label', 'probability_no', 'probability_yes']
    """
    if isinstance(results, xr.DataTree | xr.DataArray) or not isinstance(results, Iterable):
        raise ModelError(
            "results must be an iterable of results, one for every file: [result] for a single "
            f"one. Got: {type(results).__name__}."
        )
    folder, paths = _new_folder(folder), []
    for number, result in enumerate(results):
        probability = label_probabilities(result)
        names = probability["item"].values, probability["class"].values
        paths.append(_write(folder, number, *names, probability.values))
    return paths


def label_partitions(result: xr.DataTree, model: pm.Model, to: str | Path) -> list[Path]:
    """Write the label probabilities of all partitions to Parquet files.

    Parameters
    ----------
    result, model
        A result and its model, of responses in partitions.
    to : str or path
        A folder. The workers of a Dask cluster, where there is one, write to it themselves.

    Returns
    -------
    list of Path
        One file for each partition, as :func:`bayesfuse.write_labels` writes them.

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
    numbers = range(len(observation.parts))
    return list(observation.parts.map(_write_part, (values, _new_folder(to)), numbers))


def _write_part(part: Observation, values: Mapping[str, Array], folder: Path, number: int) -> Path:
    sizes: Any = next(iter(values.values())).shape[:2]
    mean, _ = sum_up(part, values, None, sizes, log_likelihood=False).result()
    return _write(folder, number, part.responses.items, part.responses.classes, part.by_item(mean))


def _new_folder(folder: Any) -> Path:
    """Return a folder for Parquet files, made if there is none, or raise ModelError."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(
            'Parquet files need pyarrow: pip install "bayesfuse[parquet]". Got: no pyarrow.'
        ) from error
    if not isinstance(folder, str | os.PathLike):
        raise ModelError(f"folder must be the path of a folder. Got: {folder!r}.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if there := sorted(folder.glob("*.parquet")):
        raise ModelError(
            "Labels are written to a folder without other Parquet files, because readers take all "
            f"of a folder for one table. Got: {there[0].name} in {folder} ({len(there)} such)."
        )
    return folder


def _write(
    folder: Path, number: int, items: NDArray[Any], classes: NDArray[Any], values: Array
) -> Path:
    """Write probabilities (items, classes); the file appears under its name when complete."""
    path = folder / f"part-{number:05d}.parquet"
    columns = {"item": items, "label": classes[values.argmax(axis=1)]}
    columns |= {f"probability_{name}": values[:, k] for k, name in enumerate(listed(classes))}
    unfinished = path.with_suffix(".unfinished")
    pd.DataFrame(columns).to_parquet(unfinished, engine="pyarrow", index=False)
    return unfinished.replace(path)
