"""Labels of items in partitions, from draws of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Spread
from bayesfuse.pymc.evaluate import evaluate
from bayesfuse.pymc.model import observed, parameter_variables
from bayesfuse.results import posterior
from bayesfuse.results.compatibility import require_same
from bayesfuse.results.draws import MOST_VALUES, sum_up
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


def complete(
    result: xr.DataTree,
    observation: Observation,
    parameters: Mapping[str, Array],
    *,
    log_likelihood: bool | None = None,
) -> None:
    """Add labels and data to a result as :func:`posterior.complete` does, partition by partition.

    Of more than 10⁸ label probabilities none are added: :func:`label_partitions` writes them.
    """
    if not isinstance(observation, Spread):
        posterior.complete(result, observation, parameters, log_likelihood=log_likelihood)
        return
    posterior.add_constants(result, observation)
    posterior.order_variables(result)
    n_items, classes = observation.partitions.n_items, observation.partitions.classes
    if n_items * len(classes) > MOST_VALUES:
        result.attrs["labels"] = "too many to be kept here: bf.label_partitions writes them"
        return
    draws = result["posterior"].dataset
    sizes = draws.sizes["chain"], draws.sizes["draw"]
    if log_likelihood is None:
        log_likelihood = sizes[0] * sizes[1] * n_items <= MOST_VALUES
    found = observation.parts.map(_summed, (parameters, sizes, log_likelihood))
    items, units, means, errors, pointwise, how = zip(*found, strict=True)
    pair = "item", "class"
    labels = xr.Dataset(
        {"probability": (pair, np.concatenate(means)), "mcse": (pair, np.concatenate(errors))},
        {"item": np.concatenate(items), "class": classes},
        how[0],
    )
    counts = {f"{dim}s": draws.sizes[dim] for dim in ("chain", "draw")}
    result["label_posterior"] = xr.DataTree(labels.assign_attrs(counts))
    posterior.note_draws(result)
    if log_likelihood:
        unit = observation.labels.unit
        named = {name: draws[name].values for name in ("chain", "draw")}
        result["log_likelihood"] = xr.DataTree(
            xr.Dataset(
                {observation.name: (("chain", "draw", unit), np.concatenate(pointwise, axis=2))},
                named | {unit: np.concatenate(units)},
                {"adds_up": int(observation.labels.adds_up)},
            )
        )


def _summed(
    part: Observation, parameters: Mapping[str, Array], sizes: tuple[int, int], pointwise: bool
) -> tuple[Any, ...]:
    """Return names, label probabilities, their errors and the log likelihoods of a partition."""
    seen = sum_up(part, parameters, None, sizes, log_likelihood=pointwise)
    mean, error = seen.result()
    names = part.labels.units(part.responses)
    by_unit = seen.pointwise
    if by_unit is not None and names is part.responses.items:
        by_unit = by_unit[:, :, part.inverse]
    both = part.by_item(mean), part.by_item(error)
    return part.responses.items, names, *both, by_unit, seen.how()
