"""A crowd in which one rater could name the classes, for several test files."""

import numpy as np

import bayesfuse as bf


def odd_table(seed):
    """Three raters who are right three times of five, one who turns two classes into each other."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(3, 600, p=[0.45, 0.35, 0.2])
    usual = np.full((3, 3), 0.2) + 0.4 * np.eye(3)
    odd = 0.99 * np.eye(3)[[1, 0, 2]] + 0.01 / 3
    confusion = np.stack([usual, usual, usual, odd])
    up_to = np.cumsum(confusion, axis=-1)[:, truth, :-1]
    answers = (rng.random((4, 600, 1)) > up_to).sum(axis=-1)
    return confusion, truth, bf.Responses.from_matrix(answers.T)
