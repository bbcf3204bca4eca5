"""Axes, type sizes, colours and names that all pictures share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.plots.model_graph import POINTS
from bayesfuse.reading import listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


READABLE = 6.0
"""Size in points below which type is left out rather than printed."""

TEXT = 9.0
"""Size in points of type that has all the room it wants."""

DISTINCT = 30
"""Raters whose regions in one plane can still be told apart."""


def new_axes(axes: Any, count: int, size: tuple[float, float], columns: int, **kwargs: Any) -> Any:
    """Return ``count`` axes: those given, or new ones of ``size`` inches in a grid."""
    if axes is not None:
        given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(given) != count:
            raise ValueError(
                f"axes= must hold one Axes for each of the {count} panels. Got: {len(given)}."
            )
        return given
    from matplotlib import pyplot as plt

    columns = min(columns, count)
    rows = -(-count // columns)
    figure, grid = plt.subplots(
        rows,
        columns,
        figsize=(size[0] * columns, size[1] * rows),
        layout="constrained",
        squeeze=False,
        **kwargs,
    )
    for empty in grid.flat[count:]:
        figure.delaxes(empty)
    return grid.ravel()[:count]


def points(ax: Axes) -> tuple[float, float]:
    """Return width and height of axes in points."""
    box = ax.get_window_extent()
    return box.width * POINTS / ax.figure.dpi, box.height * POINTS / ax.figure.dpi


def class_colours(classes: Any) -> dict[Any, Any]:
    """Give every class a colour: of the user's cycle, or of a map where that would repeat."""
    import matplotlib as mpl

    colours = mpl.rcParams["axes.prop_cycle"].by_key().get("color", [])
    if len(classes) > len(colours):
        colours = mpl.colormaps["turbo"](np.linspace(0.05, 0.95, len(classes)))
    return dict(zip(listed(classes), colours, strict=False))


def name_rows(ax: Axes, names: NDArray[Any], what: str) -> None:
    """Name the rows 0, 1, … of ``ax`` from below, or say how many they are if that is too much."""
    size = min(TEXT, 0.85 * points(ax)[1] / len(names))
    if size >= READABLE:
        ax.set_yticks(range(len(names)), [str(name) for name in names], fontsize=size)
        ax.set_ylabel(what)
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(names):,} {what}s")


def name_columns(ax: Axes, names: NDArray[Any], what: str) -> None:
    """Name the columns 0, 1, … of ``ax``, upright, or say how many they are."""
    size = min(TEXT, 0.85 * points(ax)[0] / len(names))
    if size >= READABLE:
        ax.set_xticks(range(len(names)), [str(name) for name in names], fontsize=size, rotation=90)
        ax.set_xlabel(what)
    else:
        ax.set_xticks([])
        ax.set_xlabel(f"{len(names):,} {what}s")
