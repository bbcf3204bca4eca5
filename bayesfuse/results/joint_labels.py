"""Joint draws of the labels of all items, kept in results so that later questions need no model."""

from __future__ import annotations

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
from bayesfuse.numerics.kernels import Array, kernel
from bayesfuse.observation import Observation, Rows, Spread
from bayesfuse.results.contents import evenly_spaced, of_all_draws, require_result, spaced_rows
from bayesfuse.results.posterior import OF_DRAWS

SAMPLES, FEWEST = 400, 50
"""Joint draws that a result keeps, and the number below which none are kept for lack of space."""

MOST = 40_000_000
"""Largest number of labels (draws × items) that a result keeps."""

GROUP, DIMS = "label_draws", ("sample", "item")
BETWEEN = 10  # sweeps between draws of labels from a Markov chain
SWEEPS = 10  # of iterative proportional fitting: see `reweighted`


def most_kept(observation: Observation) -> int | str:
    """Return how many joint draws of the labels are kept at most, or why there are none."""
    if isinstance(observation, Spread):
        return "the table is in partitions"
    if not observation.responses.is_plain:
        return "rows of a table of counts stand for several items (responses.expand())"
    if observation.labels.moves_labels:
        return "labels on a graph are drawn by sweeps"
    return _room_for(observation.responses.n_items)


def _room_for(n_items: int) -> int | str:
    room = MOST // max(n_items, 1)
    if room < FEWEST:
        return f"{FEWEST} draws of {n_items:,} labels exceed {MOST:,}"
    return min(SAMPLES, room)


def keep(result: xr.DataTree, observation: Observation, parameters: Mapping[str, Array]) -> None:
    """Add one joint draw of the labels for each of some evenly spaced draws of the parameters."""
    most = most_kept(observation)
    if isinstance(most, str):
        if GROUP not in result.children:
            result.attrs[GROUP] = f"not kept: {most}"
        return
    n_chains, n_draws = next(iter(parameters.values())).shape[:2]
    number = min(most, n_chains * n_draws)
    rng = np.random.default_rng(int(result["label_posterior"].attrs[OF_DRAWS], 16))
    labels = draw_all(observation, spaced_rows(observation, parameters, number), number, rng)
    responses = observation.responses
    result[GROUP] = as_draws(labels, responses.items, responses.classes)


def draw_all(
    observation: Observation, points: Iterable[Rows], number: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Draw the labels of all items (number, items), one draw for each point."""
    prior, responses = observation.labels, observation.responses
    structure, now = observation.full_structure, None
    labels = np.empty((number, responses.n_items), dtype=smallest_integer(responses.n_classes))
    for row, rows in zip(labels, points, strict=True):
        likelihood = observation.by_item(observation.likelihood(rows)[0])
        for _ in range(BETWEEN if prior.moves_labels else 1):
            now = prior.draw(observation.label_tables(rows), likelihood, structure, rng, now)
        row[:] = now
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
    small = smallest_integer(up_to.shape[1])
    drawn = [(rng.random((len(up_to), 1)) >= up_to).sum(axis=1) for _ in range(number)]
    return np.array(drawn, dtype=small).reshape(number, len(up_to))


def add_votes_in_sequence(
    shares: xr.DataTree, responses: Responses, sequences: Sequences, seed: int
) -> None:
    """Add joint draws to vote shares: the labels of one rater, drawn at random, by sequence.

    So spans are those of raters. Items that the rater did not label, and known ones, are drawn
    from their own shares. Of tags, the one more vote of the shares is that of a rater who does not
    look, by the shares of all labels, and in draws marks no span, which is the most frequent error.
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
    if isinstance(number := _room_for(responses.n_items), str):
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
        said = np.flatnonzero(unknown[item] & (rater == one[unit[item]]))[::-1]
        row[item[said]] = label[said]  # the first of several
        if missed:
            row[unknown & ((chosen == size) & (size > 0))[unit]] = outside
    shares[GROUP] = as_draws(labels, responses.items, responses.classes)


def reweighted(drawn: xr.Dataset, labels: xr.Dataset, sequences: Sequences) -> xr.Dataset:
    """Return draws of labels in sequence as draws with other probabilities (item, class), about.

    The draws of a stretch, which ends where all draws agree, are weighted so that its labels have
    these probabilities, which changes the joint distribution least (iterative proportional
    fitting), and resampled systematically. Labels of probability one are set.
    """
    place = drawn.get_index("item").get_indexer(sequences.items)
    probability = labels["probability"].sel(item=drawn["item"]).transpose("item", "class")
    wanted = np.ascontiguousarray(probability.values[place])
    found = drawn["label"].transpose(*DIMS).copy()
    own = found.values[:, place].T.copy()  # (items, samples)
    unsure = np.flatnonzero((own != own[:, :1]).any(axis=1))
    first = np.append(True, np.diff(unsure) > 1)[: len(unsure)] | np.isin(unsure, sequences.start)
    begin = np.append(np.flatnonzero(first), len(unsure))
    own[unsure] = _fit_stretches(own[unsure], wanted[unsure], begin, SWEEPS)
    certain = wanted.max(axis=1) == 1.0
    own[certain] = wanted.argmax(axis=1)[certain, None]
    found.values[:, place] = own.T
    return drawn.assign(label=found)


@kernel
def _fit_stretches(labels, wanted, begin, sweeps):
    """Weight and resample the draws (items, samples) of every stretch: see ``reweighted``."""
    n_samples, n_classes = labels.shape[1], wanted.shape[1]
    found = labels.copy()
    weight, share = np.empty(n_samples), np.empty(n_classes)
    for stretch in range(len(begin) - 1):
        weight[:] = 1.0 / n_samples
        for _ in range(sweeps):
            for i in range(begin[stretch], begin[stretch + 1]):
                share[:] = 0.0
                for s in range(n_samples):
                    share[labels[i, s]] += weight[s]
                total = 0.0
                for k in range(n_classes):
                    total += wanted[i, k] if share[k] > 0.0 else 0.0
                if total > 0.0:  # labels that no draw has are left out
                    for s in range(n_samples):
                        k = labels[i, s]
                        if share[k] > 0.0:
                            weight[s] *= wanted[i, k] / (share[k] * total)
        at, up_to = 0, weight[0]
        for s in range(n_samples):
            while up_to < (s + 0.5) / n_samples and at < n_samples - 1:
                at += 1
                up_to += weight[at]
            for i in range(begin[stretch], begin[stretch + 1]):
                found[i, s] = labels[i, at]
    return found


def pooled(
    results: Mapping[str, xr.DataTree], weights: Array, labels: xr.Dataset
) -> xr.Dataset | str:
    """Return draws of the mixture of results, in proportion to weights, or why there are none.

    ``labels`` is the averaged label posterior. Labels of results without parameters (vote shares)
    are independent.
    """
    seed = int(fingerprint.of_arrays([labels["probability"].values]), 16)
    rng, items, classes = np.random.default_rng(seed), labels["item"], labels["class"]
    if isinstance(number := _room_for(len(items)), str):
        return f"not kept: {number}"
    exact = number * np.asarray(weights)
    shares = exact.astype(np.int64)
    shares[np.argsort(shares - exact, kind="stable")[: number - shares.sum()]] += 1
    parts = []
    for (name, result), share in zip(results.items(), shares.tolist(), strict=True):
        own = result["label_posterior"].dataset if "label_posterior" in result.children else labels
        place = own.get_index("item").get_indexer(items.values)
        code = classes.to_index().get_indexer(own["class"].values)
        if _dropped(result):
            return f"not kept: some draws of the parameters of {name!r} have been dropped"
        if GROUP in result.children:
            drawn = stored(result)
            drawn = drawn[evenly_spaced(share, len(drawn))]
        elif "posterior" not in result.children:
            drawn = independent(own["probability"], share, rng)
        else:
            return str(result.attrs.get(GROUP, f"not kept: there are none in {name!r}"))
        parts.append(code[drawn[:, place]])
    mixed = rng.permutation(np.concatenate(parts)).astype(smallest_integer(len(classes)))
    return as_draws(mixed, items.values, classes.values)


def stored(result: xr.DataTree) -> NDArray[Any]:
    """Return the joint draws of the labels (samples, items), or raise ModelError."""
    if GROUP not in require_result(result).children:
        why = result.attrs.get(GROUP, f"groups {sorted(result.children)}")
        raise ModelError(
            "bf.fit, bf.average, bf.fuse and bf.sample keep joint draws of the labels; "
            f"bf.draw_labels(result, model) draws others. Got: {why}."
        )
    if _dropped(result):
        raise ModelError(
            "Joint draws of the labels are of all draws of the parameters, some of which have been "
            "dropped from the result: bf.draw_labels(result, model) draws others. Got: other draws."
        )
    drawn = result[GROUP]["label"].transpose(..., "item").values
    return np.asarray(drawn.reshape(-1, drawn.shape[-1]))


def _dropped(result: xr.DataTree) -> bool:
    """Return whether a result no longer has the draws that its labels are of."""
    return "label_posterior" in result.children and not of_all_draws(result)


def names_of(result: xr.DataTree) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the names of the items and classes of joint draws."""
    return result[GROUP].dataset["item"].values, result["label_posterior"].dataset["class"].values
