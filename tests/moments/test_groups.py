"""Dependent raters: groups and L-SML against exact populations."""

import numpy as np
import pytest
from grouped_populations import GROUP, INNER, OUTER, PREVALENCE, exact_responses, overall, simulate
from refusals import refused_moments

import bayesfuse as bf
from bayesfuse.moments import find_groups, improved_sml, latent_sml, score_matrix, select_raters


@pytest.mark.parametrize("group", [[0, 0, 0, 1, 2, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]])
def test_groups_of_an_exact_population(group):
    group = np.array(group)
    n_groups = group.max() + 1
    outer = np.tile(OUTER, 3)[:, :n_groups]
    inner = np.tile(np.where(INNER == 1, 0.8, INNER), 2)[:, :10]
    inner[:, np.bincount(group)[group] == 1] = 1.0
    responses, _, _ = exact_responses(group, 0.6, outer, inner)
    found = find_groups(responses)
    np.testing.assert_array_equal(found.group, group)
    assert found.attrs["n_groups"] == n_groups
    # exact counts leave only rounding and the convergence of a fit to 1e-14 per sweep
    assert found.residual.min() < 1e-18


def test_groups_from_a_sample_with_missing_and_repeated_responses():
    rng = np.random.default_rng(5)
    _, group, labels = simulate(rng, 20_000, [4, 1, 1, 3, 1, 1, 1], outer=(0.6, 0.8))
    item, rater = np.nonzero(rng.random(labels.shape) < 0.6)
    twice = rng.random(len(item)) < 0.1
    item, rater = np.append(item, item[twice]), np.append(rater, rater[twice])
    table = {"item": item, "rater": rater, "label": labels[item, rater]}
    np.testing.assert_array_equal(find_groups(bf.Responses.from_long(table)).group, group)


def test_residual_alone_groups_independent_raters():
    rng = np.random.default_rng(7)
    _, group, labels = simulate(rng, 5_000, [1] * 10)
    responses = bf.Responses.from_matrix(labels)
    np.testing.assert_array_equal(find_groups(responses).group, group)
    published = find_groups(responses, min_groups=2, criterion="residual")
    assert published.residual.min() < find_groups(responses).residual.sel(n_groups=10)
    assert published.attrs["n_groups"] < 9
    np.testing.assert_array_equal(published.n_groups, np.arange(2, 10))


def test_groups_of_several_classes():
    rng = np.random.default_rng(8)
    group = np.array([0, 0, 0, 1, 2, 2, 2, 2, 3, 4])
    truth = rng.integers(4, size=5_000)

    def noisy(labels, share):
        return np.where(rng.random(len(labels)) < share, labels, rng.integers(4, size=len(labels)))

    verdict = np.stack([noisy(truth, 0.5) for _ in range(5)])
    labels = np.stack([noisy(verdict[g], 0.8) for g in group], axis=1)
    found = find_groups(bf.Responses.from_matrix(labels, classes=range(4)))
    np.testing.assert_array_equal(found.group, group)


def test_copies_and_constant_raters():
    rng = np.random.default_rng(9)
    _, _, labels = simulate(rng, 3_000, [1] * 6)
    labels = np.column_stack([labels[:, [0, 0, 0]], labels[:, 1:], np.ones(3_000, dtype=int)])
    found = find_groups(bf.Responses.from_matrix(labels))
    np.testing.assert_array_equal(found.group, [0, 0, 0, 1, 2, 3, 4, 5, 6])


@pytest.mark.slow
def test_groups_of_many_raters_who_seldom_meet():
    """Above a hundred raters fits start from rough directions, and few numbers are tried."""
    rng = np.random.default_rng(12)
    n_items, n_raters, per_item = 6_000, 130, 25
    truth = rng.random(n_items) < 0.5
    source = np.where(rng.random(n_items) < 0.7, truth, ~truth)
    group = np.append(np.zeros(15, dtype=int), np.arange(1, n_raters - 14))
    told = np.where(group == 0, source[:, None], truth[:, None])
    labels = told ^ (rng.random(told.shape) < np.where(group == 0, 0.05, 0.25))
    place = np.argsort(rng.random(told.shape), axis=1)
    responses = bf.Responses.from_matrix(np.where(place < per_item, labels, -1))
    found = find_groups(responses)
    np.testing.assert_array_equal(found.group, group)
    tried = found.n_groups.values
    assert tried[0] == 4 and tried[-1] == n_raters and 30 < len(tried) < 50
    assert np.all(np.diff(tried[:-1]) <= np.maximum(1, 0.13 * tried[:-2]))


def test_everything_is_recovered_from_an_exact_population():
    responses, patterns, given = exact_responses()
    found = latent_sml(responses, GROUP)
    # the prevalence maximises a likelihood, which is flat over √ε ≈ 1e-8 times a condition number
    tolerance = 1e-6
    assert abs(found.attrs["prevalence"] - PREVALENCE) < tolerance
    assert found.attrs["determined"] and found.determined.all()
    assert found.attrs["positive"] == 1
    np.testing.assert_allclose(found.group_sensitivity, OUTER[0, [0, 2]], atol=tolerance)
    np.testing.assert_allclose(found.group_specificity, OUTER[1, [0, 2]], atol=tolerance)
    np.testing.assert_allclose(found.verdict_sensitivity, INNER[0], atol=tolerance)
    np.testing.assert_allclose(found.verdict_specificity, INNER[1], atol=tolerance)
    np.testing.assert_allclose(found.sensitivity, overall()[0], atol=tolerance)
    np.testing.assert_allclose(found.specificity, overall()[1], atol=tolerance)
    odds = np.log(given[1] / given[0])  # eq. 19
    np.testing.assert_allclose(found.score, odds, atol=100 * tolerance)
    np.testing.assert_array_equal(found.label, (odds > 0).astype(int))
    own = GROUP == 2  # whose verdicts are posteriors within the group
    share = PREVALENCE * OUTER[0, 2] + (1 - PREVALENCE) * (1 - OUTER[1, 2])
    yes = share * np.where(patterns[:, own], INNER[0, own], 1 - INNER[0, own]).prod(axis=1)
    no = (1 - share) * np.where(patterns[:, own], 1 - INNER[1, own], INNER[1, own]).prod(axis=1)
    np.testing.assert_allclose(found.verdict.sel(group=2), yes / (yes + no), atol=1e-5)
    assert found.verdict.group.values.tolist() == [0, 2]


def test_a_pair_that_errs_evenly_is_recovered():
    group = np.array([0, 0, 1, 2, 3, 4])
    inner = np.array([[0.9, 0.7, 1, 1, 1, 1]] * 2)
    outer = np.array([[0.8, 0.7, 0.9, 0.8, 0.7], [0.6, 0.8, 0.7, 0.9, 0.8]])
    responses, _, _ = exact_responses(group, 0.6, outer, inner)
    found = latent_sml(responses, group)
    assert not found.determined.item() and found.attrs["determined"]
    np.testing.assert_allclose(found.verdict_sensitivity, inner[0], atol=1e-6)
    np.testing.assert_allclose(found.verdict_specificity, inner[1], atol=1e-6)
    np.testing.assert_allclose(found.sensitivity, overall(group, outer, inner)[0], atol=1e-6)


def test_raters_alone_are_improved_sml():
    rng = np.random.default_rng(10)
    _, _, labels = simulate(rng, 2_000, [1] * 6, outer=(0.6, 0.9))
    responses = bf.Responses.from_matrix(labels)
    expected = improved_sml(responses)
    for groups in (range(6), [0] * 6):  # a single group's verdict is the truth
        found = latent_sml(responses, groups)
        np.testing.assert_allclose(found.score, expected.score, rtol=1e-12)
        np.testing.assert_array_equal(found.label, expected.label)
        assert found.verdict.shape == (2_000, 0)


def test_groups_by_name_order_or_dataset_agree():
    rng = np.random.default_rng(11)
    _, group, labels = simulate(rng, 5_000, [3, 1, 1, 1, 1], outer=(0.6, 0.9))
    names = list("gfedcba")
    responses = bf.Responses.from_matrix(labels, raters=names)
    found = find_groups(responses)
    np.testing.assert_array_equal(found.group, group)
    by_name = {name: f"group {g}" for name, g in zip(names, group, strict=True)}
    expected = latent_sml(responses)
    for groups in (found, by_name, group.tolist()):
        assert latent_sml(responses, groups).identical(expected)
    assert expected.rater.values.tolist() == names


def test_missing_responses_and_silent_raters():
    rng = np.random.default_rng(12)
    _, group, labels = simulate(rng, 8_000, [3, 3, 1, 1, 1, 1], outer=(0.6, 0.9))
    labels[rng.random(labels.shape) < 0.3] = -1
    labels[0] = -1
    labels[1, :3] = -1
    labels = np.column_stack([labels, np.full(len(labels), -1)])
    responses = bf.Responses.from_matrix(labels)
    found = latent_sml(responses, np.append(group, 6))
    assert found.score[0] == 0 and np.isfinite(found.score).all()
    assert np.isnan(found.verdict[0]).all() and np.isnan(found.verdict[1, 0])
    assert np.isfinite(found.verdict[2:].values[(labels[2:, :3] >= 0).any(axis=1), 0]).all()
    assert np.isnan(found.sensitivity[-1]) and np.isfinite(found.sensitivity[:-1]).all()
    assert 10 not in select_raters(responses, 11, np.append(group, 6))
    in_group = latent_sml(responses, np.append(group, 0))
    np.testing.assert_allclose(in_group.score, found.score)


def test_counts_weigh_as_written_out():
    responses, _, _ = exact_responses(digits=4)
    few, many = latent_sml(responses, GROUP), latent_sml(responses.expand(), GROUP)
    np.testing.assert_allclose(few.sensitivity, many.sensitivity, atol=1e-7)
    np.testing.assert_allclose(
        np.repeat(few.score.values, responses.multiplicity), many.score, atol=1e-5
    )


def test_two_groups_are_taken_to_err_evenly():
    rng = np.random.default_rng(13)
    _, group, labels = simulate(rng, 5_000, [4, 4], outer=(0.8, 0.9))
    found = latent_sml(bf.Responses.from_matrix(labels), group)
    assert not found.attrs["determined"] and found.determined.all()
    assert np.isfinite(found.score).all()
    np.testing.assert_allclose(found.group_sensitivity, found.group_specificity, atol=0.1)


def test_chosen_raters_are_accurate_and_of_different_groups():
    responses, _, _ = exact_responses()
    accuracy = overall().sum(axis=0)
    best = sorted((accuracy[GROUP == g].max() for g in range(4)), reverse=True)
    chosen = select_raters(responses, 10, GROUP)
    assert sorted(GROUP[chosen]) == [0, 1, 2, 3]
    np.testing.assert_allclose(accuracy[chosen], best)  # two raters of one group are as good
    assert select_raters(responses, 2, GROUP) == chosen[:2]


LABELS = np.random.default_rng(15).integers(2, size=(50, 5))
FIVE = bf.Responses.from_matrix(LABELS)
APART = bf.Responses.from_matrix(np.where(np.arange(50)[:, None] % 5 == np.arange(5), LABELS, -1))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: score_matrix(bf.Responses.from_matrix(LABELS[:, :3])), r"four. Got: 3 raters"),
        (lambda: find_groups(FIVE, min_groups=6), "Got: 6 for 5 raters"),
        (lambda: find_groups(APART), "share items in pairs.* Got: 5 raters with 0 known"),
        (lambda: latent_sml(FIVE, [0, 0, 1]), r"each of the 5 raters. Got: shape \(3,\)"),
        (lambda: latent_sml(FIVE, {0: "a", 1: "b"}), r"Got: none for 2 \(3 such\)"),
        (lambda: latent_sml(bf.Responses.from_matrix(LABELS + 2 * LABELS[::-1])), "two classes"),
    ],
)
def test_bad_input(call, reason):
    refused_moments(reason, call)
