"""``bf.load``: a result or an answer from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr

from bayesfuse.answer.fused import Fused
from bayesfuse.errors import ModelError, brief

LISTS = ("models", "weights")  # attributes that a file holds as arrays, or as a single value


def load(path: str | Path) -> xr.DataTree:
    """Load a result that ``result.to_netcdf(path)`` has saved.

    Parameters
    ----------
    path : path
        Of a NetCDF file.

    Returns
    -------
    DataTree
        In memory; the file is closed. An answer of ``bf.fuse`` is a :class:`bayesfuse.Fused` with
        all its methods.

    Raises
    ------
    ModelError
        No such file, or one that is no NetCDF file.

    Examples
    --------
    >>> import tempfile, bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = bf.find_map(model).to_netcdf(f"{folder}/point.nc")
    ...     point = bf.load(f"{folder}/point.nc")
    >>> bf.label_probabilities(point).shape
    (45, 4)
    """
    try:
        if not Path(path).exists():
            raise OSError("no such file")
        with xr.open_datatree(Path(path)) as stored:
            tree = stored.load()
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        reason = reason if isinstance(error, OSError) else "not a NetCDF file"
        raise ModelError(
            "path must be of a NetCDF file, as result.to_netcdf(path) saves it. Got: "
            f"{brief(str(path))} ({reason})."
        ) from None
    if "headline" not in tree.attrs:
        return tree
    fused = Fused(tree.to_dataset(), dict(tree.children))
    fused.attrs |= {name: np.atleast_1d(fused.attrs[name]).tolist() for name in LISTS}
    return fused
