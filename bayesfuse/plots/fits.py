"""Plots of a fit: its convergence, and the candidates for its start."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from bayesfuse.errors import ModelError
from bayesfuse.plots.axes import TEXT, escaped, new_axes, set_title
from bayesfuse.results.contents import require_result

TRACES = {
    "fit": ("elbo", "evidence lower bound"),
    "trace": ("log_posterior", "log posterior, up to a constant"),
}
"""The objective by group of the result: variable and axis label."""

STARTS = "start_log_posterior_"
"""Prefix of the attributes with the log posterior of each candidate for the start."""


def plot_elbo(result: xr.DataTree, *, ax: Axes | None = None) -> Axes:
    """Plot the objective of a variational fit or of EM by iteration.

    Parameters
    ----------
    result : DataTree
        From ``bf.fit`` (the evidence lower bound) or ``bf.find_map`` (the log posterior).
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        The limits of the vertical axis exclude the first tenth of the iterations; the title shows
        whether the fit converged.

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
    ax.plot(
        np.arange(1, len(values) + 1), values, color="C0", marker="." if len(values) < 40 else ""
    )
    tail = values[len(values) // 10 :]
    low, high = tail.min(), tail.max()
    if high > low:
        ax.set_ylim(low - 0.05 * (high - low), high + 0.08 * (high - low))
    converged = result.attrs.get("converged")
    said = "" if converged is None else "converged after " if converged else "not converged after "
    ax.set_title(f"{said}{len(values):,} iterations: {values[-1]:,.2f}", fontsize="medium")
    ax.set(xlabel="iteration", ylabel=name)
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_start(result: xr.DataTree, *, ax: Axes | None = None) -> Axes:
    """Plot the candidates for the start by their log posterior.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.find_map`` with the start "moments" or "majority".
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        The log posterior of every candidate after a few steps of EM, relative to the best. A
        candidate far below the other is in another mode.

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
    taken = result.attrs["start"]
    names = sorted(heights)
    below = np.array([heights[name] for name in names]) - max(heights.values())
    (ax,) = new_axes(ax, 1, (5.5, 1.2 + 0.4 * len(names)), 1)
    colours = ["C0" if name == taken else "0.7" for name in names]
    ax.barh(range(len(names)), below, color=colours, height=0.6)
    ax.plot(np.zeros(len(names)), range(len(names)), "|", color="0.5", ms=12)
    room = max(-below.min(), 1.0)  # differences below one nat are negligible
    for row, (name, value) in enumerate(zip(names, below, strict=True)):
        text = "taken" if name == taken else f"{value:,.2g}"
        ax.text(0.03 * room, row, text, va="center", fontsize=TEXT)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlim=(-1.08 * room, 0.3 * room), ylim=(-0.6, len(names) - 0.4))
    ax.set_xlabel("log posterior below the best start, after a few steps of EM")
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    if left_out := result.attrs.get("start_without_moments"):
        first = str(left_out).split("Got:")[0].split(",")[0].rstrip(". ")
        set_title(ax, f"without moments: {escaped(first, 80)}")
    return ax
