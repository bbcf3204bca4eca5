"""Calibration plot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import xarray as xr

from bayesfuse.checks import calibration
from bayesfuse.plots.axes import TEXT, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_calibration(
    labels: xr.DataTree | xr.DataArray,
    truth: Mapping[Any, Any],
    *,
    bins: int = 10,
    ci_prob: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the share of right labels against the probability of the most probable label.

    Parameters
    ----------
    labels, truth, bins, ci_prob
        As in :func:`bayesfuse.checks.calibration`.
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        Shares with intervals and numbers of items. Points on the diagonal are calibrated, those
        above it underconfident, those below it overconfident.

    Raises
    ------
    ModelError
        A result without label probabilities.
    ResponsesError
        Labels of other items or classes, or none.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> from bayesfuse.plots import plot_calibration
    >>> made = bf.datasets.simulate_dawid_skene(500, 5, 2, random_seed=1)
    >>> point = bf.find_map(DawidSkene(made.responses))
    >>> plot_calibration(point, dict(enumerate(made.truth.tolist()))).get_xlabel()
    'probability of the most probable label'
    """
    found = calibration(labels, truth, bins=bins, ci_prob=ci_prob)
    (ax,) = new_axes(ax, 1, (4.8, 4.8), 1)
    stated, right = found["stated"].values, found["right"].values
    ax.plot([0, 1], [0, 1], color="0.6", lw=1, zorder=0)
    ax.vlines(stated, found["low"], found["high"], color="C0", lw=1.5, alpha=0.6)
    ax.plot(stated, right, "o", color="C0", ms=5)
    middle = (min(stated.min(), right.min()) + 1) / 2
    for x, y, count in zip(stated, right, found["count"].values, strict=True):
        left = x > middle
        ax.annotate(
            f"{count:,}",
            (x, y),
            (-6 if left else 6, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=TEXT - 1,
            color="0.3",
        )
    low = max(min(stated.min(), found["low"].values.min()) - 0.05, -0.02)
    ax.set(xlim=(low, 1.03), ylim=(low, 1.03), aspect="equal")
    ax.set(xlabel="probability of the most probable label", ylabel="share of right labels")
    scores = found.attrs
    ax.set_title(
        f"{scores['items']:,} items: accuracy {scores['accuracy']:.3f}, "
        f"log-loss {scores['log_loss']:.3f}, ECE {scores['ece']:.3f}",
        fontsize="small",
    )
    ax.spines[["top", "right"]].set_visible(False)
    return ax
