"""Simulation-based calibration finds a wrong prior; benchmarks/calibration.py tries all models."""

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.models import DawidSkene
from bayesfuse.testing import assert_uniform, sbc_ranks


def test_ranks_under_another_prior_than_the_one_simulated_from_are_not_uniform():
    item, rater = np.divmod(np.arange(24), 3)
    table = bf.Responses.from_long({"item": item, "rater": rater, "label": np.arange(24) % 2})
    templates = iter([None])

    def build(responses, gold=None):
        simulated = next(templates, "later") is None
        return DawidSkene(responses, prevalence_prior=[1, 9] if simulated else [9, 1], gold=gold)

    fit = {"draws": 9, "tune": 5, "sweeps": 3, "start": "prior"}
    ranks = sbc_ranks(build, table, revealed=[0], simulations=20, random_seed=3, **fit)
    assert ranks["confusion"].shape == (20, 3, 2, 2) and ranks["labels"].shape == (20, 8)
    assert ((ranks["labels"] > 0) & (ranks["labels"] < 1)).all()
    with pytest.raises(AssertionError, match="prevalence"):
        assert_uniform(ranks["prevalence"].values[:, 0], 9, "prevalence", bins=5)
