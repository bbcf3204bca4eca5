"""Pictures of a fit: how it climbed, and where it began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from bayesfuse.errors import ModelError
from bayesfuse.plots.axes import TEXT, escaped, new_axes, set_title
from bayesfuse.results.contents import require_result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRACES = {
    "fit": ("elbo", "evidence lower bound"),
    "trace": ("log_posterior", "log posterior, up to a constant"),
}
"""Where results keep what they climbed: group, variable and its name."""

STARTS = "start_log_posterior_"
"""Prefix of the attributes that record what became of the candidates."""


def plot_elbo(result: xr.DataTree, *, ax: Axes | None = None) -> Axes:
    """Draw how a variational fit, or expectation maximisation, climbed.

    Parameters
    ----------
    result : DataTree
        From ``bf.fit`` (the evidence lower bound) or ``bf.find_map`` (the log posterior).
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        By iteration. The vertical axis begins where the first tenth of the climb is over, so that
        its end can be seen; the title says whether it settled.

    Raises
    ------
    ModelError
        A result without such a trace.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> from bayesfuse.plots import plot_elbo
    >>> plot_elbo(bf.find_map(DawidSkene(bf.datasets.anesthesia()))).get_ylabel()
    'log posterior, up to a constant'
    """
    group = next((name for name in TRACES if name in require_result(result).children), None)
    if group is None:
        raise ModelError(
            "A climb is drawn of a result of bf.fit or bf.find_map, which keep it. Got: groups "
            f"{sorted(result.children)}."
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
    settled = result.attrs.get("converged")
    said = "" if settled is None else ("settled after " if settled else "not settled after ")
    ax.set_title(f"{said}{len(values):,} iterations: {values[-1]:,.2f}", fontsize="medium")
    ax.set(xlabel="iteration", ylabel=name)
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_start(result: xr.DataTree, *, ax: Axes | None = None) -> Axes:
    """Draw what became of the candidates for a start, and which was taken.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.find_map`` with the start "moments" or "majority".
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        For every candidate, how far its log posterior is below the best after a few steps of EM.
        A candidate far below the other sits in another mode.

    Raises
    ------
    ModelError
        A result that records no candidates.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> from bayesfuse.plots import plot_start
    >>> ax = plot_start(bf.find_map(DawidSkene(bf.datasets.caries())))
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
            "The choice of a start is recorded where one was made: start='moments' or 'majority'. "
            f"Got: attributes {list(result.attrs)}."
        )
    taken = result.attrs["start"]
    names = sorted(heights)
    below = np.array([heights[name] for name in names]) - max(heights.values())
    (ax,) = new_axes(ax, 1, (5.5, 1.2 + 0.4 * len(names)), 1)
    colours = ["C0" if name == taken else "0.7" for name in names]
    ax.barh(range(len(names)), below, color=colours, height=0.6)
    ax.plot(np.zeros(len(names)), range(len(names)), "|", color="0.3", ms=12)
    room = max(-below.min(), 1.0)  # less than a nat is next to nothing
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
