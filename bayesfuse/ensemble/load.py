"""``bf.load``: results and answers from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr

from bayesfuse.ensemble.fused import Fused
from bayesfuse.ensemble.fused_sets import FusedSets
from bayesfuse.errors import ModelError
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.errors.messages import brief
from bayesfuse.results.label_sets import SETS

LISTS = "models", "weights", "columns"  # attributes that files hold as arrays, or single values


@explains_keywords
def load(path: str | Path) -> xr.DataTree:
    """Load a result that ``result.to_netcdf(path)`` has saved.

    Parameters
    ----------
    path : path
        Of a NetCDF file, closed afterwards.

    Returns
    -------
    DataTree
        An answer of ``bf.fuse`` is a :class:`bayesfuse.Fused`.

    Raises
    ------
    ModelError
        No such file, or one that is no NetCDF file.

    Examples
    --------
    >>> import tempfile, bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = point.to_netcdf(f"{folder}/point.nc")
    ...     bf.load(f"{folder}/point.nc").equals(point)
    True
    """
    try:
        if not Path(path).exists():
            raise OSError("no such file")
        with xr.open_datatree(Path(path)) as stored:
            tree = stored.load()
    except (OSError, ValueError, TypeError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else "not a NetCDF file"
        raise ModelError(
            "path must be of a NetCDF file, as result.to_netcdf(path) saves it. Got: "
            f"{brief(str(path))} ({reason})."
        ) from None
    if "headline" not in tree.attrs:
        return tree
    kind = FusedSets if SETS in tree.children else Fused
    fused = kind(tree.to_dataset(), dict(tree.children))
    fused.attrs |= {
        name: np.atleast_1d(fused.attrs[name]).tolist() for name in LISTS if name in fused.attrs
    }
    return fused
