"""Storage of draws: their precision, and how many of them are stored."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import LargeResultWarning, ModelError, require_count
from bayesfuse.observation import Observation
from bayesfuse.results import draws as summed
from bayesfuse.results import posterior

Precision = Literal["double", "single"]

LARGE = 500_000_000
"""Bytes of posterior and log likelihood above which fewer are stored, unless asked for."""

MOST_THIN = 100
"""Largest ``thin`` that is not asked for: absurd numbers of draws should run out of memory."""

BYTES = {"double": 8, "single": 4}  # of a stored number, by precision


class Storage(NamedTuple):
    """Precision, every ``thin``-th draw, log likelihoods or not, and the size in bytes."""

    precision: Precision
    thin: int
    log_likelihood: bool
    size: int


def choose(
    model: pm.Model,
    observations: Sequence[Observation],
    sizes: tuple[int, int],
    *,
    precision: Precision | None,
    thin: int | None,
    log_likelihood: bool | None,
    most: int,
) -> Storage:
    """Choose the precision, then ``thin``, so that draws take ``most`` bytes, unless given.

    The relative error of single precision, 10⁻⁷, is far below any Monte Carlo error.
    """
    n_chains, n_draws = sizes
    given = {"chains": n_chains, "draws": n_draws} | ({} if thin is None else {"thin": thin})
    for name, number in given.items():
        require_count(name, number)
    if precision is not None and precision not in get_args(Precision):
        raise ModelError(f"precision must be 'double' or 'single'. Got: {precision!r}.")
    units = sum(map(summed.n_units, observations))
    if log_likelihood is None:
        log_likelihood = n_chains * -(-n_draws // (thin or 1)) * units <= summed.MOST_VALUES
    lengths = {dim: len(names) for dim, names in model.coords.items() if names is not None}
    values = units * log_likelihood
    for variable in (*model.free_RVs, *model.deterministics):
        dims = model.named_vars_to_dims.get(variable.name) or (None,) * variable.type.ndim
        shape = zip(variable.type.shape, dims, strict=True)
        values += math.prod(n if n is not None else lengths.get(str(d), 1) for n, d in shape)

    def size(precision: Precision, thin: int) -> int:
        return n_chains * -(-n_draws // thin) * values * BYTES[precision]

    if precision is None:
        precision = "double" if size("double", thin or 1) <= most else "single"
    if thin is None:
        kept = max(most // max(size(precision, n_draws), 1), 1)  # draws of a chain
        thin = min(-(-n_draws // kept), MOST_THIN)
    return Storage(precision, int(thin), log_likelihood, size(precision, int(thin)))


def decide(
    model: pm.Model,
    observations: Sequence[Observation],
    sizes: tuple[int, int],
    *,
    stacklevel: int = 4,
    **asked: Any,
) -> Storage:
    """Choose by :func:`choose`, and warn if less is stored than usual without being asked."""
    found = choose(model, observations, sizes, **asked, most=LARGE)
    usual = {name: asked[name] or plain for name, plain in (("precision", "double"), ("thin", 1))}
    if (found.precision, found.thin) != (usual["precision"], usual["thin"]):
        whole = choose(model, observations, sizes, **asked | usual, most=LARGE)
        warnings.warn(
            f"Posterior and log likelihood of more than {LARGE / 1e6:,.0f} MB are stored in single "
            "precision, and if that is not enough only every thin-th draw, unless precision= and "
            f"thin= are given. Got: {whole.size / 1e6:,.0f} MB, so precision={found.precision!r} "
            f"and thin={found.thin} ({found.size / 1e6:,.0f} MB).",
            LargeResultWarning,
            stacklevel=stacklevel,
        )
    return found


def round_off(result: xr.DataTree, precision: Precision) -> None:
    """Store posterior and log likelihoods in this precision, and note it in the result."""
    result.attrs["precision"] = precision
    if precision == "double":
        return
    for node in result.subtree:
        if node.name in ("posterior", "log_likelihood"):
            draws = node.to_dataset(inherit=False)
            rounded = {
                name: values.copy(data=_rounded(values.values))
                for name, values in draws.data_vars.items()
                if values.dtype == np.float64
            }
            node.dataset = draws.assign(rounded)
    posterior.note_draws(result)  # draws are identified by their values


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round to single precision; numbers between 0 and 1 stay there, as zeros rule out data."""
    rounded = values.astype(np.float32)
    inner = np.finfo(np.float32).tiny, np.nextafter(np.float32(1), np.float32(0))
    for edge, inside in enumerate(inner):
        at = (rounded == edge).nonzero()
        rounded[at] = np.where((values[at] > 0) & (values[at] < 1), inside, rounded[at])
    return rounded
