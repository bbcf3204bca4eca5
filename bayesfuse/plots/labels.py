"""Plot of label probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.describing import in_one_line
from bayesfuse.plots.axes import (
    class_colours,
    escaped,
    name_rows,
    new_axes,
    set_title,
    show_classes,
    width_of,
)
from bayesfuse.results.contents import constants
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import most_uncertain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_labels(
    result: xr.DataTree | xr.DataArray, *, most: int | None = 40, ax: Axes | None = None
) -> Axes:
    """Plot label probabilities by item, the most uncertain item on top.

    Parameters
    ----------
    result : DataTree or DataArray, dims (item, class)
        From ``bf.sample`` or ``bf.find_map``, or label probabilities.
    most : int, optional
        Number of items to show; None for all. Default 40.
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        One bar per item, divided among the classes.

    Raises
    ------
    ModelError
        The result has no label posterior.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> from bayesfuse.plots import plot_labels
    >>> point = bf.find_map(DawidSkene(bf.datasets.anesthesia()))
    >>> plot_labels(point, most=5).get_title()
    'the 5 least certain of 45 items'
    """
    n_items = label_probabilities(result).sizes["item"]
    shown = most_uncertain(result, most)[::-1]  # rows are counted from below
    items = _item_names(result, shown["item"].values)
    colours = class_colours(shown["class"].values)
    columns = 1 + (len(colours) - 1) // 20
    size = 5.5, min(1.2 + 0.2 * shown.sizes["item"], 12.0)
    room = max(width_of(items) - 0.4, 0.0) + max(columns * width_of(colours) - 0.7, 0.0)
    (ax,) = new_axes(ax, 1, size, 1, (room, 0.0))
    left = np.zeros(shown.sizes["item"])
    for (name, colour), width in zip(colours.items(), shown.values.T, strict=True):
        style = {"height": 0.8, "color": colour, "label": escaped(name)}
        ax.barh(range(len(left)), width, left=left, **style)
        left = left + width
    name_rows(ax, items, "item")
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, 1), ylim=(-0.6, len(left) - 0.4), xlabel="posterior probability")
    some = f"the {len(left)} least certain of {n_items:,} items"
    set_title(ax, some if len(left) < n_items else f"{n_items:,} items")
    ax.spines[:].set_visible(False)
    show_classes(ax, colours, ax.containers, title="class", ncols=columns)
    return ax


def _item_names(result: xr.DataTree | xr.DataArray, items: NDArray[Any]) -> NDArray[Any]:
    """Return the names of items, with their counts in a table of counts."""
    known = constants(result) if isinstance(result, xr.DataTree) else xr.Dataset()
    if "multiplicity" not in known:
        return items
    copies = dict(zip(known["item"].values, known["multiplicity"].values, strict=True))
    return np.array([f"{in_one_line(item, 18)} (×{copies[item]:,})" for item in items])
