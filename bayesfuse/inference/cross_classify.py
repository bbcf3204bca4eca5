"""A classifier of items from their covariates, learned from the labels of other sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy
import xarray as xr

from bayesfuse.data.known import read_covariates
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, require_count, require_kind, require_positive
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.contents import responses_of
from bayesfuse.results.probabilities import label_probabilities

STEPS = 40  # of L-BFGS, from slopes of zero: stopped early, slopes are shrunk a little more


def cross_classify(
    result: xr.DataTree,
    covariates: Any,
    sequences: Sequences,
    *,
    folds: int = 5,
    slope_sd: float = 1.0,
) -> pd.DataFrame:
    """Return class probabilities of items from their covariates, by cross-fitting.

    The sequences are divided into folds. For each, a multinomial logistic regression is fitted to
    the label probabilities of all other folds, at the mode of slopes with normal priors. So no
    response to an item, or to others of its sequence, informs its probabilities, and a model may
    take them as evidence beside the responses. Time and memory are linear in the entries of a
    sparse matrix and in covariates × classes.

    Parameters
    ----------
    result : DataTree
        A fit of a model without the covariates.
    covariates : SciPy sparse matrix, DataFrame or array, shape (items, covariates)
        A DataFrame is indexed by item; other rows are in the order of ``responses.items``. Dense
        columns are standardised, sparse ones are taken as they are.
    sequences : Sequences
    folds : int, default 5
    slope_sd : float, default 1
        Standard deviation of the slopes' prior: how far an indicator changes log-odds.

    Returns
    -------
    DataFrame, shape (items, classes)
        For ``classifier=`` of :class:`bayesfuse.models.HiddenMarkov`.

    Raises
    ------
    ModelError, ResponsesError
        Fewer sequences than folds; covariates of other items, missing or infinite.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> from bayesfuse.models import HiddenMarkov
    >>> truth = np.array([0, 0, 1] * 20)
    >>> answers = np.random.default_rng(1).random((60, 3)) < np.where(truth, 0.7, 0.2)[:, None]
    >>> sequences = bf.Sequences.from_lengths([6] * 10)
    >>> result = bf.find_map(HiddenMarkov(bf.Responses.from_matrix(answers * 1), sequences))
    >>> found = bf.cross_classify(result, truth[:, None] + 0.0, sequences)
    >>> bool((found.to_numpy().argmax(axis=1) == truth).all())
    True
    """
    from scipy.sparse import csr_matrix, issparse  # slow to import

    require_kind("sequences", sequences, Sequences)
    require_count("folds", folds, least=2)
    slope_sd = require_positive("slope_sd", slope_sd)
    labels = label_probabilities(result)
    responses, probability = responses_of(result), labels.values
    if sequences.n_sequences < folds:
        raise ModelError(
            "Every fold needs a sequence. Got: "
            f"folds={folds} for {sequences.n_sequences} sequences."
        )
    if issparse(covariates):
        inputs = csr_matrix(covariates, dtype=float)
        if inputs.shape[0] != responses.n_items:
            raise ModelError(
                "A sparse matrix of covariates must have one row for each of the "
                f"{responses.n_items} items, in their order. Got: shape {inputs.shape}."
            )
    else:
        _, table = read_covariates(responses, covariates)
        spread = table.std(axis=0)
        inputs = csr_matrix((table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0))
    # what only one item has tells nothing of others
    inputs = inputs[:, np.bincount(inputs.indices, minlength=inputs.shape[1]) > 1]
    place = sequences.places(responses)
    fold = np.empty(len(place), dtype=np.int64)
    fold[place] = np.repeat(np.arange(sequences.n_sequences) % folds, sequences.lengths)
    found = np.empty_like(probability)
    for own in range(folds):
        other = fold != own
        offset = np.log(np.maximum(probability[other].mean(axis=0), np.finfo(float).tiny))
        slope = _slopes(inputs[other], probability[other], offset, slope_sd**-2)
        found[~other] = np.exp(scipy.special.log_softmax(inputs[~other] @ slope + offset, axis=1))
    classes = labels["class"].values
    return pd.DataFrame(found, pd.Index(labels["item"].values, name="item"), classes)


def _slopes(inputs: Any, probability: Array, offset: Array, precision: float) -> Array:
    """Return the mode of the slopes (covariates, classes), given label probabilities."""
    from scipy.optimize import minimize  # slow to import

    shape = inputs.shape[1], probability.shape[1]
    transposed = inputs.T.tocsr()

    def loss(flat: Array) -> tuple[float, Array]:
        slope = flat.reshape(shape)
        log_share = scipy.special.log_softmax(inputs @ slope + offset, axis=1)
        down = transposed @ (np.exp(log_share) - probability) + precision * slope
        value = 0.5 * precision * (slope**2).sum() - (probability * log_share).sum()
        return float(value), down.ravel()

    start = np.zeros(shape[0] * shape[1])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    slope: Array = found.x.reshape(shape)
    return slope
