"""Why the interval of the number of wrong labels is much wider than that of independent errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.decisions.ranks import expected_errors, interval_of_errors
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.narrative import Finding
from bayesfuse.priors import IDENTIFIED
from bayesfuse.raters.dependence import Groups
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails

MIN_RATIO = 2.5  # width of a wide interval, relative to that of independent errors
MIN_ERRORS = 5.0  # expected wrong labels, from which an interval that begins at zero is odd
MIN_WEIGHT = 0.05  # of a model that is named
MIN_RHAT = 1.5  # of a label in chains with different answers
MIN_SHARE = 0.5  # of the width that the models explain


def why_wide(fused: xr.DataTree, inputs: Inputs) -> list[Finding]:
    """Return why labels may be wrong together, if their number is far less certain than alone."""
    errors = expected_errors(fused, random_seed=0)
    expected, low, high = (float(errors[name]) for name in ("expected", "low", "high"))
    probability = label_probabilities(fused).transpose("item", "class").values
    copies = inputs.responses.multiplicity
    ends = interval_of_errors(probability, None, tails(), copies)[:2]
    is_wide = high - low > MIN_RATIO * (ends[1] - ends[0])
    if not (is_wide or (low == 0.0 and expected >= MIN_ERRORS and ends[0] > 0.0)):
        return []
    by_model = _errors_by_model(fused, probability.argmax(axis=1), copies)
    if by_model and max(by_model.values()) - min(by_model.values()) > MIN_SHARE * (high - low):
        best, worst = (
            min(by_model, key=by_model.__getitem__),
            max(by_model, key=by_model.__getitem__),
        )
        values = {"best": best, "few": by_model[best], "worst": worst, "many": by_model[worst]}
        return [Finding("wide by models", values)]
    rhat = fused["comparison"]["rhat"].to_series().reindex(list(by_model)).dropna()
    if len(rhat) and rhat.max() > MIN_RHAT:
        return [Finding("wide by modes", {"model": rhat.idxmax(), "rhat": rhat.max()})]
    if inputs.has_order:
        return [Finding("wide by order")]
    responses, groups = inputs.responses, inputs.user_groups
    members = {} if groups is None else Groups.read(groups, responses).members
    n_sources = responses.n_raters - sum(len(raters) - 1 for raters in members.values())
    has_few = n_sources <= IDENTIFIED and not responses.is_of_votes
    return [Finding("wide by few raters" if has_few else "wide")]


def _errors_by_model(
    fused: xr.DataTree, label: NDArray[Any], copies: NDArray[Any]
) -> dict[str, float]:
    """Return the expected number of these labels that are wrong, by every model of some weight."""
    weights = dict(zip(fused.attrs["models"], fused.attrs["weights"], strict=True))
    expected = {}
    for name, result in fused["models"].children.items() if "models" in fused.children else ():
        probability = label_probabilities(result).transpose("item", "class").values
        if weights.get(name, 0.0) >= MIN_WEIGHT and len(probability) == len(label):
            expected[name] = float(copies @ (1.0 - probability[np.arange(len(label)), label]))
    return expected
