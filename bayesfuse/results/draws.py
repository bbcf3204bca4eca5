"""What is summed up over draws: label probabilities, their errors and log likelihoods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import side_by_side
from bayesfuse.observation import Blocks, Observation, Spread

MOST_VALUES = 10**8
"""Pointwise log likelihoods are stored up to this many values (800 MB)."""


def sum_up(
    observation: Observation,
    parameters: Mapping[str, Array],
    labels: NDArray[Any] | None,
    sizes: tuple[int, int],
    *,
    log_likelihood: bool | None,
) -> Draws:
    """Return the accumulated draws (chain, draw, …), with the labels drawn with them if any."""
    seen = Draws(observation, *sizes, log_likelihood=log_likelihood)
    if labels is None and isinstance(observation, Blocks):
        return _by_block(seen, observation, parameters)
    for chain, draw in np.ndindex(sizes):
        point = {name: draws[chain, draw] for name, draws in parameters.items()}
        seen.add(chain, point, None if labels is None else labels[chain, draw])
    return seen


def weigh_up(
    observation: Observation, parameters: Mapping[str, Array], sizes: tuple[int, int]
) -> tuple[Array, Array, dict[str, Any]]:
    """Return label probabilities of items that did not inform the parameters, and their errors.

    Each draw counts for an item in proportion to the likelihood of its responses. Also says how
    labels were summed out.
    """
    seen, table = Draws(observation, *sizes, log_likelihood=False), observation.table
    log_weight = np.empty((*sizes, table.n_items, 1))
    probability = np.empty((*sizes, table.n_items, table.n_classes))
    for at in np.ndindex(sizes):
        seen.point = observation.rows({name: draws[at] for name, draws in parameters.items()})
        found = observation.marginal(seen.point)
        log_weight[at], probability[at] = found.log_evidence[:, None], found.probability
    top = log_weight.max(axis=(0, 1))
    weight = np.exp(log_weight - np.where(np.isneginf(top), 0.0, top))
    weight /= np.maximum(weight.mean(axis=(0, 1)), np.finfo(float).tiny)
    mean = (weight * probability).mean(axis=(0, 1))
    errors = _BatchMeans(mean.shape, sizes[1])
    for chain, draw in np.ndindex(sizes):  # of a ratio: what it is linear in
        gap = weight[chain, draw] * (probability[chain, draw] - mean)
        errors.add(gap, chain, last=draw == sizes[1] - 1)
    return mean, errors.result()[1], seen.how()


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
    if seen.wants_pointwise:
        seen.pointwise = np.empty((*seen.sizes, len(observation.labels.units(observation.table))))

    def fill(part: Observation, items: NDArray[np.int64], units: NDArray[np.int64]) -> None:
        own = sum_up(part, parameters, None, seen.sizes, log_likelihood=seen.wants_pointwise)
        mean[items], error[items] = own.means.result()
        if seen.pointwise is not None:
            seen.pointwise[:, :, units] = own.pointwise

    side_by_side(fill, observation.parts, observation.places, observation.cut)
    seen.means = Means(mean, error)
    return seen


class Means(NamedTuple):
    """Means and errors that are known."""

    mean: Array
    error: Array

    def result(self) -> tuple[Array, Array]:
        """Return them, as :class:`_BatchMeans` does."""
        return self.mean, self.error


class Draws:
    """Accumulator over draws: the mean label probabilities and the pointwise log likelihoods.

    Parameters
    ----------
    observation : Observation
    n_chains, n_draws : int
    log_likelihood : bool, optional
        As in :func:`complete`.
    """

    def __init__(
        self,
        observation: Observation,
        n_chains: int,
        n_draws: int,
        *,
        log_likelihood: bool | None = None,
    ) -> None:
        responses = observation.responses
        if log_likelihood is None:
            log_likelihood = n_chains * n_draws * n_units(observation) <= MOST_VALUES
        self.observation = observation
        self.sizes = n_chains, n_draws
        self.wants_pointwise = log_likelihood
        self.done = [0] * n_chains
        self.means: _BatchMeans | Means = _BatchMeans(
            (observation.table.n_items, responses.n_classes), n_draws
        )
        self.pointwise: Array | None = None
        self.labels: NDArray[Any] | None = None
        self.point: dict[str, Array] = {}
        self.drawn = False
        self.kept: set[int] = set()  # chains of the result; none: all

    def add(
        self, chain: int, parameters: Mapping[str, Array], labels: NDArray[Any] | None = None
    ) -> None:
        """Add the next draw of a chain, and the labels drawn with it, if any.

        Drawn labels give probabilities conditional on their neighbours, whose mean over the draws
        converges to the posterior (Rao–Blackwell).
        """
        observation, (n_chains, n_draws) = self.observation, self.sizes
        draw = self.done[chain]
        self.point = observation.rows(parameters)
        if labels is None:
            marginal = observation.marginal(self.point)
            probability, log_evidence = marginal.probability, marginal.log_evidence
        else:
            probability, log_evidence = observation.given(self.point, labels)
            if not self.drawn and n_chains * n_draws * labels.size <= MOST_VALUES:
                small = np.int8 if probability.shape[1] <= 128 else np.int32
                self.labels = np.full((n_chains, n_draws, labels.size), -1, dtype=small)
            self.drawn = True
            if self.labels is not None:
                self.labels[chain, draw] = labels
        assert isinstance(self.means, _BatchMeans)
        self.means.add(probability, chain, last=draw == n_draws - 1)
        if self.wants_pointwise:
            if self.pointwise is None:
                self.pointwise = np.full((n_chains, n_draws, len(log_evidence)), np.nan)
            self.pointwise[chain, draw] = log_evidence
        self.done[chain] += 1

    @property
    def groups(self) -> set[str]:
        """Names of the groups that :func:`posterior.store` adds to a result."""
        optional = {"label_draws": self.labels, "log_likelihood": self.pointwise}
        return {"label_posterior"} | {name for name, kept in optional.items() if kept is not None}

    def label_posterior(self) -> xr.Dataset:
        """Return label probabilities and their Monte Carlo error, after all draws were added."""
        observation, pair = self.observation, ("item", "class")
        responses = observation.responses
        mean, error = self.means.result()
        del self.means  # its sums over batches are as large as the result
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
    """Mean over draws of arrays too large to keep, and its Monte Carlo error by batch means.

    Every chain is cut into about √draws batches of consecutive draws, whose means are nearly
    independent (Flegal, Haran & Jones 2008, Statistical Science 23, 250–260).
    """

    def __init__(self, shape: tuple[int, ...], n_draws: int) -> None:
        self.length = max(int(np.sqrt(n_draws)), 1)
        self.batch: dict[int, Array] = {}  # of every unfinished chain
        self.n_in_batch: dict[int, int] = {}
        self.total = np.zeros(shape)
        # Sums over batches of deviations from the first: plain squares would cancel
        self.first: Array | None = None
        self.deviation, self.squares = np.zeros(shape), np.zeros(shape)
        self.n_batches = self.n_draws = 0

    def add(self, values: Array, chain: int, *, last: bool) -> None:
        if chain not in self.batch:
            self.batch[chain], self.n_in_batch[chain] = np.zeros_like(self.total), 0
        batch = self.batch[chain]
        batch += values
        self.total += values
        self.n_in_batch[chain] += 1
        self.n_draws += 1
        if self.n_in_batch[chain] == self.length:
            mean = batch / self.length
            if self.first is None:
                self.first = mean
            self.deviation += mean - self.first
            self.squares += (mean - self.first) ** 2
            self.n_batches += 1
            batch[:] = 0.0
            self.n_in_batch[chain] = 0
        if last:  # an incomplete batch is dropped
            del self.batch[chain], self.n_in_batch[chain]

    def result(self) -> tuple[Array, Array]:
        """Return mean and Monte Carlo error, overwriting the sums to save memory."""
        self.total /= self.n_draws
        n, variance = self.n_batches, self.squares
        if n < 2:
            variance[:] = np.nan
            return self.total, variance
        self.deviation **= 2
        self.deviation /= n
        variance -= self.deviation  # n − 1 times the variance of a batch mean
        np.maximum(variance, 0.0, out=variance)
        variance /= n * (n - 1)
        return self.total, np.sqrt(variance, out=variance)
