"""What pictures and printed tables say of a result: draws, intervals, who recognises what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError, require_probability
from bayesfuse.posterior import all_draws, label_probabilities


def summary(
    result: xr.DataTree, var_names: str | Sequence[str] | None = None, **kwargs: Any
) -> pd.DataFrame:
    """Return ArviZ's summary of a posterior, variable by variable.

    ``az.summary`` itself (ArviZ 1.3) cannot name the rows of a variable with a dimension called
    "label", as ``confusion`` has, and names rows wrongly where a variable with fewer dimensions
    is listed before one with more.

    Parameters
    ----------
    result : DataTree
        With a posterior.
    var_names : str or sequence of str, optional
        Default all variables.
    **kwargs
        Passed to :func:`arviz.summary`.

    Returns
    -------
    DataFrame
        One row per entry.

    Raises
    ------
    ModelError
        The result has no draws, or lacks one of the variables.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> model = DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=200, random_seed=1, progressbar=False)
    >>> bf.summary(result, ["prevalence", "sensitivity"]).index[[0, 4, 5]].tolist()
    ['prevalence[1]', 'sensitivity[1, 1]', 'sensitivity[1, 2]']
    """
    import arviz as az

    if "posterior" not in result.children:
        raise ModelError(
            "A summary is of draws, which bf.sample and bf.fit make. Got: a result with "
            f"{sorted(result.children)}, no posterior."
        )
    if isinstance(var_names, str):
        var_names = [var_names]
    names = list(result["posterior"].data_vars) if var_names is None else list(var_names)
    draws = posterior_draws(result, *map(str, names))
    if "label" in draws.dims:
        draws = draws.rename(label="answer")
    return pd.concat([az.summary(draws[[name]], **kwargs) for name in names])


def posterior_draws(result: xr.DataTree, *names: str) -> xr.Dataset:
    """Return variables by (chain, draw, …); the point that ``bf.find_map`` found is one draw.

    Raises
    ------
    ModelError
        The result lacks one of them.
    """
    found = all_draws(result)
    if missing := [name for name in names if name not in found]:
        raise ModelError(
            "Pictures and tables need their variables in the posterior, where bayesfuse.models put "
            "them (in a model of your own, name them with pm.Deterministic). Got: no "
            f"{missing[0]!r} among {list(found.data_vars)}."
        )
    return found[list(names)]


def interval(draws: xr.DataArray, ci_prob: float | None = None) -> tuple[xr.DataArray, ...]:
    """Return the lower and upper end of the credible interval over chains and draws.

    Its probability is that of :func:`coverage`, its kind (equal-tailed or highest density) ArviZ's
    setting ``stats.ci_kind``.
    """
    import arviz as az

    find = {"eti": az.eti, "hdi": az.hdi}[az.rcParams["stats.ci_kind"]]
    ends = find(draws, prob=coverage(ci_prob))
    return tuple(ends.sel(ci_bound=end, drop=True) for end in ("lower", "upper"))


def coverage(ci_prob: float | None = None) -> float:
    """Return the probability of intervals: ArviZ's setting ``stats.ci_prob`` unless one is given.

    Raises
    ------
    ModelError
        One that is not strictly between 0 and 1.
    """
    import arviz as az

    if ci_prob is None:
        return float(az.rcParams["stats.ci_prob"])
    return require_probability("ci_prob", ci_prob)


def tails(ci_prob: float | None = None) -> tuple[float, float]:
    """Return the quantiles between which an equal-tailed interval lies.

    Its probability is that of :func:`coverage`.
    """
    tail = (1 - coverage(ci_prob)) / 2
    return tail, 1 - tail


def recognition(result: xr.DataTree) -> dict[tuple[str, Any], xr.DataArray]:
    """Return how well raters recognise each class, draws by (chain, draw, rater).

    The keys are what it is called and the true class: with two classes ("sensitivity", the last
    class) and ("specificity", the first), with more ("sensitivity", class) for each.
    """
    draws = posterior_draws(result, "sensitivity", "specificity")
    classes = label_probabilities(result)["class"].values
    if "class" not in draws["sensitivity"].dims:
        named = ("sensitivity", classes[-1]), ("specificity", classes[0])
        return {(name, truth): draws[name] for name, truth in named}
    return {
        ("sensitivity", truth): draws["sensitivity"].isel({"class": index}, drop=True)
        for index, truth in enumerate(classes)
    }


def balanced_accuracy(result: xr.DataTree) -> xr.DataArray:
    """Return every rater's mean over the classes of how well they recognise it, by draw."""
    return xr.concat(list(recognition(result).values()), "truth").mean("truth")


def most_uncertain(result: xr.DataTree, most: int | None = None) -> xr.DataArray:
    """Return the label probabilities of the items whose best label is least sure, worst first."""
    probability = label_probabilities(result)
    order = np.argsort(probability.max("class").values, kind="stable")
    return probability.isel(item=order[:most])


def responses_per_rater(result: xr.DataTree) -> NDArray[np.int64]:
    """Return the number of responses by every rater, copies of an item included."""
    constants = result["constant_data"].dataset
    weight = None
    if "multiplicity" in constants:
        weight = constants["multiplicity"].values[constants["item_index"].values]
    counts = np.bincount(constants["rater_index"].values, weight, constants.sizes["rater"])
    return counts.astype(np.int64)
