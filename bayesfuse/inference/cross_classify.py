"""A classifier of items from their covariates, learned from the labels of other sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from bayesfuse.data.known import read_covariates
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array

FOLDS = 5  # parts of the sequences, each classified by what all others say
STEPS = 40  # of L-BFGS, from slopes of zero: stopped early, slopes are shrunk a little more


def cross_classify(
    probability: Array, covariates: Any, responses: Responses, sequences: Sequences
) -> Array:
    """Return class probabilities (items, classes) predicted from covariates by cross-validation.

    A multinomial logistic regression with standard normal slopes is fitted to the label
    probabilities of the other folds. Folds consist of whole sequences, so no response to its own
    sequence informs an item. Sparse ``covariates`` are used as they are, dense ones standardised.
    """
    from scipy.sparse import csr_matrix, issparse  # slow to import

    if sequences.n_sequences < FOLDS:
        raise ModelError(
            f"Covariates need {FOLDS} sequences, as each is classified by the others. Got: "
            f"{sequences.n_sequences} sequences."
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
    # a covariate of a single item cannot predict others
    inputs = inputs[:, np.bincount(inputs.indices, minlength=inputs.shape[1]) > 1]
    fold = np.empty(responses.n_items, dtype=np.int64)
    number = np.arange(sequences.n_sequences) % FOLDS
    fold[sequences.places(responses)] = np.repeat(number, sequences.lengths)
    predicted = np.empty_like(probability)
    for held_out in range(FOLDS):
        other = fold != held_out
        offset = np.log(np.maximum(probability[other].mean(axis=0), np.finfo(float).tiny))
        slope = _slopes(inputs[other], probability[other], offset)
        predicted[~other] = np.exp(
            scipy.special.log_softmax(inputs[~other] @ slope + offset, axis=1)
        )
    return predicted


def _slopes(inputs: Any, probability: Array, offset: Array) -> Array:
    """Return the mode of the slopes (covariates, classes), given label probabilities."""
    from scipy.optimize import minimize  # slow to import

    shape = inputs.shape[1], probability.shape[1]
    transposed = inputs.T.tocsr()

    def loss(flat: Array) -> tuple[float, Array]:
        slope = flat.reshape(shape)
        log_share = scipy.special.log_softmax(inputs @ slope + offset, axis=1)
        down = transposed @ (np.exp(log_share) - probability) + slope
        value = 0.5 * (slope**2).sum() - (probability * log_share).sum()
        return float(value), down.ravel()

    start = np.zeros(shape[0] * shape[1])
    optimum = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    slope: Array = optimum.x.reshape(shape)
    return slope
