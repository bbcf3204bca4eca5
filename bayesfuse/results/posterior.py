"""Groups of a result derived from draws of the parameters: labels, log likelihoods, data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.names import storable
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import side_by_side
from bayesfuse.observation import Blocks, Observation, Spread

MOST_VALUES = 10**8
"""Pointwise log likelihoods are stored up to this many values (800 MB)."""

OBSERVED = "observed"
"""Attribute of constant_data: the fingerprint of what the model observed."""

ORDERED = "ordered_classes"
"""Attribute of constant_data: whether the classes are grades, 1 or 0."""

PREDICTION = "prediction"
"""Attribute of constant_data: where predictions find the parameters in the result."""

OF_VARIABLE, OF_DRAWS = "of_variable", "of_draws"
"""Attributes that identify the draws: a variable, and a digest of its draws.

Drawn labels hold the numbers of their draws in a variable named ``OF_DRAWS``.
"""


def complete(
    result: xr.DataTree,
    observation: Observation,
    parameters: Mapping[str, Array],
    *,
    log_likelihood: bool | None = None,
    labels: NDArray[Any] | None = None,
) -> xr.DataTree:
    """Add label_posterior, log_likelihood, label_draws and the data to a result.

    One pass over the draws; memory holds a few matrices (items × classes), and the log likelihoods
    (items × draws) if they are stored.

    Parameters
    ----------
    result : DataTree
        With a group ``posterior``.
    observation : Observation
    parameters : mapping of str to ndarray, shape (chain, draw, …)
        Values of every parameter of the label prior and the rater channel.
    log_likelihood : bool, optional
        Whether to store the log likelihood of every unit at every draw. Default: up to 10⁸ values.
    labels : ndarray, shape (chain, draw, item), optional
        Labels drawn with the parameters, for priors that keep them.

    Returns
    -------
    DataTree
        ``result``, changed in place.
    """
    add_constants(result, observation)  # first: an interrupted result must know its model, too
    posterior = result["posterior"].dataset
    sizes = posterior.sizes["chain"], posterior.sizes["draw"]
    sum_up(observation, parameters, labels, sizes, log_likelihood=log_likelihood).store(result)
    order_variables(result)
    return result


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
        """Names of the groups that :meth:`store` adds to a result."""
        optional = {"label_draws": self.labels, "log_likelihood": self.pointwise}
        return {"label_posterior"} | {name for name, kept in optional.items() if kept is not None}

    def store(self, result: xr.DataTree) -> None:
        """Add the groups to a result, first those that cannot be recomputed."""
        observation = self.observation
        responses = observation.responses
        posterior = result["posterior"].dataset
        # if interrupted, fewer and shorter chains; all of them are not copied
        chains: Any = sorted(self.kept) or slice(None)
        draws = slice(posterior.sizes["draw"])
        if self.labels is not None:
            _add(
                result,
                "label_draws",
                {"label": (("chain", "draw", "item"), self.labels[chains][:, draws])},
                {name: posterior[name].values for name in ("chain", "draw")}
                | {"item": responses.items},
                classes=storable(responses.classes),
            )
        sizes = {f"{dim}s": posterior.sizes[dim] for dim in ("chain", "draw")}
        result["label_posterior"] = xr.DataTree(self.label_posterior().assign_attrs(sizes))
        note_draws(result)
        if self.pointwise is not None:
            _add_log_likelihood(result, observation, self.pointwise[chains][:, draws])

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


def note_draws(result: xr.DataTree) -> None:
    """Record in the groups of labels which draws of the parameters they belong to."""
    posterior = result["posterior"].dataset
    name = _telling(posterior)
    numbers = draw_numbers(posterior, name)
    if "label_posterior" in result.children:
        result["label_posterior"].attrs |= {OF_VARIABLE: name, OF_DRAWS: digest(numbers)}
    if "label_draws" in result.children:
        labels = result["label_draws"].dataset.assign({OF_DRAWS: (("chain", "draw"), numbers)})
        result["label_draws"] = xr.DataTree(labels.assign_attrs({OF_VARIABLE: name}))


def draw_numbers(draws: xr.Dataset, name: str) -> NDArray[np.int64]:
    """Return a number that identifies each draw, (chain, draw)."""
    return fingerprint.of_draws(draws[name].transpose("chain", "draw", ...).values)


def digest(numbers: NDArray[np.int64]) -> str:
    """Return a digest of draws that does not depend on their order."""
    return fingerprint.of_arrays([np.sort(numbers, axis=None)])


def _telling(posterior: xr.Dataset) -> str:
    """Return the name of the smallest variable that differs between draws, if any does."""
    names = sorted(map(str, posterior.data_vars), key=lambda name: (posterior[name].size, name))
    floats = [name for name in names if posterior[name].dtype.kind == "f"] or names
    differ = (name for name in floats if len(np.unique(draw_numbers(posterior, name))) > 1)
    return next(differ, floats[0])


def _add_log_likelihood(result: xr.DataTree, observation: Observation, pointwise: Array) -> None:
    """Store one column per unit; a row of a table of counts has one column per item."""
    unit, responses = observation.labels.unit, observation.responses
    names = observation.labels.units(responses)
    if unit == "item":
        copies = np.repeat(np.arange(responses.n_items), responses.multiplicity)
        pointwise = pointwise[:, :, observation.inverse[copies]]
        names = names[copies]
    posterior = result["posterior"].dataset
    _add(
        result,
        "log_likelihood",
        {observation.name: (("chain", "draw", unit), pointwise)},
        {"chain": posterior["chain"].values, "draw": posterior["draw"].values, unit: names},
        adds_up=int(observation.labels.adds_up),
    )


def add_constants(result: xr.DataTree, observation: Observation) -> None:
    """Add the data and their fingerprint."""
    responses = observation.responses
    if isinstance(observation, Spread):
        _add_names(result, observation)
        return
    item, rater = responses.small_columns
    constants: dict[str, Any] = {
        "item_index": ((observation.rows_name,), item),
        "rater_index": ((observation.rows_name,), rater),
    }
    if not responses.is_plain:
        constants["multiplicity"] = (("item",), responses.multiplicity)
    if (unit := observation.labels.unit) != "item":
        constants[f"{unit}_index"] = (("item",), observation.labels.unit_of(responses))
    if np.any(observation.gold >= 0):
        constants["gold"] = (("item",), observation.gold)
    coords = {"item": responses.items, "rater": responses.raters, "class": responses.classes}
    before = result["constant_data"].dataset if "constant_data" in result.children else xr.Dataset()
    attrs = _identity(observation)
    _add(result, "constant_data", {**before.data_vars, **constants}, coords, **attrs)
    if "observed_data" not in result.children:
        label = responses.label.astype(np.int32)
        _add(result, "observed_data", {observation.name: ((observation.rows_name,), label)}, {})


def _identity(observation: Observation) -> dict[str, Any]:
    """Return the attributes that say what was observed, and how to predict from it."""
    attrs: dict[str, Any] = {OBSERVED: json.dumps(observation.fingerprint)}
    attrs[ORDERED] = int(observation.responses.ordered)
    if observation.prediction is not None:
        attrs[PREDICTION] = json.dumps(observation.prediction)
    return attrs


def _add_names(result: xr.DataTree, observation: Spread) -> None:
    """Add what is known of all partitions, in place of the data of the first one."""
    responses = observation.responses
    coords = {"rater": responses.raters, "class": responses.classes}
    sizes = (("partition", "what"), observation.partitions.per_partition)
    coords["what"] = np.array(["items", "responses"])
    result["constant_data"] = xr.DataTree(xr.Dataset({"sizes": sizes}, coords))
    result["constant_data"].attrs = _identity(observation)
    if "observed_data" in result.children:
        del result["observed_data"]


def _add(
    result: xr.DataTree, group: str, variables: Any, coords: dict[str, Any], **attrs: Any
) -> None:
    result[group] = xr.DataTree(xr.Dataset(variables, coords, attrs))


def order_variables(result: xr.DataTree) -> None:
    """Order the posterior's variables so that dimensions first appear in the order of each.

    ``az.summary`` (ArviZ 1.3) orders the entries of a variable by the dimensions of the whole
    dataset, in order of first appearance, but their names by the dimensions of the variable.
    """
    posterior = result["posterior"].dataset
    left = {name: values.dims for name, values in posterior.data_vars.items()}
    before: dict[Any, set[Any]] = {}
    for dims in left.values():
        for at, dim in enumerate(dims):
            before.setdefault(dim, set()).update(dims[:at])
    order: list[Any] = []
    seen: set[Any] = set()
    while left:
        ready = (
            name
            for name, dims in left.items()
            if all(before[dim] <= seen | set(dims[:at]) for at, dim in enumerate(dims))
        )
        name = next(ready, next(iter(left)))  # if none is ready, no order works for all
        order.append(name)
        seen |= set(left.pop(name))
    result["posterior"] = xr.DataTree(posterior[order])


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
