"""Raters in groups: the channel against enumeration, the model against Dawid and Skene's."""

from __future__ import annotations

from itertools import product

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.special import logsumexp

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.groups import Groups
from bayesfuse.inference.conjugate import find_conjugate
from bayesfuse.inference.start import disperse, find_start
from bayesfuse.model import observed
from bayesfuse.models import DawidSkene, LatentGroup
from bayesfuse.observation import Observation
from bayesfuse.testing import (
    assert_close,
    assert_frequencies,
    assert_uniform,
    assert_within_mcse,
    check_rater_channel,
    sbc_ranks,
)

QUIET = {"progressbar": False, "quiet": True}
ASSIGNMENT = np.array([0, -1, 1, 0, 1, -1])  # the last of whom never answers


def random_rows(shape, seed, concentration=1.0):
    rng = np.random.default_rng(seed)
    return np.log(rng.dirichlet(np.full(shape[-1], concentration), shape[:-1]))


def random_responses(n_items, n_raters, n_classes, seed, n_responses):
    """Responses at random, so with repeats, and with items and raters nobody mentions."""
    rng = np.random.default_rng(seed)
    sizes = {"item": n_items, "rater": n_raters, "label": n_classes}
    table = {name: rng.integers(0, size, n_responses) for name, size in sizes.items()}
    return bf.Responses.from_long(
        table, items=range(n_items + 1), raters=range(n_raters + 1), classes=range(n_classes)
    )


def tables(n_classes, n_groups=2, n_raters=6, seed=1, concentration=1.0):
    shapes = (n_groups, n_classes, n_classes), (n_raters, n_classes, n_classes)
    return tuple(random_rows(shape, seed + i, concentration) for i, shape in enumerate(shapes))


def observe(responses, assignment=ASSIGNMENT, **kwargs):
    channel = bf.LatentGroups(None, None, assignment)
    channel.parameters = dict.fromkeys(["group_confusion", "rater_confusion"])
    return Observation.build(responses, bf.Independent(None), channel, **kwargs)


def rows_of(log_prevalence, both):
    names = "prevalence", "group_confusion", "rater_confusion"
    return dict(zip(names, (log_prevalence, *both), strict=True))


def enumerate_verdicts(responses, log_prevalence, both, assignment=ASSIGNMENT):
    """Yield the log joint probability and the counts of every (label, verdicts) of every item."""
    log_group, _ = both
    n_groups, n_classes, _ = log_group.shape
    for n in range(responses.n_items):
        mine = slice(int(responses.start[n]), int(responses.start[n + 1]))
        said = list(zip(responses.rater[mine], responses.label[mine], strict=True))
        for label, *verdict in product(range(n_classes), repeat=1 + n_groups):
            counts = [np.zeros_like(table) for table in (log_prevalence, *both)]
            counts[0][label] += 1
            for g, v in enumerate(verdict):
                counts[1][g, label, v] += 1
            for rater, answer in said:
                source = label if assignment[rater] < 0 else verdict[assignment[rater]]
                counts[2][rater, source, answer] += 1
            terms = zip(counts, (log_prevalence, *both), strict=True)
            log_joint = sum((c * t)[c > 0].sum() for c, t in terms)
            silent = np.setdiff1d(range(n_groups), [assignment[rater] for rater, _ in said])
            counts[1][silent] = 0  # verdicts nobody reports on are never counted
            yield n, label, log_joint, counts


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_channel_against_calculus(n_classes):
    responses = random_responses(3, 5, n_classes, n_classes, 9)
    check_rater_channel(bf.LatentGroups(None, None, ASSIGNMENT), tables(n_classes), responses)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_evidence_and_counts_against_enumeration_over_labels_and_verdicts(n_classes):
    responses = random_responses(8, 5, n_classes, n_classes, 30)
    observation = observe(responses)
    log_prevalence, both = random_rows((n_classes,), 7), tables(n_classes)
    every = list(enumerate_verdicts(responses, log_prevalence, both))
    total, expected = 0.0, [np.zeros_like(table) for table in (log_prevalence, *both)]
    probability = np.zeros((responses.n_items, n_classes))
    for n in range(responses.n_items):
        mine = [each for each in every if each[0] == n]
        log_joint = np.array([each[2] for each in mine])
        total += logsumexp(log_joint)
        share = np.exp(log_joint - logsumexp(log_joint))
        for (_, label, _, counts), weight in zip(mine, share, strict=True):
            probability[n, label] += weight
            for sum_, own in zip(expected, counts, strict=True):
                sum_ += weight * own
    rows = rows_of(log_prevalence, both)
    found, counts = observation.expected(rows)
    assert_close(found, total, "log evidence")
    assert_close(observation.marginal(rows).probability, probability, "label probability")
    for name, own in zip(rows, expected, strict=True):
        assert_close(counts[name], own, f"expected counts of {name}")


@pytest.mark.parametrize("copies", [1, 3])
def test_verdicts_are_drawn_as_often_as_they_are_probable(copies):
    """Two raters of a group and one alone on one item: every (label, verdict) by enumeration."""
    both = tables(3, n_groups=1, n_raters=3, seed=4)
    assignment = np.array([0, 0, -1])
    responses = bf.Responses.from_counts({"021": copies}, classes=list("012"))
    every = list(enumerate_verdicts(responses, np.log([0.2, 0.3, 0.5]), both, assignment))
    observation = observe(responses, assignment)
    rows = rows_of(np.log([0.2, 0.3, 0.5]), both)
    rng = np.random.default_rng(1)
    seen = np.zeros((3, 3))
    for _ in range(6000):
        counts = observation.tally(rows, observation.draw(rows, rng), rng)
        assert counts["prevalence"].sum() == copies
        assert_close(counts["group_confusion"][0].sum(axis=1), counts["prevalence"], "labels")
        verdict = counts["group_confusion"][0].sum(axis=0)
        assert_close(counts["rater_confusion"][0, :, 0], verdict, "what the first rater heard")
        assert_close(counts["rater_confusion"][1, :, 2], verdict, "what the second rater heard")
        assert_close(counts["rater_confusion"][2, :, 1], counts["prevalence"], "the rater alone")
        seen += counts["group_confusion"][0]
    weight = np.exp([log_joint for _, _, log_joint, _ in every])
    assert_frequencies(seen.ravel(), weight / weight.sum(), "labels and verdicts")


def test_probabilities_that_underflow_and_zeros_are_legal():
    """Five hundred raters of one group, a verdict that is the truth, and rows with zeros."""
    rng = np.random.default_rng(1)
    responses = bf.Responses.from_matrix(rng.integers(0, 2, (20, 500)), classes=[0, 1])
    inner = np.tile([[0.99999, 1e-5], [1e-5, 0.99999]], (500, 1, 1))
    assignment = np.zeros(500, dtype=int)
    assignment[499] = -1
    inner[499] = [[1.0, 0.0], [0.5, 0.5]]
    gold = np.append([0, 1], np.full(18, -1))
    plain = bf.Confusion(None)
    expected = plain.log_lik((np.log(inner + 1e-320),), plain.structure(responses, gold))
    with np.errstate(divide="ignore"):
        both = np.log(np.eye(2)[None]), np.log(inner)
    channel = bf.LatentGroups(None, None, assignment)
    structure = channel.structure(responses, gold)
    found = channel.log_lik(both, structure)
    possible = expected > -1e5
    possible &= ~((responses.label.reshape(20, 500)[:, 499:] == 1) & (np.arange(2) == 0))
    assert (found[~possible] == -np.inf).all() and possible.any(axis=1).sum() > 10
    assert_close(found[possible], expected[possible], "log-likelihood")
    counts = channel.expected_kernel(*both, np.exp(found - found.max()), *structure)
    assert all(np.isfinite(table).all() for table in counts)


@pytest.mark.parametrize("rows", ["alone", "verdict is the truth"])
def test_raters_alone_and_verdicts_that_are_the_truth_are_dawid_and_skenes(rows):
    responses = random_responses(12, 5, 3, 3, 40)
    _, inner = tables(3)
    outer = np.log(np.tile(np.eye(3), (2, 1, 1)) + 1e-300)
    assignment = ASSIGNMENT if rows != "alone" else np.full(6, -1)
    one, other = bf.LatentGroups(None, None, assignment), bf.Confusion(None)
    gold = np.arange(responses.n_items) % 4 - 1
    found = one.log_lik((outer, inner), one.structure(responses, gold))
    assert_close(found, other.log_lik((inner,), other.structure(responses, gold)), "both")
    weight = np.random.default_rng(1).random((responses.n_items, 3))
    _, found = one.expected_kernel(outer, inner, weight, *one.structure(responses, gold))
    (expected,) = other.expected_kernel(inner, weight, *other.structure(responses, gold))
    assert_close(found, expected, "counts")
    confusion = one.confusion((outer, inner), np)
    assert_close(confusion, np.exp(inner), "confusion")


def test_confusion_is_the_share_of_simulated_answers():
    both = tables(3, seed=8)
    responses = bf.Responses.from_matrix(np.zeros((60_000, 6), dtype=int), classes=range(3))
    channel = bf.LatentGroups(None, None, ASSIGNMENT)
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 3, 60_000)
    label = channel.simulate(both, truth, responses, rng).reshape(-1, 6)
    confusion = channel.confusion(both, np)
    for rater, k in np.ndindex(6, 3):
        seen = np.bincount(label[truth == k, rater], minlength=3).astype(float)
        assert_frequencies(seen, confusion[rater, k], f"answers of rater {rater} to {k}")
    joint = np.einsum(  # of two raters of one group: they see the same verdict
        "v,vc,vd->cd", *(np.exp(t) for t in (both[0][0, 1], both[1][0], both[1][3]))
    )
    pair = label[truth == 1, 0] * 3 + label[truth == 1, 3]
    assert_frequencies(np.bincount(pair, minlength=9).astype(float), joint.ravel(), "pairs")


def test_merging_identical_items_changes_nothing():
    rng = np.random.default_rng(3)
    matrix = rng.integers(-1, 2, (500, 6))
    matrix[:, 4:] = -1
    responses = bf.Responses.from_matrix(matrix)
    merged = observe(responses)
    assert merged.table.n_items < 250
    log_prevalence, both = random_rows((2,), 1), tables(2)
    rows = rows_of(log_prevalence, both)
    channel = bf.LatentGroups(None, None, ASSIGNMENT)
    found = channel.likelihood_kernel(*both, *channel.structure(responses, np.full(500, -1)))
    apart = bf.Independent(None).marginal(
        (log_prevalence,), *found, (np.ones(500, dtype=np.int64),)
    )
    total, _ = merged.expected(rows)
    assert_close(total, apart.total, "log evidence")
    drawn = np.array(
        [merged.tally(rows, merged.draw(rows, rng), rng)["rater_confusion"] for _ in range(2000)]
    )
    expected = merged.expected(rows)[1]["rater_confusion"]
    error = np.maximum(drawn.std(axis=0), 1e-9) / np.sqrt(2000)
    assert (np.abs(drawn.mean(axis=0) - expected) < 5 * error).all()


# ---------------------------------------------------------------- the model


def crowd(rng, n_items=400, n_classes=2, groups=(3, 2), n_alone=4, missing=0.2, outer=0.7):
    """Return responses and the truth: groups of the given sizes, then raters alone."""
    assignment = np.append(np.repeat(np.arange(len(groups)), groups), np.full(n_alone, -1))

    def rows(number, accuracy):
        wrong = rng.dirichlet(np.ones(n_classes - 1), (number, n_classes)) * (1 - accuracy)
        table = np.empty((number, n_classes, n_classes))
        for k in range(n_classes):
            table[:, k] = np.insert(wrong[:, k], k, accuracy, axis=1)
        with np.errstate(divide="ignore"):
            return np.log(table)

    channel = bf.LatentGroups(None, None, assignment)
    asked = rng.random((n_items, len(assignment))) >= missing
    blank = bf.Responses.from_matrix(np.where(asked, 0, -1), classes=range(n_classes))
    truth = rng.choice(n_classes, n_items, p=rng.dirichlet(np.full(n_classes, 9.0)))
    both = rows(len(groups), outer), rows(len(assignment), 0.85)
    return blank.relabelled(channel.simulate(both, truth, blank, rng)), truth, assignment


@pytest.fixture(scope="module")
def three_classes():
    responses, _, _ = crowd(np.random.default_rng(6), 150, 3)
    frame = responses.to_frame()
    frame = pd.concat([frame, frame.iloc[::9]])
    return bf.Responses.from_long(frame, items=range(152), raters=range(10), classes=range(3))


GROUPS = {"wire": [0, 1, 2], "radio": [3, 4]}


@pytest.mark.parametrize("mode", ["NUMBA", "JAX", "FAST_COMPILE"])
def test_gradients_are_right_in_every_backend(three_classes, mode):
    model = LatentGroup(three_classes, GROUPS, gold={0: 1})
    rng = np.random.default_rng(3)
    point = {k: v + rng.normal(size=v.shape) for k, v in model.initial_point().items()}
    logp = model.compile_fn(model.logp(), point_fn=True)
    gradient = model.compile_fn(model.dlogp(), point_fn=True, mode=mode)(point)
    flat = np.concatenate([point[v.name].ravel() for v in model.value_vars])
    step = 1e-5
    for place in range(0, len(flat), 3):
        ends = []
        for sign in (1, -1):
            moved, at, parts = flat.copy(), 0, {}
            moved[place] += sign * step
            for v in model.value_vars:
                size = point[v.name].size
                parts[v.name] = moved[at : at + size].reshape(point[v.name].shape)
                at += size
            ends.append(float(logp(parts)))
        numeric = (ends[0] - ends[1]) / (2 * step)
        # rounding of a density of a thousand over the step
        assert gradient[place] == pytest.approx(numeric, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("nuts_sampler", ["pymc", "nutpie", "numpyro"])
def test_gibbs_and_nuts_agree(three_classes, nuts_sampler):
    pytest.importorskip(nuts_sampler)
    model = LatentGroup(three_classes, GROUPS, gold={0: 1, 5: 2})
    gibbs = bf.sample(model, 4000, chains=2, random_seed=1, **QUIET)
    nuts = bf.sample(
        model,
        700,
        chains=2,
        cores=1,
        sampler="nuts",
        nuts_sampler=nuts_sampler,
        random_seed=3,
        **QUIET,
    )
    names = ["prevalence", "group_confusion", "rater_confusion", "confusion", "sensitivity"]
    names += ["specificity", "verdict_sensitivity", "verdict_specificity"]
    assert_within_mcse(gibbs["posterior"].dataset, nuts["posterior"].dataset, names)
    one, other = (bf.label_probabilities(fit) for fit in (gibbs, nuts))
    error = np.hypot(gibbs["label_posterior"]["mcse"], nuts["label_posterior"]["mcse"])
    assert (np.abs(one - other) <= 5 * error + 1e-9).all()


def test_every_rater_alone_is_dawid_and_skenes_model(three_classes):
    """The same draws from the same stream."""
    one = bf.sample(LatentGroup(three_classes, []), 50, chains=2, random_seed=4, **QUIET)
    other = bf.sample(DawidSkene(three_classes), 50, chains=2, random_seed=4, **QUIET)
    for name in ("prevalence", "confusion", "sensitivity", "specificity"):
        assert_close(one["posterior"][name], other["posterior"][name], name)
    assert_close(one["posterior"]["verdict_specificity"], one["posterior"]["specificity"], "both")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rates_are_shares_of_a_simulated_crowd(n_classes):
    """Against the truth and against the verdict, at parameters drawn from the prior."""
    blank = bf.Responses.from_matrix(np.zeros((100_000, 4), dtype=int), classes=range(n_classes))
    model = LatentGroup(blank, [[0, 2]])
    names = ["prevalence", "group_confusion", "rater_confusion"]
    rates = ["sensitivity", "specificity", "verdict_sensitivity", "verdict_specificity"]
    drawn = dict(
        zip(names + rates, pm.draw([model[n] for n in names + rates], random_seed=2), strict=True)
    )
    rng = np.random.default_rng(1)
    _, observation = observed(model)
    truth, _ = observation.simulate(observation.rows(drawn), rng)
    outer, inner = (drawn[name].cumsum(-1) for name in names[1:])
    verdict = (rng.random((len(truth), 1)) > outer[0, truth, :-1]).sum(1)
    for rater, source in ((0, verdict), (2, verdict), (1, truth), (3, truth)):
        label = (rng.random((len(truth), 1)) > inner[rater, source, :-1]).sum(1)
        for prefix, of in (("", truth), ("verdict_", source)):
            for k in [1] if n_classes == 2 else range(n_classes):
                place = (rater,) if n_classes == 2 else (rater, k)
                for name, is_k, right in (
                    ("sensitivity", of == k, label == k),
                    ("specificity", of != k, label != k),
                ):
                    share, n = right[is_k].mean(), is_k.sum()
                    found = drawn[prefix + name][place]
                    error = np.sqrt(found * (1 - found) / n)
                    assert found == pytest.approx(share, abs=5 * error + 1e-9), (prefix, name)


def test_dependence_shows_in_leave_one_out_item_by_item():
    responses, _, _ = crowd(np.random.default_rng(2), 600, groups=(5,), missing=0.0)
    fits = [
        bf.sample(model, 300, chains=2, random_seed=1, **QUIET)
        for model in (LatentGroup(responses, [[0, 1, 2, 3, 4]]), DawidSkene(responses))
    ]
    one, other = (az.loo(fit, pointwise=True) for fit in fits)
    gain = (one.elpd_i - other.elpd_i).values
    assert len(gain) == 600
    assert gain.sum() > 4 * np.sqrt(600) * gain.std()
    table = az.compare(dict(zip(["groups", "independent"], fits, strict=True)))
    assert table.index[0] == "groups"


@pytest.mark.parametrize("size", [5, 9])
def test_a_cartel_does_not_move_the_labels(size):
    """Some of sixteen repeat a verdict that has nothing to do with the truth; the others do not.

    Where they are most, it must be said who they are: then they look like the truth themselves.
    """
    rng = np.random.default_rng(5)
    truth, verdict = rng.random((2, 1500)) < 0.5
    cartel = np.arange(16) < size
    right = rng.random((1500, 16)) < np.where(cartel, 0.9, 0.75)
    matrix = (np.where(cartel, verdict[:, None], truth[:, None]) == right).astype(int)
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    model = LatentGroup(responses, [list(range(9))] if size == 9 else "moments")
    assert list(model.groups.members.values()) == [list(range(size))]
    result = bf.sample(model, 300, chains=2, random_seed=1, **QUIET)
    honest = DawidSkene(bf.Responses.from_matrix(matrix[:, size:], classes=[0, 1]))
    without = bf.sample(honest, 300, chains=2, random_seed=1, **QUIET)
    one, other = (bf.label_probabilities(fit).values[:, 1] for fit in (result, without))
    assert ((one > 0.5) == truth).mean() > 0.9
    assert np.abs(one - other).max() < 0.15 and np.abs(one - other).mean() < 0.03
    outer = result["posterior"]["group_confusion"].isel(group=0)
    youden = outer[..., 0, 0] + outer[..., 1, 1] - 1
    low, high = np.quantile(youden, [0.005, 0.995])
    assert low < 0 < high


TRAPS = {
    "one group of all": ([list(range(9))], 0.7),
    "groups of one": ([[0], [1], [2]], 0.7),
    "groups of two": ([[0, 1], [2, 3], [4, 5], [6, 7]], 0.7),
    "a verdict that is the truth": ([[0, 1, 2], [3, 4]], 1.0),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_traps_neither_crash_nor_stick(trap):
    """Chains agree (R̂) where the model is not identified, too."""
    groups, outer = TRAPS[trap]
    responses, _, _ = crowd(np.random.default_rng(8), 200, outer=outer)
    model = LatentGroup(responses, groups)
    result = bf.sample(model, 4000, random_seed=1, **QUIET)
    names = ["prevalence", "sensitivity", "specificity"]
    rhat = az.rhat(result["posterior"].dataset[names])
    assert max(float(rhat[name].max()) for name in names) < 1.05
    point = bf.find_map(model)
    assert np.isfinite(point.attrs["log_evidence"])
    assert np.isfinite(bf.label_probabilities(point)).all()


def test_chains_begin_apart_and_with_one_vote_per_group():
    responses, _, _ = crowd(np.random.default_rng(1), 50)
    model = LatentGroup(responses, [[0, 1, 2], [3, 4]])
    conjugacy = find_conjugate(model)
    observation, concentration = conjugacy.observation, conjugacy.concentrations()
    votes = observation.raters.votes(observation.table)
    item = responses.item
    sources = model.groups.assignment[responses.rater]
    n = int(np.argmax(responses.per_item))
    alone = (sources[item == n] < 0).sum()
    assert votes[observation.inverse[n]].sum() == pytest.approx(alone + 2)
    begun = find_start(observation, concentration)
    rng = np.random.default_rng(1)
    one, other = (disperse(observation, begun.rows, concentration, rng) for _ in range(2))
    assert not np.allclose(one["group_confusion"], other["group_confusion"])


# ---------------------------------------------------------------- how groups are said


@pytest.mark.parametrize(
    "groups",
    [
        {"wire": ["a", "c"], "radio": ["b", "e"]},
        {"a": "wire", "c": "wire", "b": "radio", "e": "radio", "d": None},
        [["a", "c"], ["b", "e"], ["d"]],
        [["a", "c"], np.array(["b", "e"])],
    ],
)
def test_ways_of_saying_groups(groups):
    responses = bf.Responses.from_matrix(np.eye(5, dtype=int), raters=list("abcde"))
    found = Groups.read(groups, responses)
    assert found.assignment.tolist() == [0, 1, 0, -1, 1]
    assert list(found.members.values()) == [["a", "c"], ["b", "e"]]


def test_found_groups_can_be_given_and_are_the_default():
    responses, _, assignment = crowd(
        np.random.default_rng(3), 4000, groups=(4,), n_alone=6, missing=0.0
    )
    found = bf.moments.find_groups(responses)
    for groups in ("moments", found):
        model = LatentGroup(responses, groups)
        assert (model.groups.assignment == assignment).all()
    assert model.groups.origin == "given"
    assert LatentGroup(responses).groups.origin == "moments"


def test_where_moments_cannot_tell_everyone_is_alone_and_the_result_says_why():
    responses = bf.Responses.from_matrix([[0, 1], [1, 1], [0, 0]])
    model = LatentGroup(responses)
    assert model.groups.members == {}
    point = bf.find_map(model)
    assert "moments cannot tell" in point.attrs["groups"] and "Got" in point.attrs["groups"]


def test_result_says_the_groups_and_survives_netcdf(tmp_path):
    responses, _, assignment = crowd(np.random.default_rng(3), 60)
    result = bf.sample(LatentGroup(responses, GROUPS), 20, chains=1, random_seed=1, **QUIET)
    assert (result["constant_data"]["assignment"] == assignment).all()
    assert result.attrs["groups"] == "given"
    assert result["posterior"]["group_confusion"]["group"].values.tolist() == ["wire", "radio"]
    result.to_netcdf(tmp_path / "result.nc")
    assert len(bf.summary(result, ["group_confusion", "verdict_sensitivity"])) == 8 + 9


BAD = {
    "unknown rater": ([[0, "nobody"]], "'nobody'"),
    "rater in two groups": ({"x": [0, 1], "y": [1, 2]}, "1 in group 'x' and again in 'y'"),
    "rater twice in one": ([[0, 0]], "again in 0"),
    "empty group": ({"x": [0, 1], "y": []}, "none in group 'y'"),
    "more groups than raters": ([[0]] * 10, "10 groups of 9 raters"),
    "another word": ("families", "'families'"),
    "one list": ([0, 1], "[0, 1]"),
    "a number": (3, "3"),
    "both ways": ({0: "x", 1: [2, 3]}, "[2, 3]"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_groups_are_refused_with_the_offender(case):
    groups, told = BAD[case]
    responses = bf.Responses.from_matrix(np.eye(9, dtype=int))
    with pytest.raises(ModelError) as error:
        LatentGroup(responses, groups)
    assert told in str(error.value) and "Got" in str(error.value)


@pytest.mark.parametrize(
    ("group_prior", "told"),
    [(np.ones((3, 3)), "shape (1, 3, 3)"), (-np.ones((2, 2)), "-1.0"), (np.ones(2), "shape (2,)")],
)
def test_bad_priors_of_groups_are_refused(group_prior, told):
    responses = bf.Responses.from_matrix(np.eye(9, dtype=int))
    with pytest.raises(ModelError) as error:
        LatentGroup(responses, [[0, 1]], group_prior=group_prior)
    assert told in str(error.value)


def test_the_channel_alone_refuses_what_does_not_fit():
    responses = bf.Responses.from_matrix(np.eye(3, dtype=int))
    inner, outer = np.full((3, 2, 2), 0.5), np.full((1, 2, 2), 0.5)
    prior = bf.Independent(np.full(2, 0.5))
    for channel, told in (
        (bf.LatentGroups(outer, inner, [0, 0, 1]), "numbers from 0 to 1 and 1 groups"),
        (bf.LatentGroups(outer, inner, [0, 0, -2]), "numbers from -2"),
        (bf.LatentGroups(None, inner, [0, 0, -1]), "and 0 groups"),
        (bf.LatentGroups(outer, inner, [0, 0]), "shape (2,)"),
        (bf.LatentGroups(outer, inner[:2], [0, 0, -1]), "rater_confusion"),
        (bf.LatentGroups(outer[:, :1], inner, [0, 0, -1]), "group_confusion"),
    ):
        with pm.Model(), pytest.raises(ModelError) as error:
            bf.observe(responses, labels=prior, raters=channel)
        assert told in str(error.value)
    for bad in ([0.5, 1.0], [], [[0]], "ab"):
        with pytest.raises(ModelError, match="one whole number per rater"):
            bf.LatentGroups(outer, inner, bad)


@pytest.mark.slow
def test_prior_draws_rank_uniformly_among_posterior_draws():
    """Calibration for known groups: one of three raters, one of two, one rater alone."""
    rng = np.random.default_rng(9)
    item, rater = np.nonzero(rng.random((25, 6)) < 0.8)
    item, rater = np.append(item, item[:6]), np.append(rater, rater[:6])
    table = {"item": item, "rater": rater, "label": np.arange(len(item)) % 3}
    responses = bf.Responses.from_long(table, items=range(25))
    ranks = sbc_ranks(
        lambda responses, gold=None: LatentGroup(
            responses, [[0, 1, 2], [3, 4]], prevalence_prior=[1.0, 2.0, 4.0], gold=gold
        ),
        responses,
        revealed=[0],
        simulations=200,
        draws=99,
        thin=2,
        sweeps=5,
        random_seed=3,
        start="prior",
    )
    free = np.delete(ranks["labels"].values, [0], axis=1)
    # items of one simulation share its parameters: one of them per simulation
    assert_uniform(free[np.arange(200), np.arange(200) % free.shape[1]], 1, "labels")
    for name in ("prevalence", "group_confusion", "rater_confusion"):
        flat = ranks[name].values.reshape(200, -1)
        for entry in range(flat.shape[1]):
            assert_uniform(flat[:, entry], 99, f"{name}, entry {entry}")
