"""Plot of the labels and responses of one sequence."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pymc as pm
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesfuse.data.arrays import shown
from bayesfuse.data.names import listed
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, require_kind
from bayesfuse.plots import axes as shared
from bayesfuse.results.compatibility import observation_of
from bayesfuse.results.contents import averaged_models, responses_of, sequences_of
from bayesfuse.results.paths import decode
from bayesfuse.results.probabilities import label_probabilities

MOST_NAMES = 40  # largest number of items named along the axis


def plot_sequence(
    result: xr.DataTree,
    model: pm.Model | None = None,
    sequence: Any = None,
    *,
    sequences: Sequences | None = None,
    axes: Any = None,
) -> NDArray[Any]:
    """Plot one sequence: class probabilities, the most probable path, and the responses.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.find_map`` or ``bf.fuse``.
    model : pymc.Model, optional
        The model of the result, needed where :func:`bayesfuse.decode` needs it.
    sequence : name, optional
        Default the longest.
    sequences : Sequences, optional
        For models without sequences. Default the model's own.
    axes : pair of matplotlib Axes, optional
        For probabilities and responses. Default a new figure.

    Returns
    -------
    ndarray of Axes, shape (2,)
        Above, the stacked class probabilities of every item, and over them a strip with the jointly
        most probable labels (``bf.decode``; of an average, the most probable label of every item);
        below, the responses by rater in the colours of the classes (the last of several by one
        rater to one item).

    Raises
    ------
    ModelError
        No sequences, neither given nor in the model; an unknown sequence; a result of another
        model.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import HiddenMarkov
    >>> from bayesfuse.plots import plot_sequence
    >>> answers = [[0, 0, 0], [0, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 0], [1, 1, 1]]
    >>> model = HiddenMarkov(bf.Responses.from_matrix(answers), bf.Sequences.from_lengths([6]))
    >>> above, below = plot_sequence(bf.find_map(model), model)
    >>> above.get_title(), [tick.get_text() for tick in below.get_yticklabels()]
    ('sequence 0', ['2', '1', '0'])
    """
    averaged = averaged_models(result)
    found: Any
    if averaged:
        responses = responses_of(result)
        found = sequences_of(result, responses) if sequences is None else sequences
    else:
        observation = observation_of(result, model)
        found = observation.known_by("sequences", sequences, "This plot needs sequences")
        responses = observation.responses
    require_kind("sequences", found, Sequences)
    sequences = cast(Sequences, found)
    names = listed(sequences.names)
    if sequence is not None and sequence not in names:
        raise ModelError(
            f"sequence must be one of {shown(sequences.names)}; a result alone numbers them, and "
            f"sequences= names them. Got: {sequence!r}."
        )
    number = int(np.argmax(sequences.lengths)) if sequence is None else names.index(sequence)
    part = slice(int(sequences.start[number]), int(sequences.start[number + 1]))
    place = sequences.places(responses)[part]
    probability = label_probabilities(result, None if averaged else model).values[place]
    if averaged:
        path = responses.classes[probability.argmax(axis=1)]
    else:
        path = decode(result, model).values[place]
    raters, said = _responses(responses, place)
    n_items = len(place)
    width = min(max(2.5 + 0.16 * n_items, 5.0), 14.0)
    width += max(shared.width_of(raters) - 0.7, 0.0) + max(
        shared.width_of(responses.classes) - 0.7, 0.0
    )
    tall = min(1.0 + 0.22 * len(raters), 6.0)
    items = responses.items[place]
    named = n_items <= MOST_NAMES
    height = 2.2 + tall + max(shared.width_of(items) - 0.4, 0.0) * named
    ratios: dict[str, Any] = {"height_ratios": [2.0, tall], "sharex": True}
    axes = shared.new_axes(axes, 2, (width, height / 2), 1, **ratios)
    above, below = axes
    colours = shared.class_colours(responses.classes)
    shades = list(colours.values())
    edges = np.arange(n_items + 1) - 0.5
    _ribbons(above, probability, path, edges, colours)
    name = sequences.names[number]
    shared.set_title(above, shared.escaped(name if isinstance(name, str) else f"sequence {name}"))
    _tiles(below, said, shades)
    shared.name_rows(below, raters[::-1], "rater")
    if named:
        names = shared.escaped_names(items)
        long = max(map(len, names)) > 1
        below.set_xticks(range(n_items), names, rotation=90 if long else 0)
        below.set_xlabel("item")
    else:
        below.set_xlabel("position in the sequence")
    shared.show_classes(above, colours, above.patches, title="class", fontsize="small")
    return axes


def _responses(
    responses: Responses, place: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the raters of the items and their labels (raters, items), NaN for no response."""
    position = np.full(responses.n_items, -1)
    position[place] = np.arange(len(place))
    own = position[responses.item] >= 0
    item, rater, label = responses.item[own], responses.rater[own], responses.label[own]
    used, row = np.unique(rater, return_inverse=True)
    said = np.full((len(used), len(place)), np.nan)
    said[row, position[item]] = label
    return responses.raters[used], said


def _ribbons(
    ax: Axes,
    probability: NDArray[Any],
    path: NDArray[Any],
    edges: NDArray[Any],
    colours: dict[Any, Any],
) -> None:
    bottom = np.zeros(len(probability))
    for (name, colour), share in zip(colours.items(), probability.T, strict=True):
        top = bottom + share
        ax.stairs(
            top, edges, baseline=bottom, fill=True, color=colour, label=shared.escaped(name), lw=0
        )
        bottom = top
    best = np.array([list(colours).index(name) for name in listed(path)])
    shades = list(colours.values())
    for at in np.unique(best):
        own = np.flatnonzero(best == at)
        ax.broken_barh([(n - 0.5, 1.0) for n in own], (1.04, 0.1), facecolor=shades[at], lw=0)
    ax.text(edges[0], 1.16, "most probable path", fontsize="small", va="bottom")
    ax.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.34), ylabel="posterior probability")
    ax.set_yticks([0, 0.5, 1])
    ax.spines[:].set_visible(False)


def _tiles(ax: Axes, said: NDArray[np.float64], shades: list[Any]) -> None:
    """Draw one tile per response, the first rater on top."""
    import matplotlib as mpl

    colours = mpl.colors.ListedColormap(shades).with_extremes(bad="white")
    shown = np.ma.masked_invalid(said[::-1])
    ends = np.arange(len(said) + 1) - 0.5
    across = np.arange(said.shape[1] + 1) - 0.5
    ax.pcolormesh(
        across, ends, shown, cmap=colours, vmin=-0.5, vmax=len(shades) - 0.5, edgecolors="white"
    )
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
