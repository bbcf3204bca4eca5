"""Raters who are probably worse than guessing, or hardly better."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayesfuse.data.responses import Responses
from bayesfuse.data.silence import are_labelling_functions
from bayesfuse.results import joint_labels
from bayesfuse.results.abilities import abilities
from bayesfuse.results.probabilities import label_probabilities

MIN_RESPONSES, MIN_MET = 20, 5  # and items of a second class, of a rater to be judged
SURE = 0.95  # probability with which raters are worse than guessing
LIKELY = 0.8  # probability with which raters are hardly better than guessing
HARDLY = 0.1  # share of the way from chance to certainty that counts as hardly better


class DoubtfulRaters(NamedTuple):
    """Names of raters below chance, of those hardly above it, and the number who are judged."""

    worse: Any
    guessing: Any
    n_judged: int


def doubtful_raters(fused: xr.DataTree, responses: Responses) -> DoubtfulRaters | None:
    """Return raters of doubtful use; None where accuracies have no draws, and of rules."""
    # the balanced accuracy of unipolar rules is that of one class alone
    if joint_labels.GROUP not in fused.children or are_labelling_functions(responses):
        return None
    chance = 1.0 / fused["label_posterior"].sizes["class"]
    accuracy = abilities(fused)["balanced_accuracy"]
    labels = label_probabilities(fused).transpose("item", "class").values[responses.item]
    met = np.zeros((responses.n_raters, labels.shape[1]))  # expected items by class
    np.add.at(met, responses.rater, labels)
    second = pd.Series(np.sort(met, axis=1)[:, -2], responses.raters)
    judged = (second >= MIN_MET) & (responses.per_rater >= MIN_RESPONSES)  # others met one class

    def below(bound: float, probability: float) -> Any:
        is_below = (accuracy < bound).mean(("chain", "draw")).values > probability
        return responses.raters[is_below & judged.to_numpy()]

    worse = below(chance, SURE)
    guessing = below(chance + HARDLY * (1.0 - chance), LIKELY)
    return DoubtfulRaters(worse, guessing[~np.isin(guessing, worse)], int(judged.sum()))
