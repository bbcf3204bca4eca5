"""Groups that are inferred: the posterior of the partition against enumeration, and calibration."""

from collections import Counter
from copy import deepcopy
from itertools import product

import numpy as np
import pymc as pm
import pytest
from partitions import log_prior, partitions
from pymc.model.fgraph import clone_model
from refusals import refused
from scipy.special import gammaln, logsumexp
from typed_crowds import random_rows

import bayesfuse as bf
from bayesfuse.models import LatentGroup
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.partition import PartitionPrior
from bayesfuse.testing import assert_close, assert_frequencies, check_rater_channel

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}


@pytest.mark.parametrize("n_classes", [2, 3])
def test_channel_is_that_of_known_groups(n_classes):
    rng = np.random.default_rng(n_classes)
    responses = bf.Responses.from_matrix(
        rng.integers(-1, n_classes, (6, 5)), classes=range(n_classes)
    )
    ones = np.ones(n_classes)
    tables = tuple(np.log(rng.dirichlet(ones, (size, n_classes))) for size in (2, 5))
    assignment = np.array([0, -1, 1, 0, 1])
    known = bf.build.LatentGroups(None, None, assignment)
    gold = np.array([1, -1, 0, -1, -1, -1])
    raw = bf.build.InferredGroups(None, None, assignment)
    one = raw.likelihood_kernel(*tables, assignment, *raw.structure(responses, gold))
    other = known.likelihood_kernel(*tables, *known.structure(responses, gold))
    for found, expected in zip(one, other, strict=True):
        assert_close(found, expected, "likelihood")
    fixed, structure = raw.at({"assignment": assignment}, raw.structure(responses, gold))
    assert_close(fixed.log_lik(tables, structure), known.log_lik(tables, structure), "at")
    assert_close(
        raw.confusion(tables, n_classes, np), known.confusion(tables, n_classes, np), "confusion"
    )
    check_rater_channel(fixed, tables, responses)


def test_density_and_gradient_are_those_of_known_groups():
    rng = np.random.default_rng(4)
    responses = bf.Responses.from_matrix(rng.integers(-1, 2, (30, 5)), classes=[0, 1])
    inferred = LatentGroup(responses, "posterior", share_prior=0.3)
    one_prior = bf.priors.diagonal(2)
    known = LatentGroup(responses, [[0, 3], [1, 4]], confusion_prior=one_prior)
    point = {k: rng.normal(size=v.shape) for k, v in known.initial_point().items()}
    seats = {"assignment": np.array([0, 1, -1, 0, 1])}
    one = inferred.compile_fn(inferred.logp())(point | seats)
    other = known.compile_fn(known.logp())(point)
    prior = log_prior([2, 2, 1], 1 / 0.3 - 1)
    assert float(one) == pytest.approx(float(other) + prior, rel=1e-10)
    wrt = [inferred[v.name] for v in known.free_RVs]
    found = inferred.compile_fn(inferred.dlogp(wrt))(point | seats)
    expected = known.compile_fn(known.dlogp())(point)
    assert_close(found, expected, "gradient", rtol=1e-8, atol=1e-9)


def exact_posterior(matrix, alpha, rows):
    """Sum over labels and verdicts with all rows summed out, every entry of a flat prevalence."""
    n_items, n_raters = matrix.shape
    every = np.array(list(product(range(2), repeat=n_items)))  # labels, or verdicts of a group

    def summed_out(counts, concentration):
        total = gammaln(concentration.sum(-1)) - gammaln((concentration + counts).sum(-1))
        return (total + (gammaln(concentration + counts) - gammaln(concentration)).sum(-1)).sum()

    def pairs(source, answer):
        counts = np.zeros((2, 2))
        answered = answer >= 0
        np.add.at(counts, (source[answered], answer[answered]), 1)
        return summed_out(counts, rows)

    of_rater = np.array([[pairs(y, matrix[:, m]) for m in range(n_raters)] for y in every])
    of_verdict = np.array([[pairs(y, z) for z in every] for y in every])
    of_labels = [summed_out(np.bincount(y, minlength=2)[None], np.ones((1, 2))) for y in every]
    log_joint = {}
    for assignment, sizes in partitions(n_raters):
        group = np.array(assignment)
        total = np.array(of_labels) + of_rater[:, group < 0].sum(axis=1)
        for g in range(group.max() + 1):
            own = of_rater[:, group == g].sum(axis=1)
            total = total + logsumexp(of_verdict + own, axis=1)
        log_joint[assignment] = total + log_prior(sizes, alpha)
    table = np.array(list(log_joint.values()))
    weight = np.exp(table - logsumexp(table))
    return dict(zip(log_joint, weight.sum(axis=1), strict=True)), weight.sum(axis=0) @ every


@pytest.mark.parametrize(
    ("counted", "draws", "sweeps"),
    [(True, 120, 8), pytest.param(False, 2000, 20, marks=pytest.mark.slow)],
)
def test_partition_and_labels_have_their_exact_posterior(counted, draws, sweeps, monkeypatch):
    """Four raters and five items (or one twice, one thrice): every partition, label, verdict."""
    if counted:
        monkeypatch.setattr("bayesfuse.raters.latent_groups.REASSIGNED", 0.9)
    matrix = np.random.default_rng(3).integers(0, 2, (5, 4))
    matrix[:, 1] = matrix[:, 0]
    matrix[3, 1] = -1
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    if counted:
        responses = bf.Responses.from_counts(matrix[2:4], [2, 3], classes=[0, 1])
        matrix = np.repeat(matrix[2:4], [2, 3], axis=0)
    exact, label = exact_posterior(matrix, 1 / 0.3 - 1, bf.priors.diagonal(2))
    model = LatentGroup(responses, "posterior", share_prior=0.3)
    result = bf.sample(model, draws, chains=1, sweeps=sweeps, random_seed=1, **QUIET)
    drawn = Counter(map(tuple, result["posterior"]["assignment"].values.reshape(-1, 4).tolist()))
    # draws eight sweeps apart are all but independent
    seen = np.array([drawn[assignment] for assignment in exact], dtype=float)
    assert_frequencies(seen, np.array(list(exact.values())), "partitions")
    found = bf.label_probabilities(result).values[:, 1]
    label = label[[0, 2]] if counted else label
    error = result["label_posterior"]["mcse"].values[:, 1]
    assert (np.abs(found - label) < 5 * error + 1e-9).all()


ROWS = "group_confusion", "rater_confusion"


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize(
    ("n_classes", "sizes", "reseated", "alpha"), [(2, (3, 2), 0.0, 1e9), (3, (2, 3, 2), 1.0, 1.0)]
)
def test_counts_after_a_sweep_match_the_responses(
    n_classes, sizes, copies, reseated, alpha, monkeypatch
):
    """Truths and verdicts counted at once or one by one, with groups that have no turn, too."""
    monkeypatch.setattr("bayesfuse.raters.latent_groups.REASSIGNED", reseated)
    rng = np.random.default_rng(n_classes)
    assignment = np.append(np.repeat(np.arange(len(sizes)), sizes), [-1, -1])
    n_items, n_raters, n_groups = 60, len(assignment), len(sizes)
    matrix = rng.integers(0, n_classes, (n_items, n_raters))
    matrix[:, -1][::3] = -1
    responses = bf.Responses.from_matrix(matrix, classes=range(n_classes))
    tables = [np.log(random_rows((n, n_classes, n_classes), n)) for n in (n_groups, n_raters)]
    prior = {
        name: Dirichlet(np.full(each.shape, 2.0)) for name, each in zip(ROWS, tables, strict=True)
    }
    prior["assignment"] = PartitionPrior(assignment, alpha)
    truth = rng.integers(0, n_classes, n_items)
    drawn = truth if copies == 1 else copies * np.eye(n_classes)[truth]
    of_class = copies * np.bincount(truth, minlength=n_classes)
    channel = bf.build.InferredGroups(None, None, assignment)
    structure = channel.structure(responses, np.full(n_items, -1))
    seats, moved = assignment, False
    for _ in range(20):
        rows = {**dict(zip(ROWS, tables, strict=True)), "assignment": seats}
        found, counts = channel.sample_assignments(rows, tables, drawn, prior, structure, rng)
        seats = found["assignment"]
        moved |= (seats != assignment).any()
        for m in range(n_raters):
            answered = matrix[:, m] >= 0
            expected = np.zeros((n_classes, n_classes))
            np.add.at(expected, (truth[answered], matrix[answered, m]), copies)
            assert_close(counts[1][m].sum(axis=0), expected.sum(axis=0), "labels")
            if seats[m] < 0:
                assert_close(counts[1][m], expected, "a rater alone")
            elif answered.all():
                heard = counts[0][seats[m]].sum(axis=0)
                assert_close(counts[1][m].sum(axis=1), heard, "verdicts")
        for g in range(seats.max() + 1):
            assert_close(counts[0][g].sum(axis=1), of_class, "truths")
        tables = [draw_dirichlet(2.0 + each, rng) for each in counts]
    assert moved


@pytest.mark.parametrize(("reseated", "copies"), [(0.0, 2), (1.0, 1)])
def test_verdicts_of_large_groups_do_not_underflow(reseated, copies, monkeypatch):
    """So many raters repeat them that no other can be drawn, but where all are silent."""
    monkeypatch.setattr("bayesfuse.raters.latent_groups.REASSIGNED", reseated)
    rng = np.random.default_rng(5)
    n_classes, n_items, n_silent, size = 3, 40, 5, 1500
    truth, verdict = rng.integers(0, n_classes, (2, n_items))
    source = np.where(np.arange(size + 3) < size, verdict[:, None], truth[:, None])
    matrix = np.where(
        rng.random(source.shape) < 0.5, source, rng.integers(0, n_classes, source.shape)
    )
    matrix[:n_silent, :size] = -1
    responses = bf.Responses.from_matrix(matrix, classes=range(n_classes))
    assignment = np.where(np.arange(size + 3) < size, 0, -1)
    right = np.full((n_classes, n_classes), 1 / 6) + 0.5 * np.eye(n_classes)
    tables = np.log(right[None]), np.log(np.tile(right, (size + 3, 1, 1)))
    prior = {
        name: Dirichlet(np.full(each.shape, 2.0)) for name, each in zip(ROWS, tables, strict=True)
    }
    prior["assignment"] = PartitionPrior(assignment, 0.01)
    rows = {**dict(zip(ROWS, tables, strict=True)), "assignment": assignment}
    channel = bf.build.InferredGroups(None, None, assignment)
    structure = channel.structure(responses, np.full(n_items, -1))
    drawn = truth if copies == 1 else copies * np.eye(n_classes)[truth]
    _, (counts, _) = channel.sample_assignments(rows, tables, drawn, prior, structure, rng)
    known = np.zeros((n_classes, n_classes))
    np.add.at(known, (truth[n_silent:], verdict[n_silent:]), copies)
    guessed = copies * reseated * np.bincount(truth[:n_silent], minlength=n_classes)
    assert (counts[0] >= known).all()
    assert_close((counts[0] - known).sum(axis=1), guessed, "items of which nobody spoke")


@pytest.mark.slow
def test_only_the_gibbs_step_infers_groups():
    responses = bf.Responses.from_matrix(np.eye(5, dtype=int))
    model = LatentGroup(responses, "posterior")
    one = bf.Responses.from_matrix([[0], [1]])
    for call, told in {
        lambda: bf.find_map(model): "EM needs",
        lambda: bf.sample(model, 5, sampler="nuts", **QUIET): "assignment",
        lambda: LatentGroup(one, "posterior"): r"Got: 1 rater\.",
        lambda: pm.sample(5, tune=5, chains=1, model=model, progressbar=False): (
            r"step=bf.build.LabelGibbs\(\)"
        ),
        lambda: bf.build.LabelGibbs([model["assignment"]], model=model): "one step draws them all",
    }.items():
        refused(told, call)
    point = model.initial_point()
    moved, _ = bf.build.LabelGibbs([model["rater_confusion"]], model=model, rng=1).step(point)
    assert (moved["assignment"] == point["assignment"]).all()
    name = model.rvs_to_values[model["rater_confusion"]].name
    assert (moved[name] != point[name]).all()


def test_models_with_inferred_groups_can_be_copied():
    responses = bf.Responses.from_matrix(np.eye(5, dtype=int))
    model = LatentGroup(responses, "posterior")
    done = pm.do(model, {"prevalence": np.array([0.5, 0.5])})
    for copy in (deepcopy(model), clone_model(model), done):
        assert (copy.initial_point()["assignment"] == model.groups.assignment).all()
        result = bf.sample(copy, 3, tune=3, chains=1, **QUIET)
        assert result["posterior"]["assignment"].shape[2] == 5


def own_model(responses, assignment):
    """Groups whose raters are known, as a constant of the channel of inferred groups."""
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", np.ones(2))
        outer = pm.Dirichlet("outer", np.tile(bf.priors.diagonal(2), (1, 1, 1)))
        inner = pm.Dirichlet("inner", np.tile(bf.priors.diagonal(2), (responses.n_raters, 1, 1)))
        channel = bf.build.InferredGroups(outer, inner, assignment)
        bf.build.observe(responses, labels=bf.build.Independent(prevalence), raters=channel)
    return model


def test_known_assignments_must_be_of_existing_groups():
    responses = bf.Responses.from_matrix(np.eye(5, dtype=int))
    for last, told in ((70_000_000, "-1 to 70000000 and 1 groups"), (-2, "-2"), (0.5, "whole")):
        refused(told, own_model, responses, [0, 0, last, -1, -1])


@pytest.mark.slow
def test_assignments_to_groups_that_do_not_exist_are_impossible():
    """As steps propose that know nothing of groups."""
    responses = bf.Responses.from_matrix(np.eye(5, dtype=int))
    rows = [np.log(np.full((n, 2, 2), 0.5)) for n in (1, 5)]
    channel = bf.build.InferredGroups(None, None, np.full(5, -1))
    structure = channel.structure(responses, np.full(5, -1))
    for wrong in (np.array([0, 0, 1, -1, -1]), np.array([0, 0, -2, -1, 7_000_000])):
        likelihood, log_scale = channel.likelihood_kernel(*rows, wrong, *structure)
        assert not likelihood.any() and np.isfinite(log_scale).all()
        counts = channel.expected_kernel(*rows, np.ones((5, 2)), wrong, *structure)
        assert not any(each.any() for each in counts)
