"""What holds of models of every rater channel, and of raters in known groups, by enumeration."""

import tracemalloc
from itertools import product

import numpy as np
import pymc as pm
import pytest
from gradients import assert_gradient
from rules import drawn_votes
from scipy.special import gammaln, logsumexp
from typed_crowds import random_crowd, random_rows

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup, MarkovRandomField
from bayesfuse.observation import ResponseModel
from bayesfuse.observation.model import observed
from bayesfuse.testing import assert_close, assert_frequencies

CROWD = random_crowd(7, 3, 2, seed=4)
"""Eight items and four raters, with gaps and repeats; the last item and rater have no responses."""


def silent(missing):
    """Every rater speaks of half of the items; of some pairs nothing is known."""
    rng = np.random.default_rng(7)
    said = rng.integers(0, 2, (8, 4)).astype(float)
    said[rng.random(said.shape) < 0.5] = -1
    said[rng.random(said.shape) < missing] = np.nan
    return bf.Responses.from_matrix(said, abstain=-1, raters=range(4), classes=[0, 1])


def stated():
    said = np.random.default_rng(8).dirichlet([0.6, 0.6], (8, 2))
    return CROWD.joined(bf.Responses.from_probabilities(said, raters=[1, 3], classes=[0, 1]))


COLUMN = np.array([[0, -1], [-1, 1], [-1, 2]])
LOOKS = np.full(4, 4.0), np.full(4, 2.0)
GUESS = np.tile([2.0, 1.5], (4, 1))


def of_votes():
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", [3.0, 2.0])
        share = bf.build.dirichlet("share", [[4.0, 3.0, 1.0], [1.0, 2.0, 3.0]])
        votes = drawn_votes(
            [0.5, 0.5], np.full((2, 3), 1 / 3), COLUMN, [1] * 8, np.random.default_rng(9)
        )[0]
        bf.build.observe(
            votes, labels=bf.build.Independent(prevalence), raters=bf.build.Votes(share, COLUMN)
        )
    return model


def of_types():
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", [3.0, 2.0])
        share = bf.build.dirichlet("share", np.random.default_rng(5).uniform(0.5, 2.0, (2, 12)))
        competence, guess = pm.Beta("competence", *LOOKS), bf.build.dirichlet("guess", GUESS)
        raters = bf.build.Consensus(share, competence, guess)
        bf.build.observe(CROWD, labels=bf.build.Independent(prevalence), raters=raters)
    return model


def dawid_skene(responses=CROWD, **arguments):
    return DawidSkene(responses, prevalence_prior=[1.0, 3.0], **arguments)


SILENCE = {"confusion_prior": [[3.0, 1.0, 2.0], [1.5, 2.0, 1.0]]}
MODELS = {
    "coin": lambda: dawid_skene(raters="coin", confusion_prior=[4.0, 2.0]),
    "silence": lambda: dawid_skene(silent(0.0), **SILENCE),
    "statements": lambda: dawid_skene(stated()),
    "known groups": lambda: LatentGroup(CROWD, [[0, 1, 3]], prevalence_prior=[1.0, 3.0]),
    "votes": of_votes,
    "types": of_types,
}


def log_dirichlet(alpha, rows):
    """Log density of all rows in their log ratios to one entry each, which adds each log once."""
    normaliser = gammaln(alpha.sum(axis=-1)) - gammaln(alpha).sum(axis=-1)
    return normaliser.sum() + (alpha * rows).sum()


@pytest.mark.parametrize("name", MODELS)
def test_the_density_is_that_of_the_prior_and_the_observation(name):
    """And its gradient is that of central differences."""
    model, rng = MODELS[name](), np.random.default_rng(3)
    plan = make_plan(model)
    point = {key: rng.normal(size=value.shape) for key, value in model.initial_point().items()}
    rows = {name: block.read(point) for name, block in plan.blocks.items()}
    # PyMC's coordinates of the prevalence multiply the determinant by the number of classes
    expected = plan.observation.marginal(rows).total + np.log(2)
    for name, block in plan.blocks.items():
        expected += log_dirichlet(block.prior.concentration, rows[name])
    assert_close(model.compile_logp()(point), expected, "density")
    assert_gradient(model, spread=1.0, atol=1e-7)


KNOWN = {"silence": (silent(0.3), bf.build.Abstaining), "statements": (stated(), bf.build.Stated)}


@pytest.mark.parametrize("name", KNOWN)
def test_models_refuse_tables_that_their_channel_does_not_model(name):
    table, channel = KNOWN[name]
    sequences = bf.Sequences.from_lengths([3, 5], items=table.items.tolist())
    graph = bf.Graph.from_edges([(0, 1), (1, 2)], items=table.items.tolist())
    for model in (
        DawidSkene(table),
        HiddenMarkov(table, sequences, raters="confusion"),
        MarkovRandomField(table, graph),
    ):
        assert type(observed(model)[1].raters) is channel
    # types of items have rows for statements
    types = [ItemTypes] if name == "silence" else []
    for make in (
        lambda responses: DawidSkene(responses, raters="coin"),
        lambda responses: DawidSkene(responses, raters="class"),
        lambda responses: DawidSkene(responses, pooled=True),
        lambda responses: LatentGroup(responses, [[0, 1]]),
        *types,
    ):
        with pytest.raises(ModelError, match=rf"without_{name}\(\).*with {name}"):
            make(table)
        assert make(getattr(table, f"without_{name}")()).free_RVs


ASSIGNMENT = np.array([0, -1, 1, 0, 1, -1])  # the last of whom never answers


def tables(n_classes, n_groups=2, n_raters=6, seed=1):
    shapes = (n_groups, n_classes, n_classes), (n_raters, n_classes, n_classes)
    return tuple(np.log(random_rows(shape, seed + i)) for i, shape in enumerate(shapes))


def observe(responses, assignment=ASSIGNMENT, **kwargs):
    channel = bf.build.LatentGroups(None, None, assignment)
    channel.parameters = dict.fromkeys(["group_confusion", "rater_confusion"])
    return ResponseModel.build(responses, bf.build.Independent(None), channel, **kwargs)


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


@pytest.mark.parametrize("n_classes", [2, 3])
def test_evidence_and_counts_against_enumeration_over_labels_and_verdicts(n_classes):
    responses = random_crowd(8, 5, n_classes, seed=n_classes)
    observation = observe(responses)
    log_prevalence, both = np.log(random_rows((n_classes,), 7)), tables(n_classes)
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
def test_verdicts_are_drawn_from_their_posterior(copies):
    """Two raters of a group and one alone on one item: every (label, verdict) by enumeration."""
    both = tables(3, n_groups=1, n_raters=3, seed=4)
    assignment = np.array([0, 0, -1])
    responses = bf.Responses.from_counts({"021": copies}, classes=list("012"))
    every = list(enumerate_verdicts(responses, np.log([0.2, 0.3, 0.5]), both, assignment))
    observation = observe(responses, assignment)
    rows = rows_of(np.log([0.2, 0.3, 0.5]), both)
    rng = np.random.default_rng(1)
    seen = np.zeros((3, 3))
    for _ in range(2000):
        counts = observation.sample_counts(rows, observation.draw(rows, rng), rng)
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
    plain = bf.build.Confusion(None)
    expected = plain.log_lik((np.log(inner + 1e-320),), plain.structure(responses, gold))
    with np.errstate(divide="ignore"):
        both = np.log(np.eye(2)[None]), np.log(inner)
    channel = bf.build.LatentGroups(None, None, assignment)
    structure = channel.structure(responses, gold)
    found = channel.log_lik(both, structure)
    possible = expected > -1e5
    possible &= ~((responses.label.reshape(20, 500)[:, 499:] == 1) & (np.arange(2) == 0))
    assert (found[~possible] == -np.inf).all() and possible.any(axis=1).sum() > 10
    assert_close(found[possible], expected[possible], "log-likelihood")
    counts = channel.expected_kernel(*both, np.exp(found - found.max()), *structure)
    assert all(np.isfinite(table).all() for table in counts)


@pytest.mark.parametrize("rows", ["alone", "verdict is the truth"])
def test_degenerate_groups_are_dawid_and_skene(rows):
    responses = random_crowd(12, 5, 3, seed=3)
    _, inner = tables(3)
    outer = np.log(np.tile(np.eye(3), (2, 1, 1)) + 1e-300)
    assignment = ASSIGNMENT if rows != "alone" else np.full(6, -1)
    one, other = bf.build.LatentGroups(None, None, assignment), bf.build.Confusion(None)
    gold = np.arange(responses.n_items) % 4 - 1
    found = one.log_lik((outer, inner), one.structure(responses, gold))
    assert_close(found, other.log_lik((inner,), other.structure(responses, gold)), "both")
    weight = np.random.default_rng(1).random((responses.n_items, 3))
    _, found = one.expected_kernel(outer, inner, weight, *one.structure(responses, gold))
    (expected,) = other.expected_kernel(inner, weight, *other.structure(responses, gold))
    assert_close(found, expected, "counts")
    confusion = one.confusion((outer, inner), outer.shape[-1], np)
    assert_close(confusion, np.exp(inner), "confusion")


def test_channel_refuses_wrong_shapes():
    responses = bf.Responses.from_matrix(np.eye(3, dtype=int))
    inner, outer = np.full((3, 2, 2), 0.5), np.full((1, 2, 2), 0.5)
    for arguments, told in (
        ((outer, inner, [0, 0, 1]), "numbers from 0 to 1 and 1 groups"),
        ((outer, inner, [0, 0, -2]), "numbers from -2"),
        ((None, inner, [0, 0, -1]), "and 0 groups"),
        ((outer, inner, [0, 0]), r"shape \(2,\)"),
        ((outer, inner[:2], [0, 0, -1]), "rater_confusion"),
        ((outer[:, :1], inner, [0, 0, -1]), "group_confusion"),
        ((outer, inner, [0.5, 1.0]), "one whole number per rater"),
        ((outer, inner, "ab"), "one whole number per rater"),
    ):
        with pm.Model(), pytest.raises(ModelError, match=told):
            channel = bf.build.LatentGroups(*arguments)
            bf.build.observe(
                responses, labels=bf.build.Independent(np.full(2, 0.5)), raters=channel
            )


def test_votes_are_one_for_every_group_that_answered():
    """Also of items that raters answered twice, and in no more memory than there are responses."""
    n_items, n_groups = 2000, 1000
    item = np.repeat(np.arange(n_items), 3)
    first = np.arange(n_items) % n_groups
    rater = np.stack([2 * first, 2 * first + 1, np.full(n_items, 2 * n_groups)], axis=1).ravel()
    label = np.tile([0, 1, 1], n_items)
    table = {"item": item, "rater": rater, "label": label}
    responses = bf.Responses.from_long(table, raters=range(2 * n_groups + 1))
    assignment = np.append(np.arange(2 * n_groups) // 2, -1)
    channel = bf.build.LatentGroups(None, None, assignment)
    log_rows = [np.log(np.full((n, 2, 2), 0.5)) for n in (n_groups, 2 * n_groups + 1)]
    truth, rng = np.zeros(n_items, dtype=np.int64), np.random.default_rng(1)
    tracemalloc.start()
    votes, drawn = channel.votes(responses), channel.simulate(log_rows, truth, responses, rng)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < n_items * n_groups  # bytes, of which a number takes eight
    assert (votes == [0.5, 1.5]).all() and set(drawn.tolist()) == {0, 1}
