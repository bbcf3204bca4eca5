"""Summaries of a result for plots and tables: draws, intervals, and numbers of responses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_python
from bayesfuse.data.describing import FEW, in_one_line
from bayesfuse.data.names import listed
from bayesfuse.errors import require_names, require_probability
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.numerics.kernels import Array
from bayesfuse.results import contents, schema
from bayesfuse.results.contents import (
    all_draws,
    class_names,
    constants,
    named,
    require_draws,
)
from bayesfuse.results.probabilities import label_probabilities

VISIBLE = 0.005  # probabilities below this are not shown


def summarise_draws(draws: xr.Dataset, **kwargs: Any) -> pd.DataFrame:
    """Return ArviZ's summary of draws, which mislabels entries of several variables at once."""
    import arviz as az

    if "label" in draws.dims:  # the name of the dimension into which ArviZ stacks all entries
        draws = draws.rename(label="label_of_set")
    with np.errstate(invalid="ignore"):  # zero by zero, of entries that are the same in all draws
        return pd.concat([az.summary(draws[[name]], **kwargs) for name in draws.data_vars])


@explains_keywords
def summary(
    result: xr.DataTree, var_names: str | Sequence[str] | None = None, **kwargs: Any
) -> pd.DataFrame:
    """Return ArviZ's summary of a posterior, variable by variable.

    ``az.summary`` (ArviZ 1.3) mislabels rows unless dimensions first appear in their order.

    Parameters
    ----------
    result : DataTree
    var_names : str or sequence of str, optional
        Default all variables.
    **kwargs
        Passed to :func:`arviz.summary`.

    Returns
    -------
    DataFrame
        One row per entry. Of two classes, the name of the columns and ``attrs["positive"]`` state
        the positive one, if there are sensitivities.

    Raises
    ------
    ModelError
        The result has no draws, or lacks a variable.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.fit(bf.models.DawidSkene(bf.datasets.anesthesia()), random_seed=1)
    >>> bf.summary(result, ["prevalence", "sensitivity"]).index[[0, 4, 5]].tolist()
    ['prevalence[1]', 'sensitivity[1, 1]', 'sensitivity[1, 2]']
    """
    names = list(require_draws(result, "A summary").data_vars)
    if var_names is not None:
        names = [var_names] if isinstance(var_names, str) else require_names("var_names", var_names)
    table = summarise_draws(posterior_draws(result, *map(str, names)), **kwargs)
    rates = any(re.search("sensitivity|specificity", str(name)) for name in names)
    return with_positive_class(table, class_names(result)) if rates else table


def with_positive_class(table: pd.DataFrame, classes: Any) -> pd.DataFrame:
    """Return a table of sensitivities whose columns and attributes name the positive class."""
    if len(classes) != 2:
        return table
    table = table.rename_axis(columns=f"positive class: {in_one_line(classes[-1])}")
    table.attrs["positive"] = as_python(classes[-1])
    return table


def posterior_draws(result: xr.DataTree, *names: str) -> xr.Dataset:
    """Return variables, (chain, draw, …); the point estimate of ``bf.find_map`` is one draw."""
    draws_of = all_draws(result)
    return xr.Dataset({name: contents.stored(draws_of, name) for name in names})


def interval(draws: xr.DataArray, ci_prob: float | None = None) -> tuple[xr.DataArray, ...]:
    """Return the ends of the credible interval over chains and draws, by ``stats.ci_kind``."""
    import arviz as az

    find = {"eti": az.eti, "hdi": az.hdi}[az.rcParams["stats.ci_kind"]]
    ends = find(draws, prob=coverage(ci_prob))
    return tuple(ends.sel(ci_bound=end, drop=True) for end in ("lower", "upper"))


def coverage(ci_prob: float | None = None) -> float:
    """Return the probability of credible intervals, by default ArviZ's ``stats.ci_prob``."""
    from arviz_base import rcParams  # those of arviz, which takes a second more

    if ci_prob is None:
        return float(rcParams["stats.ci_prob"])
    return require_probability("ci_prob", ci_prob)


def tails(ci_prob: float | None = None) -> tuple[float, float]:
    """Return the tail probabilities of the equal-tailed interval."""
    tail = (1 - coverage(ci_prob)) / 2
    return tail, 1 - tail


def assignment(result: xr.DataTree) -> xr.DataArray | None:
    """Return the group of every rater, by draw if inferred; None without groups."""
    drawn = named(all_draws(result), "assignment")
    return drawn if drawn is not None else named(constants(result), "assignment")


def most_uncertain(result: xr.DataTree | xr.DataArray) -> xr.DataArray:
    """Return the label probabilities of all items, the least certain first."""
    probability = label_probabilities(result)
    return probability.isel(item=np.argsort(probability.max("class").values, kind="stable"))


def are_answered(result: xr.DataTree, n_items: int) -> NDArray[np.bool_]:
    """Return which items have responses or statements, all if a result does not store that."""
    data = constants(result)
    if "item_index" not in data:
        return np.ones(n_items, dtype=bool)
    number: NDArray[np.int64] = np.bincount(data["item_index"].values, minlength=n_items)
    if schema.STATEMENTS in data:
        number = number + data[schema.STATEMENTS].values
    return number > 0


def answered(result: xr.DataTree, labels: xr.DataArray | None = None) -> xr.DataArray:
    """Return the label probabilities of items with responses, if there are any."""
    labels = label_probabilities(result) if labels is None else labels
    has_response = are_answered(result, labels.sizes["item"])
    return labels.isel(item=has_response) if has_response.any() else labels


def least_certain(
    result: xr.DataTree | xr.DataArray,
    most: int = FEW,
    sequence: pd.Series | None = None,
    heading: str = "least certain",
) -> pd.DataFrame:
    """Return the least certain items with their visible probabilities, and their sequence.

    Of items with the same probabilities, the first is named, with the number of the others.
    """
    ordered, rows = most_uncertain(result).transpose("item", "class"), []
    same = pd.DataFrame(ordered.values.round(6))
    group = same.groupby(list(same), sort=False, dropna=False).ngroup().to_numpy()
    # groups are numbered as they appear; functions of each take seconds for many items
    firsts, sizes = np.unique(group, return_index=True, return_counts=True)[1:]
    for first, number in zip(firsts[:most].tolist(), sizes[:most].tolist(), strict=True):
        item = ordered[first]
        (name,) = listed(np.atleast_1d(item["item"].values))
        where = [] if sequence is None else [in_one_line(sequence.at[name])]
        more = f" and {number - 1:,} alike" if number > 1 else ""
        rows.append([in_one_line(name) + more, *where, likely(item["class"], item.values)])
    where = [] if sequence is None else ["sequence"]
    return pd.DataFrame(rows, columns=[heading, *where, "probabilities"])


def likely(classes: xr.DataArray, probability: NDArray[np.float64]) -> str:
    """Return the classes of visible probability as text, the most probable first."""
    order = np.argsort(-probability, kind="stable")
    shown = [at for at in order if probability[at] >= VISIBLE]
    return "  ".join(f"{in_one_line(classes.values[at])}: {probability[at]:.2f}" for at in shown)


def responses_per_rater(result: xr.DataTree) -> NDArray[np.int64]:
    """Return the number of responses by every rater, in a table of counts by their count."""
    known = constants(result, "rater_index", "item_index")
    weight = None
    if "multiplicity" in known:
        weight = known["multiplicity"].values[known["item_index"].values]
    counts = np.bincount(known["rater_index"].values, weight, known.sizes["rater"])
    return counts.astype(np.int64)


def around(draws: Array, mean: Array, low: Any, high: Any) -> tuple[Array, Array]:
    """Return intervals (columns,) that hold the means of draws (draws, columns) inside.

    If nearly all draws are the same number, the mean may be beyond their quantiles; the interval
    then ends at the next draw.
    """
    above = np.where(draws > mean, draws, np.inf).min(axis=0)
    below = np.where(draws < mean, draws, -np.inf).max(axis=0)
    above, below = (np.where(np.isfinite(ends), ends, mean) for ends in (above, below))
    return np.fmin(low, below), np.fmax(high, above)
