"""Collapsed labels: classes that many responses name and almost no label has."""

from __future__ import annotations

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

SHARE, ITEMS = 0.05, 20
"""Smallest share and number of items with a majority for a class that can count as lost."""
LEFT = 0.02
"""A class is lost if it has less than one item, or than this share of its majorities.

Most votes for a rare class are mistakes, but not all: of 187 simulated tables with a class of two
per cent five lost it, all of 300 items and two responses each; in 19 of 20 the share was above .08.
"""
FEW_TAGS = 1000  # responses below which a span more or less would matter
OFTEN = 10  # minimum number of responses of raters with only one label


def lost_classes(probability: Array, observation: ResponseModel) -> xr.Dataset:
    """Compare label probabilities (items, classes) of unknown items with the votes."""
    responses = observation.responses
    unknown = (responses.per_item > 0) & (observation.gold < 0)
    copies = responses.multiplicity[unknown].astype(float)
    votes = responses.votes()[unknown]
    most = votes == votes.max(axis=1, keepdims=True, initial=0)
    favoured = copies @ (most / most.sum(axis=1, keepdims=True))  # tied classes share an item
    expected = copies @ probability[unknown]
    enough = favoured >= max(SHARE * copies.sum(), ITEMS)
    lost = enough & (expected < np.maximum(LEFT * favoured, 1.0))
    size = responses.n_raters, responses.n_classes
    response_counts = np.bincount(responses.cell, minlength=size[0] * size[1]).reshape(size)
    only = (np.count_nonzero(response_counts, axis=1) == 1) & (response_counts.max(axis=1) >= OFTEN)
    spans = lost_spans(probability[unknown], responses)
    if spans is not None:
        verdict = (
            f"Labels have lost spans: {spans[0]:.2%} of the items are expected in spans, and "
            f"raters put {spans[1]:.2%} of their responses into spans. A chain can explain rare "
            "spans as errors of single raters: compare bayesfuse.models.DawidSkene, or use bf.fuse."
        )
    elif not lost.any():
        verdict = "Labels have not collapsed: every class that many responses name has items."
    else:
        counts_in_words = "; ".join(
            f"class {responses.classes[k]}: {expected[k]:.2g}, though most responses name it for "
            f"{favoured[k]:,.0f}"
            for k in np.flatnonzero(lost)
        )
        advice = _advice(
            observation, only, int((only & lost[response_counts.argmax(axis=1)]).sum())
        )
        verdict = f"Labels have collapsed. Expected number of items: {counts_in_words}. {advice}"
    by_class = {"favoured": favoured, "expected": expected, "lost": lost}
    return xr.Dataset(
        {name: ("class", values) for name, values in by_class.items()}
        | {"one_label": ("rater", only)},
        {"class": responses.classes, "rater": responses.raters},
        {"collapsed": bool(lost.any()) or spans is not None, "verdict": verdict},
    )


def lost_spans(probability: Array, responses: Responses) -> tuple[float, float] | None:
    """Return the shares of items and of responses in spans if there are far fewer of the former.

    On simulated abstracts, of which raters miss half of the spans, a chain expected 30 wrong tags
    of 2,586.
    """
    classes = responses.classes.tolist()
    if not mark_spans(classes) or not len(probability) or responses.n_responses < FEW_TAGS:
        return None
    outside = classes.index("O")
    marked = 1.0 - float(probability[:, outside].mean())
    marked_by_raters = float(np.mean(responses.label != outside))
    return (marked, marked_by_raters) if marked < marked_by_raters / 2.0 else None


def _advice(observation: ResponseModel, only: NDArray[np.bool_], n_raters: int) -> str:
    """Return what to do about lost classes, which are the ``only`` label of ``n_raters``."""
    votes = isinstance(observation.raters, Votes)
    remedy = (
        "give the shares of the classes (class_shares= of bf.models.LabellingFunctions)"
        if votes
        else "use a strong prevalence prior (prevalence_prior= of bf.models.DawidSkene: the "
        "expected shares times the number of items) or another model"
    )
    text = (
        f"Raters who only give such a label: {n_raters}. The responses alone cannot tell whether "
        f"that is right. If it is not, {remedy}; known labels (gold=) may not be enough."
    )
    if votes or isinstance(observation.raters, Consensus):
        return text
    if 2 * only.sum() > only.size and isinstance(observation.labels, Independent):
        model = "LabellingFunctions is for raters who only give one label"
    else:
        model = "ItemTypes leaves such labels unsure rather than wrong"
    return f"{text} bayesfuse.models.{model}."


def warn_of_collapse(result: xr.DataTree, observation: ResponseModel) -> None:
    """Warn the caller of a fit if its labels have collapsed."""
    if isinstance(observation, ChunkedResponseModel):
        return  # the votes of all items are in no one table
    probability = result["label_posterior"].dataset["probability"]
    lost = lost_classes(probability.transpose("item", "class").values, observation)
    if lost.attrs["collapsed"]:
        warn(lost.attrs["verdict"], CollapseWarning)
