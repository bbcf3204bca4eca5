"""Simulation-based calibration, and chains that agree."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.models import DawidSkene
from bayesfuse.testing import assert_uniform, sbc_ranks


def sparse_table(n_classes):
    """Twenty-five items, four raters, 70 % answered, some twice."""
    rng = np.random.default_rng(9)
    item, rater = np.nonzero(rng.random((25, 4)) < 0.7)
    item, rater = np.append(item, item[:6]), np.append(rater, rater[:6])
    label = np.arange(len(item)) % n_classes
    return bf.Responses.from_long({"item": item, "rater": rater, "label": label}, items=range(25))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_classes", "arguments", "revealed"),
    [
        (2, {"prevalence_prior": [1.0, 3.0]}, []),
        (3, {"prevalence_prior": [1.0, 2.0, 4.0]}, [0, 7]),
        (3, {"raters": "class", "confusion_prior": [4.0, 2.0]}, []),
    ],
)
def test_prior_draws_rank_uniformly_among_posterior_draws(n_classes, arguments, revealed):
    """Prevalence, confusion and labels; classes are asymmetric through the priors."""
    ranks = sbc_ranks(
        lambda responses, gold=None: DawidSkene(responses, gold=gold, **arguments),
        sparse_table(n_classes),
        revealed=revealed,
        simulations=300,
        draws=99,
        thin=2,
        sweeps=5,
        random_seed=n_classes,
        start="prior",
    )
    for name, values in ranks.items():
        if name == "labels":
            free = np.delete(values.values, revealed, axis=1)
            # items of one simulation share its parameters: one of them per simulation
            assert_uniform(free[:, 0], 1, "label of an item")
            assert_uniform(free[np.arange(300), np.arange(300) % free.shape[1]], 1, "labels")
            continue
        flat = values.values.reshape(300, -1)
        for entry in range(flat.shape[1]):
            assert_uniform(flat[:, entry], 99, f"{name}, entry {entry}")


@pytest.mark.slow
def test_a_wrong_sampler_fails_calibration():
    """The check can fail: ranks under another prior than the one simulated from."""
    table = sparse_table(2)
    templates = iter([None])

    def build(responses):
        first = next(templates, "later") is None
        return DawidSkene(responses, prevalence_prior=[1.0, 3.0] if first else [3.0, 1.0])

    ranks = sbc_ranks(build, table, simulations=150, draws=49, sweeps=5)
    with pytest.raises(AssertionError, match="prevalence"):
        assert_uniform(ranks["prevalence"].values[:, 0], 49, "prevalence")


@pytest.mark.slow
def test_chains_agree_on_fifty_data_sets():
    """R̂ below 1.01 for every parameter, and the same classes in every chain and in the truth."""
    worst = []
    for seed in range(50):
        n_classes = 2 + seed % 4
        made = bf.datasets.simulate_dawid_skene(
            400, 6, n_classes, accuracy=(0.55, 0.9), random_seed=seed
        )
        result = bf.sample(
            DawidSkene(made.responses),
            1000,
            random_seed=seed,
            progressbar=False,
            quiet=True,
            log_likelihood=False,
        )
        posterior = result["posterior"].dataset[["prevalence", "confusion"]]
        rhat = az.rhat(posterior)
        worst.append(max(float(rhat[name].max()) for name in rhat.data_vars))
        by_chain = posterior["confusion"].mean(("draw", "rater"))
        for chain in range(4):
            right = np.argmax(by_chain.sel(chain=chain).values, axis=1)
            assert (right == np.arange(n_classes)).all(), (seed, chain)
    assert max(worst) < 1.01, worst
