"""Joint labels of all items: the most probable ones, posterior draws, and their spans and runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.names import listed, storable
from bayesfuse.data.sequences import Sequences
from bayesfuse.data.tables import Names, read_gold
from bayesfuse.data.tags import read_tags
from bayesfuse.errors import ModelError, require_count, require_kind, require_seed, takes_seed
from bayesfuse.numerics.kernels import Array
from bayesfuse.results import joint_labels
from bayesfuse.results.compatibility import central, evenly_spaced_rows, observation_of, parameters
from bayesfuse.results.contents import (
    averaged_models,
    evenly_spaced,
    kept_labels,
    one_of,
    responses_of,
    sequences_of,
)


def decode(result: xr.DataTree, model: pm.Model | None = None) -> xr.DataArray:
    """Return the jointly most probable labels, at the posterior mean of the parameters.

    For labels in sequence this is the Viterbi path. On a graph it is approximated by iterated
    conditional modes from several starts (attribute ``method``). Inferred groups of raters have no
    mean: the most frequent assignment is used, with the mean of the other parameters given it.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample`` or ``bf.find_map``. For new items of the same raters the posterior alone,
        ``xr.DataTree(children={"posterior": result["posterior"]})``, with a model of those items.
    model : pymc.Model, optional
        The model of the result. Needed for what results do not store: a graph, covariates, a
        classifier, populations of sequences, silence, stated probabilities, factors of your own.

    Returns
    -------
    DataArray, dims (item,)
        Class names.

    Raises
    ------
    ModelError
        A result without parameters, or of another model; an average of models.
    ImpossibleDataError
        The responses of a unit have probability zero.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> answers = [[0, 0, 0], [0, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 0], [1, 1, 1]]
    >>> responses, path = bf.Responses.from_matrix(answers), bf.Sequences.from_lengths([6])
    >>> bf.decode(bf.find_map(bf.models.HiddenMarkov(responses, path))).values.tolist()
    [0, 0, 0, 1, 1, 1]
    """
    if several := averaged_models(result):
        raise ModelError(
            "An average of models has no jointly most probable labels: fused.labels() has the most "
            "probable one of every item, bf.spans(fused) spans with their probability, and "
            f"bf.decode({one_of(result)}) the path of one model. Got: an average of {several}."
        )
    observation = observation_of(result, model)
    rows = observation.rows(central(observation, parameters(result, model)))
    likelihood, _ = observation.likelihood(rows)
    labels = observation.labels.decode(
        observation.label_tables(rows), likelihood, observation.label_structure
    )
    if labels.min() < 0:
        observation.require_possible_at(rows)
    responses = observation.responses
    names = observation.by_item(responses.classes[labels])
    how = {"method": observation.labels.words.decoding}
    return xr.DataArray(names, {"item": responses.items}, ("item",), name="label", attrs=how)


@takes_seed
def draw_labels(
    result: xr.DataTree, model: pm.Model | None = None, draws: int = 200, *, random_seed: Any = None
) -> xr.DataArray:
    """Draw all labels jointly from their posterior, parameters integrated out.

    Without a model these are draws that the result keeps (group ``label_draws``), evenly spaced.
    With it, labels are drawn given the parameters of evenly spaced posterior draws; on a graph they
    are those drawn with the parameters, if stored. Draws are for functions of several labels
    (spans, runs, changes); for single items ``bf.label_probabilities`` is more precise.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit``, ``bf.average`` or ``bf.fuse``; with a model also from
        ``bf.find_map`` (then all draws have the same parameters).
    model : pymc.Model, optional
        The model of the result. Needed if the result keeps no labels, or too few.
    draws : int, default 200
        Number of draws; memory holds draws × items bytes (for up to 128 classes).
    random_seed : int, Generator, optional

    Returns
    -------
    DataArray, dims (draw, item)
        Indices of classes, whose names are in the attribute ``classes``.

    Raises
    ------
    ModelError
        A result without parameters, or of another model; fewer than one draw; a table of counts.
        Without a model, a result that does not keep so many draws.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> labels = bf.draw_labels(bf.find_map(model), model, 10, random_seed=1)
    >>> labels.sel(item=1).values.tolist(), labels.attrs["classes"]
    ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [1, 2, 3, 4])
    """
    require_count("draws", draws)
    rng = require_seed(random_seed)
    if model is None:
        kept = joint_labels.stored(result)
        if draws > len(kept):
            raise ModelError(
                "A result has a limited number of joint draws of the labels: bf.draw_labels(result,"
                f" model) draws more. Got: draws={draws}, and {len(kept)} draws in the result."
            )
        return _draws(kept[evenly_spaced(draws, len(kept))], *joint_labels.names_of(result))
    observation = observation_of(result, model)
    responses = observation.responses
    if not responses.is_plain:
        raise ModelError(
            "Labels are drawn item by item, but a row of a table of counts stands for several "
            "items: build the model with responses.expand(). Got: a table of counts."
        )
    if (moved := kept_labels(result)) is not None:
        flat = moved.reshape(-1, responses.n_items)
        return _draws(flat[evenly_spaced(draws, len(flat))], responses.items, responses.classes)
    points = evenly_spaced_rows(result, model, observation, draws)
    labels = joint_labels.draw_all(observation, points, draws, rng)
    return _draws(labels, responses.items, responses.classes)


def _draws(labels: NDArray[Any], items: NDArray[Any], classes: NDArray[Any]) -> xr.DataArray:
    """Return drawn labels (draws, items) with their coordinates."""
    return xr.DataArray(
        labels,
        {"draw": np.arange(len(labels)), "item": items},
        ("draw", "item"),
        name="label",
        attrs={"classes": storable(classes)},
    )


def spans(
    labels: xr.DataArray | xr.DataTree,
    sequences: Sequences | None = None,
    *,
    scheme: Literal["bio", "runs"] = "bio",
    outside: Any = "O",
) -> pd.DataFrame:
    """Return the spans of labels in sequences, with their posterior probability.

    Parameters
    ----------
    labels : DataArray, dims (draw, item) or (item,), or DataTree
        From :func:`draw_labels` or :func:`decode` (all other dimensions count as draws), or a
        result that keeps joint draws of the labels.
    sequences : Sequences, optional
        Default: those of the result.
    scheme : {"bio", "runs"}
        "bio": B-X begins a span of kind X, I-X continues it (or begins one if no X precedes, as in
        the CoNLL evaluation); B and I are of kind "". "runs": a span is a maximal run of one class.
    outside : object, default "O"
        Name of the class outside all spans.

    Returns
    -------
    DataFrame
        Columns sequence, start, stop (zero-based positions, ``stop`` excluded), kind, probability
        (the share of draws with exactly this span), overlap (the mean share of its items that are
        in a span of the kind) and chosen (whether it is in the set of spans, none of which overlap,
        with the largest expected F1: where no span is certain, those of probability above one half
        are too few), in the order of the sequences.

    Raises
    ------
    ModelError
        Labels of other items; with scheme "bio", classes not named O, B-X or I-X, B or I.

    Examples
    --------
    >>> import bayesfuse as bf, xarray as xr
    >>> sequences = bf.Sequences.from_lengths([4, 2])
    >>> path = xr.DataArray(["O", "B-X", "I-X", "O", "B-X", "B-X"], {"item": range(6)}, ["item"])
    >>> bf.spans(path, sequences)
       sequence  start  stop kind  probability  overlap  chosen
    0         0      1     3    X          1.0      1.0    True
    1         1      0     1    X          1.0      1.0    True
    2         1      1     2    X          1.0      1.0    True
    """
    codes, classes, sequences = in_order(labels, sequences)
    kind_of, begins, kinds = span_kinds(classes, scheme, outside)
    found, often = _count_runs(codes, sequences, kind_of, begins)
    start, stop, kind = found.T
    sequence = np.searchsorted(sequences.start, start, side="right") - 1
    begin = sequences.start[sequence]
    probability, overlap = often / len(codes), np.empty(len(found))
    for number in range(len(kinds)):
        own = kind == number
        share = (kind_of[codes] == number).mean(axis=0)
        up_to = np.append(0.0, share.cumsum())
        overlap[own] = (up_to[stop] - up_to[start])[own] / (stop - start)[own]
    return pd.DataFrame(
        {
            "sequence": sequences.names[sequence],
            "start": start - begin,
            "stop": stop - begin,
            "kind": np.array(kinds, dtype=object)[kind],
            "probability": probability,
            "overlap": overlap.clip(0.0, 1.0),
            "chosen": _largest_f1(start, stop, probability),
        }
    )


def _largest_f1(
    start: NDArray[np.int64], stop: NDArray[np.int64], probability: Array
) -> NDArray[np.bool_]:
    """Return which spans, none of which overlap, have the largest expected F1.

    F1 is taken as a ratio of expectations, 2 Σ p / (number reported + number expected), and largest
    for the spans of Σ (2 p − F1) as large as can be (Dinkelbach 1967), found from left to right.
    """
    order = np.lexsort((start, stop))
    before = np.searchsorted(stop[order], start[order], side="right")
    chosen, f1 = np.zeros(len(start), dtype=bool), 0.0
    while True:
        best = [0.0]
        for gain, apart in zip((2 * probability - f1)[order], before, strict=True):
            best.append(max(best[-1], best[apart] + gain))
        kept, at = np.zeros(len(start), dtype=bool), len(order)
        while at:
            taken = best[at] > best[at - 1]
            kept[order[at - 1]] = taken
            at = before[at - 1] if taken else at - 1
        now = 2 * probability[kept].sum() / max(kept.sum() + probability.sum(), 1.0)
        if now <= f1:
            return chosen
        chosen, f1 = kept, now


def run_lengths(
    labels: xr.DataArray | xr.DataTree, sequences: Sequences | None = None
) -> pd.DataFrame:
    """Return the expected number of runs of one class, by class and length.

    Parameters
    ----------
    labels, sequences
        As in :func:`spans`.

    Returns
    -------
    DataFrame
        Columns class, length and runs (per draw, over all sequences). Runs end with their sequence.

    Raises
    ------
    ModelError
        Labels of other items.

    Examples
    --------
    >>> import bayesfuse as bf, xarray as xr
    >>> path = xr.DataArray(list("aabaa"), {"item": range(5)}, ["item"])
    >>> bf.run_lengths(path, bf.Sequences.from_lengths([5]))
      class  length  runs
    0     a       2   2.0
    1     b       1   1.0
    """
    codes, classes, sequences = in_order(labels, sequences)
    every = np.arange(len(classes))
    found, often = _count_runs(codes, sequences, every, np.zeros(len(classes), dtype=bool))
    table = pd.DataFrame(
        {"class": found[:, 2], "length": found[:, 1] - found[:, 0], "runs": often / len(codes)}
    )
    table = table.groupby(["class", "length"], as_index=False)["runs"].sum()
    table["class"] = np.array(classes, dtype=object)[table["class"]]
    return table


def in_order(labels: Any, sequences: Any) -> tuple[NDArray[np.int64], list[Any], Sequences]:
    """Return class indices (draws, items) in the order of the sequences, class names, sequences."""
    if isinstance(labels, xr.DataTree):
        if sequences is None:
            sequences = sequences_of(labels, responses_of(labels))
        drawn = joint_labels.stored(labels)
        labels = _draws(drawn, *joint_labels.names_of(labels))
    elif isinstance(labels, Mapping | pd.Series | pd.DataFrame):  # such as the truth
        require_kind("sequences", sequences, Sequences)
        known = pd.Series(read_gold(labels, Names(sequences.items, np.array([]))))
        if not known.index.has_duplicates:
            sequences = _known_whole(sequences, known)
            known = known[known.index.isin(sequences.items)]
            labels = xr.DataArray(known.to_numpy(), {"item": known.index.to_numpy()}, ["item"])
    require_kind("labels", labels, xr.DataArray)
    require_kind("sequences", sequences, Sequences)
    place = pd.Index(labels["item"].values).get_indexer(pd.Index(sequences.items))
    if len(place) != labels.sizes["item"] or place.min() < 0:
        raise ModelError(
            "Labels and sequences must be of the same items. Got: labels of "
            f"{labels.sizes['item']} items, {int((place >= 0).sum())} of them among the "
            f"{len(place)} of the sequences."
        )
    values = labels.transpose(..., "item").values.reshape(-1, len(place))
    if "classes" in labels.attrs:
        return values[:, place], list(labels.attrs["classes"]), sequences
    codes, names = pd.factorize(values.ravel(), sort=True)
    return codes.reshape(values.shape)[:, place], names.tolist(), sequences


def _known_whole(sequences: Sequences, known: pd.Series) -> Sequences:
    """Return the sequences of which all labels are known, all of them if there is none."""
    whole = np.logical_and.reduceat(np.isin(sequences.items, known.index), sequences.start[:-1])
    if whole.all() or not whole.any():
        return sequences
    items, names = sequences.items[np.repeat(whole, sequences.lengths)], sequences.names[whole]
    return Sequences.from_lengths(sequences.lengths[whole], items=items, names=listed(names))


def span_kinds(classes: list[Any], scheme: str, outside: Any) -> tuple[Any, Any, list[Any]]:
    """Return the kind of span of every class (−1 outside), whether it begins one, and all kinds."""
    if scheme not in ("bio", "runs"):
        raise ModelError(f"scheme must be 'bio' or 'runs'. Got: {scheme!r}.")
    if scheme == "runs":
        kinds = [name for name in classes if name != outside]
        kind_of = [kinds.index(name) if name != outside else -1 for name in classes]
        return np.array(kind_of), np.zeros(len(classes), dtype=bool), kinds
    tags = read_tags(classes, outside)
    names = sorted({tag.kind for tag in tags if tag.kind is not None})
    number = [-1 if tag.kind is None else names.index(tag.kind) for tag in tags]
    return np.array(number), np.array([tag.begins for tag in tags]), names


def _count_runs(
    codes: NDArray[Any], sequences: Sequences, kind_of: NDArray[np.int64], begins: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct runs (start, stop, kind) over all draws and the count of each."""
    found = [runs_of(row, sequences, kind_of, begins) for row in codes]
    return np.unique(np.concatenate(found), axis=0, return_counts=True)


def runs_of(
    row: NDArray[Any], sequences: Sequences, kind_of: NDArray[np.int64], begins: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the runs (start, stop, kind) of one labelling, items in the order of sequences.

    Items without a label have the last code, of no kind.
    """
    kind = kind_of[row]
    new = begins[row].copy()
    new[sequences.start[:-1]] = True
    new[1:] |= kind[1:] != kind[:-1]
    start = np.flatnonzero(new)
    stop = np.append(start[1:], len(row))
    return np.stack([start, stop, kind[start]], axis=1)[kind[start] >= 0]
