"""Labels as Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.names import listed
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Spread
from bayesfuse.pymc.evaluate import evaluate
from bayesfuse.pymc.model import observed, parameter_variables
from bayesfuse.results.compatibility import require_same
from bayesfuse.results.draws import sum_up
from bayesfuse.results.probabilities import label_probabilities


def write_labels(
    results: Iterable[xr.DataTree | xr.DataArray], folder: str | os.PathLike[str]
) -> list[Path]:
    """Write the labels of several results as Parquet files, one file for each.

    Parameters
    ----------
    results : iterable of DataTree or DataArray
        With label probabilities: from :func:`bayesfuse.predict_batches`, of which only one is in
        memory at a time, or results of :func:`bayesfuse.update`, :func:`bayesfuse.fit`, ….
    folder : path
        Created if it does not exist.

    Returns
    -------
    list of Path
        The files, ``part-00000.parquet`` and so on, which readers of Parquet take as one data set.
        Columns: ``item``; ``label``, the most probable class; ``probability_<class>`` for every
        class. A file appears under its name when it is complete.

    Raises
    ------
    ModelError
        Not an iterable of results; no label probabilities; a folder with Parquet files.
    ImportError
        Without pyarrow: ``pip install "bayesfuse[parquet]"``.

    Examples
    --------
    >>> import tempfile, pandas as pd, bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> responses = bf.Responses.from_matrix([["no", "no"], ["yes", "yes"]], items=["a", "b"])
    >>> result = bf.fit(DawidSkene(responses), random_seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (path,) = bf.write_labels([result], folder)
    ...     pd.read_parquet(path).columns.tolist()
    ['item', 'label', 'probability_no', 'probability_yes']
    """
    if isinstance(results, xr.DataTree | xr.DataArray) or not isinstance(results, Iterable):
        raise ModelError(
            "results must be an iterable of results, one for every file: [result] for a single "
            f"one. Got: {type(results).__name__}."
        )
    folder = new_folder(folder)
    paths = []
    for number, result in enumerate(results):
        probability = label_probabilities(result)
        names = probability["item"].values, probability["class"].values
        paths.append(path_of(folder, number))
        write(label_table(*names, probability.values), paths[-1])
    return paths


def label_partitions(result: xr.DataTree, model: pm.Model, to: str | Path) -> list[Path]:
    """Write the label probabilities of all partitions to parquet files.

    The workers of a Dask cluster, where there is one, write to the folder themselves.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.find_map``.
    model : pymc.Model
        The model that was fitted, of responses in partitions.
    to : str or path
        A folder, which workers on other machines can reach, too.

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
    >>> from bayesfuse.models import DawidSkene
    >>> folder = tempfile.mkdtemp()
    >>> table = bf.datasets.anesthesia().to_frame()
    >>> table.to_parquet(f"{folder}/all.parquet")
    >>> model = DawidSkene(bf.Responses.from_parquet(f"{folder}/all.parquet"))
    >>> point = bf.find_map(model)
    >>> (file,) = bf.label_partitions(point, model, f"{folder}/labels")
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
    if "posterior" in result.children:
        draws = result["posterior"].dataset
    else:
        draws = result["point"].dataset.expand_dims(["chain", "draw"])
    parameters = evaluate(model, draws, parameter_variables(variable))
    folder = new_folder(to)
    paths = [path_of(folder, number) for number in range(len(observation.parts))]
    return list(observation.parts.map(_write_part, (parameters,), paths))


def _write_part(part: Observation, parameters: Mapping[str, Array], path: Path) -> Path:
    sizes: Any = next(iter(parameters.values())).shape[:2]
    mean, _ = sum_up(part, parameters, None, sizes, log_likelihood=False).result()
    table = part.responses
    write(label_table(table.items, table.classes, part.by_item(mean)), path)
    return path


def new_folder(folder: Any) -> Path:
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


def path_of(folder: Path, number: int) -> Path:
    """Return the path of a file of labels."""
    return folder / f"part-{number:05d}.parquet"


def write(table: pd.DataFrame, path: Path) -> None:
    """Write a table; the file appears under its name when it is complete."""
    unfinished = path.with_suffix(".unfinished")
    table.to_parquet(unfinished, engine="pyarrow", index=False)
    unfinished.replace(path)


def label_table(items: NDArray[Any], classes: NDArray[Any], values: Array) -> pd.DataFrame:
    """Return items, their most probable class and the probability of every class."""
    named = {f"probability_{name}": values[:, k] for k, name in enumerate(listed(classes))}
    return pd.DataFrame({"item": items, "label": classes[values.argmax(axis=1)], **named})
