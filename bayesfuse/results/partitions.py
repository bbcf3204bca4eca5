"""``bf.label_partitions``: labels of items in partitions, from draws of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pymc as pm
import xarray as xr

from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Spread
from bayesfuse.pymc.evaluate import evaluate
from bayesfuse.pymc.model import observed, parameter_variables
from bayesfuse.results.compatibility import require_same
from bayesfuse.results.draws import sum_up
from bayesfuse.results.write_labels import label_table, new_folder, path_of, write


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
    return list(observation.parts.map(_write, (parameters,), paths))


def _write(part: Observation, parameters: Mapping[str, Array], path: Path) -> Path:
    sizes: Any = next(iter(parameters.values())).shape[:2]
    mean, _ = sum_up(part, parameters, None, sizes, log_likelihood=False).result()
    table = part.responses
    write(label_table(table.items, table.classes, part.by_item(mean)), path)
    return path
