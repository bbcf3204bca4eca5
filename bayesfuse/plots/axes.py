"""Axes, font sizes, colours and tick labels shared by all plots."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps, rcParams, rcParamsDefault
from matplotlib.axes import Axes
from numpy.typing import NDArray
from rich.cells import cell_len

from bayesfuse.data.describing import in_one_line
from bayesfuse.data.names import listed
from bayesfuse.errors import ModelError

POINTS = 72.0  # points per inch
READABLE = 6.0  # smallest font size, in points; smaller text is omitted
TEXT = 9.0  # default font size, in points
LETTERS = 28  # largest number of letters of a name
MAX_LETTERS = 1000  # number of letters of a name that are looked at
LARGEST = 11.0  # largest size of a plot of all raters, in inches
DISTINCT = 30  # largest number of raters drawn as regions in one plane

SAFE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"]
"""Colours that colour-blind readers can tell apart (Okabe & Ito 2008, without black)."""


def escaped(name: Any, most: int = LETTERS) -> str:
    """Return a name in one line, with dollars escaped so that they begin no formula."""
    return in_one_line(name, most).replace("$", r"\$")


def escaped_names(names: Iterable[Any], most: int = LETTERS) -> list[str]:
    """Return names in one line, without the words with which all begin if they would be alike."""
    long_names = [in_one_line(name, MAX_LETTERS) for name in names]
    short = [in_one_line(name, most) for name in long_names]
    if len(set(short)) < len(set(long_names)):
        pairs = zip(min(long_names), max(long_names), strict=False)
        same = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        begin = len(re.sub(r"[^\W_]+$", "", same))
        short = [in_one_line(f"…{name[begin:]}", most) for name in long_names]
    if len(set(short)) < len(set(long_names)):  # they differ in the middle or at the end
        half = most // 2
        short = [n if len(n) <= most else f"{n[: half - 1]}…{n[-half:]}" for n in long_names]
    return [name.replace("$", r"\$") for name in short]


def width_of(names: Iterable[Any], most: int = LETTERS) -> float:
    """Return the width of the longest name, in inches."""
    wide = max(cell_len(in_one_line(name, most)) for name in names)
    return 0.6 * TEXT / POINTS * wide  # letters are on average 0.6 times their size wide


def new_axes(
    axes: Any,
    count: int,
    size: tuple[float, float],
    columns: int,
    room: tuple[float, float] = (0.0, 0.0),
    **kwargs: Any,
) -> Any:
    """Return ``count`` axes without upper and right spines: the given ones, or a new grid.

    Every new axes has ``size`` inches, and there is ``room`` for names.
    """
    if axes is None:
        from matplotlib import pyplot as plt

        columns = min(columns, count)
        rows = -(-count // columns)
        inches = size[0] * columns + room[0], size[1] * rows + room[1]
        shape: dict[str, Any] = {"figsize": inches, "layout": "constrained", "squeeze": False}
        figure, axes = plt.subplots(rows, columns, **shape, **kwargs)
        for empty in axes.flat[count:]:
            figure.delaxes(empty)
        axes = axes.flat[:count]
    panels = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(panels) != count:
        raise ModelError(
            f"axes= must hold one Axes for each of the {count} panels. Got: {len(panels)}."
        )
    for ax in panels:
        ax.spines[["top", "right"]].set_visible(False)
    return panels


def points(ax: Axes) -> tuple[float, float]:
    """Return width and height of axes in points."""
    box = ax.get_window_extent()
    return box.width * POINTS / ax.figure.dpi, box.height * POINTS / ax.figure.dpi


def class_colours(classes: Any) -> dict[Any, Any]:
    """Return a colour for every class, of the user's colour cycle or safe for the colour-blind."""
    cycle = rcParams["axes.prop_cycle"]
    colours = cycle.by_key().get("color", [])
    if cycle == rcParamsDefault["axes.prop_cycle"] and len(classes) <= len(SAFE):
        colours = SAFE
    if len(classes) > len(colours):
        colours = colormaps["turbo"](np.linspace(0.05, 0.95, len(classes)))
    return dict(zip(listed(classes), colours, strict=False))


def ink() -> Any:
    """Return the colour of text, which is light where the user has set a dark style."""
    return rcParams["text.color"]


def set_title(ax: Axes, text: str) -> None:
    """Set a title, wrapped to the width of the axes' part of the figure."""
    width = points(ax)[0]
    if (place := ax.get_subplotspec()) is not None:
        size = ax.figure.get_figure(root=True).get_size_inches()
        width = size[0] * POINTS / place.get_gridspec().ncols
    ax.set_title(fill(text, max(int(width / 5.6), 10)), fontsize="medium")


def show_classes(ax: Axes, colours: dict[Any, Any], marks: Sequence[Any], **kwargs: Any) -> None:
    """Draw the legend of the classes beside ``ax``; further marks keep their labels."""
    text = [escaped(name) for name in colours] + [m.get_label() for m in marks[len(colours) :]]
    # set afterwards because matplotlib omits labels that begin with an underscore
    kwargs |= {"loc": "upper left", "bbox_to_anchor": (1, 1), "frameon": False}
    legend = ax.legend(marks, ["?"] * len(marks), **kwargs)
    for label, name in zip(legend.get_texts(), text, strict=True):
        label.set_text(name)


class AxisRows(NamedTuple):
    """Positions of rows, from below, and which of them are named."""

    edges: NDArray[np.floating]
    named: NDArray[np.bool_]

    @property
    def places(self) -> Any:
        """Midpoints of the rows."""
        return (self.edges[1:] + self.edges[:-1]) / 2


def rows_of(named: NDArray[np.bool_]) -> AxisRows:
    """Return named rows of height 1 and, half as tall together, a band of the others."""
    few = int(named.sum())
    band = min(max(few / 2, 1.0) / max(len(named) - few, 1), 1.0)
    return AxisRows(np.append(0.0, np.where(named, 1.0, band).cumsum()) - 0.5, named)


def place_rows(ax: Axes, count: int, most: int | None = None) -> AxisRows:
    """Place rows, naming ``most`` and, of too many to name all, the first and last only."""
    tall, most = points(ax)[1], count if most is None else most
    named = np.ones(count, dtype=bool)
    if count > min(most, 0.85 * tall / READABLE):
        many = min(int(0.85 * tall / TEXT * 2 / 3), most)
        named[many // 2 : count - (many + 1) // 2] = False
    return rows_of(named)


def draw_intervals(ax: Axes, mean: Any, low: Any, high: Any, rows: AxisRows, colour: Any) -> None:
    """Draw probabilities with their intervals, the first row at the bottom."""
    width, height = points(ax)
    for which in (rows.named, ~rows.named):
        if which.any():
            room = height * np.diff(rows.edges)[which][0] / np.ptp(rows.edges)
            y, lw = rows.places[which], min(2.0, 0.35 * room)
            ax.hlines(y, low[which], high[which], color=colour, lw=lw, alpha=0.6)
            ax.plot(mean[which], y, "o", color=colour, ms=min(6.0, 0.6 * room))
    ax.set(xlim=(-0.02, 1.02), ylim=(rows.edges[0] - 0.2, rows.edges[-1] + 0.2))
    ticks = [0, 0.2, 0.4, 0.6, 0.8, 1] if width > 130 else [0, 0.5, 1]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.grid(axis="x", alpha=0.4)
    ax.tick_params(axis="y", length=0)


def draw_bands(
    ax: Axes, shares: NDArray[Any], edges: Any, colours: dict[Any, Any], **kwargs: Any
) -> None:
    """Draw the shares (rows, classes) of classes on top of each other, without gaps."""
    below = np.zeros(len(shares))
    for (name, colour), share in zip(colours.items(), shares.T, strict=True):
        style = kwargs | {"color": colour, "label": escaped(name), "fill": True}
        ax.stairs(below + share, edges, baseline=below, **style)
        below = below + share


def name_rows(
    ax: Axes,
    names: NDArray[Any],
    what: str,
    rows: AxisRows | None = None,
    ends: tuple[str, str] = ("best", "worst"),
) -> None:
    """Label rows (default 0, 1, …), or show their number; ``ends`` describe the last and first."""
    rows = rows_of(np.ones(len(names), dtype=bool)) if rows is None else rows
    size = min(TEXT, 0.85 * points(ax)[1] / (rows.edges[-1] - rows.edges[0]))
    named = rows.named & (size >= READABLE)
    ax.set_yticks(rows.places[named], escaped_names(names[named]), fontsize=size)
    if named.all():
        ax.set_ylabel(what)
        return
    caption = f"{len(names):,} {what}s"
    if named.any():
        counts = zip((named[::-1].argmin(), named.argmin()), ends, strict=True)
        those = [f"{n} {end}" for n, end in counts if n]
        caption += f": the {' and '.join(those)} named"
        between = rows.edges[1:-1][np.diff(named)]
        ax.hlines(between, 0, 1, transform=ax.get_yaxis_transform(), color="0.6", lw=0.8, ls=":")
    ax.set_ylabel(caption)


def name_square(ax: Axes, names: NDArray[Any]) -> None:
    """Label the rows of a square matrix of raters, and its columns by the same names."""
    name_rows(ax, names, "rater")
    labels = ax.get_yticklabels()
    style: dict[str, Any] = {"fontsize": labels[0].get_fontsize() if labels else None}
    ax.set_xticks(ax.get_yticks(), [text.get_text() for text in labels], rotation=90, **style)
    ax.set_xlabel(ax.get_ylabel())
    ax.tick_params(length=0)


def name_points(ax: Axes, x: NDArray[Any], y: NDArray[Any], names: Sequence[str]) -> int:
    """Label points in order, omitting labels that would overlap; return the number of labels."""
    from matplotlib.patheffects import withStroke

    ax.autoscale_view()  # else the limits may still be those of empty axes
    style: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": TEXT - 1}
    style["path_effects"] = [withStroke(linewidth=2, foreground=ax.get_facecolor())]
    style["in_layout"] = False  # else a label at the edge would shrink the axes
    taken: list[tuple[float, float, float]] = []
    scale = POINTS / ax.figure.dpi
    middle = ax.get_window_extent().x0 * scale + points(ax)[0] / 2
    for at, name in enumerate(names):
        across, up = ax.transData.transform((x[at], y[at])) * scale
        left = across > middle
        wide = width_of([name], most=len(name)) * POINTS
        begin = across - wide if left else across
        if any(abs(up - v) < TEXT + 1 and begin < e and begin + wide > b for b, e, v in taken):
            continue
        taken.append((begin, begin + wide, up))
        side, shift = ("right", -5) if left else ("left", 5)
        ax.annotate(name, (x[at], y[at]), (shift, 0), ha=side, **style)
    return len(taken)


def draw_table(
    ax: Axes,
    values: NDArray[Any],
    names: list[str],
    share: float,
    text: Callable[[float], str],
    largest: float,
    below: Callable[[tuple[int, int]], str] | None = None,
    detail: float = TEXT,
) -> None:
    """Draw a matrix of classes and, if readable, numbers of a ``share`` of a cell, and details."""
    ax.imshow(values, vmin=0, vmax=largest, cmap="Blues")
    slant: dict[str, Any] = {"rotation": 45, "ha": "right"} if max(map(len, names)) > 4 else {}
    ax.set_xticks(range(len(names)), names, **slant)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(length=0, labelsize=TEXT)
    ax.spines[:].set_visible(False)
    size = min(TEXT, share * min(points(ax)) / len(names))
    for (row, column), value in np.ndenumerate(values):
        if size < READABLE or np.isnan(value):
            continue
        colour = "white" if value > 0.55 * largest else "black"
        style: dict[str, Any] = {"ha": "center", "color": colour}
        place = "center" if below is None else "bottom"
        ax.text(column, row, text(value), va=place, size=size, **style)
        if below is not None:
            ax.text(column, row + 0.08, below((row, column)), va="top", size=detail, **style)
