"""Plots of raters, labels and checks.

Every function draws into the given axes, or into a new figure of a size that suits its content, and
returns the axes. Names are the user's; a class has the same colour in every plot. They raise
:class:`bayesfuse.errors.ModelError` for results that lack what is drawn, or of another model, and
unless there is one Axes for each panel.
"""

from bayesfuse.plots.checks import plot_check as plot_check, plot_dependence as plot_dependence
from bayesfuse.plots.fits import plot_calibration as plot_calibration, var_names as var_names
from bayesfuse.plots.graphs import plot_graph as plot_graph, plot_grid as plot_grid
from bayesfuse.plots.items import (
    plot_hard_items as plot_hard_items,
    plot_labels as plot_labels,
    plot_sequence as plot_sequence,
)
from bayesfuse.plots.overview import plot_overview as plot_overview
from bayesfuse.plots.panels import (
    plot_class_shares as plot_class_shares,
    plot_differences as plot_differences,
    plot_known_labels as plot_known_labels,
    plot_panel as plot_panel,
    plot_ranks as plot_ranks,
)
from bayesfuse.plots.raters import (
    plot_confusion as plot_confusion,
    plot_graders as plot_graders,
    plot_raters as plot_raters,
    plot_sensitivity_specificity as plot_sensitivity_specificity,
)
from bayesfuse.plots.systems import plot_leaderboard as plot_leaderboard

__all__ = sorted(name for name in globals() if name.startswith(("plot_", "var_names")))


def __dir__() -> list[str]:
    return __all__
