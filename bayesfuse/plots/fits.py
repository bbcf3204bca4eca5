"""Plots of a fit: its calibration, and the variables that ArviZ plots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes

from bayesfuse.checks import calibration
from bayesfuse.checks.scores import of_known
from bayesfuse.plots.axes import new_axes
from bayesfuse.results.contents import require_draws

MAX_BINS = 20  # largest number of bins, unless the user asks for more
SURE = 0.9  # if half of the labels are more probable than this, the axes have the scale of log-odds
TICKS = [0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.997, 0.999, 0.9997, 0.9999]  # on that scale


def var_names(result: xr.DataTree) -> list[str]:
    """Return the smallest variables of a posterior, for as many panels as ArviZ draws.

    ArviZ draws ``az.rcParams["plot.max_subplots"]`` panels, which is 40 by default.

    Parameters
    ----------
    result : DataTree, from ``bf.sample``, ``bf.fit`` or ``bf.fuse``

    Returns
    -------
    list of str
        For ``var_names=`` of ``az.plot_trace``. Variables with an entry that is the same in all
        draws are left out.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, random_seed=1, progressbar=False, quiet=True)
    >>> bf.plots.var_names(result)
    ['prevalence', 'sensitivity']
    """
    import arviz as az

    left = az.rcParams["plot.max_subplots"] or np.inf  # None is no limit
    draws = require_draws(result, "A choice of variables")
    sizes = {
        str(name): variable[0, 0].size
        for name, variable in draws.data_vars.items()
        if bool((variable != variable.isel(chain=0, draw=0)).any(("chain", "draw")).all())
    }
    # in ascending order, those after the first that does not fit do not fit, either
    names = sorted(sizes, key=sizes.__getitem__)
    total = np.cumsum([sizes[name] for name in names])
    return names[: np.searchsorted(total, left, side="right")]


def plot_calibration(
    labels: xr.DataTree | xr.DataArray | pd.DataFrame,
    truth: Any,
    *,
    bins: int | None = None,
    ci_prob: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the share of right labels against the probability of the most probable label.

    Parameters
    ----------
    labels, truth, ci_prob : as in :func:`bayesfuse.checks.calibration`
    bins : int, optional
        Number of bins of equal numbers of items. Default half the square root of this number, at
        most 20.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Shares with Jeffreys intervals. Points below the diagonal are overconfident. If more than
        half of the labels have a probability above .9, axes have the scale of log-odds, so that .9,
        .99 and .999 are apart; points at the edge cannot be told from 1.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(500, 5, 2, random_seed=1)
    >>> point = bf.find_map(bf.models.DawidSkene(made.responses))
    >>> bf.plots.plot_calibration(point, dict(enumerate(made.truth.tolist()))).get_xlabel()
    'probability of the most probable label'
    """
    top = of_known(labels, truth)[0].max(axis=1)
    if bins is None:
        bins = min(max(round(np.sqrt(len(top)) / 2), 1), MAX_BINS)
    calibrated = calibration(labels, truth, bins=bins, equal="count", ci_prob=ci_prob)
    scale = "logit" if np.median(top) > SURE else "linear"
    (ax,) = new_axes(ax, 1, (4.8, 5.2), 1)
    low, high = _limits(ax, calibrated, scale)
    ax.plot([low, high], [low, high], color="0.6", lw=1, zorder=0)
    stated, right, *ends = (
        np.clip(calibrated[name].values, low, high) for name in ("stated", "right", "low", "high")
    )
    ax.vlines(stated, *ends, color="C0", lw=1.5, alpha=0.6, clip_on=False)
    ax.plot(stated, right, "o", color="C0", ms=5, clip_on=False, zorder=3)
    ax.set(xlabel="probability of the most probable label", ylabel="share of right labels")
    count, scores = calibrated["count"].values, calibrated.attrs
    fewest, most = count.min(), count.max()
    size = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
    binning = (
        f"{len(count)} bins of {size} item{'s' * int(most > 1)}" if len(count) > 1 else "one bin"
    )
    clipped = f" ({scores['clipped']:,} at the floor)" if scores["clipped"] else ""
    ax.set_title(
        f"{scores['items']:,} items: accuracy {scores['accuracy']:.3f}, "
        f"log-loss {scores['log_loss']:.3f}{clipped}, ECE {scores['ece']:.3f}\n{binning}",
        fontsize="small",
    )
    return ax


def _limits(ax: Axes, calibrated: xr.Dataset, scale: str) -> tuple[float, float]:
    """Set scale, limits and ticks of both axes, and return the limits."""
    lowest = float(min(calibrated["stated"].values.min(), calibrated["low"].values.min()))
    if scale == "linear":
        low, high = max(lowest - 0.05, 0.0), 1.0
        ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
        return low, high
    # with n items, a share is known to within about 1/n
    high = 1.0 - 0.25 / int(calibrated["count"].sum())
    low = min(max(0.7 * lowest, 0.02), 0.5)
    ax.set(xscale="logit", yscale="logit", xlim=(low, high), ylim=(low, high), aspect="equal")
    ticks = [tick for tick in TICKS if low <= tick <= 1.0 - 2.0 * (1.0 - high)]
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks([*ticks, high], [*(f"{tick:g}".removeprefix("0") for tick in ticks), "1"])
        axis.set_ticks([], minor=True)
    return low, high
