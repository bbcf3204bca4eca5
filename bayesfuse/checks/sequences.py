"""Whether labels follow each other as the model says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.checks.agreement import DRAWS
from bayesfuse.checks.replicates import compare, place_among, replicate, written_out
from bayesfuse.errors import ModelError
from bayesfuse.responses import Responses
from bayesfuse.simplex import Array
from bayesfuse.structure import Sequences

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
    """Check how long the raters' majority stays with a label, against replicated data.

    A model of independent items, fitted to sequences, replicates majorities that change too often.
    A Markov chain may still fail: its runs have a geometric length.

    Parameters
    ----------
    result, model, draws, ci_prob, random_seed
        As in :func:`bayesfuse.checks.pairwise_agreement`.
    sequences : Sequences, optional
        Which item follows which, for models that do not know. Default the model's own.
    longest : int, default 12
        Runs of this length and longer are counted together.

    Returns
    -------
    Dataset, dims (length,)
        Runs of one majority label by length (the last entry: that length or more): how many there
        are per item, ``observed``, ``replicated`` (mean), ``low``, ``high``, ``p_value`` and
        ``unusual``.
        Attributes: ``observed`` and ``replicated``, the share of neighbouring items with the same
        majority label and the mean of its replications; ``p_value``, where the former stands
        among the latter (two-sided); ``verdict``. Of tied labels the first class counts, in the
        data as in replications; items nobody answered are passed over.

    Raises
    ------
    ModelError
        Neither the model nor the caller knows sequences; a result of another model; a table of
        counts.
    ResponsesError
        Sequences of other items.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> answers = [[0, 0, 0]] * 20 + [[1, 1, 1]] * 20
    >>> model = DawidSkene(bf.Responses.from_matrix(answers))
    >>> result = bf.sample(model, draws=100, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.checks.runs(result, model, bf.Sequences.from_lengths([40]), random_seed=1)
    >>> found.attrs["p_value"] < 0.05
    True
    """
    observation = written_out(model)
    sequences = sequences or getattr(observation.labels, "sequences", None)
    if sequences is None:
        raise ModelError(
            "Runs need to know which item follows which: give sequences=. Got: a model of "
            f"{type(observation.labels).__name__} labels and none."
        )
    place, first = _order(observation.responses, sequences)
    seen, same = _count(observation.responses, place, first, longest)
    rng = np.random.default_rng(random_seed)
    counts, shares = [], []
    for each in replicate(result, model, observation, draws, rng):
        lengths, share = _count(each, place, first, longest)
        counts.append(lengths)
        shares.append(share)
    found = compare(
        seen,
        np.array(counts),
        {"length": np.arange(1, longest + 1)},
        "length",
        total=np.full(longest, float(len(place))),
        ci_prob=ci_prob,
    )
    p_value = place_among(same, np.array(shares))
    expected = float(np.mean(shares))
    found.attrs = {
        "observed": same,
        "replicated": expected,
        "p_value": p_value,
        "verdict": _in_words(same, expected, p_value),
    }
    return found


def _in_words(same: float, expected: float, p_value: float) -> str:
    said = f"{same:.1%} of neighbouring items have the same majority (expected {expected:.1%}): "
    if p_value > 0.05:
        return said + "nothing against the model."
    more = "stay with a label longer" if same > expected else "change more often"
    return said + f"labels {more} than the model expects."


def _order(
    responses: Responses, sequences: Sequences
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the answered items in order, and which of them begin a sequence."""
    place = sequences.places(responses)
    number = np.repeat(np.arange(sequences.n_sequences), sequences.lengths)
    answered = responses.per_item[place] > 0
    place, number = place[answered], number[answered]
    return place, np.append(True, number[1:] != number[:-1])


def _count(
    responses: Responses, place: NDArray[np.int64], first: NDArray[np.bool_], longest: int
) -> tuple[Array, float]:
    """Count runs by length, and the share of neighbours with the same majority label."""
    majority = responses.votes().argmax(axis=1)[place]
    new = first.copy()
    new[1:] |= majority[1:] != majority[:-1]
    length = np.diff(np.append(np.flatnonzero(new), len(new)))
    counts = np.bincount(np.minimum(length, longest), minlength=longest + 1)[1:]
    followers = max(int((~first).sum()), 1)
    return counts.astype(float), int((~new).sum()) / followers
