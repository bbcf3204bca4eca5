"""Errors that raters repeat on the next item, against independent errors of the same model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.sequences import consecutive_rows
from bayesfuse.data.tags import mark_spans
from bayesfuse.errors import PoorFitWarning, warn
from bayesfuse.labels.chain import MarkovChain
from bayesfuse.numerics.kernels import TINY, Array
from bayesfuse.observation import ChunkedResponseModel, LogParameters, ResponseModel
from bayesfuse.results.compatibility import evenly_spaced_rows

DRAWS = 20  # posterior draws of a fit's warning
MIN_Z = 4.0  # standard deviations by which errors are repeated more often than the model expects
MIN_FACTOR = 1.25
"""How many times as often, at least: it was 1.5 to 2 on nights of sleep, and .8 to 1.15 where
errors were independent."""


def repeated_errors(
    observation: ResponseModel, points: Iterable[LogParameters], rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return by draw the share of a rater's errors that follow one on the item before.

    Labels are drawn given the responses at every point; the second array is of responses drawn
    given the same labels.
    """
    responses, gold = observation.responses, observation.gold
    sequences = observation.known_by("sequences", None, "Errors go on")
    later, earlier = consecutive_rows(sequences, responses)
    shares = []
    for rows in points:
        states: Any = observation.by_item(observation.draw(rows, rng))
        classes = observation.classes_of(states, gold, rng)[responses.item]
        channel, _ = observation.channel_at(rows)
        drawn = channel.simulate(observation.tables(rows), states, responses, rng)
        wrong = responses.label != classes, drawn != classes
        shares.append(tuple(_share_repeated(errors, earlier, later) for errors in wrong))
    observed, replicated = np.array(shares).T
    return observed, replicated


def _share_repeated(
    wrong: NDArray[np.bool_], earlier: NDArray[np.int64], later: NDArray[np.int64]
) -> float:
    return float((wrong[earlier] & wrong[later]).sum() / max(int(wrong[earlier].sum()), 1))


def compare_repeats(observation: ResponseModel, observed: Array, replicated: Array) -> xr.Dataset:
    """Return the shares by draw, and in the attributes their means, p-value and verdict."""
    share, expected = float(observed.mean()), float(replicated.mean())
    spread = max(float(np.hypot(observed.std(), replicated.std())), TINY)
    factor = share / max(expected, TINY)
    goes_on = (share - expected) / spread > MIN_Z and factor > MIN_FACTOR
    above = 1 + np.count_nonzero(replicated >= observed)
    text = (
        f"After {share:.0%} of their errors, raters err again on the next item (expected "
        f"{expected:.0%}): "
    )
    if not goes_on:
        text += "no evidence against the model."
    elif observation.labels.class_of_state is not None:
        text += "errors go on, which is no further evidence on the classes in this model."
    else:
        # chains of types do not know which tags may follow another
        other = "sequential" if mark_spans(observation.responses.classes.tolist()) else "types"
        text += (
            "errors go on, and a chain of classes takes them for the truth. Do not trust its "
            "probabilities: use bf.fuse(responses, sequences=sequences), which weighs the order "
            f'by its use, or bayesfuse.models.HiddenMarkov(raters="{other}").'
        )
    return xr.Dataset(
        {"observed": ("draw", observed), "replicated": ("draw", replicated)},
        attrs={
            "observed": share,
            "replicated": expected,
            "p_value": float(min(1.0, above / (1 + len(observed)))),
            "goes_on": bool(goes_on),
            "verdict": text,
        },
    )


def has_chain_of_classes(observation: Any) -> bool:
    """Return whether labels of one table are a Markov chain of classes."""
    if isinstance(observation, ChunkedResponseModel):
        return False
    labels = observation.labels
    return isinstance(labels, MarkovChain) and labels.class_of_state is None


def warn_of_repeated_errors(result: xr.DataTree, model: Any, observation: Any) -> None:
    """Warn the caller of a fit if raters' errors go on in a chain of classes."""
    if not has_chain_of_classes(observation) or not observation.responses.is_unweighted:
        return
    points = evenly_spaced_rows(result, model, observation, DRAWS)
    shares = repeated_errors(observation, points, np.random.default_rng(0))
    compared = compare_repeats(observation, *shares)
    if compared.attrs["goes_on"]:
        warn(compared.attrs["verdict"], PoorFitWarning)
