"""Sums over draws: label probabilities with Monte Carlo errors, and log likelihoods."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.names import smallest_integer
from bayesfuse.numerics.batches import add_to_batches
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import side_by_side
from bayesfuse.observation import BlockedResponseModel, ChunkedResponseModel, ResponseModel

N_BATCHES = 20  # of all chains, at least, by which Monte Carlo errors are estimated
MAX_VALUES = 10**8  # pointwise log likelihoods are stored up to this many values (800 MB)


def accumulate(
    observation: ResponseModel,
    parameters: Mapping[str, Array],
    labels: NDArray[Any] | None,
    sizes: tuple[int, int],
    *,
    log_likelihood: bool | None,
    units: int | None = None,
    seconds: float = math.inf,
) -> Draws:
    """Return the accumulated draws (chain, draw, …), with the labels drawn with them if any.

    With ``seconds``, label probabilities are averaged over as many evenly spaced draws as that
    allows, and log likelihoods are left out unless that is all of them.
    """
    number = sizes[1]
    if seconds < math.inf and labels is None:
        number = _affordable(observation, parameters, sizes, seconds)
    if number < sizes[1]:
        spaced = np.linspace(0, sizes[1] - 1, number).round().astype(np.int64)
        parameters = {name: draws[:, spaced] for name, draws in parameters.items()}
        sizes, log_likelihood = (sizes[0], number), False
    summed = Draws(
        observation, *sizes, log_likelihood=log_likelihood, labels=labels is not None, units=units
    )

    def add(chain: int) -> None:
        for draw in range(sizes[1]):
            point = {name: draws[chain, draw] for name, draws in parameters.items()}
            rows = observation.rows(point)
            summed.add(chain, rows, None if labels is None else labels[chain, draw])

    if labels is None and isinstance(observation, BlockedResponseModel):
        return _by_block(summed, observation, parameters)
    side_by_side(add, range(sizes[0]))
    return summed


def _affordable(
    observation: ResponseModel,
    parameters: Mapping[str, Array],
    sizes: tuple[int, int],
    seconds: float,
) -> int:
    """Return how many draws of every chain can be summed up in so many seconds, at least one."""
    point = observation.rows({name: draws[0, -1] for name, draws in parameters.items()})
    for _ in range(2):  # the first may compile kernels, or cut the table
        began = time.monotonic()
        observation.marginal(point)
        one = time.monotonic() - began
    return int(np.clip(seconds / (one * sizes[0]), 1, sizes[1]))


def weigh_up(
    observation: ResponseModel, parameters: Mapping[str, Array], sizes: tuple[int, int]
) -> tuple[Array, Array, dict[str, Any]]:
    """Return label probabilities of new items, weighted by their likelihood, errors, and how."""
    summed, table = Draws(observation, *sizes, log_likelihood=False), observation.table
    values = np.empty((*sizes, table.n_items, table.n_classes))
    weight = np.empty((*sizes, table.n_items, 1))  # first its logarithm
    for at in np.ndindex(sizes):
        summed.point = observation.rows({name: draws[at] for name, draws in parameters.items()})
        marginal = observation.marginal(summed.point)
        values[at], weight[at][:, 0] = marginal.probability, marginal.log_evidence
    top = weight.max(axis=(0, 1))
    weight = np.exp(weight - np.where(np.isneginf(top), 0.0, top))
    total = np.maximum(weight.sum(axis=(0, 1)), np.finfo(float).tiny)
    mean = (weight * values).sum(axis=(0, 1)) / total
    for chain, draw in np.ndindex(sizes):  # a ratio of means has the error of these
        summed.means[chain].add(weight[chain, draw] * (values[chain, draw] - mean))
    return mean, summed.result()[1] * (np.prod(sizes) / total), summed.how()


def n_units(observation: ResponseModel) -> int:
    """Return how many log likelihoods there are at a draw."""
    if isinstance(observation, ChunkedResponseModel):
        return int(observation.partitions.n_items)
    responses = observation.responses
    units = observation.labels.units(responses)
    return int(responses.multiplicity.sum()) if units is responses.items else len(units)


def _by_block(
    summed: Draws, observation: BlockedResponseModel, parameters: Mapping[str, Array]
) -> Draws:
    """Sum up all draws on one block after the other, while it is at hand, and put all together."""
    shape = observation.table.n_items, observation.table.n_classes
    mean, error = np.empty(shape), np.empty(shape)

    def fill(part: ResponseModel, items: NDArray[np.int64], units: NDArray[np.int64]) -> None:
        has_pointwise = summed.pointwise is not None
        of_part = accumulate(
            part, parameters, None, summed.sizes, log_likelihood=has_pointwise, units=len(units)
        )
        mean[items], error[items] = of_part.result()
        if summed.pointwise is not None:
            summed.pointwise[:, :, units] = of_part.pointwise

    side_by_side(fill, observation.parts, observation.items_by_block, observation.units_by_block)
    summed.known = mean, error
    return summed


class Draws:
    """Accumulator over draws of label probabilities and log likelihoods, by chain."""

    def __init__(
        self,
        observation: ResponseModel,
        n_chains: int,
        n_draws: int,
        *,
        log_likelihood: bool | None = None,
        labels: bool = False,
        units: int | None = None,
    ) -> None:
        table, n_all = observation.table, n_chains * n_draws
        if log_likelihood is None:
            log_likelihood = n_all * n_units(observation) <= MAX_VALUES
        self.observation, self.sizes, self.drawn = observation, (n_chains, n_draws), labels
        shape = table.n_items, table.n_classes
        length = batch_length(n_chains, n_draws)
        self.means = [BatchMeans(shape, length) for _ in range(n_chains)]
        self.known: tuple[Array, Array] | None = None  # means and errors, computed elsewhere
        self.point: dict[str, Array] = {}
        self.pointwise: Array | None = None
        self.labels: NDArray[Any] | None = None
        if log_likelihood:
            every = table.n_items if labels else len(observation.labels.units(table))
            n_values = every if units is None else units
            self.pointwise = np.full((n_chains, n_draws, n_values), np.nan)
        if labels and n_all * table.n_items <= MAX_VALUES:
            dtype = smallest_integer(table.n_classes)
            self.labels = np.full((n_chains, n_draws, table.n_items), -1, dtype=dtype)

    def add(self, chain: int, rows: dict[str, Array], labels: NDArray[Any] | None = None) -> None:
        """Add the next draw of a chain; with drawn labels, given neighbours (Rao–Blackwell)."""
        draw, self.point = self.means[chain].n_draws, rows
        if labels is None:
            marginal = self.observation.marginal(rows)
            probability, log_evidence = marginal.probability, marginal.log_evidence
        else:
            probability, log_evidence = self.observation.conditional(rows, labels)
            if self.labels is not None:
                self.labels[chain, draw] = labels
        self.means[chain].add(probability)
        if self.pointwise is not None:
            self.pointwise[chain, draw] = log_evidence

    def arrays(self, chain: int) -> tuple[NDArray[Any], ...]:
        """Return sums and log likelihoods of a chain, to which compiled chains add."""
        none = np.empty((0, 0))
        pointwise = none if self.pointwise is None else self.pointwise[chain]
        return *self.means[chain].arrays, pointwise

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
        is_by_item = observation.table is responses and responses.is_unweighted
        if labels.unit != "item" or pointwise is None or is_by_item:
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
        description = {"exact": int(prior.capabilities.exact), "method": prior.words.summing}
        if not prior.capabilities.exact:
            description["converged"] = int(self.observation.converged(self.point))
        return description


def batch_length(n_chains: int, n_draws: int) -> int:
    """Return how many draws form a batch: √draws, or more if all chains still have 20 batches."""
    return max(int(np.sqrt(n_draws)), min(n_chains * n_draws // N_BATCHES, n_draws // 2), 1)


class BatchMeans:
    """Mean over draws and its error by means of batches (Flegal, Haran & Jones 2008)."""

    def __init__(self, shape: tuple[int, ...], length: int) -> None:
        self.shape, self.counts = shape, np.array([0, 0, length])
        size = math.prod(shape)
        self.total, self.batch = np.zeros(size), np.zeros(size)
        self.mean, self.squares = np.zeros(size), np.zeros(size)  # of the means of batches

    @property
    def n_draws(self) -> int:
        """Number of draws so far."""
        return int(self.counts[0])

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Sums and counts, as kernels update them: see :func:`add_to_batches`."""
        return self.total, self.batch, self.mean, self.squares, self.counts

    def add(self, values: Array) -> None:
        """Add the values at a draw."""
        add_to_batches(np.ravel(values), *self.arrays)

    def join(self, other: BatchMeans) -> None:
        """Add the draws of another chain (Chan, Golub & LeVeque 1983)."""
        self.total += other.total
        n, m = self.counts[1], other.counts[1]
        self.counts[:2] += other.counts[:2]
        if m == 0:
            return
        difference = other.mean - self.mean
        self.squares += other.squares + difference**2 * (n * m / (n + m))
        self.mean += difference * (m / (n + m))

    def result(self) -> tuple[Array, Array]:
        """Return mean and Monte Carlo error, overwriting the sums to save memory."""
        self.total /= self.n_draws
        n, variance = int(self.counts[1]), self.squares
        if n < 2:
            variance[:] = np.nan
        else:
            variance /= n * (n - 1)
            np.sqrt(variance, out=variance)
        return self.total.reshape(self.shape), variance.reshape(self.shape)
