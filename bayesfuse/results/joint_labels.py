"""Joint draws of the labels of all items, kept in results so that later questions need no model."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.names import smallest_integer, storable
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.data.tags import mark_spans
from bayesfuse.errors import ModelError
from bayesfuse.numerics.batches import resample_stretches
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import ChunkedResponseModel, LogParameters, ResponseModel
from bayesfuse.results import schema
from bayesfuse.results.contents import (
    all_draws,
    constants,
    evenly_spaced,
    of_all_draws,
    require_result,
    spaced_rows,
)

SAMPLES, FEWEST = 400, 50
"""Joint draws that a result keeps, and the number below which none are kept for lack of space."""

MOST = 40_000_000
"""Largest number of labels (draws × items) that a result keeps."""

GROUP, DIMS = schema.LABEL_DRAWS, ("sample", "item")
BETWEEN = 10  # sweeps between draws of labels from a Markov chain
SWEEPS = 10  # of iterative proportional fitting: see `reweighted`


def max_stored_draws(observation: ResponseModel) -> int:
    """Return how many joint draws of the labels are kept at most."""
    responses = observation.responses
    moves_labels = observation.labels.capabilities.moves_labels
    if isinstance(observation, ChunkedResponseModel) or moves_labels:
        return 0
    return _room_for(responses.n_items) if responses.is_unweighted else 0


def _room_for(n_items: int) -> int:
    room = min(SAMPLES, MOST // max(n_items, 1))
    return room if room >= FEWEST else 0


def sample(
    observation: ResponseModel,
    parameters: Mapping[str, Array],
    seed: int,
    seconds: float = math.inf,
) -> xr.Dataset:
    """Draw all labels jointly at evenly spaced draws of the parameters (chain, draw, …).

    The number of draws is limited to some seconds of work.
    """
    n_chains, n_draws = next(iter(parameters.values())).shape[:2]
    number = min(max_stored_draws(observation), n_chains * n_draws)
    if seconds < math.inf:
        first = list(spaced_rows(observation, parameters, 1))
        for _ in range(2):  # the first may compile
            start = time.monotonic()
            draw_all(observation, first, 1, np.random.default_rng(0))
            seconds_per_draw = time.monotonic() - start
        number = min(number, max(int(seconds / seconds_per_draw), 2))
    rng = np.random.default_rng(seed)
    labels = draw_all(observation, spaced_rows(observation, parameters, number), number, rng)
    return as_draws(labels, observation.responses.items, observation.responses.classes)


def draw_all(
    observation: ResponseModel,
    points: Iterable[LogParameters],
    number: int,
    rng: np.random.Generator,
) -> NDArray[Any]:
    """Draw the labels of all items (number, items), one draw for each point."""
    prior, responses = observation.labels, observation.responses
    structure = observation.full_structure
    now: Any = None
    labels = np.empty((number, responses.n_items), dtype=smallest_integer(responses.n_classes))
    for row, rows in zip(labels, points, strict=True):
        likelihood = observation.by_item(observation.likelihood(rows)[0])
        for _ in range(BETWEEN if prior.capabilities.moves_labels else 1):
            now = prior.draw(observation.label_tables(rows), likelihood, structure, rng, now)
        row[:] = observation.classes_of(now, observation.gold, rng)
        if row.min(initial=0) < 0:
            observation.require_possible_at(rows)
    return labels


def as_draws(labels: NDArray[Any], items: NDArray[Any], classes: NDArray[Any]) -> xr.Dataset:
    """Return class indices (samples, items) as the group of a result."""
    attrs = {"classes": storable(classes)}
    return xr.Dataset({"label": (DIMS, labels)}, {"item": items}, attrs)


def independent(probability: xr.DataArray, number: int, rng: np.random.Generator) -> NDArray[Any]:
    """Draw labels item by item from their probabilities (item, class)."""
    up_to = probability.values.cumsum(axis=1)
    up_to /= up_to[:, -1:]
    columns = np.ascontiguousarray(up_to.T)
    drawn = np.zeros((number, len(up_to)), dtype=smallest_integer(len(columns)))
    for row in drawn:
        chosen = rng.random(len(up_to))
        for column in columns:
            row += chosen >= column
    return drawn


def add_votes_in_sequence(
    shares: xr.DataTree, responses: Responses, sequences: Sequences, seed: int
) -> None:
    """Add joint draws to vote shares: for every sequence, the labels of one rater, drawn at random.

    Items without a label of the rater, and known ones, are drawn from their own shares. For tags,
    the additional vote has the shares of all labels and marks no span in draws, as most errors do.
    """
    probability = shares["label_posterior"].dataset["probability"]
    unknown = probability.values.max(axis=1) < 1.0
    missed = mark_spans(classes := responses.classes.tolist())
    if missed:
        outside = classes.index("O")
        here = unknown & (responses.per_item > 0)
        number_of = np.bincount(responses.label, minlength=len(classes))
        more = number_of / number_of.sum().clip(min=1) - 1.0 / len(classes)
        probability.values[here] += more / (1.0 + responses.per_item[here, None])
    number = _room_for(responses.n_items)
    if not number:
        return
    rng = np.random.default_rng(seed)
    labels = independent(probability, number, rng)
    place = np.argsort(sequences.places(responses))
    unit = np.searchsorted(sequences.start, place, side="right") - 1
    item, rater, label = responses.item, responses.rater, responses.label
    asked = np.unique(unit[item] * responses.n_raters + rater)
    begin = np.searchsorted(asked, np.arange(sequences.n_sequences + 1) * responses.n_raters)
    size = np.diff(begin)
    for row in labels:
        chosen = rng.integers(np.maximum(size + missed, 1))
        one = asked[np.minimum(begin[:-1] + chosen, len(asked) - 1)] % responses.n_raters
        voted = np.flatnonzero(unknown[item] & (rater == one[unit[item]]))[::-1]
        row[item[voted]] = label[voted]  # the first of several
        if missed:
            row[unknown & ((chosen == size) & (size > 0))[unit]] = outside
    shares[GROUP] = as_draws(labels, responses.items, responses.classes)


def reweighted(drawn: xr.Dataset, labels: xr.Dataset, sequences: Sequences) -> xr.Dataset:
    """Return draws of labels in sequence, resampled to approximate probabilities (item, class).

    Stretches end where all draws agree. Their draws are weighted to the probabilities (iterative
    proportional fitting) and resampled systematically. Certain labels are set.
    """
    place = drawn.get_index("item").get_indexer(sequences.items)
    probability = labels["probability"].sel(item=drawn["item"]).transpose("item", "class")
    wanted = np.ascontiguousarray(probability.values[place])
    resampled = drawn["label"].transpose(*DIMS).copy()
    sampled = resampled.values[:, place].T.copy()  # (items, samples)
    unsure = np.flatnonzero((sampled != sampled[:, :1]).any(axis=1))
    first = np.append(True, np.diff(unsure) > 1)[: len(unsure)] | np.isin(unsure, sequences.start)
    begin = np.append(np.flatnonzero(first), len(unsure))
    sampled[unsure] = resample_stretches(sampled[unsure], wanted[unsure], begin, SWEEPS)
    certain = wanted.max(axis=1) == 1.0
    sampled[certain] = wanted.argmax(axis=1)[certain, None]
    resampled.values[:, place] = sampled.T
    return drawn.assign(label=resampled)


def pooled(
    results: Mapping[str, xr.DataTree], weights: Array, labels: xr.Dataset
) -> xr.Dataset | None:
    """Return draws of the mixture of results with average ``labels``, None if one stores no draws.

    Draws of results without parameters (vote shares) are independent.
    """
    items, classes = labels["item"], labels["class"]
    rng = np.random.default_rng(fingerprint.seed_of(labels["probability"].mean("item").values))
    number = _room_for(len(items))
    exact = np.round(number * np.asarray(weights), 6)  # whatever the last digits of equal weights
    shares = exact.astype(np.int64)
    shares[np.argsort(shares - exact, kind="stable")[: number - shares.sum()]] += 1
    parts = []
    for result, share in zip(results.values(), shares.tolist(), strict=True):
        posterior = (
            result["label_posterior"].dataset if "label_posterior" in result.children else labels
        )
        place = posterior.get_index("item").get_indexer(items.values)
        code = classes.to_index().get_indexer(posterior["class"].values)
        code = code.astype(smallest_integer(len(classes)))
        if not number or _dropped(result):
            return None
        if GROUP in result.children:
            drawn = stored(result)
            drawn = drawn[evenly_spaced(share, len(drawn))]
        elif "posterior" in result.children:
            return None
        else:
            drawn = independent(posterior["probability"], share, rng)
        in_order = np.array_equal(place, np.arange(drawn.shape[1]))
        parts.append(code[drawn if in_order else drawn[:, place]])
    mixed = rng.permutation(np.concatenate(parts))
    return as_draws(mixed, items.values, classes.values)


def stored(result: xr.DataTree) -> NDArray[Any]:
    """Return the joint draws of the labels (samples, items), or raise ModelError."""
    there = GROUP in require_result(result).children
    if not there or _dropped(result):
        got = "other draws" if there else f"groups {sorted(result.children)}"
        if "multiplicity" in constants(result):
            got = "counts, whose shares are bf.summary(result, ['prevalence'])"
            if "population_prevalence" in all_draws(result):
                got = "counts, whose shares are bf.summary(result, ['population_prevalence'])"
        raise ModelError(
            "bf.fit, bf.average, bf.fuse and bf.sample keep joint draws of the labels, for all "
            "draws of the parameters, but not on a graph, of counts or partitions, or of more than "
            f"{MOST // FEWEST:,} items: bf.draw_labels(result, model) draws others. Got: "
            f"{got}."
        )
    drawn = result[GROUP]["label"].transpose(..., "item").values
    return np.asarray(drawn.reshape(-1, drawn.shape[-1]))


def if_stored(result: xr.DataTree) -> NDArray[Any] | None:
    """Return the joint draws of the labels (samples, items), also on a graph; None without any."""
    has_draws = GROUP in require_result(result).children and not _dropped(result)
    return stored(result) if has_draws else None


def _dropped(result: xr.DataTree) -> bool:
    """Return whether a result no longer has the draws that its labels are of."""
    return "label_posterior" in result.children and not of_all_draws(result)


def names_of(result: xr.DataTree) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the names of the items and classes of joint draws."""
    return result[GROUP].dataset["item"].values, result["label_posterior"].dataset["class"].values
