"""New items as seen through the label prior and the raters of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, plain, shown
from bayesfuse.data.known import read_populations
from bayesfuse.data.names import places
from bayesfuse.data.responses import Responses, from_key
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Rows
from bayesfuse.results.fitted import Fitted


def see(
    fitted: Fitted,
    responses: Responses,
    told: Mapping[str, Any],
    gold: Mapping[Any, Any] | None = None,
) -> tuple[Observation, dict[str, Any], list[str]]:
    """Return new responses as seen through a fit: observation, parameters, and sources of raters.

    ``told`` holds the arguments of ``bf.predict`` that describe the new items, None if not given.
    """
    given = _places(fitted, told)
    responses = with_classes(responses, fitted.class_names)
    by_rater, index, source = fitted.of_raters(responses.raters)
    values: dict[str, Any] = {**by_rater}
    of_raters = {parameter.name for parameter in fitted.raters.declared}
    if "populations" in given:
        names, unit = fitted.population_names, fitted.labels.unit
        if names is None:  # a model of the user's own, which numbers them
            name = next(name for name in values if name not in of_raters)
            names = np.arange(values[name].shape[2])
        units = given["sequences"].names if unit == "sequence" else responses.items
        given["populations"] = read_populations(units, given["populations"], names, unit)[1]
    if fitted.items is not None:
        known = (given.pop(name, None) for name in ("populations", "covariates", "classifier"))
        given["populations"], values["log_odds"] = fitted.items.rows(responses, *known)
    first = {name: drawn[0, 0] for name, drawn in values.items()}
    own = [
        {name: first[name] for name in first if (name in of_raters) is raters}
        for raters in (False, True)
    ]
    labels = fitted.labels.anew(own[0], fitted.label_settings, **given)
    own[1] |= {name: given[name] for name in fitted.raters.needs}
    raters = fitted.raters.anew(own[1], fitted.rater_settings, index)
    for parameter in (*labels.used_parameters, *raters.used_parameters):
        if "item" in parameter.dims:
            raise ModelError(
                "Parameters must be shared by all items, because those of new items are unknown. "
                f"Got: {parameter.name}, which belongs to single items."
            )
    shapes = {name: value.shape for name, value in first.items()}
    labels.check(shapes, responses)
    raters.check(shapes, responses)
    return Observation.build(responses, labels, raters, gold), values, source


def confusion_at(observation: Observation, rows: Rows) -> Array:
    """Return the confusion matrices (raters, classes, answers) at some parameters."""
    channel, _ = observation.raters.at(rows, observation.rater_structure)
    matrices: Array = channel.confusion(observation.tables(rows), observation.table.n_classes, np)
    return matrices


def _places(fitted: Fitted, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what places the new items, or raise ModelError if it is missing or given in vain."""
    labels = fitted.labels.__name__
    given = {name: each for name, each in given.items() if each is not None}
    if missing := [name for name in fitted.needs if name not in given]:
        raise ModelError(
            f"Labels depend on the {missing[0]} in this model, so those of the new items must be "
            f"known: give {missing[0]}=. Got: no {missing[0]}, for a result of {labels} labels."
        )
    if vain := [name for name in given if name not in fitted.needs]:
        raise ModelError(
            f"{vain[0]}= is for labels that depend on it; leave it out, or fit a model of such "
            f"labels. Got: {vain[0]} for a result of {labels} labels."
        )
    return given


def with_classes(responses: Responses, classes: NDArray[Any]) -> Responses:
    """Return the same responses with the classes of a fit."""
    place = places(as_array(responses.classes), classes)
    if (place < 0).any():
        unknown = responses.classes[place < 0]
        raise ModelError(
            "Classes of new responses must be classes of the result, because nothing is known of "
            f"others. Got: {plain(unknown[0])!r} ({len(unknown)} such), which is not among "
            f"{shown(classes)}."
        )
    if np.array_equal(place, np.arange(len(classes))):
        return responses
    key = responses.item * responses.n_raters + responses.rater
    key = key * len(classes) + place[responses.label]
    table = from_key(key, responses.items, responses.raters, classes)
    stated = responses.stated
    if stated is not None:
        stated = stated.with_classes(place, len(classes))
    return replace(
        table, multiplicity=responses.multiplicity, silent=responses.silent, stated=stated
    )
