"""Groups of raters by their evidence, and what answers make of them."""

import numpy as np
import pymc as pm
import pytest

import bayesfuse as bf
from bayesfuse.ensemble.evidence import measure_dependence, measure_groups
from bayesfuse.inference import cavi
from bayesfuse.inference.plan import make_plan
from bayesfuse.inference.variational import log_evidence
from bayesfuse.models import DawidSkene, LatentGroup


def independent(rng, truth, right):
    wrong = rng.random((len(truth), len(right))) >= np.asarray(right)
    return truth[:, None] ^ wrong


def with_copies(seed=0):
    """Return answers of eight raters, of whom 1, 2 and 3 mostly repeat 0, and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=200)
    answers = independent(rng, truth, [0.6, 0.7, 0.7, 0.7, 0.75, 0.7, 0.8, 0.65])
    for rater in (1, 2, 3):
        answers[:, rater] = np.where(rng.random(200) < 0.85, answers[:, 0], answers[:, rater])
    return answers, truth


def grouped(answers, **names):
    """Return the groups that a table speaks for, and their probability."""
    evidence = measure_dependence(bf.Responses.from_matrix(answers, **names), None, 0)
    return {frozenset(raters) for raters in evidence.groups.values()}, evidence.grouped


def bound(model):
    """Return that of the log evidence, from the model as PyMC has it."""
    plan = make_plan(model)
    return cavi.log_evidence(plan.initial_response_model(), plan.priors())


def test_odds_are_those_of_the_models():
    """Of copies against independent errors, and against raters who agree because they are right."""
    table = bf.Responses.from_matrix(with_copies()[0])
    known = {0: 1, 3: 0}
    evidence = measure_groups(table, known, 0.5)
    (copies,) = evidence.members.values()
    assert sorted(copies) == [0, 1, 2, 3]
    grouped = bound(LatentGroup(table, [copies], gold=known))
    grouped += bf.priors.log_odds_of_groups([copies], table)
    accurate = dict.fromkeys(copies, bf.priors.copied(2))
    right = bound(DawidSkene(table, confusion_prior=accurate, gold=known)) - 4 * np.log(2.0)
    coins = log_evidence(DawidSkene(table, raters="coin", gold=known)) - 8 * np.log(2.0)
    apart = np.logaddexp.reduce([bound(DawidSkene(table, gold=known)), right, coins])
    assert evidence.against_independence == pytest.approx(grouped - apart, abs=1e-6)


def accuracy(labels, truth):
    return np.mean(np.asarray(labels).argmax(axis=1) == truth)


def test_copies_are_a_group_whatever_the_order_and_names():
    answers, _ = with_copies()
    groups, probability = grouped(answers)
    assert groups == {frozenset(range(4))} and probability > 0.8
    order = np.random.default_rng(1).permutation(8)
    items = np.random.default_rng(2).permutation(200)
    names = [f"rater {7 - rater}" for rater in order]
    renamed, same = grouped(answers[items][:, order], raters=names)
    assert renamed == {frozenset(f"rater {7 - rater}" for rater in range(4))}
    assert same == pytest.approx(probability, abs=0.02)


@pytest.mark.parametrize(
    "right",
    [[0.9, 0.85, 0.8, 0.7, 0.65], [0.93, 0.9, 0.92, 0.5, 0.5, 0.5, 0.5]],
    ids=["independent", "accurate beside guessers"],
)
def test_raters_who_agree_because_they_are_right_are_no_group(right):
    total = 0.0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        answers = independent(rng, rng.integers(2, size=200), right)
        total += grouped(answers)[1]
    assert total / 3 < 0.2


def test_good_raters_among_guessers_are_no_group():
    """Confusion matrices are fitted to the wrong classes there."""
    rng = np.random.default_rng(1)
    truth = rng.integers(4, size=300)
    wrong = (truth[:, None] + rng.integers(1, 4, (300, 20))) % 4
    is_right = rng.random((300, 20)) < [0.96] * 2 + [0.25] * 18
    answers = np.where(is_right, truth[:, None], wrong)
    answers[rng.random(answers.shape) < 0.5] = -1
    assert grouped(answers, missing=-1)[1] < 0.01


def test_hard_items_are_no_groups():
    rng = np.random.default_rng(3)
    truth = rng.integers(2, size=200)
    hard = rng.random(200) < 0.3
    answers = np.where(hard[:, None], independent(rng, truth, [0.35] * 8), 0)
    answers = np.where(hard[:, None], answers, independent(rng, truth, [0.9] * 8))
    assert grouped(answers)[1] < 0.05


def test_the_prior_is_that_of_inferred_groups():
    """Against frequencies of partitions that Chinese restaurant processes draw."""
    responses = bf.Responses.from_matrix(np.eye(4, dtype=int))
    pair, none = 0, 0
    for concentration in 15.0 ** np.array([0.1, 0.3, 0.5, 0.7, 0.9]):
        share = 1.0 / (1.0 + concentration)
        model = bf.models.LatentGroup(responses, groups="posterior", share_prior=share)
        drawn = pm.draw(model["assignment"], 2_000, random_seed=0)
        same = drawn[:, :, None] == drawn[:, None, :]
        is_alone = drawn == -1
        none += is_alone.all(axis=1).sum()
        pair += (same[:, 0, 1] & ~is_alone[:, 0] & is_alone[:, 2:].all(axis=1)).sum()
    expected = np.exp(bf.priors.log_odds_of_groups([[0, 1]], responses)) * none
    # the midpoints of five intervals for a grid of fifty: .03 of the odds
    assert abs(pair - expected) < 4 * np.sqrt(expected) + 0.03 * expected


def test_where_some_raters_share_sources_others_may():
    """The second group is more probable than the first, and any number of groups has a prior."""
    responses = bf.Responses.from_matrix(np.eye(8, dtype=int))
    one = bf.priors.log_odds_of_groups([[0, 1, 2]], responses)
    two = bf.priors.log_odds_of_groups([[0, 1, 2], [3, 4, 5]], responses)
    assert one < two - one < 0.0
    assert bf.priors.log_odds_of_groups([], responses) == pytest.approx(0.0, abs=1e-12)


def test_clusters_that_may_both_be_the_source_are_hardly_groups():
    """Three raters repeat one opinion and three another: nothing tells which is right."""
    total = 0.0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        truth = rng.integers(2, size=200)
        opinions = independent(rng, truth, [0.75, 0.75]).repeat(3, axis=1)
        answers = np.where(rng.random(opinions.shape) < 0.1, 1 - opinions, opinions)
        total += grouped(answers)[1]
    assert total / 2 < 0.5


@pytest.mark.slow
def test_answers_count_copies_once():
    gains = []
    for seed in range(3):
        answers, truth = with_copies(seed)
        responses = bf.Responses.from_matrix(answers)
        fused = bf.fuse(responses, random_seed=1, progressbar=False)
        gains.append(
            accuracy(bf.label_probabilities(fused), truth) - accuracy(responses.votes(), truth)
        )
    assert "share a source" in fused.overview() or "count as one" in fused.overview()
    assert np.mean(gains) > 0.0


def test_a_group_is_represented_by_the_rater_of_most_items():
    answers = independent(np.random.default_rng(1), np.arange(200) % 2, [0.7] * 8).astype(float)
    answers[20:, 0] = np.nan
    table = bf.Responses.from_matrix(answers)
    first, last = (
        measure_dependence(table, None, 0, {"source": raters}) for raters in ([0, 1], [1, 0])
    )
    assert first.correlation == last.correlation and first.error == last.error
