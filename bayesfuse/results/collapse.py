"""Collapsed labels: classes that many responses name and almost no label has."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.data.tags import mark_spans
from bayesfuse.errors import CollapseWarning, warn
from bayesfuse.labels.independent import Independent
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Spread
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


class Lost(NamedTuple):
    """The result of :func:`lost_classes`, by class; ``one_label`` by rater."""

    favoured: Array
    """Number of items of unknown class with a majority for the class."""
    expected: Array
    """Expected number of these items with the class, by the label probabilities."""
    lost: NDArray[np.bool_]
    one_label: NDArray[np.int64]
    """The only label of raters with many responses and one label, −1 for others."""
    spans: tuple[float, float] | None
    """Of tags of lost spans, expected share of items in spans and share of the responses."""

    def __bool__(self) -> bool:
        return bool(self.lost.any()) or self.spans is not None


def lost_classes(probability: Array, observation: Observation) -> Lost:
    """Compare label probabilities (items, classes) with the votes, over items of unknown class."""
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
    given = np.bincount(responses.rater * size[1] + responses.label, minlength=size[0] * size[1])
    given = given.reshape(size)
    only = (np.count_nonzero(given, axis=1) == 1) & (given.max(axis=1) >= OFTEN)
    one_label = np.where(only, given.argmax(axis=1), -1)
    return Lost(favoured, expected, lost, one_label, lost_spans(probability[unknown], responses))


def lost_spans(probability: Array, responses: Responses) -> tuple[float, float] | None:
    """Return the shares of items and of responses in spans if there are far fewer of the former.

    A chain can explain rare spans as errors of single raters: on simulated abstracts, of which
    raters miss half of the spans, it expected 30 wrong tags of 2,586.
    """
    classes = responses.classes.tolist()
    if not mark_spans(classes) or not len(probability) or responses.n_responses < FEW_TAGS:
        return None
    outside = classes.index("O")
    found = 1.0 - float(probability[:, outside].mean())
    given = float(np.mean(responses.label != outside))
    return (found, given) if found < given / 2.0 else None


def in_words(found: Lost, observation: Observation) -> str:
    """Return which classes are lost, and what to do about it."""
    if found.spans is not None:
        items, given = found.spans
        return (
            f"Labels have lost spans: {items:.2%} of the items are expected in spans, and raters "
            f"put {given:.2%} of their responses into spans. A chain can explain rare spans as "
            "errors of single raters: compare bayesfuse.models.DawidSkene, or use bf.fuse."
        )
    if not found:
        return "Labels have not collapsed: every class that many responses name has items."
    classes, lost = observation.responses.classes, np.flatnonzero(found.lost)
    each = "; ".join(
        f"class {classes[k]}: {found.expected[k]:.2g}, though most responses name it for "
        f"{found.favoured[k]:,.0f}"
        for k in lost
    )
    text = [f"Labels have collapsed. Expected number of items: {each}."]
    if n_raters := int(np.isin(found.one_label, lost).sum()):
        text.append(
            f"Raters who only give such a label: {n_raters}; the model treats their responses as "
            "uninformative."
        )
    votes = isinstance(observation.raters, Votes)
    remedy = (
        "give the shares of the classes (class_shares=)"
        if votes
        else "use a strong prevalence prior (prevalence_prior= the expected shares times the "
        "number of items) or another model"
    )
    text.append(
        f"The {'votes' if votes else 'responses'} alone cannot tell whether that is right. If it "
        f"is not, {remedy}; known labels (gold=) may not be enough."
    )
    one_label = 2 * np.count_nonzero(found.one_label >= 0) > found.one_label.size
    if one_label and not votes and isinstance(observation.labels, Independent):
        text.append(
            "Most raters only give one label: bayesfuse.models.LabellingFunctions is for these."
        )
    elif not votes and not isinstance(observation.raters, Consensus):
        text.append("bayesfuse.models.ItemTypes leaves such labels unsure rather than wrong.")
    return " ".join(text)


def warn_of_collapse(result: xr.DataTree, observation: Observation) -> None:
    """Warn the caller of a fit if its labels have collapsed."""
    if isinstance(observation, Spread):
        return  # the votes of all items are in no one table
    probability = result["label_posterior"].dataset["probability"]
    found = lost_classes(probability.transpose("item", "class").values, observation)
    if found:
        warn(in_words(found, observation), CollapseWarning)
