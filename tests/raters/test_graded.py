"""Graded raters: rows against numerical integration, kernels, two classes, refusals."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.stats import norm

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.numerics import grades
from bayesfuse.testing import assert_close, check_rater_channel

THRESHOLDS = np.array([[-1.2, 0.1, 0.9], [-0.3, 0.6, 2.5]])
PRECISION = np.array([1.3, 2.6])
RATE = np.array([0.1, 0.02])
POSITIONS = np.array([-1.5, -0.4, 0.2, 1.5])
GUESS = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.1, 0.7]])


GIVEN = {
    "thresholds": THRESHOLDS,
    "precision": PRECISION,
    "guess_rate": RATE,
    "guess": GUESS,
    "positions": POSITIONS,
}


def channel(**changed):
    return bf.Graded(**GIVEN | changed)


def rows(**changed):
    return channel(**changed).parameters["confusion"]


def test_rows_are_the_shares_of_noisy_items_between_thresholds():
    """Integrated over the noise on a grid."""
    grid = np.linspace(-9, 9, 200_001)
    weight = norm.pdf(grid) * (grid[1] - grid[0])
    for m in range(2):
        for k in range(4):
            seen = POSITIONS[k] + grid / PRECISION[m]
            answer = np.searchsorted(THRESHOLDS[m], seen)
            share = np.bincount(answer, weight, minlength=4)
            expected = (1 - RATE[m]) * share + RATE[m] * GUESS[m]
            assert_close(rows()[m, k], expected, "row", rtol=0, atol=1e-4)
    assert_close(rows().sum(axis=-1), np.ones((2, 4)), "sum of a row")


def test_kernels():
    table = bf.Responses.from_matrix([[0, 1], [3, 3], [2, -1]], classes=range(4))
    check_rater_channel(channel(), (np.log(rows()),), table)


def test_tensors_and_the_kernel_of_the_pool_give_the_same_rows():
    tensors = {name: pt.as_tensor(value) for name, value in GIVEN.items()}
    found = bf.Graded(**tensors).parameters["confusion"].eval()
    assert_close(found, rows(), "rows by tensors", rtol=1e-12)
    middles = (POSITIONS[1:] + POSITIONS[:-1]) / 2
    gaps = np.diff(THRESHOLDS) / np.diff(middles)
    strictness, odds = (THRESHOLDS - middles).mean(axis=1), np.log(RATE / (1 - RATE))
    own = np.column_stack([strictness, np.log(gaps), np.log(PRECISION), odds])
    by_kernel = np.exp(grades.log_rows(own, POSITIONS, GUESS[0]))
    assert_close(by_kernel, rows(guess=GUESS[0]), "rows by kernel", rtol=1e-9)


def test_far_tails_are_exact():
    far = bf.Graded([[-9.0, 9.0]], [1.0], positions=[-1.0, 0.0, 1.0]).parameters["confusion"]
    assert_close(far[0, 0, 2], norm.sf(10.0), "upper tail", rtol=1e-9)
    assert_close(far[0, 2, 0], norm.cdf(-10.0), "lower tail", rtol=1e-9)


def test_gradients():
    """Of the log rows with respect to all arguments, against central differences."""
    inputs = {name: pt.as_tensor(value) for name, value in GIVEN.items()}
    weight = np.random.default_rng(1).random((2, 4, 4))
    total = (weight * pt.log(bf.Graded(**inputs).parameters["confusion"])).sum()
    for name, value in GIVEN.items():
        slope = pt.grad(total, inputs[name]).eval()
        for place in np.ndindex(value.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = value.copy()
                moved[place] += step
                ends.append((weight * np.log(rows(**{name: moved}))).sum())
            # central differences lose rounding / step
            assert abs(slope[place] - (ends[0] - ends[1]) / 2e-6) < 1e-6, (name, place)


def test_two_classes_are_ordinary_rows():
    sensitivity, specificity = np.array([0.9, 0.6]), np.array([0.7, 0.95])
    low, high = norm.ppf(specificity), norm.ppf(1 - sensitivity)
    precision = low - high
    cut = (low + high) / 2 / precision
    found = bf.Graded(cut[:, None], precision).parameters["confusion"]
    ordinary = [[[q, 1 - q], [1 - p, p]] for p, q in zip(sensitivity, specificity, strict=True)]
    assert_close(found, ordinary, "rows", rtol=1e-12)


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"thresholds": [[1.0, 0.5, 2.0]] * 2}, "thresholds must increase"),
        ({"positions": [0.0, 1.0, 1.0, 2.0]}, "positions must increase"),
        ({"positions": [0.0, 1.0]}, "one number per class"),
        ({"precision": [1.0, 0.0]}, "precision must be positive"),
        ({"guess_rate": 1.5}, "must be a probability"),
    ],
)
def test_constants_out_of_range(changed, rule):
    with pytest.raises(ModelError, match=rf"{rule}.* Got: "):
        channel(**changed)


@pytest.mark.parametrize(
    ("table", "rule"),
    [
        (bf.Responses.from_matrix([[0, 1], [1, 2]]), "one less than classes"),
        (bf.Responses.from_matrix([[0, 1, 2], [3, 1, 2]]), "one row or number per rater"),
        (bf.Responses.from_matrix([["a", "b"], ["c", "d"]]), "need ordered classes"),
    ],
)
def test_tables_that_do_not_fit(table, rule):
    labels = bf.Independent(np.full(table.n_classes, 1 / table.n_classes))
    with pm.Model(), pytest.raises(ModelError, match=rf"{rule}.* Got: "):
        bf.observe(table, labels=labels, raters=channel())
