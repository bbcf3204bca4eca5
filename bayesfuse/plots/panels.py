"""Plots for panels of raters: shares of classes by group, and what each rater is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError
from bayesfuse.plots import axes as shared


def plot_class_shares(shares: pd.DataFrame, *, axes: Any = None) -> NDArray[Any]:
    """Plot the share of items in each class, by group, with intervals: a forest plot.

    Parameters
    ----------
    shares : DataFrame
        From :func:`bayesfuse.class_shares`: its first table.
    axes : sequence of matplotlib Axes, optional
        One for each class, of two classes for the second alone. Default a new figure.

    Returns
    -------
    ndarray of Axes
        Points are shares, thick lines intervals for these items, thin lines for new ones, and
        crosses the bare shares of votes. Rows name the numbers of items and of known ones.

    Raises
    ------
    ModelError
        Another table; not one Axes for each class.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.caries().expand().head(60))
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.class_shares(result, by=["first", "second", "third"] * 20, random_seed=1)
    >>> (ax,) = bf.plots.plot_class_shares(found.shares)
    >>> ax.get_xlabel()
    'share of items'
    """
    if not isinstance(shares, pd.DataFrame) or "new_high" not in shares or "known" not in shares:
        raise ModelError(
            "shares must be the first table of bf.class_shares(result, by=…). Got: "
            f"{type(shares).__name__}."
        )
    classes = shares["class"].unique()
    shown = classes[1:] if len(classes) == 2 else classes
    groups = shares[shares["class"] == classes[0]].iloc[::-1]  # rows are counted from below
    names = np.array(
        [
            f"{shared.escaped(group)} ({items:,} items{f', {known:,} known' if known else ''})"
            for group, items, known in groups[["group", "items", "known"]].itertuples(index=False)
        ],
        dtype=object,
    )
    size = 3.2, min(1.0 + 0.3 * len(names), 9.0)
    room = max(shared.width_of(names, most=60) - 0.7, 0.0), 0.3
    axes = shared.new_axes(axes, len(shown), size, min(len(shown), 4), room, sharey=True)
    rows = shared.place_rows(axes[0], len(names))
    for ax, name in zip(axes, shown, strict=True):
        own = shares[shares["class"] == name].iloc[::-1]
        colour = shared.class_colours(classes)[name]
        ax.hlines(rows.places, own["new_low"], own["new_high"], color=colour, lw=1.2)
        share, low, high = (own[key].to_numpy() for key in ("share", "low", "high"))
        shared.draw_intervals(ax, share, low, high, rows, colour)
        ax.plot(own["votes"], rows.places, "x", color="0.4", ms=5, label="votes")
        ax.set_xlabel("share of items")
        shared.set_title(ax, shared.escaped(name))
    text = axes[0]
    text.set_yticks(rows.places[rows.named], names[rows.named], fontsize=shared.TEXT)
    return np.asarray(axes)


def plot_panel(found: xr.Dataset, *, axes: Any = None) -> NDArray[Any]:
    """Plot the correlations of raters' errors, and the wrong labels of smaller panels.

    Parameters
    ----------
    found : Dataset
        From :func:`bayesfuse.decisions.panel`.
    axes : sequence of two matplotlib Axes, default a new figure

    Returns
    -------
    ndarray of Axes, shape (2,)
        Correlations of every two raters, blue below zero; and expected wrong labels by the cost of
        the panel, with the interval and the rater that is removed at each step.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(100, 4, 2, random_seed=1)
    >>> model = bf.models.DawidSkene(made.responses)
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> axes = bf.plots.plot_panel(bf.decisions.panel(result, random_seed=1))
    >>> axes[1].get_xlabel()
    'cost of the panel'
    """
    axes = shared.new_axes(axes, 2, (5.4, 4.6), 2)
    names = found["rater"].values
    values = np.where(np.eye(len(names), dtype=bool), np.nan, found["correlation"].values)
    most = float(np.nanmax(np.abs(values), initial=0.1))
    shared.draw_matrix(
        axes[0], values, names, "correlation of errors", cmap="RdBu_r", vmin=-most, vmax=most
    )
    votes = float(found["effective_votes"])
    shared.set_title(axes[0], f"{len(names)} raters are worth {votes:.1f} independent ones")
    ax = axes[1]
    ax.fill_between(found["cost"], found["wrong_low"], found["wrong_high"], alpha=0.2, step=None)
    ax.plot(found["cost"], found["wrong"], ".-")
    if len(names) <= 20:
        for cost, wrong, name in zip(
            found["cost"].values[1:],
            found["wrong"].values[1:],
            found["removed"].values[1:],
            strict=True,
        ):
            ax.annotate(
                f"− {shared.escaped(name, 14)}",
                (cost, wrong),
                (0, 5),
                textcoords="offset points",
                rotation=60,
                fontsize=shared.TEXT - 2,
            )
    ax.set(xlabel="cost of the panel", ylabel="expected wrong labels", ylim=(0, None))
    ax.spines[["top", "right"]].set_visible(False)
    return np.asarray(axes)
