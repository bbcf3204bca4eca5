"""How many draws of a result are stored, and in which precision."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import pymc as pm

from bayesfuse.errors import LargeResultWarning, require_choice, require_count, warn
from bayesfuse.observation.model import all_observed
from bayesfuse.results import draws as sums
from bayesfuse.results.draws import n_units

Precision = Literal["double", "single"]

MAX_BYTES = 500_000_000
"""Bytes of posterior and log likelihood above which fewer are stored, unless requested."""

MAX_THIN = 100
"""Largest default of ``thin``: absurd numbers of draws should run out of memory."""

BYTES = {"double": 8, "single": 4}  # of a stored number, by precision


class Storage(NamedTuple):
    """Precision, thinning, whether log likelihoods are stored, and bytes: stored, and of all."""

    precision: Precision
    thin: int
    log_likelihood: bool
    size: int
    full_size: int


def choose_storage(
    model: pm.Model,
    sizes: tuple[int, int],
    *,
    precision: Precision | None = None,
    thin: int | None = None,
    log_likelihood: bool | None = None,
    max_bytes: int | None = None,
) -> Storage:
    """Choose the precision, then ``thin``, so that draws take ``max_bytes``, unless given.

    The relative error of single precision, 10⁻⁷, is far below any Monte Carlo error.
    """
    max_bytes = MAX_BYTES if max_bytes is None else max_bytes
    n_chains, n_draws = sizes
    require_count("chains", n_chains)
    require_count("draws", n_draws)
    if thin is not None:
        require_count("thin", thin)
    if precision is not None:
        require_choice("precision", precision, *BYTES)
    units = sum(n_units(variable.owner.op.observation) for variable in all_observed(model))
    if log_likelihood is None:
        log_likelihood = n_chains * -(-n_draws // (thin or 1)) * units <= sums.MAX_VALUES
    n_values = units * log_likelihood + _n_values(model)  # of a draw

    def size(precision: Precision, thin: int) -> int:
        return n_chains * -(-n_draws // thin) * n_values * BYTES[precision]

    full_size = size(precision or "double", thin or 1)
    if precision is None:
        precision = "double" if full_size <= max_bytes else "single"
    if thin is None:
        max_draws = max(max_bytes // max(size(precision, n_draws), 1), 1)  # of a chain
        thin = min(-(-n_draws // max_draws), MAX_THIN)
    return Storage(precision, int(thin), log_likelihood, size(precision, int(thin)), full_size)


def _n_values(model: pm.Model) -> int:
    """Return the number of values of all variables of a model at a draw."""
    lengths = {dim: len(names) for dim, names in model.coords.items() if names is not None}
    total = 0
    for variable in (*model.free_RVs, *model.deterministics):
        dims = model.named_vars_to_dims.get(variable.name) or (None,) * variable.type.ndim
        shape = zip(variable.type.shape, dims, strict=True)
        total += math.prod(n if n is not None else lengths.get(str(d), 1) for n, d in shape)
    return total


def resolve_storage(*sizes: Any, **requested: Any) -> Storage:
    """Choose by :func:`choose_storage`; warn if less than usual is stored without a request."""
    storage = choose_storage(*sizes, **requested)
    if storage.size < storage.full_size:
        warn(
            f"Posterior and log likelihood of more than {MAX_BYTES / 1e6:,.0f} MB are stored in "
            "single precision, and if that is not enough only every thin-th draw, unless "
            f"precision= and thin= are given. Got: {storage.full_size / 1e6:,.0f} MB, so "
            f"precision={storage.precision!r} and thin={storage.thin} "
            f"({storage.size / 1e6:,.0f} MB).",
            LargeResultWarning,
        )
    return storage
