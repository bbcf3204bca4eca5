"""Dirichlet approximations by coordinate ascent: over all data, in batches, from a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bayesfuse.data.batches import each_batch
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.inference import cavi
from bayesfuse.inference.approximation import Approximation, pareto_shape
from bayesfuse.inference.cavi import RowPriors, VariationalFit
from bayesfuse.inference.plan import Plan
from bayesfuse.inference.start import Start
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import Observation, Rows
from bayesfuse.parameters.dirichlet import RowPrior

EPOCHS = 100
"""Epochs of batches at most."""


def fit_cavi(
    plan: Plan,
    begun: Start,
    *,
    iterations: int | None,
    tolerance: float | None,
    draws: int,
    rng: np.random.Generator,
) -> Approximation:
    """Fit to all data at once, see :func:`bayesfuse.inference.cavi.fit`."""
    observation = plan.begun()
    prior, held = _parted(plan, begun)
    limits: dict[str, Any] = {"iterations": iterations, "tolerance": tolerance}
    given = {name: value for name, value in limits.items() if value is not None}
    found = cavi.fit(observation, begun.rows, prior, held=held, **given)
    rows = draw_rows(found.approximation, draws, rng)
    shape = _judge(observation, prior, found.approximation, rows, held)
    values = _values(plan, rows, held, draws)
    return Approximation(values, found.trace, found.converged, shape, _rows(prior, found))


def fit_batches(
    plan: Plan,
    begun: Start,
    batch_size: int,
    *,
    iterations: int | None,
    tolerance: float | None,
    draws: int,
    rng: np.random.Generator,
) -> Approximation:
    """Fit to random batches of units; only the last number of the trace is of all data."""
    observation, (prior, held) = plan.begun(), _parted(plan, begun)
    parts = _cut(observation, batch_size, rng)
    found = cavi.fit_stochastic(
        _epochs(parts, EPOCHS if iterations is None else iterations, rng),
        begun.rows,
        prior,
        held=held,
        window=len(parts),
        tolerance=cavi.SETTLED if tolerance is None else tolerance,
    )
    trace = np.append(found.trace, cavi.bound(observation, found.approximation, prior, held))
    rows = draw_rows(found.approximation, draws, rng)
    shape = _judge(observation, prior, found.approximation, rows, held)
    values = _values(plan, rows, held, draws)
    return Approximation(values, trace, found.converged, shape, _rows(prior, found))


def fit_stream(
    plan: Plan,
    begun: Start,
    batches: Iterable[Responses],
    n_items: int,
    *,
    tolerance: float | None,
    draws: int,
    rng: np.random.Generator,
) -> Approximation:
    """Fit to batches that are read once; the Pareto shape, which takes all data, stays NaN."""
    observation = plan.observation
    if observation.labels.defining(observation.label_structure):
        raise ModelError(
            "Batches from a stream are items that depend on no others; labels in sequence or on a "
            "graph are of the items that the model knows, so fit it without batches=. Got: a "
            f"model of {type(observation.labels).__name__} labels."
        )
    prior, held = _parted(plan, begun)
    found = cavi.fit_stochastic(
        _read(plan.begun(), batches, n_items),
        begun.rows,
        prior,
        held=held,
        tolerance=cavi.SETTLED if tolerance is None else tolerance,
    )
    rows = draw_rows(found.approximation, draws, rng)
    # the end of what there is to read is as good an end as any
    values = _values(plan, rows, held, draws)
    return Approximation(values, found.trace, True, float("nan"), _rows(prior, found))


def _parted(plan: Plan, begun: Start) -> tuple[RowPriors, Rows]:
    """Return the priors of rows, and all other parameters, which stay where EM has put them."""
    priors = plan.continuous_priors()
    rows = {name: prior for name, prior in priors.items() if isinstance(prior, RowPrior)}
    return rows, {name: begun.rows[name] for name in priors if name not in rows}


def draw_rows(approximation: RowPriors, draws: int, rng: np.random.Generator) -> Rows:
    """Draw log rows (draw, …) of every parameter."""
    return {name: draw_dirichlet(q.picked(rng, draws), rng) for name, q in approximation.items()}


def _rows(prior: RowPriors, found: VariationalFit) -> dict[str, tuple[RowPrior, RowPrior]]:
    return {name: (prior[name], q) for name, q in found.approximation.items()}


def _values(plan: Plan, rows: Rows, held: Rows, draws: int) -> dict[str, Array]:
    """Return draws of every variable; what is no row stays where it began."""
    still = plan.indices() | held
    values = {}
    for name, block in plan.blocks.items():
        own = block.support.from_kernel(rows[name] if name in rows else still[name])
        times = () if name in rows else (draws, *[1] * np.ndim(own))
        values[block.variable.name] = np.tile(own, times)
    return values


def _judge(
    observation: Observation, priors: RowPriors, q: RowPriors, rows: Rows, held: Rows
) -> float:
    """Return the Pareto shape of draws of log rows (draw, …)."""
    log_ratio = np.empty(len(next(iter(rows.values()))))
    for draw in range(len(log_ratio)):
        at = {name: drawn[draw] for name, drawn in rows.items()}
        log_ratio[draw] = observation.evidence(at | held)[0] + cavi.log_density(priors, at)
        log_ratio[draw] -= cavi.log_density(q, at)
    return pareto_shape(log_ratio)


def _cut(observation: Observation, batch_size: int, rng: np.random.Generator) -> list[Observation]:
    """Cut the units of an observation into batches at random."""
    order = rng.permutation(len(observation.labels.units(observation.table)))
    places = range(batch_size, len(order), batch_size)
    return [observation.part(np.sort(units)) for units in np.split(order, places)]


def _epochs(
    parts: list[Observation], epochs: int, rng: np.random.Generator
) -> Iterator[tuple[Observation, float]]:
    """Yield all parts, epoch after epoch, each time in another order."""
    for _ in range(epochs):
        for index in rng.permutation(len(parts)):
            yield parts[index], float(len(parts))


def _read(
    observation: Observation, batches: Iterable[Responses], n_items: int
) -> Iterator[tuple[Observation, float]]:
    """Look at batches from outside as at the model's own table."""
    own = observation.responses
    for batch in each_batch(batches):
        for what in ("raters", "classes"):
            if not np.array_equal(getattr(batch, what), getattr(own, what)):
                raise ModelError(
                    f"Every batch must have the {what} of the model's table, in their order: "
                    f"declare {what}= when you read it. Got: {len(getattr(batch, what))} {what}, "
                    f"where the model has {len(getattr(own, what))}, or others."
                )
        part = Observation.build(batch, observation.labels, observation.raters)
        yield part, n_items / float(batch.multiplicity.sum())
