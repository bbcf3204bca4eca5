"""Plots for panels of raters: shares of classes by group, ranks, and what each rater is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesfuse.errors import ModelError, require_count
from bayesfuse.plots import axes as shared

ROOM = 26.0  # width of a number in a cell, in points
COLUMNS = 100  # largest number of columns; more ranks are binned


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
    numbers = groups[["group", "items", "known"]].itertuples(index=False)
    said = [
        f"{shared.escaped(group)} ({items:,} items{f', {known:,} known' if known else ''})"
        for group, items, known in numbers
    ]
    names = np.array(said, dtype=object)
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
        Correlations of every two raters; expected wrong labels by the cost of the panel, with the
        interval and the rater removed at each step.

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
        style: dict[str, Any] = {"rotation": 60, "size": shared.TEXT - 2}
        columns = (found[key].values[1:] for key in ("removed", "cost", "wrong"))
        for name, *place in zip(*columns, strict=True):
            text = f"− {shared.escaped(name, 14)}"
            ax.annotate(text, place, (0, 5), textcoords="offset points", **style)
    ax.set(xlabel="cost of the panel", ylabel="expected wrong labels", ylim=(0, None))
    ax.spines[["top", "right"]].set_visible(False)
    return np.asarray(axes)


def plot_ranks(found: xr.Dataset, *, most: int | None = 40, ax: Axes | None = None) -> Axes:
    """Plot the probability of every rank of every rater, the best rater on top.

    Parameters
    ----------
    found : Dataset
        From :func:`bayesfuse.decisions.rank_raters`.
    most : int, optional
        Number of raters to name, half of them the best and half the worst by expected rank. None
        for as many as fit. Default 40.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Darker cells are more probable. Cells show probabilities if these fit, else lines are
        intervals of the rank and points expected ranks.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.caries())
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> ax = bf.plots.plot_ranks(bf.decisions.rank_raters(result))
    >>> [tick.get_text() for tick in ax.get_yticklabels()][-1]  # rows are counted from below
    'dentist 2'
    """
    if most is not None:
        require_count("most", most)
    n_raters = found.sizes["rater"]
    shown = found.isel(rater=slice(None, None, -1))  # rows are counted from below
    many = n_raters if most is None or n_raters <= most else 1.5 * most
    size = min(2.5 + 0.36 * n_raters, 12.0), min(1.2 + 0.26 * many, shared.LARGEST)
    names = shown["rater"].values
    (ax,) = shared.new_axes(ax, 1, size, 1, (max(shared.width_of(names) - 0.7, 0.0), 0.3))
    rows = shared.place_rows(ax, n_raters, most)
    step = -(-n_raters // COLUMNS)
    starts = np.arange(0, n_raters, step)
    probability = np.add.reduceat(shown["probability"].values, starts, axis=1)
    edges = np.append(starts, n_raters) + 0.5
    largest = probability.max()
    image = ax.pcolormesh(edges, rows.edges, probability, cmap="Blues", vmin=0, vmax=largest)
    width, tall = shared.points(ax)
    if rows.named.all() and width / n_raters >= ROOM and tall / n_raters >= 1.2 * shared.TEXT:
        for (row, rank), value in np.ndenumerate(probability):
            if value >= 0.005:
                text = f"{value:.2f}".removeprefix("0") if value < 0.995 else "1"
                style: dict[str, Any] = {"ha": "center", "va": "center", "size": shared.TEXT - 2}
                ax.text(rank + 1, row, text, color=shared.on_blue(value, largest), **style)
    else:
        for which, lw, alpha in ((rows.named, 1.0, 1.0), (~rows.named, 0.3, 0.3)):
            y, own = rows.places[which], shown.isel(rater=which)
            ax.hlines(y, own["low"], own["high"], color="C1", lw=lw, alpha=alpha)
            ax.plot(own["expected_rank"], y, ".", color="C1", ms=4 * lw)
    shared.name_rows(ax, names, "rater", rows)
    ax.set_xticks(range(1, n_raters + 1, max(-(-n_raters // 20), 1)))
    counted = f", in steps of {step}" if step > 1 else ""
    ax.set_xlabel(f"rank by {shared.escaped(found.attrs['by'].replace('_', ' '))}{counted}")
    shared.set_title(ax, f"{n_raters:,} raters")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.figure.colorbar(image, ax=ax, label="posterior probability")
    return ax
