"""Plots of a fit: its convergence, the candidates for its start, and its calibration."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesfuse.checks import calibration
from bayesfuse.checks.scores import of_known
from bayesfuse.errors import ModelError, require_count
from bayesfuse.numerics.kernels import Array
from bayesfuse.plots.axes import TEXT, escaped, ink, name_points, new_axes, set_title
from bayesfuse.results.contents import require_draws, require_result

TRACES = {
    "fit": ("elbo", "evidence lower bound"),
    "trace": ("log_posterior", "log posterior, up to a constant"),
}
"""The objective by group of the result: variable and axis label."""

MOST = 20  # largest number of bins, unless the user asks for more
SURE = 0.9  # if half of the labels are more probable than this, the axes have the scale of log-odds
TICKS = [0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.997, 0.999, 0.9997, 0.9999]  # on that scale

STARTS = "start_log_posterior_"  # prefix of the attributes of the candidates for the start


def var_names(result: xr.DataTree, most: int | None = None) -> list[str]:
    """Return the smallest variables of a posterior, for as many panels as ArviZ draws.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.fuse``.
    most : int, optional
        Largest number of their entries. Default ``az.rcParams["plot.max_subplots"]``, which is 40.

    Returns
    -------
    list of str
        For ``var_names=`` of ``az.plot_trace``. Variables with an entry that is the same in all
        draws are left out.

    Raises
    ------
    ModelError
        The result has no draws.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, random_seed=1, progressbar=False, quiet=True)
    >>> bf.plots.var_names(result)
    ['prevalence', 'sensitivity']
    """
    import arviz as az

    if most is not None:
        require_count("most", most)
    left = az.rcParams["plot.max_subplots"] if most is None else most
    left = np.inf if left is None else left  # ArviZ's setting for no limit
    draws = require_draws(result, "A choice of variables")
    sizes = {
        str(name): own[0, 0].size
        for name, own in draws.data_vars.items()
        if bool((own != own.isel(chain=0, draw=0)).any(("chain", "draw")).all())
    }
    # in ascending order, those after the first that does not fit do not fit, either
    names = sorted(sizes, key=sizes.__getitem__)
    total = np.cumsum([sizes[name] for name in names])
    return names[: np.searchsorted(total, left, side="right")]


def plot_elbo(result: xr.DataTree, *, ax: Axes | None = None) -> Axes:
    """Plot the objective of a variational fit or of EM by iteration.

    Parameters
    ----------
    result : DataTree
        From ``bf.fit`` (the evidence lower bound) or ``bf.find_map`` (the log posterior).
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        The vertical limits exclude the first tenth of the iterations.

    Raises
    ------
    ModelError
        A result without such a trace.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.plots.plot_elbo(bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))).get_ylabel()
    'log posterior, up to a constant'
    """
    group = next((name for name in TRACES if name in require_result(result).children), None)
    if group is None:
        raise ModelError(
            "The objective by iteration is stored in results of bf.fit and bf.find_map only. Got: "
            f"groups {sorted(result.children)}."
        )
    variable, name = TRACES[group]
    values = result[group].dataset[variable].values
    from matplotlib.ticker import MaxNLocator

    (ax,) = new_axes(ax, 1, (5.5, 3.4), 1)
    marker = "." if len(values) < 40 else ""
    ax.plot(np.arange(1, len(values) + 1), values, color="C0", marker=marker)
    tail = values[len(values) // 10 :]
    low, high = tail.min(), tail.max()
    if high > low:
        ax.set_ylim(low - 0.05 * (high - low), high + 0.08 * (high - low))
    words = {None: "", True: "converged after ", False: "not converged after "}
    said = words[result.attrs.get("converged")]
    ax.set_title(f"{said}{len(values):,} iterations: {values[-1]:,.2f}", fontsize="medium")
    ax.set(xlabel="iteration", ylabel=name)
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def plot_start(result: xr.DataTree, *, ax: Axes | None = None) -> Axes:
    """Plot the candidates for the start by their log posterior.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.find_map`` with the start "moments" or "majority".
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Log posteriors after a few steps of EM. One far below the best is in another mode.

    Raises
    ------
    ModelError
        A result that records no candidates.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> ax = bf.plots.plot_start(bf.find_map(bf.models.DawidSkene(bf.datasets.caries())))
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['majority', 'moments']
    """
    heights = {
        str(name).removeprefix(STARTS): float(value)
        for name, value in require_result(result).attrs.items()
        if str(name).startswith(STARTS)
    }
    if not heights:
        raise ModelError(
            "Candidates for the start are recorded with start='moments' or 'majority' only. Got: "
            f"attributes {list(result.attrs)}."
        )
    names, taken = sorted(heights), result.attrs["start"]
    below = np.array([heights[name] for name in names]) - max(heights.values())
    (ax,) = new_axes(ax, 1, (5.5, 1.2 + 0.4 * len(names)), 1)
    colours = ["C0" if name == taken else "0.7" for name in names]
    ax.barh(names, below, color=colours, height=0.6)
    ax.plot(np.zeros(len(names)), range(len(names)), "|", color="0.5", ms=12)
    room = max(-below.min(), 1.0)  # differences below one nat are negligible
    for row, (name, value) in enumerate(zip(names, below, strict=True)):
        text = "taken" if name == taken else f"{value:,.2g}"
        ax.text(0.03 * room, row, text, va="center", fontsize=TEXT)
    ax.set(xlim=(-1.08 * room, 0.3 * room), ylim=(-0.6, len(names) - 0.4))
    ax.set_xlabel("log posterior below the best start, after a few steps of EM")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    if left_out := result.attrs.get("start_without_moments"):
        first = str(left_out).split("Got:")[0].split(",")[0].rstrip(". ")
        set_title(ax, f"without moments: {escaped(first, 80)}")
    return ax


def plot_calibration(
    labels: xr.DataTree | xr.DataArray | pd.DataFrame,
    truth: Any,
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
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Shares with Jeffreys intervals, and numbers of items where these differ; above them a
        histogram of the probabilities. Points below the diagonal are overconfident. On the scale of
        log-odds, points at the edge cannot be told from 1.

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
    if scale not in (None, "linear", "logit"):
        raise ModelError(f"scale must be 'linear' or 'logit'. Got: {scale!r}.")
    top = of_known(labels, truth)[0].max(axis=1)
    if bins is None:
        bins = min(max(round(np.sqrt(len(top)) / 2), 1), MOST)
    found = calibration(labels, truth, bins=bins, equal=equal, ci_prob=ci_prob)
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
    _histogram(ax, np.clip(top, low, high), scale)
    count, scores = found["count"].values, found.attrs
    fewest, most = count.min(), count.max()
    size = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
    said = f"{len(count)} bins of {size} item{'s' * int(most > 1)}" if len(count) > 1 else "one bin"
    if most > 1.5 * fewest:
        name_points(ax, stated, right, [f"{number:,}" for number in count])
    ax.set_title(
        f"{scores['items']:,} items: accuracy {scores['accuracy']:.3f}, "
        f"log-loss {scores['log_loss']:.3f}, ECE {scores['ece']:.3f}\n{said}",
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
