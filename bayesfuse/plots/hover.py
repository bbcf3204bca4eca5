"""Interactive plots: the names and numbers of raters and items under the mouse."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.describing import in_one_line
from bayesfuse.data.names import listed
from bayesfuse.errors import ModelError, require_count
from bayesfuse.numerics.kernels import Array
from bayesfuse.plots.axes import DISTINCT, SAFE, class_colours
from bayesfuse.plots.overview import item_difficulty, rater_qualities, responses_per_item
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import coverage

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SEED = 1  # of what moves equal numbers apart: a picture is the same each time
MANY = 2000  # number of points from which on they are drawn by WebGL


def hover_raters(
    result: xr.DataTree, model: pm.Model | None = None, *, ci_prob: float | None = None
) -> Figure:
    """Plot every rater's accuracy against the number of responses, with names under the mouse.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.find_map``.
    model : pymc.Model, optional
        Needed for labelling functions, whose votes are shown.
    ci_prob : float, optional
        Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    plotly Figure
        Accuracies averaged over the classes; under the mouse name, responses and interval. Up to 30
        raters are side by side. ``figure.write_html(path)`` saves a page (5 MB) that needs no
        network.

    Raises
    ------
    ModelError
        The result has no sensitivity and specificity.
    ImportError
        Without plotly: ``pip install "bayesfuse[interactive]"``.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> figure = bf.plots.hover_raters(bf.find_map(bf.models.DawidSkene(bf.datasets.caries())))
    >>> figure.data[0].text[0]
    'dentist 1'
    """
    plotly = _plotly()
    found = rater_qualities(result, model, ci_prob)
    if found is None or found.responses is None:
        raise ModelError(
            "Accuracies of raters are read from sensitivity and specificity (bayesfuse.models "
            "define them; labelling functions need model=), and numbers of responses from "
            f"constant_data. Got: groups {sorted(result.children)}."
        )
    number, order = found.responses, np.argsort(-found.mean, kind="stable")
    names = _names(found.name)
    marker, error = {"size": 6, "opacity": 0.65, "color": SAFE[0]}, None
    if len(number) <= DISTINCT:
        across: Array = np.argsort(order).astype(float)
        ends = {"array": found.high - found.mean, "arrayminus": found.mean - found.low}
        marker, error = marker | {"size": 9, "opacity": 1.0}, ends | {"thickness": 1.2, "width": 0}
        ticks = {"tickvals": np.arange(len(order)), "ticktext": [names[m] for m in order]}
        axis = {"title": "raters, the best first"} | ticks
    else:
        across = _apart(number)
        wide = number.min() > 0 and number.max() > 20 * number.min()
        axis = {"title": "responses", "type": "log" if wide else "linear"}
    words = (
        f"accuracy %{{y:.3f}}<br>{coverage(ci_prob):.0%} interval "
        "%{customdata[0]:.3f} to %{customdata[1]:.3f}<br>%{customdata[2]:,} responses"
    )
    numbers = found.low, found.high, number
    data = _points(across, found.mean, names, words, numbers, marker=marker, error_y=error)
    title = f"{len(number):,} raters"
    return _figure([plotly.Scatter(**data)], title, xaxis=axis, yaxis={"title": found.measure})


def hover_items(
    result: xr.DataTree, model: pm.Model | None = None, *, most: int = 20_000
) -> Figure:
    """Plot every label's probability against the item's difficulty, with names under the mouse.

    Parameters
    ----------
    result : DataTree
        With label probabilities.
    model : pymc.Model, optional
        Of item types, for the difficulty. Default the number of responses, if the result has none.
    most : int, default 20,000
        Number of items to show, those with the least certain labels.

    Returns
    -------
    plotly Figure
        Points in the colour of the most probable class; under the mouse name, the two most probable
        classes, difficulty and number of responses.

    Raises
    ------
    ModelError
        The result has no label probabilities, or belongs to another model.
    ImportError
        Without plotly: ``pip install "bayesfuse[interactive]"``.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> figure = bf.plots.hover_items(bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia())))
    >>> figure.layout.xaxis.title.text, len(figure.data)  # a set of points for every class
    ('responses', 4)
    """
    from matplotlib.colors import to_hex

    plotly = _plotly()
    require_count("most", most)
    labels = label_probabilities(result, model)
    shown = labels[np.argsort(labels.values.max(axis=1), kind="stable")[:most]]
    names, classes = (np.array(_names(shown[dim].values)) for dim in ("item", "class"))
    order = np.argsort(-shown.values, axis=1, kind="stable")
    best, second = order[:, 0], order[:, min(1, len(classes) - 1)]
    probability = np.take_along_axis(shown.values, order, 1)
    number = responses_per_item(result, shown["item"].values)
    hard = item_difficulty(result, model)
    across = _apart(number) if hard is None else hard.sel(item=shown["item"].values).values
    said = "" if hard is None else "difficulty %{x:.2f}<br>"
    draw = plotly.Scattergl if len(shown) > MANY else plotly.Scatter
    words = (
        "%{fullData.name}: %{y:.3f}<br>%{customdata[0]}: %{customdata[1]:.3f}<br>"
        f"{said}%{{customdata[2]}} responses"
    )
    traces = []
    for k, colour in enumerate(class_colours(shown["class"].values).values()):
        own = np.flatnonzero(best == k)
        beside = (classes[second[own]], probability[own, min(1, len(classes) - 1)], number[own])
        marker = {"size": 6, "opacity": 0.6, "color": to_hex(colour)}
        data = _points(across[own], probability[own, 0], names[own], words, beside, marker=marker)
        traces.append(draw(name=classes[k], **data))
    whole = {"dtick": 1} if hard is None and number.max() <= 20 else {}
    axis = {"title": "responses" if hard is None else "difficulty"} | whole
    some = f"the {len(shown):,} least certain of " if len(shown) < len(labels) else ""
    title = f"{some}{len(labels):,} items"
    return _figure(traces, title, xaxis=axis, yaxis={"title": "probability of the label"})


def _points(
    x: Any, y: Any, names: Any, words: str, numbers: tuple[Any, ...], **kwargs: Any
) -> dict[str, Any]:
    """Return points with names, and words about their numbers, as plotly takes them."""
    said = {"text": names, "hovertemplate": f"<b>%{{text}}</b><br>{words}<extra></extra>"}
    beside = np.array(numbers, dtype=object).T
    return {"x": x, "y": y, "mode": "markers", "customdata": beside} | said | kwargs


def _plotly() -> Any:
    """Return plotly's module of figures."""
    try:
        from plotly import graph_objects
    except ImportError as error:
        raise ImportError(
            'Interactive plots are drawn by plotly: pip install "bayesfuse[interactive]". Got: no '
            "module plotly."
        ) from error
    return graph_objects


def _names(names: NDArray[Any]) -> list[str]:
    """Return names as text that is no markup."""
    return [escape(in_one_line(name)) for name in listed(names)]


def _apart(number: NDArray[np.int64]) -> Array:
    """Move equal numbers apart at random, so that their points can be told from each other."""
    moved: Array = number + np.random.default_rng(SEED).uniform(-0.3, 0.3, len(number))
    return np.where(number > 0, moved, np.abs(moved))


def _figure(traces: list[Any], title: str, **axes: Any) -> Any:
    size = {"width": 760, "height": 520, "template": "plotly_white", "hovermode": "closest"}
    return _plotly().Figure(traces, size | {"title": title} | axes)
