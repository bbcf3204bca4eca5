"""Ranking raters, with the probability of every rank."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import xarray as xr

from bayesfuse.errors import ModelError
from bayesfuse.results.summaries import balanced_accuracy, posterior_draws, tails


def rank_raters(
    result: xr.DataTree,
    by: Literal["balanced_accuracy", "accuracy", "sensitivity", "specificity"]
    | xr.DataArray = "balanced_accuracy",
    *,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Rank the raters, with the posterior probability of every rank.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, with ``confusion``, ``sensitivity`` and ``specificity``.
    by : str or DataArray, dims (chain, draw, rater)
        "balanced_accuracy" (the mean over classes; informedness gives the same ranks), "accuracy"
        (weighted by prevalence), with two classes "sensitivity" or "specificity", or draws of any
        other quantity.
    ci_prob : float, optional
        Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    Dataset, dims (rater, rank)
        ``probability`` of every rank, 1 being the best; ``expected_rank``, ``low`` and ``high``
        (rater,); ``quality``, the posterior mean of the ranked quantity. Raters are sorted by
        expected rank.

    Raises
    ------
    ModelError
        The result lacks the variables; another ``by``.

    References
    ----------
    Laird & Louis (1989), Empirical Bayes ranking methods, Journal of Educational Statistics 14,
    29–46.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.caries())
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.decisions.rank_raters(result)
    >>> found["rater"].values.tolist()[0], found.sizes["rank"]
    ('dentist 2', 5)
    """
    quality = _quality(result, by).transpose("chain", "draw", "rater")
    values = quality.values.reshape(-1, quality.sizes["rater"])
    n_draws, n_raters = values.shape
    order = np.argsort(-values, axis=1, kind="stable")
    counts = np.zeros((n_raters, n_raters))
    for rank in range(n_raters):
        counts[:, rank] = np.bincount(order[:, rank], minlength=n_raters)
    probability = counts / n_draws
    ranks = np.arange(1, n_raters + 1)
    expected = probability @ ranks
    below = probability.cumsum(axis=1)
    low, high = ((below < q - 1e-12).sum(axis=1) + 1 for q in tails(ci_prob))
    found = xr.Dataset(
        {
            "probability": (("rater", "rank"), probability),
            "expected_rank": ("rater", expected),
            "low": ("rater", low),
            "high": ("rater", high),
            "quality": ("rater", values.mean(axis=0)),
        },
        {"rater": quality["rater"].values, "rank": ranks},
        {"by": by if isinstance(by, str) else str(by.name or "quality")},
    )
    return found.isel(rater=np.argsort(expected, kind="stable"))


def _quality(result: xr.DataTree, by: Any) -> xr.DataArray:
    if isinstance(by, xr.DataArray):
        return by
    if by == "balanced_accuracy":
        return balanced_accuracy(result)
    if by == "accuracy":
        draws = posterior_draws(result, "prevalence", "confusion")
        right = np.diagonal(draws["confusion"].values, axis1=-2, axis2=-1)
        share = xr.DataArray(right, dims=("chain", "draw", "rater", "class"))
        found = (share * draws["prevalence"].drop_vars("class")).sum("class")
        return found.assign_coords(rater=draws["rater"])
    if by in ("sensitivity", "specificity"):
        draws = posterior_draws(result, by)[by]
        if "class" not in draws.dims:
            return draws
    raise ModelError(
        "by must be 'balanced_accuracy', 'accuracy', draws, or with two classes 'sensitivity' or "
        f"'specificity' (with more, give the draws of one class). Got: {by!r}."
    )
