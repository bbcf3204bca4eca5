"""Check whether raters' errors go on along sequences."""

from __future__ import annotations

from typing import Any

import pymc as pm
import xarray as xr

from bayesfuse.checks.predictive import DRAWS, expanded
from bayesfuse.errors import InapplicableError, require_count, require_seed
from bayesfuse.labels.chain import MarkovChain
from bayesfuse.results import error_runs as of_results
from bayesfuse.results.compatibility import evenly_spaced_rows, observation_of


def error_runs(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    draws: int = DRAWS,
    random_seed: Any = None,
) -> xr.Dataset:
    """Check how often raters err again on the next item, against replicated data.

    In a chain of classes, a rater's errors are independent given the classes. Raters of recordings,
    such as nights of sleep, often repeat an error on the next items, and a chain then takes it for
    the truth: its labels are overconfident, and may be worse than those without an order. Fits of
    :class:`bayesfuse.models.HiddenMarkov` with a chain of classes are checked automatically.

    Parameters
    ----------
    result, model, draws, random_seed : as in :func:`bayesfuse.checks.runs`

    Returns
    -------
    Dataset, dims (draw,)
        The share of the errors after which the rater errs again on the next item, with labels drawn
        given the responses: ``observed``, and ``replicated`` with responses drawn given the same
        labels. Attributes: their means ``observed`` and ``replicated``; the one-sided ``p_value``;
        whether errors go on by more than four standard deviations, and 1.25 times as often as
        expected (``goes_on``); ``verdict``.

    Raises
    ------
    bayesfuse.errors.InapplicableError
        A model without sequences.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0, 0], [1, 1, 1], [1, 1, 0], [0, 0, 0]] * 5)
    >>> path = bf.Sequences.from_lengths([20])
    >>> result = bf.find_map(bf.models.HiddenMarkov(responses, path, raters="confusion"))
    >>> bf.checks.error_runs(result, draws=20, random_seed=1).attrs["goes_on"]
    False
    """
    observation = expanded(observation_of(result, model))
    labels = observation.labels
    if not isinstance(labels, MarkovChain):
        raise InapplicableError(
            "Errors go on along sequences, so the model must have some. Got: a model of "
            f"{type(labels).__name__} labels."
        )
    require_count("draws", draws, least=2)
    points = evenly_spaced_rows(result, model, observation, draws)
    shares = of_results.repeated_errors(observation, points, require_seed(random_seed))
    return of_results.compare_repeats(observation, *shares)
