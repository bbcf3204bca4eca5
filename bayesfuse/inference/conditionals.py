"""What labels say of the parameters, and draws of parameters given labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array
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


class Drawn(NamedTuple):
    """What a sweep has drawn so far, and what that says of the parameters that are left.

    ``labels`` are None where their counts are all that is needed of them; ``found`` holds the
    parameters that the channel draws itself; ``statistics`` has by parameter the counts or a
    log-likelihood.
    """

    labels: NDArray[Any] | None
    found: dict[str, Any]
    counts: Counts
    statistics: dict[str, Statistic]


def draw_labels(
    observation: Observation,
    rows: Rows,
    priors: Mapping[str, Prior],
    rng: np.random.Generator,
    previous: NDArray[Any] | None = None,
    seen: tuple[Array, Array] | None = None,
) -> Drawn:
    """Draw labels, and given them what the channel draws itself.

    ``previous`` and ``seen`` are as in :meth:`Observation.draw`.
    """
    labels, raters = observation.labels, observation.raters
    if labels.counts_all and not labels.moves_labels and not observation.indices:
        counts = observation.draw_counts(rows, rng, seen)
        return Drawn(None, {}, counts, statistics(observation, rows, counts))
    drawn = observation.draw(rows, rng, previous, seen)
    if not observation.indices:
        counts = observation.tally(rows, drawn, rng)
        return Drawn(drawn, {}, counts, statistics(observation, rows, counts))
    found, rater_counts = raters.redraw(
        rows, observation.tables(rows), drawn, priors, observation.rater_structure, rng
    )
    counts = observation.counted(drawn, rater_counts)
    return Drawn(drawn, found, counts, statistics(observation, rows, counts))


def accepts(
    observation: Observation,
    rows: Rows,
    proposed: Rows,
    drawn: NDArray[Any] | None,
    rng: np.random.Generator,
) -> bool:
    """Accept or reject label parameters proposed from Dirichlet conditionals (Metropolis–Hastings).

    Always true where counts are sufficient; the ratio is what ``tally`` leaves out.
    """
    labels = observation.labels
    if labels.counts_all:
        return True
    assert drawn is not None  # labels whose counts say all are the only ones that are not kept
    old, new = (
        labels.uncounted(observation.label_tables(at), drawn, observation.label_structure)
        for at in (rows, rows | proposed)
    )
    return bool(np.log(rng.random()) < new - old)
