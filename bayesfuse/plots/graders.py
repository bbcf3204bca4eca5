"""Plot of raters of ordered classes: how strict, and how precise."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from bayesfuse.errors import ModelError
from bayesfuse.plots.axes import DISTINCT, escaped_names, name_points, new_axes, set_title
from bayesfuse.results.grades import rater_grades

EXTREMES = 4
"""Number of raters named at each end of both axes, where there are many."""


def plot_graders(
    result: xr.DataTree, *, ci_prob: float | None = None, ax: Axes | None = None
) -> Axes:
    """Plot the bias of every rater against the precision.

    Parameters
    ----------
    result : DataTree
        Of a model with ``raters="graded"``, from ``bf.sample``, or from ``bf.find_map`` (without
        intervals).
    ci_prob : float, optional
        Probability of the credible intervals. Default ``az.rcParams["stats.ci_prob"]``.
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        Posterior means: strict raters left, lenient ones right, precise ones on top. Lines are
        intervals; with many raters, points whose area grows with the number of responses, the
        extreme ones named.

    Raises
    ------
    ModelError
        The result has no precision of raters; its classes are not ordered.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia(), raters="graded")
    >>> result = bf.sample(model, draws=100, random_seed=1, progressbar=False, quiet=True)
    >>> bf.plots.plot_graders(result).get_ylabel()
    'precision (one over the noise, in classes)'
    """
    found = rater_grades(result, ci_prob=ci_prob)
    if "precision" not in found:
        raise ModelError(
            'A precision is a parameter of graded raters: fit a model with raters="graded". Got: '
            f"{list(found.data_vars)}."
        )
    (ax,) = new_axes(ax, 1, (6.0, 4.6), 1)
    x, y, names = found["bias"].values, found["precision"].values, found["rater"].values
    ax.set_yscale("log")
    ax.axvline(0, color="grey", lw=1, ls=":")
    if len(names) > DISTINCT:
        answered = found["responses"].values
        ax.scatter(x, y, s=6 + 90 * answered / answered.max(), alpha=0.45, lw=0)
        orders = [np.argsort(x, kind="stable"), np.argsort(y, kind="stable")]
        ends = [order[at] for i in range(EXTREMES) for at in (i, -1 - i) for order in orders]
        first = np.array(list(dict.fromkeys(ends)))
    else:
        line: dict[str, Any] = {"color": "C0", "lw": 1.5, "alpha": 0.5}
        ax.hlines(y, found["bias_low"], found["bias_high"], **line)
        ax.vlines(x, found["precision_low"], found["precision_high"], **line)
        ax.plot(x, y, "o", color="C0", ms=5)
        first = np.arange(len(names))
    _show_numbers(ax)
    shown = name_points(ax, x[first], y[first], escaped_names(names[first]))
    if shown < len(names):
        set_title(ax, f"{len(names):,} raters, {shown} of them named")
    ax.set_xlabel("bias, given minus true grade (strict ← → lenient)")
    ax.set_ylabel("precision (one over the noise, in classes)")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _show_numbers(ax: Axes) -> None:
    """Number a logarithmic axis by 1, 2 and 5, not by powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
