"""What known labels said of the models and raters, and what more of them would buy."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bayesfuse.data.names import listed
from bayesfuse.decisions.more_labels import errors_after
from bayesfuse.decisions.next_items import accept
from bayesfuse.errors import ModelError
from bayesfuse.plots import axes as shared
from bayesfuse.plots.fits import plot_calibration
from bayesfuse.results.contents import constants, observed_rows, require_result
from bayesfuse.results.rater_accuracy import rater_accuracy

MORE = 100  # additional known labels on the axis, at most half of the unknown ones


def plot_known_labels(result: xr.DataTree, *, axes: Any = None) -> NDArray[Any]:
    """Plot what known labels said of raters and models, and what more of them would buy.

    Parameters
    ----------
    result : DataTree
        From ``bf.fuse(gold=…)`` for independent items, or of ``WeightedVotes``.
    axes : sequence of four matplotlib Axes, default a new figure

    Returns
    -------
    ndarray of Axes, shape (4,)
        Accuracies of raters, with intervals: crosses are what the models alone believe, and circles
        the shares that are right on known items. The calibration of known items whose label is left
        out. The labels that are expected to be wrong after more are found out, at random or of the
        least certain items, with intervals. The expected share of wrong labels among the most
        certain ones, by the share of labels that are accepted.

    Raises
    ------
    ModelError
        A result without known labels that models have not seen.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(100, 4, 2, random_seed=1)
    >>> gold = {item: int(made.truth[item]) for item in range(30)}
    >>> model = bf.models.WeightedVotes(made.responses, gold)
    >>> result = bf.sample(model, 50, random_seed=1, progressbar=False)
    >>> axes = bf.plots.plot_known_labels(result)
    >>> axes[2].get_xlabel()
    'additional known labels'
    """
    groups = require_result(result).children
    found = groups["label_posterior"].dataset if "label_posterior" in groups else xr.Dataset()
    if "left_out" not in found:
        raise ModelError(
            "Known labels are compared with predictions that have not seen them, of "
            "bf.fuse(gold=…) for independent items, or WeightedVotes. Got: a result without such."
        )
    axes = shared.new_axes(axes, 4, (5.0, 4.4), 2)
    for ax in (axes[0], *axes[2:]):
        ax.spines[["top", "right"]].set_visible(False)
    _raters(axes[0], result)
    gold = constants(result, "gold")["gold"].values
    honest = found["left_out"]
    at = np.flatnonzero(np.isfinite(honest.values[:, 0]))
    items, classes = listed(honest["item"].values[at]), honest["class"].values[gold[at]]
    plot_calibration(
        honest.isel(item=at), dict(zip(items, listed(classes), strict=True)), ax=axes[1]
    )
    axes[1].set_xlabel("probability of the label of a known item that is left out")
    most = max(min(MORE, int(np.sum(gold < 0)) // 2), 1)
    sizes = np.unique(np.linspace(1, most, min(most, 20)).astype(int)).tolist()
    for number, (aim, own) in enumerate(
        errors_after(result, sizes, random_seed=0).groupby("aim", sort=False)
    ):
        name = {"learn": "random items", "correct": "least certain items"}[str(aim)]
        axes[2].plot(own["labels"], own["wrong"], color=f"C{number}", label=name)
        axes[2].fill_between(own["labels"], own["low"], own["high"], color=f"C{number}", alpha=0.15)
    axes[2].set(xlabel="additional known labels", ylabel="expected wrong labels", ylim=(0, None))
    axes[2].legend(frameon=False)
    risk = accept(result, 1.0)["risk"].values
    axes[3].plot(np.arange(1, len(risk) + 1) / max(len(risk), 1), risk)
    axes[3].set(
        xlabel="accepted share of the labels", ylabel="expected share of wrong ones", ylim=(0, None)
    )
    return np.asarray(axes)


def picture_of_known(result: xr.DataTree) -> Figure | None:
    """Return the same as a figure without pyplot; None where models were told, or none is known."""
    if "left_out" not in result["label_posterior"]:
        return None
    figure = Figure((11.0, 8.6), layout="constrained")
    plot_known_labels(result, axes=figure.subplots(2, 2))
    return figure


def _raters(ax: Any, result: xr.DataTree) -> None:
    """Draw the accuracy of raters, before and after, and on known items."""
    table = rater_accuracy(result).iloc[::-1]
    item, rater, label = observed_rows(result) or ()
    names = constants(result)["rater"].values
    right = result["label_posterior"].dataset["given"].values[item, label]
    before = np.bincount(rater, right, len(names)) / np.bincount(rater, minlength=len(names))
    order = [listed(names).index(name) for name in table["rater"]]
    rows = shared.place_rows(ax, len(names))
    values, low, high = (table[name].to_numpy() for name in ("accuracy", "low", "high"))
    shared.draw_intervals(ax, values, low, high, rows, "C0")
    ax.plot(before[order], rows.places, "x", color="0.4", ms=5, label="models alone")
    ax.plot(
        table["known_accuracy"], rows.places, "o", mfc="none", color="C1", ms=6, label="known items"
    )
    shown = np.array(shared.escaped_names(table["rater"]), dtype=object)
    ax.set_yticks(rows.places[rows.named], shown[rows.named], fontsize=shared.TEXT)
    ax.set_xlabel("accuracy")
    ax.legend(frameon=False, fontsize=shared.TEXT)
