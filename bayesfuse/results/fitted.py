"""Parameters of a fit, and the response models of new items under them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse import labels as label_priors, raters as rater_channels
from bayesfuse.data.arrays import as_array, as_python, shown
from bayesfuse.data.class_names import as_spelt
from bayesfuse.data.known import read_classifier, read_covariates, read_populations
from bayesfuse.data.names import listed, places, unique_names
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.labels.base import LabelPrior
from bayesfuse.labels.independent import ANEW, ItemRows, log_word
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import LogParameters, ResponseModel
from bayesfuse.observation.evaluate import POOL, PRIOR
from bayesfuse.observation.item_priors import SHARE
from bayesfuse.parameters.contract import REAL
from bayesfuse.parameters.simplex import SIMPLEX
from bayesfuse.raters.base import RaterChannel
from bayesfuse.results.contents import (
    all_draws,
    averaged_models,
    constants,
    evenly_spaced,
    needs_model,
    one_of,
    stored,
)
from bayesfuse.results.schema import PREDICTION

FITTED = "fitted"  # where the rows of a rater with responses come from; for others see source_of


@dataclass(frozen=True)
class Fitted:
    """Factors, settings and draws of a fit, for items and raters that it has not seen.

    ``values`` are the parameters (chain, draw, …), or their :class:`LogOdds`. By parameter,
    ``new_rater_defaults`` holds the rows of a rater without responses and their source, or the
    reason why there are none; ``needs`` names the arguments that describe new items.
    """

    labels: type[LabelPrior]
    raters: type[RaterChannel]
    label_settings: Mapping[str, Any]
    rater_settings: Mapping[str, Any]
    needs: list[str]
    values: dict[str, Any]
    new_rater_defaults: dict[str, tuple[Array, str] | str]
    rater_names: NDArray[Any]
    class_names: NDArray[Any]
    population_names: NDArray[Any] | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of chains and draws."""
        n_chains, n_draws = next(iter(self.values.values())).shape[:2]
        return n_chains, n_draws

    def thinned(self, draws: int) -> Fitted:
        """Return evenly spaced draws of every chain."""
        n_chains, n_draws = self.sizes
        chosen = evenly_spaced(min(-(-draws // n_chains), n_draws), n_draws)
        values = {name: drawn[:, chosen] for name, drawn in self.values.items()}
        newcomers = {
            name: new if isinstance(new, str) else (new[0][:, chosen], new[1])
            for name, new in self.new_rater_defaults.items()
        }
        return replace(self, values=values, new_rater_defaults=newcomers)

    def of_raters(
        self, raters: NDArray[Any]
    ) -> tuple[dict[str, Any], NDArray[np.int64], list[str]]:
        """Return the parameters of these raters, their places in the fit (−1: none), sources."""
        index = places(as_array(raters), self.rater_names)
        new, values = index < 0, dict(self.values)
        sources: set[str] = set()
        for parameter in (*self.labels.declared, *self.raters.declared):
            name = parameter.name
            if "rater" not in parameter.dims or name not in values:
                continue
            axis = 2 + parameter.dims.index("rater")
            rows = np.take(values[name], np.maximum(index, 0), axis=axis)
            if new.any():
                default = self.new_rater_defaults.get(name, "the model has no rows for them")
                if isinstance(default, str):
                    raise ModelError(
                        "A rater without fitted responses needs rows that the model expects of new "
                        "raters: those of a pool (pooled=True) or of a prior that all raters "
                        f"share. Got: rater {as_python(raters[new][0])!r} ({int(new.sum())} such); "
                        f"for {name}, {default}."
                    )
                np.moveaxis(rows, axis, 0)[new] = default[0]
                sources.add(default[1])
            values[name] = rows
        new_source = PRIOR if PRIOR in sources else POOL
        return values, index, np.where(new, new_source, FITTED).tolist()

    def settings_of(self, raters: NDArray[Any], index: NDArray[np.int64]) -> Mapping[str, Any]:
        """Return the settings of the channel for these raters, at ``index`` in the fit."""
        settings, kind, same = self.rater_settings, self.raters, np.arange(len(self.rater_names))
        by_rater = kind.capabilities.by_rater
        if np.array_equal(index, same) or by_rater == ():
            return settings
        likely = [name for name in settings if np.shape(settings[name])[:1] == same.shape]
        if by_rater is None and likely:
            raise ModelError(
                "Settings of a channel with an entry per rater must be named in its "
                f"capabilities, by_rater (a tuple, () for none). Got: {likely[0]}, and no by_rater."
            )
        by_rater = by_rater or ()
        if by_rater and index.min() < 0:
            raise ModelError(
                "Settings of a channel with an entry per rater are known for fitted raters only. "
                f"Got: raters {shown(raters[index < 0], 3)}, setting {by_rater[0]}."
            )
        return {**settings, **{name: np.asarray(settings[name])[index] for name in by_rater}}


def from_result(result: xr.DataTree) -> Fitted:
    """Read the parameters that a result of this package stores."""
    if several := averaged_models(result):
        raise ModelError(
            "An average of models has no parameters; its labels are in fused.labels() and "
            f"bf.spans(fused), and {one_of(result)} is the result of one model. Got: an average of "
            f"{several}."
        )
    known = constants(result, "rater")
    stored_fit = json.loads(known.attrs.get(PREDICTION, "null"))
    if stored_fit is None:
        raise needs_model("a note where it holds the parameters")
    for what in ("labels", "raters"):
        if stored_fit[what]["kind"] is None:
            raise needs_model(f"its {what}, not of this package or with many settings")
    labels = getattr(label_priors, stored_fit["labels"]["kind"])
    raters = getattr(rater_channels, stored_fit["raters"]["kind"])
    log_odds, places = (
        stored_log_odds(result, stored_fit["labels"]["needs"]),
        stored_fit["parameters"],
    )
    if log_odds:  # the labels of others have other log-odds
        names = [parameter.name for parameter in raters.declared if parameter.name in places]
        places = {name: places[name] for name in names}
    values = {name: _stored(result, name, where) for name, where in places.items()} | log_odds
    newcomers = {}
    for name, row in stored_fit["newcomers"].items():
        why = row.get("reason", "they are known to the model only, so give model=")
        home = row.get("stored")
        newcomers[name] = why if home is None else (_stored(result, name, home), row["source"])
    return Fitted(
        labels,
        raters,
        stored_fit["labels"]["settings"],
        stored_fit["raters"]["settings"],
        stored_fit["labels"]["needs"],
        values,
        newcomers,
        known["rater"].values,
        unique_names(known["class"].values, "class"),
        population_names(result),
    )


def population_names(result: xr.DataTree) -> NDArray[Any] | None:
    """Return the names of populations, if the result has some."""
    draws = all_draws(result)
    if "population" not in draws.coords:
        return None
    return unique_names(draws["population"].values, "population")


def _stored(result: xr.DataTree, name: str, where: Mapping[str, Any] | None) -> NDArray[Any]:
    """Return the draws of a parameter (chain, draw, …) from where a result stores them."""
    draws = all_draws(result)
    if where is None:
        raise needs_model(f"{name}, an expression of other variables or a large constant")
    if variable := where.get("variable"):
        return stored(draws, variable).transpose("chain", "draw", ...).values
    if variable := where.get("constant"):
        value = constants(result, variable)[variable].values
    else:
        value = np.asarray(where["value"])
    return np.broadcast_to(value, (draws.sizes["chain"], draws.sizes["draw"], *value.shape))


@dataclass(frozen=True)
class LogOdds:
    """Log-odds (chain, draw, row, class) of items of which more is known, computed draw by draw.

    ``draws`` are those of ``share``, ``slope`` and ``scale``; ``constants`` standardise covariates.
    """

    draws: dict[str, Array]
    names: list[str]
    constants: dict[str, Array]
    rows: ItemRows | None = None

    def of_items(
        self, responses: Responses, population: Any, covariates: Any, classifier: Any
    ) -> tuple[NDArray[np.int64], LogOdds]:
        """Return the row of every item, and the log-odds of the rows."""
        x = word = None
        if covariates is not None:
            _, table = read_covariates(responses, covariates, self.names)
            x = (table - self.constants["covariate_mean"]) / self.constants["covariate_sd"]
        if classifier is not None:
            word = log_word(read_classifier(responses, classifier))
            word = word - self.constants["classifier_mean"]
        SIMPLEX.require("share", self.draws["share"])
        for role in self.draws.keys() - {"share"}:
            REAL.require(role, self.draws[role])
        rows = ItemRows.build(responses.n_items, population, x, word)
        return rows.kind, replace(self, rows=rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        n_rows = 0 if self.rows is None else int(self.rows.kind.max(initial=-1)) + 1
        share = self.draws["share"]
        return (*share.shape[:2], n_rows, share.shape[-1])

    def __getitem__(self, at: tuple[Any, Any]) -> Any:
        draws = {name: values[at] for name, values in self.draws.items()}
        if self.rows is None:  # of some draws
            return replace(self, draws=draws)
        with np.errstate(divide="ignore"):
            return self.rows.log_odds(draws["share"], draws.get("slope"), draws.get("scale"), np)


def stored_log_odds(result: xr.DataTree, needs: Sequence[str]) -> dict[str, Any]:
    """Return ``log_odds`` of a result, empty without covariates and a classifier."""
    if not {"covariates", "classifier"} & set(needs) or "sequences" in needs:
        return {}
    wanted, constant_names, names = {"share": SHARE["populations" in needs]}, [], []
    posterior, data = all_draws(result), constants(result)
    if "covariates" in needs:
        wanted["slope"], constant_names = "standard_slope", ["covariate_mean", "covariate_sd"]
        names = [str(name) for name in listed(posterior["covariate"].values)]
    if "classifier" in needs:
        wanted["scale"], constant_names = "classifier_scale", [*constant_names, "classifier_mean"]
    draws = {
        role: stored(posterior, name).transpose("chain", "draw", ...).values
        for role, name in wanted.items()
    }
    values = {name: stored(data, name).values for name in constant_names}
    return {"log_odds": LogOdds(draws, names, values)}


def bind(
    fitted: Fitted,
    responses: Responses,
    inputs: Mapping[str, Any],
    gold: Mapping[Any, Any] | None = None,
) -> tuple[ResponseModel, dict[str, Any], list[str]]:
    """Return new responses bound to a fit: observation, parameters, and sources of raters.

    ``inputs`` are the arguments of ``bf.predict`` that describe new items, None if not given.
    """
    used_inputs = {name: entry for name, entry in inputs.items() if entry is not None}
    if set(used_inputs) != set(fitted.needs):
        needs = " and ".join(f"{entry}=" for entry in fitted.needs)
        got = ", ".join(f"{entry}=" for entry in used_inputs)
        raise ModelError(
            f"The label prior of this model needs {needs or 'no inputs'}: pass "
            f"{needs or 'none'} for the new items. Got: {got or 'nothing'}."
        )
    responses = with_classes(responses, fitted.class_names)
    values, index, source = fitted.of_raters(responses.raters)
    of_raters = {parameter.name for parameter in fitted.raters.declared}
    if "populations" in used_inputs:
        names, unit = fitted.population_names, fitted.labels.unit
        if names is None:  # a model of the user's own, which numbers them
            name = next(name for name in values if name not in of_raters)
            names = np.arange(values[name].shape[2])
        units = used_inputs["sequences"].names if unit == "sequence" else responses.items
        used_inputs["populations"] = read_populations(
            units, used_inputs["populations"], names, unit
        )[1]
    if isinstance(log_odds := values.get("log_odds"), LogOdds):
        known = (
            used_inputs.pop(name, None) for name in ("populations", "covariates", "classifier")
        )
        used_inputs["populations"], values["log_odds"] = log_odds.of_items(responses, *known)
    first = {name: drawn[0, 0] for name, drawn in values.items()}
    of_labels = {name: entry for name, entry in first.items() if name not in of_raters}
    labels = fitted.labels.rebuild_for(of_labels, fitted.label_settings, **used_inputs)
    names_of = {name: first[name] for name in first if name in of_raters}
    names_of |= {name: used_inputs[name] for name in fitted.raters.needs}
    raters = fitted.raters.rebuild_for(names_of, fitted.settings_of(responses.raters, index), index)
    for parameter in (*labels.used_parameters, *raters.used_parameters):
        if "item" in parameter.dims:
            raise ModelError(
                "Parameters must be shared by all items, because those of new items are unknown: "
                f"{ANEW}. Got: {parameter.name}, which belongs to single items."
            )
    shapes = {name: value.shape for name, value in first.items()}
    stored_values = {n: value for n, value in values.items() if not isinstance(value, LogOdds)}
    for factor in (labels, raters):
        factor.check(shapes, responses)
        factor.require(stored_values)
    return ResponseModel.build(responses, labels, raters, gold), values, source


def confusion_at(observation: ResponseModel, rows: LogParameters) -> Array:
    """Return the confusion matrices (raters, classes, answers) at some parameters."""
    channel, _ = observation.channel_at(rows)
    return channel.confusion(observation.tables(rows), observation.table.n_classes, np)


def with_classes(responses: Responses, classes: NDArray[Any]) -> Responses:
    """Return the same responses with the classes of a fit."""
    names = as_array(responses.classes)
    if responses.normalised:
        names = as_array(as_spelt(names.tolist(), classes))
    place = places(names, classes)
    if (place < 0).any():
        unknown = responses.classes[place < 0]
        raise ModelError(
            "Classes of new responses must be classes of the result, because nothing is known of "
            f"others. Got: {as_python(unknown[0])!r} ({len(unknown)} such), which is not among "
            f"{shown(classes)}."
        )
    if np.array_equal(as_array(responses.classes), classes):
        return responses
    stated = responses.stated
    if stated is not None:
        stated = stated.with_classes(place, len(classes))
    codes = responses.item, responses.rater, place[responses.label]
    return responses.with_rows(*codes, classes=classes, stated=stated)
