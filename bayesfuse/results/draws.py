"""What is summed up over draws: label probabilities, their errors and log likelihoods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import side_by_side
from bayesfuse.observation import Blocks, Observation, Spread

MOST_VALUES = 10**8  # pointwise log likelihoods are stored up to this many values (800 MB)


def sum_up(
    observation: Observation,
    parameters: Mapping[str, Array],
    labels: NDArray[Any] | None,
    sizes: tuple[int, int],
    *,
    log_likelihood: bool | None,
    units: int | None = None,
) -> Draws:
    """Return the accumulated draws (chain, draw, …), with the labels drawn with them if any."""
    seen = Draws(
        observation, *sizes, log_likelihood=log_likelihood, labels=labels is not None, units=units
    )
    if labels is None and isinstance(observation, Blocks):
        return _by_block(seen, observation, parameters)

    def add(chain: int) -> None:
        for draw in range(sizes[1]):
            point = {name: draws[chain, draw] for name, draws in parameters.items()}
            rows = observation.rows(point)
            seen.add(chain, rows, None if labels is None else labels[chain, draw])

    side_by_side(add, range(sizes[0]))
    return seen


def weigh_up(
    observation: Observation, parameters: Mapping[str, Array], sizes: tuple[int, int]
) -> tuple[Array, Array, dict[str, Any]]:
    """Return label probabilities of new items, weighted by their likelihood, errors, and how."""
    seen, table = Draws(observation, *sizes, log_likelihood=False), observation.table
    length, n_batches = max(int(np.sqrt(sizes[1])), 1), 0
    # Sums of the weights times the probabilities, and of the weights in a last column: of all draws
    # and of a batch; and of the squares of batches and of their products with the last column.
    shape = table.n_items, table.n_classes + 1
    total, batch, squares, products = (np.zeros(shape) for _ in range(4))
    top = np.full((table.n_items, 1), -np.inf)
    for at in np.ndindex(sizes):
        seen.point = observation.rows({name: draws[at] for name, draws in parameters.items()})
        found = observation.marginal(seen.point)
        now = found.log_evidence[:, None]
        above = np.maximum(top, now)
        base = np.where(np.isneginf(above), 0.0, above)
        shrunk, weight = np.exp(top - base), np.exp(now - base)
        for sums, power in ((total, 1), (batch, 1), (squares, 2), (products, 2)):
            sums *= shrunk**power
        top = above
        weighted = np.hstack([weight * found.probability, weight])
        total += weighted
        batch += weighted
        if (at[1] + 1) % length == 0:
            squares += batch**2
            products += batch * batch[:, -1:]
            n_batches += 1
        if (at[1] + 1) % length == 0 or at[1] == sizes[1] - 1:
            batch[:] = 0.0
    whole = np.maximum(total[:, -1:], np.finfo(float).tiny)
    mean = total[:, :-1] / whole
    apart = squares[:, :-1] - 2 * mean * products[:, :-1] + mean**2 * squares[:, -1:]
    scale = n_batches / (n_batches - 1) if n_batches > 1 else np.nan
    used = n_batches * length / (sizes[0] * sizes[1])  # incomplete batches are left out
    errors = np.sqrt(np.maximum(apart, 0.0) * scale) / (whole * max(used, 1e-300))
    return mean, errors, seen.how()


def n_units(observation: Observation) -> int:
    """Return how many log likelihoods there are at a draw."""
    if isinstance(observation, Spread):
        return int(observation.partitions.n_items)
    responses = observation.responses
    units = observation.labels.units(responses)
    return int(responses.multiplicity.sum()) if units is responses.items else len(units)


def _by_block(seen: Draws, observation: Blocks, parameters: Mapping[str, Array]) -> Draws:
    """Sum up all draws on one block after the other, while it is at hand, and put all together."""
    shape = observation.table.n_items, observation.table.n_classes
    mean, error = np.empty(shape), np.empty(shape)

    def fill(part: Observation, items: NDArray[np.int64], units: NDArray[np.int64]) -> None:
        kept = seen.pointwise is not None
        own = sum_up(part, parameters, None, seen.sizes, log_likelihood=kept, units=len(units))
        mean[items], error[items] = own.result()
        if seen.pointwise is not None:
            seen.pointwise[:, :, units] = own.pointwise

    side_by_side(fill, observation.parts, observation.places, observation.cut)
    seen.known = mean, error
    return seen


class Draws:
    """Accumulator over draws of label probabilities and log likelihoods, by chain."""

    def __init__(
        self,
        observation: Observation,
        n_chains: int,
        n_draws: int,
        *,
        log_likelihood: bool | None = None,
        labels: bool = False,
        units: int | None = None,
    ) -> None:
        table, n_all = observation.table, n_chains * n_draws
        if log_likelihood is None:
            log_likelihood = n_all * n_units(observation) <= MOST_VALUES
        self.observation, self.sizes, self.drawn = observation, (n_chains, n_draws), labels
        shape = table.n_items, table.n_classes
        self.means = [_BatchMeans(shape, n_draws) for _ in range(n_chains)]
        self.known: tuple[Array, Array] | None = None  # means and errors, computed elsewhere
        self.done = [0] * n_chains
        self.point: dict[str, Array] = {}
        self.pointwise: Array | None = None
        self.labels: NDArray[Any] | None = None
        if log_likelihood:
            every = table.n_items if labels else len(observation.labels.units(table))
            n_values = every if units is None else units
            self.pointwise = np.full((n_chains, n_draws, n_values), np.nan)
        if labels and n_all * table.n_items <= MOST_VALUES:
            small = np.int8 if table.n_classes <= 128 else np.int32
            self.labels = np.full((n_chains, n_draws, table.n_items), -1, dtype=small)

    def add(self, chain: int, rows: dict[str, Array], labels: NDArray[Any] | None = None) -> None:
        """Add the next draw of a chain; with drawn labels, given neighbours (Rao–Blackwell)."""
        draw, self.point = self.done[chain], rows
        if labels is None:
            marginal = self.observation.marginal(rows)
            probability, log_evidence = marginal.probability, marginal.log_evidence
        else:
            probability, log_evidence = self.observation.given(rows, labels)
            if self.labels is not None:
                self.labels[chain, draw] = labels
        self.means[chain].add(probability)
        if self.pointwise is not None:
            self.pointwise[chain, draw] = log_evidence
        self.done[chain] += 1

    @property
    def groups(self) -> set[str]:
        """Names of the groups that :func:`posterior.store` adds to a result."""
        optional = {"label_draws": self.labels, "log_likelihood": self.pointwise}
        return {"label_posterior"} | {name for name, kept in optional.items() if kept is not None}

    def result(self) -> tuple[Array, Array]:
        """Return mean probabilities of ``table`` and errors, overwriting the sums."""
        if self.known is not None:
            return self.known
        first, *others = self.means
        self.means = []
        for other in others:
            first.join(other)
        return first.result()

    def by_unit(self) -> tuple[NDArray[Any], Array | None]:
        """Return the names of units, copies of items one by one, and their log likelihoods."""
        observation, pointwise = self.observation, self.pointwise
        responses, labels = observation.responses, observation.labels
        names = labels.units(responses)
        if labels.unit != "item" or pointwise is None:
            return names, pointwise
        copies = np.repeat(np.arange(responses.n_items), responses.multiplicity)
        return names[copies], pointwise[:, :, observation.inverse[copies]]

    def label_posterior(self) -> xr.Dataset:
        """Return label probabilities and their Monte Carlo error, after all draws were added."""
        observation, pair = self.observation, ("item", "class")
        responses = observation.responses
        mean, error = self.result()
        return xr.Dataset(
            {
                "probability": (pair, observation.by_item(mean)),
                "mcse": (pair, observation.by_item(error)),
            },
            {"item": responses.items, "class": responses.classes},
            self.how(),
        )

    def how(self) -> dict[str, Any]:
        """Return how labels were summed out, and whether an iterative method converged."""
        prior = self.observation.labels
        if self.drawn:
            return {"exact": 1, "method": prior.words.moving}
        said = {"exact": int(prior.exact), "method": prior.words.summing}
        if not prior.exact:
            said["converged"] = int(self.observation.converged(self.point))
        return said


class _BatchMeans:
    """Mean over draws and its error by batches of √draws (Flegal, Haran & Jones 2008)."""

    def __init__(self, shape: tuple[int, ...], n_draws: int) -> None:
        self.length = max(int(np.sqrt(n_draws)), 1)
        self.total, self.batch = np.zeros(shape), np.zeros(shape)
        self.mean, self.squares = np.zeros(shape), np.zeros(shape)  # of the means of batches
        self.n_draws = self.n_batches = 0

    def add(self, values: Array) -> None:
        self.batch += values
        self.total += values
        self.n_draws += 1
        if self.n_draws % self.length == 0:  # Welford's update: plain squares would cancel
            self.batch /= self.length
            self.n_batches += 1
            apart = self.batch - self.mean
            self.mean += apart / self.n_batches
            self.squares += apart * (self.batch - self.mean)
            self.batch[:] = 0.0

    def join(self, other: _BatchMeans) -> None:
        """Add the draws of another chain (Chan, Golub & LeVeque 1983)."""
        self.total += other.total
        self.n_draws += other.n_draws
        both = self.n_batches + other.n_batches
        if other.n_batches == 0:
            return
        apart = other.mean - self.mean
        self.squares += other.squares + apart**2 * (self.n_batches * other.n_batches / both)
        self.mean += apart * (other.n_batches / both)
        self.n_batches = both

    def result(self) -> tuple[Array, Array]:
        """Return mean and Monte Carlo error, overwriting the sums to save memory."""
        self.total /= self.n_draws
        n, variance = self.n_batches, self.squares
        if n < 2:
            variance[:] = np.nan
            return self.total, variance
        variance /= n * (n - 1)
        return self.total, np.sqrt(variance, out=variance)
