"""Binary estimators for several classes: each class against the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

from bayesfuse.data.responses import Responses
from bayesfuse.errors import MomentsError, require_kind
from bayesfuse.moments.binary import accuracies


def one_vs_rest(
    responses: Responses,
    method: str = "likelihood",
    *,
    completion: str = "weighted",
    sign: str = "average",
) -> xr.Dataset:
    """Estimate the prevalence of every class, and the sensitivity of every rater to it.

    The binary estimators compare each class with the rest. They give the diagonals of the confusion
    matrices; the off-diagonal entries are not identified (Theorem 2), for which see
    :func:`confusion`.

    The rest is a mixture of classes, within which raters are independent only if each of them
    answers k equally often for all other true classes. If some classes are confused with k more
    than others, the estimates are biased for any number of items.

    Parameters
    ----------
    responses : Responses
        Of two or more classes.
    method, completion, sign : str
        As in :func:`accuracies`.

    Returns
    -------
    xarray.Dataset
        ``prevalence[class]``: scaled to sum to one; the attribute ``total`` is the original sum,
        far from one if the assumptions fail.
        ``diagonal[rater, class]``: P(rater says k | truth is k).
        ``specificity[rater, class]``: P(rater does not say k | truth is not k).
        NaN for undetermined raters.

    Raises
    ------
    MomentsError
        As :func:`accuracies`, with the name of the class.

    References
    ----------
    Jaffe, Nadler & Kluger (2015), AISTATS, section 5.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> from bayesfuse.moments import one_vs_rest
    >>> rng = np.random.default_rng(1)
    >>> truth = rng.choice(3, size=20_000, p=[0.5, 0.3, 0.2])[:, None]
    >>> slip = rng.integers(1, 3, size=(20_000, 4))
    >>> labels = np.where(rng.random((20_000, 4)) < 0.8, truth, (truth + slip) % 3)
    >>> one_vs_rest(bf.Responses.from_matrix(labels)).prevalence.round(2).values
    array([0.5, 0.3, 0.2])
    """
    require_kind("responses", responses, Responses)
    found = []
    for k, name in enumerate(responses.classes.tolist()):
        try:
            part = accuracies(
                against_rest(responses, k), None, method, completion=completion, sign=sign
            )
        except MomentsError as error:
            raise MomentsError(f"Class {name!r} against the rest: {error}") from error
        found.append(part)
    prevalence = np.array([part.attrs["prevalence"] for part in found])
    pair = ("rater", "class")
    return xr.Dataset(
        {
            "prevalence": ("class", prevalence / prevalence.sum()),
            "diagonal": (pair, np.stack([part.sensitivity.values for part in found], axis=1)),
            "specificity": (pair, np.stack([part.specificity.values for part in found], axis=1)),
        },
        coords={"rater": responses.raters, "class": responses.classes},
        attrs={"method": method, "total": float(prevalence.sum())},
    )


def against_rest(responses: Responses, k: int) -> Responses:
    """Return the table with two classes: not class ``k``, and class ``k``."""
    key = responses.item
    key *= 2 * responses.n_raters
    key += 2 * responses.rater + (responses.label == k)
    key.sort()  # repeated answers may change order
    key %= 2 * responses.n_raters
    table = responses.without_statements()  # moments are those of hard labels
    return replace(table, classes=np.array([False, True]), cell=key.astype(np.uint32))
