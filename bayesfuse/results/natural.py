"""Dirichlet distributions of a fit as its result holds them, so that later data can be added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import ResponseModel
from bayesfuse.parameters.dirichlet import Dirichlet, DirichletMixture
from bayesfuse.results.contents import require_result

OF, VARIABLE = "concentration_of", "variable"
"""Attributes of stored concentrations: the parameter, and its variable in the posterior."""

DIGESTS = "batch_digest"
"""Variable of the group ``fit``: a digest of every table that entered the fit."""


@dataclass(frozen=True)
class DirichletPosterior:
    """The Dirichlet prior and posterior of a parameter, and its variable in the result."""

    prior: Dirichlet
    posterior: Dirichlet
    variable: str

    def fading(self, forgetting: float) -> Dirichlet:
        """Return the posterior after a share of its counts is forgotten."""
        if forgetting == 0:
            return self.posterior
        return self.prior.plus((1.0 - forgetting) * (self.posterior - self.prior))

    def with_new_raters(self, count: int) -> DirichletPosterior:
        """Return the distributions with new raters, who have the prior of the first one."""
        prior = _grown(self.prior, self.prior, count)
        return replace(self, prior=prior, posterior=_grown(self.posterior, self.prior, count))


def fit_group(
    posterior: xr.Dataset,
    known: Mapping[str, DirichletPosterior],
    elbo: Array,
    digests: NDArray[np.uint64],
) -> xr.Dataset:
    """Return the group ``fit`` of a result with this posterior."""
    variables: dict[str, Any] = {"elbo": ("iteration", elbo)}
    coords: dict[Any, Any] = {}
    for name, natural in known.items():
        drawn = posterior[natural.variable]
        dims = drawn.dims[2:]
        coords |= {dim: drawn[dim].values for dim in dims if dim in drawn.coords}
        if len(natural.prior.shape) > len(dims):
            dims = (*dims, f"{name}_outcome")  # p stands for the row (p, 1 − p)
        for what, rows in (("prior_", natural.prior), ("", natural.posterior)):
            axes = dims
            if isinstance(rows, DirichletMixture):
                axes = (f"{name}_component", *dims)
                variables[f"{name}_{what}log_share"] = (axes[:-1], rows.log_shares)
            variables[f"{name}_{what}concentration"] = (axes, rows.concentration)
        variables[f"{name}_concentration"] += ({OF: name, VARIABLE: natural.variable},)
    if known:
        variables[DIGESTS] = ("batch", digests)
    return xr.Dataset(variables, coords)


def read(result: xr.DataTree) -> dict[str, DirichletPosterior]:
    """Return the Dirichlet distributions in a result, or raise ModelError if there are none."""
    groups = require_result(result).children
    stored = groups["fit"].dataset if "fit" in groups else xr.Dataset()
    posteriors = {}
    for variable in stored.data_vars.values():
        if (name := variable.attrs.get(OF)) is not None:
            prior, posterior = (_rows(stored, f"{name}_{what}") for what in ("prior_", ""))
            posteriors[str(name)] = DirichletPosterior(
                prior, posterior, str(variable.attrs[VARIABLE])
            )
    if not posteriors:
        raise ModelError(
            "An update adds counts to the Dirichlet distributions of a fit, which results of "
            "bf.fit(model, method='cavi') hold and draws alone do not; bf.predict labels new items "
            "by any result. Got: a result of "
            f"method={result.attrs.get('method')!r}, with groups {sorted(groups)}."
        )
    return posteriors


def digest(observation: ResponseModel) -> np.uint64:
    """Return a number for a table of responses, that of equal tables being equal."""
    content = observation.fingerprint["responses"].encode()
    return np.uint64(int.from_bytes(blake2b(content, digest_size=8).digest()))


def _rows(stored: xr.Dataset, name: str) -> Dirichlet:
    concentration = stored[f"{name}concentration"].values
    if f"{name}log_share" in stored:
        return DirichletMixture(stored[f"{name}log_share"].values, concentration)
    return Dirichlet(concentration)


def _grown(rows: Dirichlet, prior: Dirichlet, count: int) -> Dirichlet:
    """Return rows by rater with those that the prior has for the first rater added at the end."""
    new = np.zeros(count, dtype=np.int64)
    if isinstance(rows, DirichletMixture) and isinstance(prior, DirichletMixture):
        both = (rows.log_shares, prior.log_shares), (rows.concentration, prior.concentration)
        return DirichletMixture(*(np.concatenate([old, first[:, new]], 1) for old, first in both))
    return Dirichlet(np.concatenate([rows.concentration, prior.concentration[new]]))
