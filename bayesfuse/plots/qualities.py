"""Numbers that several plots show: the accuracy of raters, and the difficulty of items."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array
from bayesfuse.results.compatibility import observation_of
from bayesfuse.results.contents import all_draws, class_names, constants, named
from bayesfuse.results.difficulty import difficulty, has_types
from bayesfuse.results.rater_tables import of_votes, sources
from bayesfuse.results.summaries import balanced_accuracy, interval, responses_per_rater

DRAWS = 100  # posterior draws over which the difficulty is averaged


class Qualities(NamedTuple):
    """Accuracy of every rater, with its interval, number of responses and accuracy of guessing."""

    name: NDArray[Any]
    mean: Array
    low: Array
    high: Array
    responses: NDArray[np.int64] | None
    measure: str
    chance: float | None


def rater_qualities(
    result: xr.DataTree, model: pm.Model | None, ci_prob: float | None
) -> Qualities | None:
    """Return the accuracies of raters, of labelling functions those of votes; None if unknown."""
    observation = None if model is None else observation_of(result, model)
    if observation is not None and of_votes(model, observation):
        table = sources(model, result, ci_prob=ci_prob)
        names = np.array([f"{source}: {label}" for source, label in table.index], dtype=object)
        mean, low, high = (table[f"accuracy{end}"].to_numpy() for end in ("", "_lower", "_upper"))
        n_items = observation.responses.multiplicity.sum()
        number = np.rint(table["coverage"].to_numpy() * n_items).astype(np.int64)
        return Qualities(names, mean, low, high, number, "accuracy of the votes", None)
    draws = all_draws(result)
    if named(draws, "sensitivity") is None or named(draws, "specificity") is None:
        return None
    accuracy = balanced_accuracy(result)
    low, high = (end.values for end in interval(accuracy, ci_prob))
    mean = accuracy.mean(("chain", "draw")).values
    number = responses_per_rater(result) if has_responses(result) else None
    measure, chance = "accuracy, mean over the classes", 1.0 / len(class_names(result))
    return Qualities(accuracy["rater"].values, mean, low, high, number, measure, chance)


def responses_per_item(result: xr.DataTree, items: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of responses to the given items."""
    known = constants(result, "item_index")
    number = np.bincount(known["item_index"].values, minlength=known.sizes["item"])
    found: NDArray[np.int64] = number[known.get_index("item").get_indexer(list(items))]
    return found


def has_responses(result: xr.DataTree) -> bool:
    """Return whether a result has the raters and items of its responses."""
    return {"rater_index", "item_index"} <= set(constants(result).data_vars)


def item_difficulty(result: xr.DataTree, model: pm.Model | None) -> xr.DataArray | None:
    """Return the difficulty of every item, stored or of a model of item types; None if unknown."""
    if "difficulty" in result.children:
        stored = result["difficulty"].dataset
        own = [name for name, values in stored.data_vars.items() if values.dims == ("item",)]
        for name in ("disagreement", "difficulty", *own[:1]):
            if name in own:
                return stored[name]
    if model is None or not all_draws(result):
        return None
    if not has_types(observation_of(result, model)):
        return None
    return difficulty(result, model, draws=DRAWS)["disagreement"]
