"""Plots of raters, labels, checks and models.

Every function draws into the given axes, or into a new figure of a size that suits its content, and
returns the axes. Names are the user's; a class has the same colour in every plot. ``hover_raters``
and ``hover_items`` are interactive, and return figures of plotly.
"""

from bayesfuse.plots.checks import (
    plot_agreement,
    plot_co_assignment,
    plot_covariance,
    plot_dependence,
    plot_difficulty,
    plot_runs,
    plot_score_matrix,
)
from bayesfuse.plots.fits import plot_calibration, plot_elbo, plot_start, var_names
from bayesfuse.plots.graphs import plot_graph, plot_grid, plot_phases
from bayesfuse.plots.hover import hover_items, hover_raters
from bayesfuse.plots.items import plot_hard_items, plot_labels
from bayesfuse.plots.model_graph import plot_model
from bayesfuse.plots.overview import plot_overview
from bayesfuse.plots.panels import plot_class_shares, plot_panel, plot_ranks
from bayesfuse.plots.raters import (
    plot_confusion,
    plot_graders,
    plot_raters,
    plot_sensitivity_specificity,
)
from bayesfuse.plots.sequences import plot_sequence

__all__ = [
    "hover_items",
    "hover_raters",
    "plot_agreement",
    "plot_calibration",
    "plot_class_shares",
    "plot_co_assignment",
    "plot_confusion",
    "plot_covariance",
    "plot_dependence",
    "plot_difficulty",
    "plot_elbo",
    "plot_graders",
    "plot_graph",
    "plot_grid",
    "plot_hard_items",
    "plot_labels",
    "plot_model",
    "plot_overview",
    "plot_panel",
    "plot_phases",
    "plot_ranks",
    "plot_raters",
    "plot_runs",
    "plot_score_matrix",
    "plot_sensitivity_specificity",
    "plot_sequence",
    "plot_start",
    "var_names",
]


def __dir__() -> list[str]:
    return __all__
