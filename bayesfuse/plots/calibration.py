"""Calibration plot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesfuse.checks import calibration
from bayesfuse.data.names import listed
from bayesfuse.errors import ModelError, require_mapping
from bayesfuse.numerics.kernels import Array
from bayesfuse.plots.axes import ink, name_points, new_axes
from bayesfuse.results.probabilities import label_probabilities

MOST = 20
"""Largest number of bins, unless the user asks for more."""

SURE = 0.9
"""If half of the labels are more probable than this, the axes have the scale of log-odds."""

TICKS = [0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.997, 0.999, 0.9997, 0.9999]
"""Ticks of the scale of log-odds."""


def plot_calibration(
    labels: xr.DataTree | xr.DataArray,
    truth: Mapping[Any, Any],
    *,
    bins: int | None = None,
    equal: Literal["count", "width"] = "count",
    scale: Literal["linear", "logit"] | None = None,
    ci_prob: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the share of right labels against the probability of the most probable label.

    Parameters
    ----------
    labels, truth, ci_prob
        As in :func:`bayesfuse.checks.calibration`.
    bins : int, optional
        Number of bins. Default half the square root of the number of items, at most 20.
    equal : {"count", "width"}
        Bins of equal numbers of items, or of equal width.
    scale : {"linear", "logit"}, optional
        "logit" shows log-odds, so that .9, .99 and .999 are apart. Default this if more than half
        of the labels have a probability above .9.
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        Shares with Jeffreys intervals, and numbers of items where these differ; above them a
        histogram of the probabilities. Points on the diagonal are calibrated, those above it
        underconfident, those below it overconfident. On the scale of log-odds, points at the upper
        edges have a probability or share too near 1 to be told from it with so many items.

    Raises
    ------
    ModelError
        A result without label probabilities; another ``equal`` or ``scale``.
    ResponsesError
        Labels of other items or classes, or none.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(500, 5, 2, random_seed=1)
    >>> point = bf.find_map(bf.models.DawidSkene(made.responses))
    >>> bf.plots.plot_calibration(point, dict(enumerate(made.truth.tolist()))).get_xlabel()
    'probability of the most probable label'
    """
    require_mapping("truth", truth)
    if scale not in (None, "linear", "logit"):
        raise ModelError(f"scale must be 'linear' or 'logit'. Got: {scale!r}.")
    if bins is None:
        bins = min(max(round(np.sqrt(len(truth)) / 2), 1), MOST)
    found = calibration(labels, truth, bins=bins, equal=equal, ci_prob=ci_prob)
    sure = label_probabilities(labels).max("class")
    place = {name: n for n, name in enumerate(listed(sure["item"].values))}
    top = sure.values[[place[name] for name in truth.keys()]]
    if scale is None:
        scale = "logit" if np.median(top) > SURE else "linear"
    (ax,) = new_axes(ax, 1, (4.8, 5.2), 1)
    low, high = _limits(ax, found, scale)
    ax.plot([low, high], [low, high], color="0.6", lw=1, zorder=0)
    stated, right, *ends = (
        np.clip(found[name].values, low, high) for name in ("stated", "right", "low", "high")
    )
    ax.vlines(stated, *ends, color="C0", lw=1.5, alpha=0.6, clip_on=False)
    ax.plot(stated, right, "o", color="C0", ms=5, clip_on=False, zorder=3)
    ax.set(xlabel="probability of the most probable label", ylabel="share of right labels")
    ax.spines[["top", "right"]].set_visible(False)
    _histogram(ax, np.clip(top, low, high), scale)
    count, scores = found["count"].values, found.attrs
    if count.max() > 1.5 * count.min():
        name_points(ax, stated, right, [f"{number:,}" for number in count])
    ax.set_title(
        f"{scores['items']:,} items: accuracy {scores['accuracy']:.3f}, "
        f"log-loss {scores['log_loss']:.3f}, ECE {scores['ece']:.3f}\n{_in_words(count)}",
        fontsize="small",
        y=1.17,  # above the histogram
    )
    return ax


def _limits(ax: Axes, found: xr.Dataset, scale: str) -> tuple[float, float]:
    """Set scale, limits and ticks of both axes, and return the limits."""
    lowest = float(min(found["stated"].values.min(), found["low"].values.min()))
    if scale == "linear":
        low, high = max(lowest - 0.05, 0.0), 1.0
        ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
        return low, high
    # with n items, a share is known to within about 1/n
    high = 1.0 - 0.25 / int(found["count"].sum())
    low = min(max(0.7 * lowest, 0.02), 0.5)
    ax.set(xscale="logit", yscale="logit", xlim=(low, high), ylim=(low, high), aspect="equal")
    ticks = [tick for tick in TICKS if low <= tick <= 1.0 - 2.0 * (1.0 - high)]
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks([*ticks, high], [*(f"{tick:g}".removeprefix("0") for tick in ticks), "1"])
        axis.set_ticks([], minor=True)
    return low, high


def _in_words(count: NDArray[np.int64]) -> str:
    if len(count) == 1:
        return "one bin"
    low, high = count.min(), count.max()
    size = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{len(count)} bins of {size} item{'s' * int(high > 1)}"


def _histogram(ax: Axes, top: NDArray[Any], scale: str) -> None:
    """Draw the distribution of probabilities above the axes."""
    from scipy.special import expit, logit

    above = ax.inset_axes((0.0, 1.02, 1.0, 0.14), sharex=ax)
    low, high = ax.get_xlim()
    edges: Array = np.linspace(low, high, 31)
    if scale == "logit":
        edges = expit(np.linspace(logit(low), logit(high), 31))
    edges[[0, -1]] = low, high  # rounding must leave out no item
    count = np.histogram(top, edges)[0]
    above.stairs(count, edges, fill=True, color="0.6")
    above.set_yticks([int(count.max())], [f"{count.max():,}"], fontsize="x-small")
    above.set_ylim(0, 1.05 * count.max())
    above.tick_params(axis="x", which="both", length=0, labelbottom=False)
    above.tick_params(axis="y", length=2, color=ink())
    above.set_ylabel("items", fontsize="x-small")
    above.spines[["top", "right", "left"]].set_visible(False)
