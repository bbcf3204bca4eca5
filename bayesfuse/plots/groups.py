"""Plots of the dependence between raters."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from bayesfuse.checks import co_assignment, rater_covariance
from bayesfuse.data.responses import Responses
from bayesfuse.errors import require_count
from bayesfuse.plots.axes import draw_matrix, matrix_axes, new_axes, set_title


def plot_covariance(result: xr.DataTree, responses: Responses, *, ax: Axes | None = None) -> Axes:
    """Plot the observed covariances of pairs of raters against those implied by the posterior.

    Parameters
    ----------
    result, responses
        As in :func:`bayesfuse.checks.rater_covariance`.
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        A point per pair, coloured by the probability that they share a source. Pairs off the
        diagonal depend on each other in a way that the model ignores.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.datasets.caries()
    >>> model = bf.models.DawidSkene(responses)
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> bf.plots.plot_covariance(result, responses).get_xlabel()
    'covariance implied by the posterior'
    """
    found = rater_covariance(result, responses)
    upper = np.triu_indices(found.sizes["rater"], 1)
    observed, implied, together = (
        found[name].values[upper] for name in ("observed", "implied", "together")
    )
    (ax,) = new_axes(ax, 1, (5.0, 4.4), 1)
    ends = [np.nanmin([observed, implied]), np.nanmax([observed, implied])]
    ax.plot(ends, ends, color="0.6", linewidth=1, zorder=0)
    size = float(np.clip(4800 / len(observed), 3, 24))
    edges: dict[str, Any] = {"edgecolors": "0.5", "linewidths": 0.04 * size}
    points = ax.scatter(implied, observed, size, c=together, vmin=0, vmax=1, **edges)
    ax.figure.colorbar(points, ax=ax, label="probability of a shared source")
    ax.set(
        xlabel="covariance implied by the posterior",
        ylabel="observed covariance",
        title=f"mean squared z {found.attrs['excess']:.1f}",
    )
    return ax


def plot_co_assignment(
    result: xr.DataTree, *, most: int | None = 60, ax: Axes | None = None
) -> Axes:
    """Plot the probability that two raters share a source, with groups next to each other.

    Parameters
    ----------
    result : DataTree
        Of :class:`bayesfuse.models.LatentGroup`.
    most : int, optional
        Number of raters to show, those who most probably share a source; None for all. Default 60.
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.LatentGroup(bf.datasets.anesthesia(), groups=[[2, 5]])
    >>> result = bf.sample(model, draws=20, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> [tick.get_text() for tick in bf.plots.plot_co_assignment(result).get_yticklabels()]
    ['1', '2', '5', '3', '4']
    """
    if most is not None:
        require_count("most", most)
    share = co_assignment(result)
    n_raters = share.sizes["rater"]
    others = np.where(np.eye(n_raters, dtype=bool), 0.0, share.values).max(axis=1)
    chosen = np.sort(np.argsort(-others, kind="stable")[:most])
    values = share.values[np.ix_(chosen, chosen)]
    left = np.ones(len(values), dtype=bool)
    order: list[int] = []
    for m in range(len(values)):  # every rater, followed by the probable rest of the group
        if left[m]:
            own = np.flatnonzero(left & (values[m] >= 0.5))
            left[own] = False
            order += own.tolist()
    names = share["rater"].values[chosen[order]]
    ax = matrix_axes(ax, names)
    what = "probability of a shared source"
    draw_matrix(ax, values[np.ix_(order, order)], names, what, vmin=0, vmax=1, cmap="Greys")
    if len(names) < n_raters:
        set_title(ax, f"the {len(names)} of {n_raters:,} raters who most probably share a source")
    return ax
