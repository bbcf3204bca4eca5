"""Groups that are inferred: the posterior of the partition against enumeration, and calibration."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from itertools import product

import numpy as np
import pymc as pm
import pytest
from grouped_crowds import grouped
from partitions import log_prior, partitions
from pymc.model.fgraph import clone_model
from scipy.special import gammaln, logsumexp

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import LatentGroup
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.partition import PartitionPrior
from bayesfuse.raters import inferred_groups
from bayesfuse.testing import (
    assert_close,
    assert_frequencies,
    assert_uniform,
    check_rater_channel,
    simulate,
)

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
    known = bf.LatentGroups(None, None, assignment)
    gold = np.array([1, -1, 0, -1, -1, -1])
    raw = bf.InferredGroups(None, None, assignment)
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


@pytest.mark.parametrize(
    "mode",
    ["FAST_COMPILE", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("NUMBA", "JAX"))],
)
def test_density_and_gradient_are_those_of_known_groups(mode):
    rng = np.random.default_rng(4)
    responses = bf.Responses.from_matrix(rng.integers(-1, 2, (30, 5)), classes=[0, 1])
    inferred = LatentGroup(responses, "posterior", share_prior=0.3)
    known = LatentGroup(responses, [[0, 3], [1, 4]])
    point = {k: rng.normal(size=v.shape) for k, v in known.initial_point().items()}
    seats = {"assignment": np.array([0, 1, -1, 0, 1])}
    one = inferred.compile_fn(inferred.logp(), mode=mode)(point | seats)
    other = known.compile_fn(known.logp(), mode="FAST_COMPILE")(point)
    prior = log_prior([2, 2, 1], 1 / 0.3 - 1)
    assert float(one) == pytest.approx(float(other) + prior, rel=1e-10)
    wrt = [inferred[v.name] for v in known.free_RVs]
    found = inferred.compile_fn(inferred.dlogp(wrt), mode=mode)(point | seats)
    expected = known.compile_fn(known.dlogp(), mode="FAST_COMPILE")(point)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counted", "reseated"), [(False, inferred_groups.REASSIGNED), (True, 0.9)]
)
def test_partition_and_labels_have_their_exact_posterior(counted, reseated, monkeypatch):
    """Four raters and five items (or one twice, one thrice): every partition, label, verdict."""
    monkeypatch.setattr(inferred_groups, "REASSIGNED", reseated)
    matrix = np.random.default_rng(3).integers(0, 2, (5, 4))
    matrix[:, 1] = matrix[:, 0]
    matrix[3, 1] = -1
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    if counted:
        responses = bf.Responses.from_counts(matrix[2:4], [2, 3], classes=[0, 1])
        matrix = np.repeat(matrix[2:4], [2, 3], axis=0)
    exact, label = exact_posterior(matrix, 1 / 0.3 - 1, bf.priors.diagonal(2))
    model = LatentGroup(responses, "posterior", share_prior=0.3)
    result = bf.sample(model, 2500, chains=2, sweeps=20, random_seed=1, **QUIET)
    drawn = Counter(map(tuple, result["posterior"]["assignment"].values.reshape(-1, 4).tolist()))
    # draws twenty sweeps apart are all but independent
    seen = np.array([drawn[assignment] for assignment in exact], dtype=float)
    assert_frequencies(seen, np.array(list(exact.values())), "partitions")
    found = bf.label_probabilities(result).values[:, 1]
    label = label[[0, 2]] if counted else label
    error = result["label_posterior"]["mcse"].values[:, 1]
    assert (np.abs(found - label) < 5 * error + 1e-9).all()


def sparse_table(n_raters=5, n_items=30):
    rng = np.random.default_rng(9)
    item, rater = np.nonzero(rng.random((n_items, n_raters)) < 0.8)
    item, rater = np.append(item, item[:6]), np.append(rater, rater[:6])
    table = {"item": item, "rater": rater, "label": np.arange(len(item)) % 2}
    return bf.Responses.from_long(table, items=range(n_items))


@pytest.mark.slow
def test_prior_draws_rank_uniformly_with_the_assignment_inferred():
    """Parameters, labels and who shares a source with whom."""
    responses, rng = sparse_table(), np.random.default_rng(2)
    arguments = {"share_prior": 0.3, "prevalence_prior": [2.0, 4.0]}
    template = LatentGroup(responses, "posterior", **arguments)
    names = ["prevalence", "group_confusion", "rater_confusion"]
    ranks = {name: [] for name in names}
    together, labels = [], []
    for stream in rng.spawn(120):
        parameters, truth, table = simulate(template, stream)
        model = LatentGroup(table, "posterior", **arguments)
        result = bf.sample(
            model, 99, chains=1, sweeps=6, random_seed=stream, log_likelihood=False, **QUIET
        )
        posterior = result["posterior"].dataset
        for name in names:
            ranks[name].append((posterior[name].values[0] < parameters[name]).sum(axis=0))
        drawn, true = posterior["assignment"].values[0], parameters["assignment"]
        # numbers of pairs that share a source, ties broken at random
        found = np.array([pairs(each) for each in drawn]) + stream.random(99)
        together.append((found < pairs(true) + stream.random()).sum())
        probability = bf.label_probabilities(result).values
        below = np.where(truth > 0, probability[:, 0], 0.0)
        own = probability[np.arange(len(truth)), truth]
        labels.append((below + stream.random(len(truth)) * own)[0])
    assert_uniform(together, 99, "pairs that share a source")
    assert_uniform(labels, 1, "label of an item")
    for name in names:
        flat = np.array(ranks[name]).reshape(120, -1)
        for entry in range(flat.shape[1]):
            assert_uniform(flat[:, entry], 99, f"{name}, entry {entry}")


def pairs(assignment):
    sizes = np.bincount(assignment[assignment >= 0])
    return float((sizes * (sizes - 1) / 2).sum())


@pytest.mark.slow
def test_a_group_is_found_again_from_a_start_without_it():
    responses, _ = grouped(np.random.default_rng(1), 800, 8, 3)
    model = LatentGroup(responses, "posterior")
    values = {
        "prevalence": np.array([0.5, 0.5]),
        "group_confusion": np.full((4, 2, 2), 0.5),
        "rater_confusion": np.tile([[0.8, 0.2], [0.2, 0.8]], (8, 1, 1)),
        "assignment": np.full(8, -1),
    }
    result = bf.sample(
        model, 200, tune=200, chains=1, start=values, sweeps=2, random_seed=2, **QUIET
    )
    shared = result["posterior"]["assignment"].values[0]
    assert ((shared[:, 0] >= 0) & (shared[:, 0] == shared[:, 1])).mean() > 0.9
    assert ((shared[:, 0] >= 0) & (shared[:, 0] == shared[:, 2])).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize(("n_classes", "sizes"), [(2, (3, 2)), (5, (2, 2)), (3, (2, 3, 2))])
@pytest.mark.parametrize(("reseated", "alpha"), [(0.0, 1e9), (1.0, 1.0)])
def test_counts_after_a_sweep_are_of_the_responses(
    n_classes, sizes, copies, reseated, alpha, monkeypatch
):
    """Truths and verdicts counted at once or one by one, with groups that have no turn, too."""
    monkeypatch.setattr(inferred_groups, "REASSIGNED", reseated)
    rng = np.random.default_rng(n_classes)
    assignment = np.append(np.repeat(np.arange(len(sizes)), sizes), [-1, -1])
    n_items, n_raters, n_groups = 60, len(assignment), len(sizes)
    matrix = rng.integers(0, n_classes, (n_items, n_raters))
    matrix[:, -1][::3] = -1
    responses = bf.Responses.from_matrix(matrix, classes=range(n_classes))
    tables = tuple(
        np.log(rng.dirichlet(np.full(n_classes, 2.0), (size, n_classes)))
        for size in (n_groups, n_raters)
    )
    rows = dict(
        zip(
            ("group_confusion", "rater_confusion", "assignment"), (*tables, assignment), strict=True
        )
    )
    prior = {name: Dirichlet(np.full(table.shape, 2.0)) for name, table in list(rows.items())[:2]}
    seating = PartitionPrior(alpha, assignment)
    truth = rng.integers(0, n_classes, n_items)
    drawn = truth if copies == 1 else copies * np.eye(n_classes)[truth]
    of_class = copies * np.bincount(truth, minlength=n_classes)
    channel = bf.InferredGroups(None, None, assignment)
    structure = channel.structure(responses, np.full(n_items, -1))
    moved = False
    for _ in range(20):
        found, counts = channel.redraw(
            rows, tables, drawn, prior | {"assignment": seating}, structure, rng
        )
        seats = found["assignment"]
        moved |= (seats != assignment).any()
        for m in range(n_raters):
            answered = matrix[:, m] >= 0
            expected = np.zeros((n_classes, n_classes))
            np.add.at(expected, (truth[answered], matrix[answered, m]), copies)
            by_label = counts[1][m].sum(axis=0)
            assert_close(by_label, expected.sum(axis=0), "labels")
            if seats[m] < 0:
                assert_close(counts[1][m], expected, "a rater alone")
            elif answered.all():
                heard = counts[0][seats[m]].sum(axis=0)
                assert_close(counts[1][m].sum(axis=1), heard, "verdicts")
        for g in range(seats.max() + 1):
            assert_close(counts[0][g].sum(axis=1), of_class, "truths")
        tables = tuple(draw_dirichlet(2.0 + each, rng) for each in counts)
        rows = {**dict(zip(prior, tables, strict=True)), "assignment": seats}
    assert moved


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("reseated", [0.0, 1.0])
def test_verdicts_of_a_group_whose_patterns_underflow_are_known(reseated, copies, monkeypatch):
    """So many raters repeat them that no other can be drawn, but where all are silent."""
    monkeypatch.setattr(inferred_groups, "REASSIGNED", reseated)
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
    names = "group_confusion", "rater_confusion"
    prior = {
        name: Dirichlet(np.full(each.shape, 2.0)) for name, each in zip(names, tables, strict=True)
    }
    seating = PartitionPrior(0.01, assignment)
    rows = {**dict(zip(names, tables, strict=True)), "assignment": assignment}
    channel = bf.InferredGroups(None, None, assignment)
    structure = channel.structure(responses, np.full(n_items, -1))
    drawn = truth if copies == 1 else copies * np.eye(n_classes)[truth]
    _, (counts, _) = channel.redraw(
        rows, tables, drawn, prior | {"assignment": seating}, structure, rng
    )
    known = np.zeros((n_classes, n_classes))
    np.add.at(known, (truth[n_silent:], verdict[n_silent:]), copies)
    guessed = copies * reseated * np.bincount(truth[:n_silent], minlength=n_classes)
    assert (counts[0] >= known).all()
    assert_close((counts[0] - known).sum(axis=1), guessed, "items of which nobody spoke")


def test_em_and_nuts_refuse_to_infer_groups():
    responses = bf.Responses.from_matrix(np.eye(4, dtype=int))
    model = LatentGroup(responses, "posterior")
    with pytest.raises(ModelError, match="EM needs"):
        bf.find_map(model)
    with pytest.raises(ModelError, match="assignment"):
        bf.sample(model, 5, sampler="nuts", **QUIET)
    with pytest.raises(ModelError, match=r"Got: 1 rater\."):
        LatentGroup(bf.Responses.from_matrix([[0], [1]]), "posterior")


def test_plain_pymc_is_told_to_use_the_gibbs_step():
    responses = bf.Responses.from_matrix(np.eye(5, dtype=int))
    model = LatentGroup(responses, "posterior", max_groups=2)
    with pytest.raises(ModelError, match=r"step=bf.LabelGibbs\(\)"):
        pm.sample(5, tune=5, chains=1, model=model, progressbar=False)
    for part in (["assignment"], ["assignment", "rater_confusion"]):
        with pytest.raises(ModelError, match="one step draws them all"):
            bf.LabelGibbs([model[name] for name in part], model=model)
    point = model.initial_point()
    moved, _ = bf.LabelGibbs([model["rater_confusion"]], model=model, rng=1).step(point)
    assert (moved["assignment"] == point["assignment"]).all()
    name = model.rvs_to_values[model["rater_confusion"]].name
    assert (moved[name] != point[name]).all()


def test_models_with_inferred_groups_can_be_copied():
    responses = bf.Responses.from_matrix(np.eye(5, dtype=int))
    model = LatentGroup(responses, "posterior")
    done = pm.do(model, {"prevalence": np.array([0.5, 0.5])})
    for copy in (deepcopy(model), clone_model(model), done):
        begin = copy.initial_point()["assignment"]
        assert (begin == model.groups.assignment).all()
        assert (
            bf.sample(copy, 3, tune=3, chains=1, **QUIET)["posterior"]["assignment"].shape[2] == 5
        )
