"""Rater rows around a common mean, with hyperparameters: partial pooling.

The concentration says how many responses the crowd counts for in the row of a rater. Its prior is
exponential with mean ten: density is highest at zero, where raters have nothing in common, and its
tail lets hundreds of responses of many raters say that they are alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayesfuse import priors
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_numbers, require_shape
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.coordinates import LogRatio
from bayesfuse.parameters.dirichlet import DirichletMixture
from bayesfuse.parameters.pool import SCALE, SMALLEST, Member, SharedMean
from bayesfuse.parameters.simplex import PROBABILITY, SIMPLEX
from bayesfuse.parameters.variables import dirichlet

CONCENTRATION = 1.0, 0.1
"""Shape and rate of the gamma prior of concentrations."""


def pooled_confusion(prior: Any, responses: Responses) -> tuple[Any, SharedMean]:
    """Register confusion rows around common ones, (raters, classes, labels), and their prior."""
    n_classes, n_raters = responses.n_classes, responses.n_raters
    _require_one(prior, {"classes": n_classes, "labels": n_classes})
    given: Any = priors.confusion(prior, responses)
    rows: Array = given[0]
    mean = dirichlet("confusion_mean", rows, dims=("class", "answer"))
    concentration = pm.Gamma("confusion_concentration", *CONCENTRATION, dims="class")
    base = pt.maximum(concentration[:, None] * mean, SMALLEST)
    confusion = pm.Dirichlet(
        "confusion",
        pt.alloc(base, n_raters, n_classes, n_classes),
        dims=("rater", "class", "answer"),
        default_transform=LogRatio(np.tile(rows, (n_raters, 1, 1))),
    )
    members = {"mean": Member(mean, SIMPLEX), "concentration": Member(concentration, SCALE)}
    return confusion, SharedMean("confusion", members, rows, *CONCENTRATION, n_raters)


def pooled_accuracy(prior: Any, responses: Responses, *, by_class: bool) -> tuple[Any, SharedMean]:
    """Register accuracies around a common one, (raters,) or (raters, classes), and their prior."""
    n_raters = responses.n_raters
    classes = {"classes": responses.n_classes} if by_class else {}
    _require_one(prior, classes | {"outcomes": 2}, {"outcomes": 2})
    right, wrong = (each[0] for each in priors.accuracy(prior, responses, by_class=by_class))
    dims = "class" if by_class else None
    mean = pm.Beta("accuracy_mean", right, wrong, dims=dims)
    concentration = pm.Gamma("accuracy_concentration", *CONCENTRATION, dims=dims)
    base = [
        pt.alloc(pt.maximum(concentration * share, SMALLEST), n_raters, *classes.values())
        for share in (mean, 1 - mean)
    ]
    accuracy = pm.Beta("accuracy", *base, dims=("rater", "class") if by_class else "rater")
    members = {"mean": Member(mean, PROBABILITY), "concentration": Member(concentration, SCALE)}
    rows = np.stack([right, wrong], axis=-1)
    return accuracy, SharedMean("accuracy", members, rows, *CONCENTRATION, n_raters)


def _require_one(prior: Any, *shapes: Mapping[str, int]) -> None:
    """Raise ModelError unless a prior is None or the same for all raters, of one of the shapes."""
    if prior is None:
        return
    rule = (
        "With pooled=True all raters share one mean, so confusion_prior must be the concentrations "
        "of its prior, the same for all raters: no mapping, no mixture, no axis of raters. Got: "
    )
    if isinstance(prior, Mapping | DirichletMixture):
        raise ModelError(f"{rule}{type(prior).__name__}.")
    given: Array = require_numbers("confusion_prior", prior)
    if given.ndim > max(map(len, shapes)):
        raise ModelError(f"{rule}shape {given.shape}.")
    if given.shape not in [tuple(shape.values()) for shape in shapes]:
        require_shape("confusion_prior", given.shape, **shapes[0])
