"""Classes that responses favour and labels have lost: the numbers, and a warning of them."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import CollapseWarning
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation

SHARE, ITEMS = 0.05, 20
"""A class can be lost if votes favour it for so large a share of the items, and for so many."""
LEFT = 0.02
"""It is lost if it has less than one item, or than this share of those that votes favour it for.

Most votes for a rare class are mistakes, but not all. Of 187 simulated tables of 300 to 3,000 items
with a class of two per cent five lost it, all of 300 items and two responses each, which fits
labelled with one class; in 19 of 20 tables the share was above 0.08.
"""
OFTEN = 10
"""Responses from which on a rater who only ever gives one label is told of."""


class Lost(NamedTuple):
    """What :func:`lost_classes` finds, by class, and by rater ``one_label``."""

    favoured: Array
    """Items of unknown class for which more responses name the class than any other."""
    expected: Array
    """How many of all such items have the class, by the label probabilities."""
    lost: NDArray[np.bool_]
    one_label: NDArray[np.int64]
    """The only label of raters who give one often, −1 for others."""


def lost_classes(probability: Array, observation: Observation) -> Lost:
    """Hold label probabilities (items, classes) against the votes, over items of unknown class."""
    responses = observation.responses
    unknown = (responses.per_item > 0) & (observation.gold < 0)
    copies = responses.multiplicity[unknown].astype(float)
    votes = responses.votes()[unknown]
    most = votes == votes.max(axis=1, keepdims=True, initial=0)
    favoured = copies @ (most / most.sum(axis=1, keepdims=True))  # tied classes share an item
    expected = copies @ probability[unknown]
    enough = favoured >= max(SHARE * copies.sum(), ITEMS)
    lost = enough & (expected < np.maximum(LEFT * favoured, 1.0))
    return Lost(favoured, expected, lost, _one_label(observation))


def _one_label(observation: Observation) -> NDArray[np.int64]:
    responses = observation.responses
    size = responses.n_raters, responses.n_classes
    given = np.bincount(responses.rater * size[1] + responses.label, minlength=size[0] * size[1])
    given = given.reshape(size)
    only = (np.count_nonzero(given, axis=1) == 1) & (given.max(axis=1) >= OFTEN)
    return np.where(only, given.argmax(axis=1), -1)


def in_words(found: Lost, observation: Observation) -> str:
    """Say which classes are lost, and what to do."""
    if not found.lost.any():
        return "Every class that many responses favour has items: labels have not collapsed."
    classes = observation.responses.classes
    each = "; ".join(
        f"{classes[k]}, which most responses name for {found.favoured[k]:,.0f} items, has "
        f"{found.expected[k]:.2g}"
        for k in np.flatnonzero(found.lost)
    )
    said = [f"Labels have collapsed against the votes. Expected number of items: {each}."]
    habits = int(np.isin(found.one_label, np.flatnonzero(found.lost)).sum())
    if habits:
        said.append(
            f"The model takes {habits} sources that only ever give such a label for sources that "
            "would give it to any item."
        )
    said.append(
        "The responses alone cannot tell whether that is so. If it is not, state the shares of the "
        "classes by a strong prior (prevalence_prior= the shares times the number of items), give "
        "known labels (gold=, hundreds rather than dozens), or take another model."
    )
    return " ".join(said)


def warn_of_collapse(result: xr.DataTree, observation: Observation) -> None:
    """Warn the caller of a fit that its labels have collapsed, if they have."""
    probability = result["label_posterior"].dataset["probability"]
    found = lost_classes(probability.transpose("item", "class").values, observation)
    if found.lost.any():
        # this function, the fit, its decorator, the caller
        warnings.warn(in_words(found, observation), CollapseWarning, stacklevel=4)
