"""Answers of few draws, which most tests share."""

import pytest

import bayesfuse as bf
from bayesfuse.answer import budget


@pytest.fixture(scope="module")
def few_draws():
    patch = pytest.MonkeyPatch()
    patch.setattr(budget, "DRAWS", 30)
    patch.setattr(budget, "TUNE", 30)
    patch.setattr(budget, "PILOT", 2)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def crowd():
    """Three classes, eight raters, of whom some answer each item; and the truth."""
    return bf.datasets.simulate_dawid_skene(70, 8, 3, per_item=5, random_seed=2)


@pytest.fixture(scope="module")
def fused(crowd, few_draws):
    return bf.fuse(crowd.responses, random_seed=5, minutes=10, progressbar=False)
