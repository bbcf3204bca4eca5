"""Labels of new items of which covariates or a classifier's word are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.item_tables import read_classifier, read_covariates
from bayesfuse.data.names import listed
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.labels.item_odds import ItemRows, log_word
from bayesfuse.numerics.kernels import Array
from bayesfuse.pymc.item_priors import SHARE
from bayesfuse.results.contents import all_draws, constants, named


@dataclass(frozen=True)
class KnownItems:
    """Draws of ``share``, ``slope`` and ``scale``, covariates' names, standardising constants."""

    draws: dict[str, Array]
    names: list[str]
    constants: dict[str, Array]

    def at(self, chosen: NDArray[np.int64]) -> KnownItems:
        """Return some of the draws of every chain."""
        return replace(self, draws={name: each[:, chosen] for name, each in self.draws.items()})

    def rows(
        self,
        responses: Responses,
        population: NDArray[np.int64] | None,
        covariates: Any,
        classifier: Any,
    ) -> tuple[NDArray[np.int64], LogOdds]:
        """Return the row of every item, and the log-odds of the rows at every draw."""
        x = word = None
        if covariates is not None:
            _, table = read_covariates(responses, covariates, self.names)
            x = (table - self.constants["covariate_mean"]) / self.constants["covariate_sd"]
        if classifier is not None:
            word = log_word(read_classifier(responses, classifier))
            word = word - self.constants["classifier_mean"]
        found = ItemRows.build(responses.n_items, population, x, word)
        return found.kind, LogOdds(self, found)


@dataclass(frozen=True)
class LogOdds:
    """Log-odds (chain, draw, row, class), worked out draw by draw: they can be too many to hold."""

    known: KnownItems
    rows: ItemRows

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        share = self.known.draws["share"]
        return (*share.shape[:2], int(self.rows.kind.max(initial=-1)) + 1, share.shape[-1])

    def __getitem__(self, at: tuple[int, int]) -> Array:
        draws = {name: each[at] for name, each in self.known.draws.items()}
        with np.errstate(divide="ignore"):
            found: Array = self.rows.log_odds(
                draws["share"], draws.get("slope"), draws.get("scale"), np
            )
        return found


def known_items(result: xr.DataTree, needs: Sequence[str]) -> KnownItems | None:
    """Read what a result says, None if it takes neither covariates nor a classifier's word."""
    if not {"covariates", "classifier"} & set(needs):
        return None
    wanted = {"share": SHARE["populations" in needs]}
    told: list[str] = []
    if "covariates" in needs:
        wanted["slope"] = "standard_slope"
        told += ["covariate_mean", "covariate_sd"]
    if "classifier" in needs:
        wanted["scale"] = "classifier_scale"
        told += ["classifier_mean"]
    posterior, draws = all_draws(result), {}
    for role, name in wanted.items():
        if (drawn := named(posterior, name)) is None:
            raise ModelError(
                "A result must hold all parameters of its labels, because predictions follow from "
                f"them. Got: no {name!r} among {list(posterior.data_vars)}."
            )
        draws[role] = drawn.transpose("chain", "draw", ...).values
    data = constants(result)
    found = {name: named(data, name) for name in told}
    if missing := [name for name, each in found.items() if each is None]:
        raise ModelError(
            "A result must hold by what covariates and probabilities were standardised. Got: no "
            f"{missing[0]!r} in its group constant_data."
        )
    names = [] if "covariates" not in needs else listed(posterior["covariate"].values)
    values = {name: each.values for name, each in found.items() if each is not None}
    return KnownItems(draws, list(map(str, names)), values)
