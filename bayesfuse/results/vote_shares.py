"""Vote shares, as a result that can be averaged with those of models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from bayesfuse.data import fingerprint
from bayesfuse.data.known import gold_labels
from bayesfuse.data.responses import Responses
from bayesfuse.errors import require_kind
from bayesfuse.results.posterior import OBSERVED, ORDERED, of_items


def vote_shares(responses: Responses, gold: Mapping[Any, Any] | None = None) -> xr.DataTree:
    """Return the shares of the votes for every class as label probabilities.

    One more vote is spread over all classes, so that no class is impossible, and items without
    responses have even shares. Items of known class have that class.

    Parameters
    ----------
    responses : Responses
    gold : mapping of item name to class name, optional
        Known labels.

    Returns
    -------
    DataTree
        ``label_posterior`` (``probability`` by item and class) for ``bf.label_probabilities``,
        ``bf.average`` and whatever reads labels. It knows nothing of raters.

    Raises
    ------
    ResponsesError
        Gold labels of unknown items or classes.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([["no", "no", "yes"], ["yes", None, None]])
    >>> bf.label_probabilities(bf.vote_shares(responses)).values
    array([[0.625, 0.375],
           [0.25 , 0.75 ]])
    """
    require_kind("responses", responses, Responses)
    shares = responses.votes() + 1.0 / responses.n_classes
    shares /= shares.sum(axis=1, keepdims=True)
    known = gold_labels(responses, gold)
    at = np.flatnonzero(known >= 0)
    shares[at] = np.eye(responses.n_classes)[known[at]]
    coords = {"item": responses.items, "class": responses.classes}
    labels = xr.Dataset({"probability": (("item", "class"), shares)}, coords)
    told = fingerprint.of_responses(responses) | {"gold": fingerprint.of_gold(responses, known)}
    attrs = {OBSERVED: json.dumps(told), ORDERED: int(responses.ordered)}
    data = xr.Dataset(of_items(responses, known), coords, attrs)
    return xr.DataTree.from_dict({"label_posterior": labels, "constant_data": data})
