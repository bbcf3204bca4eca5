"""One to three raters do not identify their accuracies: intervals and class shares say so."""

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.ensemble.candidates import candidates
from bayesfuse.ensemble.evidence import examine
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene

SILENT = {"progressbar": False, "quiet": True}


def simulated(n_raters, seed):
    """Return a table of raters whose accuracies are drawn from .55 to .95, and the truth."""
    rng = np.random.default_rng(seed)
    n_items = int(rng.integers(100, 301))
    truth = rng.choice(2, n_items, p=rng.dirichlet([2.0, 2.0]))
    right = rng.random((n_items, n_raters)) < rng.uniform(0.55, 0.95, n_raters)
    labels = np.where(right, truth[:, None], 1 - truth[:, None])
    return bf.Responses.from_matrix(labels, classes=[0, 1]), truth, right.mean(axis=0)


def coverage(results, truths):
    """Return the share of accuracies on the items that 89 % intervals hold."""
    holds = []
    for result, right in zip(results, truths, strict=True):
        table = result.raters().set_index("rater").sort_index()
        holds += ((table["low"] <= right) & (right <= table["high"])).tolist()
    return np.mean(holds)


def test_the_accuracy_of_one_rater_has_the_interval_of_its_prior():
    responses, _, _ = simulated(1, 1)
    result = bf.sample(DawidSkene(responses), 300, random_seed=1, **SILENT)
    rows = result["posterior"]["confusion"].values
    accuracy = np.diagonal(rows, axis1=-2, axis2=-1)[..., 0, :].mean(axis=-1).ravel()
    low, high = np.quantile(accuracy, [0.055, 0.945])
    assert low < 0.6 and high > 0.9


@pytest.mark.parametrize("n_raters", [1, 2, 3])
def test_dependent_and_independent_errors_are_averaged(n_raters):
    inputs = Inputs(simulated(n_raters, 1)[0])
    evidence = examine(inputs)
    assert evidence.independence == 0.5
    names = {candidate.model for candidate in candidates(inputs, evidence)}
    assert names == {"DawidSkene", "ItemTypes"}


@pytest.mark.parametrize("n_groups", [2, 3])
def test_two_or_three_groups_cannot_show_whether_their_errors_are_independent(n_groups):
    table = simulated(2 * n_groups, 1)[0]
    groups = {f"source {at}": [2 * at, 2 * at + 1] for at in range(n_groups)}
    evidence = examine(Inputs(table, groups=groups))
    assert np.isnan(evidence.correlation) and evidence.independence == 0.5


def test_shares_depend_on_the_prior_of_two_raters_more_than_of_many():
    two, many = simulated(2, 3)[0], simulated(6, 3)[0]
    ranges = []
    for responses in (two, many):
        found = bf.checks.prior_dependence(responses, draws=150, random_seed=1)
        assert found["weight"].values.tolist() == [0.5, 1.0, 2.0]
        assert (found["low"] <= found["share"]).all() and (found["share"] <= found["high"]).all()
        ranges.append(float((found["high"] - found["low"]).max()))
    assert ranges[0] > 1.5 * ranges[1]
    with pytest.raises(ModelError, match=r"labels only\. Got: a table with silence"):
        silent = bf.Responses.from_matrix([[0, 1], [1, -1]], abstain=-1)
        bf.checks.prior_dependence(silent)


@pytest.mark.slow
def test_a_wide_interval_of_wrong_labels_has_its_reason():
    """One rater copies the truth and the other guesses, and nothing shows which."""
    labels = np.stack([np.arange(150) % 2, np.random.default_rng(1).integers(2, size=150)], axis=1)
    options = {"draws": 100, "checks": False, "random_seed": 1, "progressbar": False}
    fused = bf.fuse(bf.Responses.from_matrix(labels), **options)
    for text in (fused.headline, fused._repr_html_()):
        assert "This interval is wide because up to three raters, or groups of raters," in text
    twice = bf.Responses.from_matrix(labels[:, [0, 0, 1, 1]])
    grouped = bf.fuse(twice, groups=[[0, 1], [2, 3]], **options)
    assert "because up to three raters, or groups of raters," in grouped.headline
    good = bf.datasets.simulate_dawid_skene(150, 6, 2, random_seed=1).responses
    assert "interval is wide" not in bf.fuse(good, **options).headline


def test_populations_identify_the_shares_of_two_raters():
    """Hui and Walter (1980): their maximum likelihood is .027 and .717 positive."""
    table, people = bf.datasets.tuberculosis()
    options = {"draws": 150, "random_seed": 1}
    alone = bf.checks.prior_dependence(table, **options)
    found = bf.checks.prior_dependence(table, populations=people, **options)
    positive = found["population_share"].sel({"class": "+"})
    assert np.allclose(positive, [0.027, 0.717], atol=0.02) and "population_share" not in alone
    width, by_population = (float((made["high"] - made["low"]).max()) for made in (alone, found))
    assert by_population < width


@pytest.mark.slow
@pytest.mark.parametrize("n_raters", [1, 2, 3])
def test_intervals_of_few_raters_hold_their_accuracies(n_raters):
    made = [simulated(n_raters, 100 + seed) for seed in range(8)]
    options = {"minutes": 2, "random_seed": 1, "progressbar": False, "checks": False}
    results = [bf.fuse(responses, **options) for responses, _, _ in made]
    # of 84 % at least, two standard errors of 8 tables
    assert coverage(results, [right for _, _, right in made]) > 0.84 - 0.26 / np.sqrt(n_raters)


def test_estimated_groups_that_leave_three_sources_cannot_show_it_either():
    """Five raters repeat one source, and two err independently of it."""
    rng = np.random.default_rng(1)
    truth = rng.integers(4, size=200)
    right = rng.random((200, 3)) < [0.6, 0.8, 0.9]
    sources = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, 4, (200, 3))) % 4)
    labels = sources[:, [0, 0, 0, 0, 0, 1, 2]]
    deviates = (rng.random(labels.shape) < 0.1) & (np.arange(7) < 5)
    labels = np.where(deviates, (labels + rng.integers(1, 4, labels.shape)) % 4, labels)
    evidence = examine(Inputs(bf.Responses.from_matrix(labels)))
    assert evidence.groups == {"source 1": [0, 1, 2, 3, 4]} and evidence.grouped > 0.5
    assert np.isnan(evidence.correlation) and evidence.independence == 0.5
    assert not np.isnan(evidence.ungrouped.correlation)
