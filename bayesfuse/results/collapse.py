"""Collapsed labels: classes that many responses name and almost no label has."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.data.tags import mark_spans
from bayesfuse.errors import CollapseWarning, warn
from bayesfuse.labels.independent import Independent
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import ChunkedResponseModel, ResponseModel
from bayesfuse.raters.consensus import Consensus
from bayesfuse.raters.votes import Votes
from bayesfuse.results.joint_labels import if_stored

MIN_SHARE, MIN_ITEMS = 0.05, 20
"""Smallest share and number of items with a majority for a class that can count as lost."""
MIN_LEFT = 0.02
"""A class is lost if it has less than one item, or than this share of its majorities.

Most votes for a rare class are mistakes, but not all: of 187 simulated tables with a class of two
per cent five lost it, all of 300 items and two responses each; in 19 of 20 the share was above .08.
"""
MIN_LOST_SHARE = 0.5  # of the draws, in which labels have collapsed
MAX_DRAWS = 50  # joint draws of the labels that are counted, about
MIN_TAGS = 1000  # responses below which a span more or less would matter
MIN_RESPONSES = 10  # of raters with only one label
ONE_MODE_RHAT = 1.1  # largest R-hat of chains that may be in one mode


def lost_classes(
    probability: Array, observation: ResponseModel, draws: NDArray[Any] | None = None
) -> xr.Dataset:
    """Compare the labels of items of unknown class with the votes.

    Labels are given by their probabilities (items, classes) and, if available, by joint ``draws``
    (draws, items). Only these show a collapse if classes are permuted between draws, because all
    classes then have the same mean.
    """
    responses = observation.responses
    unknown = (responses.per_item > 0) & (observation.gold < 0)
    copies = responses.multiplicity[unknown].astype(float)
    votes = responses.votes()[unknown]
    most = votes == votes.max(axis=1, keepdims=True, initial=0)
    favoured = copies @ (most / most.sum(axis=1, keepdims=True))  # tied classes share an item
    expected = copies @ probability[unknown]
    lost = _is_lost(expected, favoured)
    lost_share = np.nan
    if draws is not None:
        some = draws[:: max(len(draws) // MAX_DRAWS, 1)]
        lost_share = _share_of_draws(some[:, unknown], copies, favoured)
    shape = responses.n_raters, responses.n_classes
    counts = np.bincount(responses.cell, minlength=shape[0] * shape[1]).reshape(shape)
    one_label = (np.count_nonzero(counts, axis=1) == 1) & (counts.max(axis=1) >= MIN_RESPONSES)
    spans = lost_spans(probability[unknown], responses)
    is_swapping = not lost.any() and bool(lost_share >= MIN_LOST_SHARE)
    if spans is not None:
        verdict = (
            f"Labels have lost spans: {spans[0]:.2%} of the items are expected in spans, and "
            f"raters put {spans[1]:.2%} of their responses into spans. A chain can explain rare "
            "spans as errors of single raters: compare bayesfuse.models.DawidSkene, or use bf.fuse."
        )
    elif lost.any():
        numbers = "; ".join(
            f"class {responses.classes[k]}: {expected[k]:.2g}, though most responses name it for "
            f"{favoured[k]:,.0f}"
            for k in np.flatnonzero(lost)
        )
        affected = one_label & lost[counts.argmax(axis=1)]
        verdict = (
            f"Labels have collapsed. Expected number of items: {numbers}. Raters who only give "
            f"such a label: {affected.sum()}. {_advice(observation, one_label)}"
        )
    elif is_swapping:
        verdict = (
            f"Labels have collapsed, and classes are permuted between draws. In {lost_share:.0%} "
            "of the draws a class has almost no items, though most responses name it for many. "
            "Label probabilities average over the permutations, so they do not distinguish the "
            f"classes. Raters who only give one label: {one_label.sum()}. "
            f"{_advice(observation, one_label)}"
        )
    else:
        verdict = "Labels have not collapsed: every class that many responses name has items."
    by_class = {"favoured": favoured, "expected": expected, "lost": lost}
    return xr.Dataset(
        {name: ("class", values) for name, values in by_class.items()}
        | {"one_label": ("rater", one_label)},
        {"class": responses.classes, "rater": responses.raters},
        {
            "collapsed": bool(lost.any()) or is_swapping or spans is not None,
            "lost_share": float(lost_share),
            "verdict": verdict,
        },
    )


def _is_lost(n_items: Array, favoured: Array) -> NDArray[np.bool_]:
    """Return whether classes with many majorities have few items, both (…, classes)."""
    is_frequent = favoured >= max(MIN_SHARE * favoured.sum(), MIN_ITEMS)
    return is_frequent & (n_items < np.maximum(MIN_LEFT * favoured, 1.0))


def _share_of_draws(draws: NDArray[Any], copies: Array, favoured: Array) -> float:
    """Return the share of the draws in which a class is lost, whatever the names of the classes."""
    n_items = np.stack([(draws == k) @ copies for k in range(len(favoured))], axis=1)
    # classes are matched by size, which is invariant to permutations
    by_size = np.sort(n_items, axis=1)[:, ::-1]
    return float(_is_lost(by_size, np.sort(favoured)[::-1]).any(axis=1).mean())


def lost_spans(probability: Array, responses: Responses) -> tuple[float, float] | None:
    """Return the shares of items and of responses in spans if the former is far smaller.

    Chains collapse in this way if raters miss half of the spans: on simulated abstracts, 30 wrong
    tags were expected and 2,586 made.
    """
    classes = responses.classes.tolist()
    if not mark_spans(classes) or not len(probability) or responses.n_responses < MIN_TAGS:
        return None
    outside = classes.index("O")
    marked = 1.0 - float(probability[:, outside].mean())
    marked_by_raters = float(np.mean(responses.label != outside))
    return (marked, marked_by_raters) if marked < marked_by_raters / 2.0 else None


def _advice(observation: ResponseModel, one_label: NDArray[np.bool_]) -> str:
    """Return what to do about lost classes; ``one_label`` raters give the same label always."""
    is_votes = isinstance(observation.raters, Votes)
    remedy = (
        "use a strong prevalence prior (prevalence_prior= of bf.models.DawidSkene: the expected "
        "shares times the number of items) or another model"
    )
    if is_votes:
        remedy = "give the shares of the classes (class_shares= of bf.models.LabellingFunctions)"
    text = (
        "The responses alone cannot tell whether that is right. If it is not, "
        f"{remedy}; known labels (gold=) may not be enough."
    )
    if is_votes or isinstance(observation.raters, Consensus):
        return text
    if 2 * one_label.sum() > one_label.size and isinstance(observation.labels, Independent):
        return f"{text} bayesfuse.models.LabellingFunctions is for raters who only give one label."
    return f"{text} bayesfuse.models.ItemTypes leaves such labels unsure rather than wrong."


def warn_of_collapse(result: xr.DataTree, observation: ResponseModel) -> None:
    """Warn the caller of a fit if its labels have collapsed."""
    if isinstance(observation, ChunkedResponseModel):
        return  # the votes of all items are in no one table
    probability = result["label_posterior"].dataset["probability"].transpose("item", "class")
    lost = lost_classes(probability.values, observation, if_stored(result))
    if lost.attrs["collapsed"]:
        warn(lost.attrs["verdict"], CollapseWarning)
