"""What pictures and printed tables say of a result: draws, intervals, who recognises what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError, require_count, require_names, require_probability
from bayesfuse.results.access import all_draws, class_names, constants, named, require_draws
from bayesfuse.results.probabilities import label_probabilities


def summary(
    result: xr.DataTree, var_names: str | Sequence[str] | None = None, **kwargs: Any
) -> pd.DataFrame:
    """Return ArviZ's summary of a posterior, variable by variable.

    ``az.summary`` names rows rightly only where the dimensions of every variable come in the order
    in which they first appear in the posterior (ArviZ 1.3; the numbers are right, but of other
    entries). Results put their variables in an order for which that holds. There is none for a
    :class:`bayesfuse.models.LatentGroup` of known groups with more than two classes, and a choice
    by ``var_names`` may lose it. This function asks for one variable at a time and is always right.

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

    names = list(require_draws(result, "A summary is of draws").data_vars)
    if var_names is not None:
        names = [var_names] if isinstance(var_names, str) else require_names("var_names", var_names)
    draws = posterior_draws(result, *map(str, names))
    return pd.concat([az.summary(draws[[name]], **kwargs) for name in names])


def posterior_draws(result: xr.DataTree, *names: str) -> xr.Dataset:
    """Return variables by (chain, draw, …); the point that ``bf.find_map`` found is one draw.

    Raises
    ------
    ModelError
        The result lacks one of them.
    """
    found = all_draws(result)
    wanted = {name: named(found, name) for name in names}
    if missing := [name for name, values in wanted.items() if values is None]:
        raise ModelError(
            "Pictures and tables need their variables in the posterior, where bayesfuse.models put "
            "them (in a model of your own, name them with pm.Deterministic). Got: no "
            f"{missing[0]!r} among {list(found.data_vars)}."
        )
    return xr.Dataset(wanted)


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
    classes = class_names(result)
    if "class" not in draws["sensitivity"].dims:
        named = ("sensitivity", classes[-1]), ("specificity", classes[0])
        return {(name, truth): draws[name] for name, truth in named}
    return {
        ("sensitivity", truth): draws["sensitivity"].isel({"class": index}, drop=True)
        for index, truth in enumerate(classes)
    }


def assignment(result: xr.DataTree) -> xr.DataArray | None:
    """Return the group of every rater, by draw if it is inferred; None if there are no groups."""
    drawn = named(all_draws(result), "assignment")
    return drawn if drawn is not None else named(constants(result), "assignment")


def balanced_accuracy(result: xr.DataTree) -> xr.DataArray:
    """Return every rater's mean over the classes of how well they recognise it, by draw."""
    return xr.concat(list(recognition(result).values()), "truth").mean("truth")


def most_uncertain(result: xr.DataTree | xr.DataArray, most: int | None = None) -> xr.DataArray:
    """Return the label probabilities of the items whose best label is least sure, worst first."""
    if most is not None:
        require_count("most", most)
    probability = label_probabilities(result)
    order = np.argsort(probability.max("class").values, kind="stable")
    return probability.isel(item=order[:most])


def responses_per_rater(result: xr.DataTree) -> NDArray[np.int64]:
    """Return the number of responses by every rater, copies of an item included."""
    known = constants(result, "rater_index", "item_index")
    weight = None
    if "multiplicity" in known:
        weight = known["multiplicity"].values[known["item_index"].values]
    counts = np.bincount(known["rater_index"].values, weight, known.sizes["rater"])
    return counts.astype(np.int64)
