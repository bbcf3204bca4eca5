"""One class against the rest: prevalence and diagonals."""

import numpy as np
import pytest
from binary_populations import (
    exact,
)

import bayesfuse as bf
from bayesfuse.moments.one_vs_rest import against_rest, one_vs_rest


def test_one_vs_rest_recovers_prevalence_and_diagonals():
    """Of raters who know, or guess with their own favourites: the rest is then no mixture."""
    prevalence = np.array([0.5, 0.3, 0.2])
    guess = np.array([[0.1, 0.2, 0.1], [0.3, 0.1, 0.1], [0.1, 0.1, 0.3], [0.2, 0.1, 0.1]])
    confusion = (1 - guess.sum(1))[:, None, None] * np.eye(3) + guess[:, None, :]
    found = one_vs_rest(exact(prevalence, confusion))
    diagonal = np.diagonal(confusion, axis1=1, axis2=2)
    np.testing.assert_allclose(found.prevalence, prevalence, atol=1e-6)
    np.testing.assert_allclose(found.diagonal, diagonal, atol=1e-6)
    np.testing.assert_allclose(found.specificity, 1 - guess, atol=1e-6)
    assert found.attrs["total"] == pytest.approx(1, abs=1e-6)


def test_against_rest_keeps_the_rows_of_repeats_in_order():
    table = {"item": [0] * 5, "rater": [0, 0, 0, 1, 1], "label": [0, 1, 2, 1, 2]}
    part = against_rest(bf.Responses.from_long(table), 1)
    assert part.rater.tolist() == [0, 0, 0, 1, 1]
    assert part.label.tolist() == [0, 0, 1, 0, 1]
