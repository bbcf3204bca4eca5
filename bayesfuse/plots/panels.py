"""Plots of class shares by group, of panels and ranks of raters, and of known labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from bayesfuse.data.names import listed
from bayesfuse.decisions.next_items import accept_labels, errors_after
from bayesfuse.errors import ModelError, require_count
from bayesfuse.plots import axes as shared
from bayesfuse.plots.checks import plot_dependence
from bayesfuse.plots.fits import plot_calibration
from bayesfuse.results.class_shares import ClassShares
from bayesfuse.results.contents import constants, observed_rows, require_result
from bayesfuse.results.rater_table import rater_table

LEGEND = 1.2  # inches of a legend beside the axes
MORE = 100  # additional known labels on the axis, at most half of the unknown ones


def plot_class_shares(shares: ClassShares | pd.DataFrame, *, axes: Any = None) -> NDArray[Any]:
    """Plot the share of items in each class, by group, with intervals: a forest plot.

    Parameters
    ----------
    shares : the tables of :func:`bayesfuse.class_shares`, or the first of them
    axes : sequence of matplotlib Axes, default a new figure
        One for each class, of two classes for the second alone.

    Returns
    -------
    ndarray of Axes
        Points are shares, thick lines intervals for these items, thin lines for new ones, and
        crosses the shares of votes.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.caries().expand().head(60))
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> shares = bf.class_shares(result, by=["first", "second", "third"] * 20, random_seed=1)
    >>> bf.plots.plot_class_shares(shares)[0].get_xlabel()
    'share of items'
    """
    if isinstance(shares, tuple):
        shares = shares[0]
    if not isinstance(shares, pd.DataFrame) or "new_high" not in shares or "known" not in shares:
        raise ModelError(
            "shares must be the tables of bf.class_shares(result, by=…), or the first of them. "
            f"Got: {type(shares).__name__}."
        )
    classes = shares["class"].unique()
    drawn = classes[1:] if len(classes) == 2 else classes
    shares = shares.iloc[::-1]  # rows are counted from below
    groups = shares.loc[shares["class"] == classes[0], ["group", "items", "known"]]
    names = [
        f"{shared.escaped(group)} ({items:,} items{f', {known:,} known' if known else ''})"
        for group, items, known in groups.itertuples(index=False)
    ]
    size = 3.2, min(1.0 + 0.3 * len(names), 9.0)
    room = max(shared.width_of(names, most=60) - 0.7, 0.0) + LEGEND, 0.3
    n_columns = -(-len(drawn) // -(-len(drawn) // 4))  # rows of up to four, as even as possible
    axes = shared.new_axes(axes, len(drawn), size, n_columns, room, sharey=True)
    rows = shared.place_rows(axes[0], len(names))
    for ax, name in zip(axes, drawn, strict=True):
        of_class = shares[shares["class"] == name]
        colour = shared.class_colours(classes)[name]
        new_ends = of_class["new_low"], of_class["new_high"]
        ax.hlines(rows.places, *new_ends, color=colour, lw=0.8)
        share, low, high = (of_class[key].to_numpy() for key in ("share", "low", "high"))
        shared.draw_intervals(ax, share, low, high, rows, colour)
        ax.plot(of_class["votes"], rows.places, "x", color="0.4", ms=5, label="votes")
        ax.set_xlabel("share of items")
        shared.set_title(ax, f"class {shared.escaped(name)}")
    shown = np.flatnonzero(rows.named)
    axes[0].set_yticks(rows.places[shown], [names[at] for at in shown], fontsize=shared.TEXT)
    ink = shared.ink()
    axes[n_columns - 1].legend(
        handles=[
            Line2D([], [], color=ink, marker="o", lw=0.0, label="share"),
            Line2D([], [], color=ink, lw=2.0, alpha=0.6, label="these items"),
            Line2D([], [], color=ink, lw=0.8, label="new items"),
            Line2D([], [], color="0.4", marker="x", ms=5, lw=0.0, label="votes"),
        ],
        loc="upper left",
        bbox_to_anchor=(1.02, 1.0),
        frameon=False,
        fontsize=shared.TEXT,
    )
    return axes


def plot_panel(panel: xr.Dataset, *, axes: Any = None) -> NDArray[Any]:
    """Plot the correlations of raters' errors, and the wrong labels of smaller panels.

    Parameters
    ----------
    panel : Dataset, from :func:`bayesfuse.decisions.select_panel`
    axes : sequence of two matplotlib Axes, default a new figure

    Returns
    -------
    ndarray of Axes, shape (2,)
        Correlations of every two raters; expected wrong labels with intervals of the panels that
        are left as raters are removed, all raters on top. The dotted line is what is expected of
        the labels of the result, which know more than weighted votes.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> bf.plots.plot_panel(bf.decisions.select_panel(result, random_seed=1))[0].get_xlabel()
    'rater'
    """
    _require_table("panel", panel, "effective_votes", "bf.decisions.select_panel")
    names = panel["rater"].values
    width = shared.width_of(names)
    axes = shared.new_axes(axes, 2, (5.4, 4.6), 2, (2 * width, width))
    plot_dependence(panel["correlation"].rename("correlation of errors"), ax=axes[0])
    votes = float(panel["effective_votes"])
    shared.set_title(axes[0], f"{len(names)} raters are worth {votes:.1f} independent ones")
    ax, steps = axes[1], panel.isel(step=slice(None, None, -1))  # rows are counted from below
    rows = shared.place_rows(ax, len(names))
    mean, low, high = (steps[name].values for name in ("wrong", "wrong_low", "wrong_high"))
    ax.plot(mean, rows.places, "o", ms=4)
    ax.hlines(rows.places, low, high, color="C0", lw=1.5)
    ax.axvline(panel.attrs["expected"], color="grey", lw=1, ls=":")
    removed = [*shared.escaped_names(panel["removed"].values[:0:-1]), "all raters"]
    words = [f"{name} ({cost:g})" for name, cost in zip(removed, steps["cost"].values, strict=True)]
    shared.name_rows(ax, np.array(words, dtype=object), "step", rows, ("first", "last"))
    ax.set_ylabel("rater removed (cost of the panel left)")
    ax.set_xlabel("expected wrong labels by weighted votes\n(dotted: labels of the result)")
    ax.set_xlim(0.0, 1.05 * max(float(high.max()), panel.attrs["expected"], 1e-9))
    return axes


def plot_ranks(ranks: xr.Dataset, *, most: int | None = 40, ax: Axes | None = None) -> Axes:
    """Plot the probability of every rank of every rater, the best rater on top.

    Parameters
    ----------
    ranks : Dataset, from :func:`bayesfuse.decisions.rank_raters`
    most : int, optional
        Number of raters to name, half of them the best and half the worst; None for as many as
        fit. Default 40.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Darker cells are more probable. Lines are intervals of the rank, and points expected ranks.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.caries())
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> bf.plots.plot_ranks(bf.decisions.rank_raters(result)).get_title()
    '5 raters'
    """
    _require_table("ranks", ranks, "expected_rank", "bf.decisions.rank_raters")
    if most is not None:
        require_count("most", most)
    n_raters = ranks.sizes["rater"]
    shown = ranks.isel(rater=slice(None, None, -1))  # rows are counted from below
    many = n_raters if most is None or n_raters <= most else 1.5 * most
    size = min(2.5 + 0.36 * n_raters, 12.0), min(1.2 + 0.26 * many, shared.LARGEST)
    names = shown["rater"].values
    (ax,) = shared.new_axes(ax, 1, size, 1, (max(shared.width_of(names) - 0.7, 0.0), 0.3))
    rows = shared.place_rows(ax, n_raters, most)
    edges = np.arange(n_raters + 1) + 0.5
    image = ax.pcolormesh(edges, rows.edges, shown["probability"], cmap="Blues", vmin=0)
    for which, lw, alpha in ((rows.named, 1.0, 1.0), (~rows.named, 0.3, 0.3)):
        y, of_rows = rows.places[which], shown.isel(rater=which)
        ax.hlines(y, of_rows["low"], of_rows["high"], color="C1", lw=lw, alpha=alpha)
        ax.plot(of_rows["expected_rank"], y, ".", color="C1", ms=4 * lw)
    shared.name_rows(ax, names, "rater", rows)
    ax.set_xticks(range(1, n_raters + 1, max(-(-n_raters // 20), 1)))
    ax.set_xlabel(f"rank by {shared.escaped(ranks.attrs['by'].replace('_', ' '))}")
    shared.set_title(ax, f"{n_raters:,} raters")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.figure.colorbar(image, ax=ax, label="posterior probability")
    return ax


def plot_differences(ranks: xr.Dataset, *, axes: Any = None) -> NDArray[Any]:
    """Plot how probably a rater is better than another, and groups compared with all others.

    Parameters
    ----------
    ranks : Dataset, from :func:`bayesfuse.decisions.rank_raters`, of up to 500 raters
    axes : sequence of matplotlib Axes, default a new figure: two with groups, else one

    Returns
    -------
    ndarray of Axes
        The probability that the rater of the row is better than that of the column, the best first.
        With groups, the difference of their mean from that of all other raters, with intervals.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(60, 4, 2, random_seed=1)
    >>> model = bf.models.DawidSkene(made.responses)
    >>> result = bf.sample(model, 100, random_seed=1, progressbar=False, quiet=True)
    >>> ranks = bf.decisions.rank_raters(result, groups={0: "a", 1: "a", 2: "b", 3: "b"})
    >>> bf.plots.plot_differences(ranks)[1].get_xlabel()
    'balanced accuracy, minus that of all others'
    """
    if "better" not in ranks:
        raise ModelError(
            "Differences are of bf.decisions.rank_raters(result), of up to 500 raters. Got: "
            f"{list(ranks)}."
        )
    names, what = ranks["rater"].values, shared.escaped(ranks.attrs["by"].replace("_", " "))
    inches = min(max(1.5 + 0.3 * len(names), 3.4), shared.LARGEST)
    width, has_groups = shared.width_of(names), "group_difference" in ranks
    count = 1 + has_groups
    axes = shared.new_axes(axes, count, (inches + 1.0, inches), count, (2.0 * width, width))
    ax = axes[0]
    better = ranks["better"].values.copy()
    np.fill_diagonal(better, np.nan)
    ax.set_facecolor("0.9")
    image = ax.imshow(better, cmap="RdBu", vmin=0.0, vmax=1.0)
    shared.name_square(ax, names)
    ax.set_xlabel("other rater")
    ax.figure.colorbar(image, ax=ax, label="probability to be better", fraction=0.046)
    shared.set_title(ax, what)
    if has_groups:
        ax, groups = axes[1], ranks["group"].values
        rows = shared.place_rows(ax, len(groups))
        ends = ranks["group_difference_low"], ranks["group_difference_high"]
        ax.plot(ranks["group_difference"], rows.places, "o", ms=4)
        ax.hlines(rows.places, *ends, color="C0", lw=1.5)
        ax.axvline(0.0, color="grey", lw=1, ls=":")
        shared.name_rows(ax, groups, "group", rows)
        ax.set_xlabel(f"{what}, minus that of all others")
    return axes


def _require_table(name: str, table: Any, variable: str, function: str) -> None:
    if not isinstance(table, xr.Dataset) or variable not in table:
        raise ModelError(f"{name} must be from {function}(result). Got: {type(table).__name__}.")


def plot_known_labels(result: xr.DataTree, *, axes: Any = None) -> NDArray[Any]:
    """Plot accuracies and calibration on known labels, and errors expected after further ones.

    Parameters
    ----------
    result : DataTree, from ``bf.fuse(gold=…)`` for independent items, or of ``WeightedVotes``
    axes : sequence of four matplotlib Axes, default a new figure

    Returns
    -------
    ndarray of Axes, shape (4,)
        Accuracies of raters: crosses are by the models alone, and circles the shares that are
        right on known items. The calibration of known items whose label is left out. Labels
        expected to be wrong after more are known (:func:`bayesfuse.decisions.errors_after`). The
        expected share of wrong labels, by the share that is accepted.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(100, 4, 2, random_seed=1)
    >>> gold = {item: int(made.truth[item]) for item in range(30)}
    >>> model = bf.models.WeightedVotes(made.responses, gold)
    >>> result = bf.sample(model, 50, random_seed=1, progressbar=False)
    >>> bf.plots.plot_known_labels(result)[2].get_xlabel()
    'additional known labels'
    """
    groups = require_result(result).children
    posterior = groups["label_posterior"].dataset if "label_posterior" in groups else xr.Dataset()
    if "left_out" not in posterior:
        raise ModelError(
            "Known labels are compared with predictions that leave them out, of "
            "bf.fuse(gold=…) for independent items, or WeightedVotes. Got: a result without these."
        )
    axes = shared.new_axes(axes, 4, (5.0, 4.4), 2)
    _draw_raters(axes[0], result)
    gold = constants(result, "gold")["gold"].values
    honest = posterior["left_out"]
    at = np.flatnonzero(np.isfinite(honest.values[:, 0]))
    items, classes = listed(honest["item"].values[at]), honest["class"].values[gold[at]]
    truth = dict(zip(items, listed(classes), strict=True))
    plot_calibration(honest.isel(item=at), truth, ax=axes[1])
    axes[1].set_xlabel("probability of the label of a known item that is left out")
    most = max(min(MORE, int(np.sum(gold < 0)) // 2), 1)
    sizes = np.unique(np.linspace(1, most, min(most, 20)).astype(int)).tolist()
    table = errors_after(result, sizes, random_seed=0)
    for aim, name in (("learn", "random items"), ("correct", "least certain items")):
        of_aim = table[table["aim"] == aim]
        (line,) = axes[2].plot(of_aim["labels"], of_aim["wrong"], label=name)
        colour = line.get_color()
        axes[2].fill_between(
            of_aim["labels"], of_aim["low"], of_aim["high"], color=colour, alpha=0.15
        )
    axes[2].set(xlabel="additional known labels", ylabel="expected wrong labels", ylim=(0, None))
    axes[2].legend(frameon=False)
    risk = accept_labels(result, 1.0)["risk"].values
    axes[3].plot(np.arange(1, len(risk) + 1) / max(len(risk), 1), risk)
    axes[3].set(xlabel="accepted share of the labels", ylabel="expected share of wrong ones")
    axes[3].set_ylim(bottom=0)
    return axes


def _draw_raters(ax: Any, result: xr.DataTree) -> None:
    """Draw the accuracy of raters, before and after, and on known items."""
    table = rater_table(result).iloc[::-1]
    item, rater, label = observed_rows(result) or ()
    names = constants(result)["rater"].values
    right = result["label_posterior"].dataset["given"].values[item, label]
    before = np.bincount(rater, right, len(names)) / np.bincount(rater, minlength=len(names))
    order = [listed(names).index(name) for name in table["rater"]]
    rows = shared.place_rows(ax, len(names))
    values, low, high = (table[name].to_numpy() for name in ("accuracy", "low", "high"))
    shared.draw_intervals(ax, values, low, high, rows, "C0")
    ax.plot(before[order], rows.places, "x", color="0.4", ms=5, label="models alone")
    rings: dict[str, Any] = {"mfc": "none", "color": "C1", "ms": 6, "label": "known items"}
    ax.plot(table["known_accuracy"], rows.places, "o", **rings)
    shared.name_rows(ax, table["rater"].to_numpy(), "rater", rows)
    ax.set_xlabel("accuracy")
    ax.legend(frameon=False, fontsize=shared.TEXT)
