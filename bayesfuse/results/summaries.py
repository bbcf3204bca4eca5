"""Summaries of a result for plots and tables: draws, intervals, the accuracy of the raters."""

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
from bayesfuse.data.known import read_populations
from bayesfuse.data.names import listed
from bayesfuse.errors import require_names, require_probability
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import check
from bayesfuse.results import contents
from bayesfuse.results.contents import (
    all_draws,
    class_names,
    constants,
    evenly_spaced,
    known_classes,
    named,
    require_draws,
    require_rows,
)
from bayesfuse.results.group_shares import MIN_KNOWN as FEWEST_KNOWN, residuals
from bayesfuse.results.joint_labels import stored
from bayesfuse.results.probabilities import label_probabilities

VISIBLE = 0.005  # probabilities below this are not shown
MOST, FEWEST = 4e8, 50  # draws × responses that are counted, and the smallest number of draws


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
    import arviz as az

    names = list(require_draws(result, "A summary").data_vars)
    if var_names is not None:
        names = [var_names] if isinstance(var_names, str) else require_names("var_names", var_names)
    draws = posterior_draws(result, *map(str, names))
    with np.errstate(invalid="ignore"):  # zero by zero, of entries that are the same in all draws
        table = pd.concat([az.summary(draws[[name]], **kwargs) for name in names])
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


def recognition(result: xr.DataTree) -> dict[tuple[str, Any], xr.DataArray]:
    """Return the raters' accuracy (chain, draw, rater) by its name and true class."""
    draws = posterior_draws(result, "sensitivity", "specificity")
    classes = class_names(result)
    if "class" not in draws["sensitivity"].dims:
        pairs = ("sensitivity", classes[-1]), ("specificity", classes[0])
        return {(name, truth): draws[name] for name, truth in pairs}
    return {
        ("sensitivity", truth): draws["sensitivity"].isel({"class": index}, drop=True)
        for index, truth in enumerate(classes)
    }


def assignment(result: xr.DataTree) -> xr.DataArray | None:
    """Return the group of every rater, by draw if inferred; None without groups."""
    drawn = named(all_draws(result), "assignment")
    return drawn if drawn is not None else named(constants(result), "assignment")


def balanced_accuracy(result: xr.DataTree) -> xr.DataArray:
    """Return every rater's accuracy averaged over the classes, by draw."""
    return xr.concat(list(recognition(result).values()), "truth").mean("truth")


def most_uncertain(result: xr.DataTree | xr.DataArray) -> xr.DataArray:
    """Return the label probabilities of all items, the least certain first."""
    probability = label_probabilities(result)
    return probability.isel(item=np.argsort(probability.max("class").values, kind="stable"))


def answered(answer: xr.DataTree) -> xr.DataArray:
    """Return the label probabilities of items with responses, if there are any."""
    labels, data = label_probabilities(answer), constants(answer)
    if "item_index" not in data:
        return labels
    has_response = np.bincount(data["item_index"].values, minlength=labels.sizes["item"]) > 0
    return labels.isel(item=has_response) if has_response.any() else labels


def least_certain(
    result: xr.DataTree | xr.DataArray, most: int = FEW, sequence: pd.Series | None = None
) -> pd.DataFrame:
    """Return the least certain items with their visible probabilities, and their sequence.

    Of items with the same probabilities, the first is named, with the number of the others.
    """
    ordered, rows = most_uncertain(result).transpose("item", "class"), []
    same = pd.DataFrame(ordered.values.round(6))
    alike = same.groupby(list(same), sort=False)[0].agg([lambda group: group.index[0], "size"])
    for first, number in alike.head(most).to_numpy().tolist():
        item = ordered[first]
        (name,) = listed(np.atleast_1d(item["item"].values))
        where = [] if sequence is None else [in_one_line(sequence.at[name])]
        more = f" and {number - 1:,} alike" if number > 1 else ""
        rows.append([in_one_line(name) + more, *where, likely(item["class"], item.values)])
    where = [] if sequence is None else ["sequence"]
    return pd.DataFrame(rows, columns=["least certain", *where, "probabilities"])


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


def rater_accuracy(
    result: xr.DataTree, by: Any = None, ci_prob: float | None = None
) -> pd.DataFrame:
    """Return a row for every rater (and group): counts, accuracies with intervals, and bias.

    Accuracies are corrected by known labels, as shares of groups are in ``class_shares``, and those
    by true class by the same amounts.
    """
    labels, rows = stored(result), require_rows(result, "The accuracy of raters")
    known = constants(result)
    classes, raters = result["label_posterior"].dataset["class"].values, known["rater"].values
    gold = known_classes(result, labels.shape[1])
    number = int(np.clip(MOST // max(len(rows[0]), 1), FEWEST, len(labels)))
    labels = labels[evenly_spaced(number, len(labels))]
    level, posterior = tails(ci_prob), result["label_posterior"].dataset
    missed = np.zeros(len(rows[0]))  # of responses to known items, what predictions were short of
    if "left_out" in posterior and (gold >= 0).sum() >= FEWEST_KNOWN:
        has_prediction = np.isfinite(posterior["left_out"].values[rows[0], 0])
        predicted = posterior["left_out"].values[rows[0][has_prediction], rows[2][has_prediction]]
        missed[has_prediction] = (
            posterior["probability"].values[rows[0][has_prediction], rows[2][has_prediction]]
            - predicted
        )
    rows = (*rows, missed)
    if by is None:
        return _table(labels, rows, gold, raters, classes, level)
    names, code = read_populations(known["item"].values, by, what="by=", group="group")
    tables = []
    for at, name in enumerate(names.tolist()):
        part = tuple(column[code[rows[0]] == at] for column in rows)
        table = _table(labels, part, gold, raters, classes, level)
        table.insert(0, "group", [name] * len(table))
        tables.append(table[table["responses"] > 0])
    return with_positive_class(pd.concat(tables, ignore_index=True), classes)


def _table(
    labels: NDArray[Any],
    rows: tuple[NDArray[Any], ...],
    gold: NDArray[np.int64],
    raters: NDArray[Any],
    classes: NDArray[Any],
    level: tuple[float, float],
) -> pd.DataFrame:
    item, rater, label, missed = rows
    n_raters, n_classes = len(raters), len(classes)
    drawn, met = [], np.zeros((n_raters, n_classes))
    for truth in (one[item] for one in labels if check()):
        cell = (rater * n_classes + truth) * n_classes + label
        size = n_raters, n_classes, n_classes
        count = np.bincount(cell, minlength=n_raters * n_classes**2).reshape(size)
        met += count.sum(axis=2)
        drawn.append(_measures(count, classes))
    by_measure = {name: np.array([values_of[name] for values_of in drawn]) for name in drawn[0]}
    names = [f"sensitivity[{name}]" for name in classes]
    names = ["specificity", "sensitivity"] if n_classes == 2 else names
    for name, items_met in zip(names, met.T, strict=True):
        by_measure[name][:, items_met < 0.5 * len(labels)] = (
            np.nan
        )  # of a class that the rater did not meet
    responses = np.bincount(rater, minlength=n_raters)
    is_known = gold[item] >= 0
    on_known = np.bincount(rater[is_known], minlength=n_raters)
    if is_known.sum() >= FEWEST_KNOWN and missed.any():
        left, rng = np.column_stack([missed, -missed])[is_known], np.random.default_rng(0)
        shares = 1.0 - on_known / np.maximum(responses, 1)
        some = [residuals(left, rater[is_known], n_raters, rng)[:, 0] for _ in labels]
        for name in by_measure:
            if not name.startswith("bias"):  # accuracy is a mean of the others, so all shift alike
                by_measure[name] = (by_measure[name] + shares * some).clip(0.0, 1.0)
    right = np.bincount(rater[is_known], gold[item[is_known]] == label[is_known], n_raters)
    table = pd.DataFrame({"rater": raters, "responses": responses})
    for name, values_of in by_measure.items():
        # pandas leaves out NaN: a class that a rater never met in a draw has no sensitivity there
        values = pd.DataFrame(values_of)
        mean, (low, high) = values.mean(), values.quantile(list(level)).to_numpy()
        prefix = "" if name == "accuracy" else f"{name}_"
        table[name] = mean
        low, high = around(values.to_numpy(), mean.to_numpy(), low, high)
        table[f"{prefix}low"], table[f"{prefix}high"] = low, high
    table["known"] = on_known
    table["known_accuracy"] = right / table["known"]  # NaN without any
    table = table.sort_values("accuracy", ascending=False, kind="stable", ignore_index=True)
    return with_positive_class(table, classes)


def around(draws: Array, mean: Array, low: Any, high: Any) -> tuple[Array, Array]:
    """Return intervals (columns,) that hold the means of draws (draws, columns) inside.

    If nearly all draws are the same number, the mean may be beyond their quantiles; the interval
    then ends at the next draw.
    """
    above = np.where(draws > mean, draws, np.inf).min(axis=0)
    below = np.where(draws < mean, draws, -np.inf).max(axis=0)
    above, below = (np.where(np.isfinite(ends), ends, mean) for ends in (above, below))
    return np.fmin(low, below), np.fmax(high, above)


def _measures(count: NDArray[Any], classes: NDArray[Any]) -> dict[str, Array]:
    """Return measures (raters,) by name, of counts (raters, truths, labels)."""
    total, truths = count.sum(axis=(1, 2)), count.sum(axis=2)
    right = np.diagonal(count, axis1=1, axis2=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        sensitivity = right / truths
        met = truths > 0
        balanced = np.where(met, sensitivity, 0.0).sum(axis=1) / met.sum(axis=1)
        measures = {"accuracy": right.sum(axis=1) / total, "balanced_accuracy": balanced}
        bias = (count.sum(axis=1) - truths) / total[:, None]
    if len(classes) == 2:
        two = {"sensitivity": sensitivity[:, 1], "specificity": sensitivity[:, 0]}
        return measures | two | {"bias": bias[:, 1]}
    for what, columns in (("sensitivity", sensitivity.T), ("bias", bias.T)):
        measures |= {
            f"{what}[{name}]": column for name, column in zip(classes, columns, strict=True)
        }
    return measures
