"""Dirichlet approximations by coordinate ascent: over all data, in batches, from a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from bayesfuse.data.responses import Responses, each_batch
from bayesfuse.errors import ModelError
from bayesfuse.inference import cavi
from bayesfuse.inference.cavi import RowPriors
from bayesfuse.inference.plan import Plan
from bayesfuse.inference.recording import Approximation, pareto_shape
from bayesfuse.inference.start import Start
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import Observation, Rows
from bayesfuse.parameters.dirichlet import RowPrior

EPOCHS = 100  # epochs of batches at most


def fit_dirichlet(
    plan: Plan,
    begun: Start,
    *,
    batch_size: int | None,
    batches: Iterable[Responses] | None,
    n_items: int | None,
    iterations: int | None,
    tolerance: float | None,
    draws: int,
    rng: np.random.Generator,
) -> Approximation:
    """Fit to all data at once, to random batches of units, or to batches that are read once."""
    observation, priors = plan.begun(), plan.continuous_priors()
    prior = {name: each for name, each in priors.items() if isinstance(each, RowPrior)}
    # all other parameters stay where EM has put them
    held = {name: begun.rows[name] for name in priors if name not in prior}
    given: dict[str, Any] = {"held": held} | ({} if tolerance is None else {"tolerance": tolerance})
    structure = plan.observation.label_structure
    if batches is not None and plan.observation.labels.defining(structure):
        raise ModelError(
            "Batches from a stream are items that depend on no others; labels in sequence or on a "
            "graph are of the items that the model knows, so fit it without batches=. Got: a "
            f"model of {type(observation.labels).__name__} labels."
        )
    once = batches is not None
    if batches is not None and n_items is not None:
        read = _read(plan, batches, n_items)
        found = cavi.fit_stochastic(read, begun.rows, prior, **given)
    elif batch_size:
        order = rng.permutation(len(observation.labels.units(observation.table)))
        cuts = np.split(order, range(batch_size, len(order), batch_size))
        parts = [observation.part(np.sort(units)) for units in cuts]
        epochs = _epochs(parts, EPOCHS if iterations is None else iterations, rng)
        found = cavi.fit_stochastic(epochs, begun.rows, prior, window=len(parts), **given)
        whole = cavi.bound(observation, found.approximation, prior, held)
        found = replace(found, trace=np.append(found.trace, whole))
    else:
        given |= {} if iterations is None else {"iterations": iterations}
        found = cavi.fit(observation, begun.rows, prior, **given)
    q = found.approximation
    rows = draw_rows(q, draws, rng)
    shape = float("nan") if once else _judge(observation, prior, q, rows, held)
    return Approximation(
        _values(plan, rows, held, draws),
        found.trace,
        once or found.converged,  # the end of a stream is as good an end as any
        shape,
        {name: (prior[name], each) for name, each in q.items()},
    )


def draw_rows(approximation: RowPriors, draws: int, rng: np.random.Generator) -> Rows:
    """Draw log rows (draw, …) of every parameter."""
    return {name: draw_dirichlet(q.picked(rng, draws), rng) for name, q in approximation.items()}


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


def _epochs(
    parts: list[Observation], epochs: int, rng: np.random.Generator
) -> Iterator[tuple[Observation, float]]:
    """Yield all parts, epoch after epoch, each time in another order."""
    for _ in range(epochs):
        for index in rng.permutation(len(parts)):
            yield parts[index], float(len(parts))


def _read(
    plan: Plan, batches: Iterable[Responses], n_items: int
) -> Iterator[tuple[Observation, float]]:
    """Yield batches from outside, seen as the model's own table."""
    observation, own = plan.begun(), plan.observation.responses
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
