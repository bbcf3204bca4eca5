"""Joint labels of all items: the most probable ones, posterior draws, and their spans and runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_python, shown
from bayesfuse.data.gold_tables import Names, read_gold
from bayesfuse.data.names import listed, storable
from bayesfuse.data.sequences import Sequences
from bayesfuse.data.tags import Tag, read_tags
from bayesfuse.errors import (
    ModelError,
    ResponsesError,
    require_choice,
    require_count,
    require_kind,
    require_seed,
)
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import interruptible
from bayesfuse.results import joint_labels
from bayesfuse.results.compatibility import central, evenly_spaced_rows, observation_of, parameters
from bayesfuse.results.contents import evenly_spaced, responses_of, sequences_of, stored_label_draws


@explains_keywords
def decode(result: xr.DataTree, model: pm.Model | None = None) -> xr.DataArray:
    """Return the jointly most probable labels, at the posterior mean of the parameters.

    For labels in sequence this is the Viterbi path. On a graph it is approximated by iterated
    conditional modes. Inferred groups of raters are the most frequent ones.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample`` or ``bf.find_map``, or its posterior alone, with a model of new items.
    model : pymc.Model, optional
        The model of the result. Needed for what results do not store: a graph, covariates, a
        classifier, populations of sequences, silence, stated probabilities, factors of your own.

    Returns
    -------
    DataArray, dims (item,)
        Class names. The attribute ``method`` says how they were found.

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
    observation = observation_of(result, model)
    rows = observation.rows(central(observation, parameters(result, model)))
    likelihood, _ = observation.likelihood(rows)
    labels = observation.labels.decode(
        observation.label_tables(rows), likelihood, observation.label_structure
    )
    if labels.min() < 0:
        observation.require_possible_at(rows)
    responses, gold = observation.responses, observation.table_gold
    names = observation.by_item(responses.classes[np.where(gold >= 0, gold, labels)])
    how = {"method": observation.labels.words.decoding}
    return xr.DataArray(names, {"item": responses.items}, ("item",), name="label", attrs=how)


@explains_keywords
@interruptible
def draw_labels(
    result: xr.DataTree, model: pm.Model | None = None, draws: int = 200, *, random_seed: Any = None
) -> xr.DataArray:
    """Draw all labels jointly from their posterior, parameters integrated out.

    Draws are for functions of several labels (spans, runs, changes); for single items
    ``bf.label_probabilities`` is more precise.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit``, ``bf.average`` or ``bf.fuse``; with a model also from
        ``bf.find_map`` (then all draws have the same parameters).
    model : pymc.Model, optional
        The model of the result, to draw labels anew. Default: draws that the result keeps.
    draws : int, default 200
    random_seed : int, Generator, optional

    Returns
    -------
    DataArray, dims (draw, item)
        Indices of classes, whose names are in the attribute ``classes``.

    Raises
    ------
    ModelError
        A result of another model, without parameters, or without so many draws; a table of counts.

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
        stored_draws = joint_labels.stored(result)
        if draws > len(stored_draws):
            raise ModelError(
                "A result has a limited number of joint draws of the labels: bf.draw_labels(result,"
                f" model) draws more. Got: draws={draws}, and {len(stored_draws)} in the result."
            )
        return _draws(
            stored_draws[evenly_spaced(draws, len(stored_draws))], *joint_labels.names_of(result)
        )
    observation = observation_of(result, model)
    responses = observation.responses
    if not responses.is_unweighted:
        raise ModelError(
            "Labels are drawn item by item, but a row of a table of counts stands for several "
            "items: build the model with responses.expand(). Got: a table of counts."
        )
    if (moved := stored_label_draws(result)) is not None:
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


@explains_keywords
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
        From :func:`draw_labels` or :func:`decode`, or a result with joint draws of the labels.
    sequences : Sequences, optional
        Default: those of the result.
    scheme : {"bio", "runs"}
        Tags, read as in the CoNLL evaluation (I-X begins a span if no X precedes; B and I are of
        kind ""), or runs: a span is a maximal run of one class.
    outside : object, default "O"
        Name of the class outside all spans; with "runs", None for runs of all classes.

    Returns
    -------
    DataFrame
        Columns sequence, start, stop (zero-based, ``stop`` excluded), kind, probability (the share
        of draws with exactly this span), overlap (the mean share of its items in a span of the
        kind) and chosen (among the spans without overlap that have the largest expected F1).

    Raises
    ------
    ModelError
        Labels of other items; with scheme "bio", classes not named O, B-X or I-X, B or I.

    Examples
    --------
    >>> import bayesfuse as bf, xarray as xr
    >>> path = xr.DataArray(["O", "B-X", "I-X", "O", "B-X"], {"item": range(5)}, ["item"])
    >>> bf.spans(path, bf.Sequences.from_lengths([4, 1]))
       sequence  start  stop kind  probability  overlap  chosen
    0         0      1     3    X          1.0      1.0    True
    1         1      0     1    X          1.0      1.0    True
    """
    tagged = read_tagged(labels, sequences, scheme, outside)
    runs, often = np.unique(tagged.every_run()[0], axis=0, return_counts=True)
    codes, sequences = tagged.codes, tagged.sequences
    start, stop, kind = runs.T
    sequence = np.searchsorted(sequences.start, start, side="right") - 1
    begin = sequences.start[sequence]
    probability, overlap = often / len(codes), np.empty(len(runs))
    for number in range(len(tagged.kinds)):
        of_kind = kind == number
        share = (tagged.kind_of[codes] == number).mean(axis=0)
        up_to = np.append(0.0, share.cumsum())
        overlap[of_kind] = (up_to[stop] - up_to[start])[of_kind] / (stop - start)[of_kind]
    return pd.DataFrame(
        {
            "sequence": sequences.names[sequence],
            "start": start - begin,
            "stop": stop - begin,
            "kind": np.array(tagged.kinds, dtype=object)[kind],
            "probability": probability,
            "overlap": overlap.clip(0.0, 1.0),
            "chosen": _largest_f1(start, stop, probability),
        }
    )


def _largest_f1(
    start: NDArray[np.int64], stop: NDArray[np.int64], probability: Array
) -> NDArray[np.bool_]:
    """Return the set of spans without overlap that has the largest expected F1.

    Expected F1 is taken as 2 Σ p / (number reported + number expected). Its maximum is where spans
    maximise Σ (2 p − F1) (Dinkelbach 1967), computed from left to right.
    """
    order = np.lexsort((start, stop))
    before = np.searchsorted(stop[order], start[order], side="right")
    chosen, f1 = np.zeros(len(start), dtype=bool), 0.0
    while True:
        best = [0.0]
        for gain, n_before in zip((2 * probability - f1)[order], before, strict=True):
            best.append(max(best[-1], best[n_before] + gain))
        is_chosen, at = np.zeros(len(start), dtype=bool), len(order)
        while at:
            taken = best[at] > best[at - 1]
            is_chosen[order[at - 1]] = taken
            at = before[at - 1] if taken else at - 1
        now = 2 * probability[is_chosen].sum() / max(is_chosen.sum() + probability.sum(), 1.0)
        if now <= f1:
            return chosen
        chosen, f1 = is_chosen, now


class Tagged(NamedTuple):
    """Class indices (draws, items) in the order of sequences, and which spans classes mark.

    ``kind_of`` has the kind of span of every class, −1 outside, and ``begins`` whether it begins
    one; their last entries are those of items without a label.
    """

    codes: NDArray[np.int64]
    classes: list[Any]
    sequences: Sequences
    kind_of: NDArray[np.int64]
    begins: NDArray[np.bool_]
    kinds: list[Any]

    def runs(self, row: NDArray[Any]) -> NDArray[np.int64]:
        """Return the runs (start, stop, kind) of one labelling."""
        kind, new = self.kind_of[row], self.begins[row]
        new[self.sequences.start[:-1]] = True
        new[1:] |= kind[1:] != kind[:-1]
        start = np.flatnonzero(new)
        stop = np.append(start[1:], len(row))
        return np.stack([start, stop, kind[start]], axis=1)[kind[start] >= 0]

    def every_run(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the runs of all draws, and the draw of each."""
        drawn = list(map(self.runs, self.codes))
        return np.concatenate(drawn), np.repeat(np.arange(len(drawn)), list(map(len, drawn)))


def read_tagged(labels: Any, sequences: Any, scheme: str, outside: Any) -> Tagged:
    """Read the arguments of :func:`spans`; of the truth as a mapping, whole sequences alone."""
    require_choice("scheme", scheme, "bio", "runs")
    if isinstance(labels, xr.DataTree):
        if sequences is None:
            sequences = sequences_of(labels, responses_of(labels))
        drawn = joint_labels.stored(labels)
        labels = _draws(drawn, *joint_labels.names_of(labels))
    elif isinstance(labels, Mapping | pd.Series | pd.DataFrame):  # such as the truth
        require_kind("sequences", sequences, Sequences)
        known = pd.Series(read_gold(labels, Names(sequences.items, np.array([]))))
        rows = pd.DataFrame({"item": known.index, "label": known.to_numpy()})
        known = known[~rows.duplicated().to_numpy()]
        if isinstance(labels, pd.Series) and known.index.has_duplicates:
            item = known.index[known.index.duplicated()][0]
            raise ResponsesError(
                f"An item has one true class. Got: labels {shown(known[item])} for item "
                f"{as_python(item)!r}."
            )
        if not known.index.has_duplicates:  # as a table of responses has
            sequences = _fully_known(sequences, known)
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
    codes = labels.transpose(..., "item").values.reshape(-1, len(place))[:, place]
    if "classes" in labels.attrs:
        classes = list(labels.attrs["classes"])
    else:
        numbers, classes = pd.factorize(codes.ravel(), sort=True)
        codes, classes = numbers.reshape(codes.shape), classes.tolist()
    if scheme == "runs":
        tags = [Tag(None if name == outside else name, False) for name in classes]
        kinds = [name for name in classes if name != outside]
    else:
        tags = read_tags(classes, outside)
        kinds = sorted({tag.kind for tag in tags if tag.kind is not None})
    kind_of = np.array([-1 if tag.kind is None else kinds.index(tag.kind) for tag in tags] + [-1])
    begins = np.array([tag.begins for tag in tags] + [False])
    return Tagged(codes, classes, sequences, kind_of, begins, kinds)


def any_fully_known(sequences: Sequences, items: Iterable[Any]) -> bool:
    """Return whether all items of some sequence are among ``items``."""
    return bool(_is_fully_known(sequences, list(items)).any())


def _is_fully_known(sequences: Sequences, items: Any) -> Any:
    return np.logical_and.reduceat(np.isin(sequences.items, items), sequences.start[:-1])


def _fully_known(sequences: Sequences, known: pd.Series) -> Sequences:
    """Return the sequences of which all labels are known, all of them if there is none."""
    is_known = _is_fully_known(sequences, known.index)
    if is_known.all() or not is_known.any():
        return sequences
    items, names = (
        sequences.items[np.repeat(is_known, sequences.lengths)],
        sequences.names[is_known],
    )
    return Sequences.from_lengths(sequences.lengths[is_known], items=items, names=listed(names))
