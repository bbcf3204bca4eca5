"""Check the lengths of runs of one label in sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.checks.replicates import DRAWS, compare, expanded, place_among, replicate, verdict
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import require_count, require_kind
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.compatibility import observation_of

LONGEST = 12
"""Runs of this length and longer are counted together."""


def runs(
    result: xr.DataTree,
    model: pm.Model,
    sequences: Sequences | None = None,
    *,
    longest: int = LONGEST,
    draws: int = DRAWS,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    """Check how long majority labels stay the same, against replicated data.

    In data replicated from a model of independent items, majority labels change too often. A Markov
    chain may also fail: its runs have geometric lengths.

    Parameters
    ----------
    result, model, draws, ci_prob, random_seed
        As in :func:`bayesfuse.checks.pairwise_agreement`.
    sequences : Sequences, optional
        For models without sequences. Default the model's own.
    longest : int, default 12
        Runs of this length and longer are counted together.

    Returns
    -------
    Dataset, dims (length,)
        Runs of one majority label per item, by length (the last entry: that length or more):
        ``observed``, ``replicated`` (mean), ``low``, ``high``, ``p_value`` and ``unusual``.
        Attributes: ``observed`` and ``replicated``, the share of consecutive items with the same
        majority label and the mean of its replications; ``p_value`` of the former among the latter
        (two-sided); ``verdict``. Ties go to the first class, in the data as in replications; items
        without responses are skipped.

    Raises
    ------
    ModelError
        No sequences, neither given nor in the model; a result of another model; a table of counts.
    ResponsesError
        Sequences of other items.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> answers = [[0, 0, 0]] * 20 + [[1, 1, 1]] * 20
    >>> model = bf.models.DawidSkene(bf.Responses.from_matrix(answers))
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.checks.runs(result, model, bf.Sequences.from_lengths([40]), random_seed=1)
    >>> found.attrs["p_value"] < 0.05
    True
    """
    require_count("longest", longest)
    observation = expanded(observation_of(result, model))
    sequences = observation.known_by("sequences", sequences, "Runs need sequences")
    require_kind("sequences", sequences, Sequences)
    place, first = _order(observation.responses, sequences)

    def by_length(responses: Responses) -> Array:
        return _count(responses, place, first, longest)

    seen, others = replicate(by_length, result, model, observation, draws, random_seed)
    found = compare(
        seen,
        others,
        {"length": np.arange(1, longest + 1)},
        "length",
        total=np.full(longest, float(len(place))),
        ci_prob=ci_prob,
    )
    # items that begin no run have the label of the one before
    n_items, followers = len(place), max(int((~first).sum()), 1)
    same = place_among(
        (n_items - seen.sum()) / followers, (n_items - others.sum(axis=1)) / followers
    )
    said = (
        f"{same['observed']:.1%} of consecutive items have the same majority label (expected "
        f"{same['replicated']:.1%})"
    )
    change = "labels change {} often than the model expects"
    found.attrs = same | {
        "verdict": verdict(said, same, more=change.format("less"), less=change.format("more"))
    }
    return found


def _order(
    responses: Responses, sequences: Sequences
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the items with responses in order, and which of them begin a sequence."""
    place = sequences.places(responses)
    number = np.repeat(np.arange(sequences.n_sequences), sequences.lengths)
    answered = responses.per_item[place] > 0
    place, number = place[answered], number[answered]
    return place, np.append(True, number[1:] != number[:-1])


def _count(
    responses: Responses, place: NDArray[np.int64], first: NDArray[np.bool_], longest: int
) -> Array:
    """Count runs of one majority label by length."""
    majority = responses.votes().argmax(axis=1)[place]
    new = first.copy()
    new[1:] |= majority[1:] != majority[:-1]
    length = np.diff(np.append(np.flatnonzero(new), len(new)))
    counts = np.bincount(np.minimum(length, longest), minlength=longest + 1)[1:]
    return counts.astype(float)
