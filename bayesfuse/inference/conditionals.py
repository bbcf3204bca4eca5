"""What labels say of the parameters, and draws of parameters given labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.observation import Counts, Observation, Rows
from bayesfuse.parameters.contract import Prior, Statistic
from bayesfuse.parameters.factor import weight_of


def statistics(observation: Observation, rows: Rows, counts: Counts) -> dict[str, Statistic]:
    """Return what labels say of every parameter: counts, or where there are none, functions.

    Such a function is the log-likelihood of the parameter, all others as in ``rows``.
    """
    if not observation.weighed:
        return dict(counts)
    labels, raters = observation.labels, observation.raters

    def log_weight_of(name: str) -> Callable[[Any], float]:
        def of_labels(value: Any) -> float:
            tables = observation.label_tables(rows | {name: np.asarray(value)})
            return labels.log_weight(tables, counts.labels, observation.label_structure)

        def of_raters(value: Any) -> float:
            return weight_of(observation.tables(rows | {name: np.asarray(value)}), counts.raters)

        return of_raters if name in raters.parameters else of_labels

    return counts | {name: log_weight_of(name) for name in observation.weighed}


def redraw(
    observation: Observation,
    rows: Rows,
    drawn: NDArray[Any],
    priors: Mapping[str, Prior],
    rng: np.random.Generator,
) -> tuple[dict[str, Any], Counts, dict[str, Statistic]]:
    """Draw what the channel draws itself given labels; return what both say of the rest.

    The counts, and by parameter the counts or a log-likelihood.
    """
    found, rater_counts = observation.raters.redraw(
        rows, observation.tables(rows), drawn, priors, observation.rater_structure, rng
    )
    counts = observation.counted(drawn, rater_counts)
    return found, counts, statistics(observation, rows, counts)


def accepts(
    observation: Observation,
    rows: Rows,
    proposed: Rows,
    drawn: NDArray[Any],
    rng: np.random.Generator,
) -> bool:
    """Decide on label parameters proposed from Dirichlet conditionals given drawn labels.

    Always true where the counts of the labels say all there is to say (Metropolis–Hastings: what
    is left of the ratio is what ``tally`` leaves out).
    """
    labels = observation.labels
    if labels.counts_all:
        return True
    old, new = (
        labels.uncounted(observation.label_tables(at), drawn, observation.label_structure)
        for at in (rows, rows | proposed)
    )
    return bool(np.log(rng.random()) < new - old)
