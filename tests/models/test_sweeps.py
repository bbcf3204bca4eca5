"""Gibbs sampling of every model: it leaves the posterior as it is, and agrees with NUTS."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from kept import assert_kept
from rules import drawn_votes
from scipy.special import gammaln, softmax
from slowly import with_slow
from within_mcse import assert_within_mcse

import bayesfuse as bf
from bayesfuse.inference.chains import Chain, compilable
from bayesfuse.inference.gibbs import Sweep
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup, MarkovRandomField
from bayesfuse.observation import ResponseModel
from bayesfuse.observation.model import observed, parameter_variables
from bayesfuse.parameters.compiled import without_compilation
from bayesfuse.parameters.contract import DRAWN
from bayesfuse.parameters.pool import Member, SharedMean
from bayesfuse.parameters.simplex import SIMPLEX
from bayesfuse.testing import assert_uniform, sbc_ranks, simulate

N_ITEMS = 12
ALLOWED = np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 1.0], [3.0, 0.0, 1.0]])
GRID = bf.Graph.grid((3, 4))
POPULATION = np.arange(N_ITEMS) % 3
SHARES = np.array([[6.0, 2.0, 3.0], [1.0, 1.0, 1.0], [1.0, 2.0, 4.0]])


def with_draws(model, simulations):
    """Return the plan of a model, and draws of its parameters from the prior."""
    plan = make_plan(model)
    variables = parameter_variables(observed(model)[0])
    variables |= {block.parameter: block.variable for block in plan.all_blocks}
    with without_compilation():
        drawn = pm.draw(list(variables.values()), draws=simulations, random_seed=0)
    return plan, dict(zip(variables, drawn, strict=True))


def assert_sweeps_keep(plan, drawn, *, revealed=(), sweeps=4, compiled=False):
    """Draw truths and responses given parameters, go on from these by Gibbs steps, compare.

    ``drawn`` are draws from the prior; ``revealed`` are the numbers of items whose truth is known
    to the sampler; ``compiled`` is whether the sweeps are.
    """
    rng = np.random.default_rng(0)
    sweep, whole = Sweep.of(plan), plan.observation
    before, after = [], []
    for number in range(len(next(iter(drawn.values())))):
        values = {name: draws[number] for name, draws in drawn.items()}
        with np.errstate(divide="ignore"):  # zero is a legal probability
            own = {b.parameter: b.support.to_kernel(values[b.parameter]) for b in plan.all_blocks}
        rows = whole.rows(values) | own
        for pooled in plan.pools:
            rows |= pooled.rows(pooled.values(rows))
        truth, table = whole.simulate_table(rows, rng)
        gold = {table.items[n]: table.classes[truth[n]] for n in revealed}
        observation = ResponseModel.build(table, whole.labels, whole.raters, gold)
        observed_sweep = replace(sweep, observation=observation)
        before.append(functions(observed_sweep, rows, plan))
        state = observed_sweep.init(rows, truth.astype(np.int32))
        sizes = {"tune": 0, "draws": 1, "sweeps": sweeps}
        chain = Chain(observed_sweep, state, rng, compiled=compiled, **sizes)
        chain.advance(1.0)
        rows = rows | {name: draws[0] for name, draws in chain.stored.items()}
        for pooled in plan.pools:
            rows |= pooled.rows(pooled.values(rows))
        after.append(functions(observed_sweep, rows, plan))
    assert_kept(before, after)


def functions(sweep, rows, plan):
    """Return bounded functions of the parameters, and of these and the responses."""
    natural = {
        block.parameter: block.coordinates.natural(rows[block.parameter])
        for block in plan.all_blocks
        if block.parameter != "assignment"
    }
    if "assignment" in rows:
        seats = rows["assignment"]
        together = (seats[:, None] == seats) & (seats >= 0)
        natural["together"] = together[np.triu_indices(len(seats), 1)].astype(float)
    marginal = sweep.observation.marginal(rows)
    labels = sweep.observation.by_item(marginal.probability)
    return {name: value / (1 + np.abs(value)) for name, value in natural.items()} | {
        "evidence": np.array(marginal.total / sweep.observation.n_responses),
        "labels": labels[:, 0],
        "label counts": labels.mean(axis=0),
    }


def design(n_classes):
    """Four fifths of all pairs of items and five raters, some of them twice."""
    rng = np.random.default_rng(9)
    item, rater = np.nonzero(rng.random((N_ITEMS, 5)) < 0.8)
    item, rater = np.append(item, item[:6]), np.append(rater, rater[:6])
    columns = {"item": item, "rater": rater, "label": np.arange(len(item)) % n_classes}
    return bf.Responses.from_long(columns, items=range(N_ITEMS), classes=range(n_classes))


def sequences(lengths):
    return bf.Sequences.from_lengths(lengths, items=np.arange(N_ITEMS)[::-1])


def chains(**given):
    return lambda table, **gold: HiddenMarkov(table, sequences([5, 1, 6]), **given, **gold)


def grouped(table, labels):
    """A model of one's own, whose first three raters repeat one verdict."""
    with pm.Model() as model:
        outer = bf.build.dirichlet("outer", np.ones((1, 2, 2)) + 2 * np.eye(2))
        inner = bf.build.dirichlet("inner", np.ones((5, 2, 2)) + 3 * np.eye(2))
        raters = bf.build.LatentGroups(outer, inner, [0, 0, 0, -1, -1])
        bf.build.observe(table, labels=labels(), raters=raters)
    return model


def groups(members=((0, 1, 2), (3, 4)), prevalence=(1, 2, 4), **given):
    if members != "posterior":
        members = [list(group) for group in members]
    return lambda table, **gold: LatentGroup(
        table, members, prevalence_prior=list(prevalence), **given, **gold
    )


def types_in_sequence(table):
    """A model of one's own: shares of types by class, guesses of raters around a mean."""
    with pm.Model() as model:
        share = bf.build.dirichlet("share", np.random.default_rng(3).uniform(0.5, 2.0, (2, 12)))
        mean, near = pm.Dirichlet("mean", [6.0, 2.0]), pm.Gamma("near", 4.0, 0.5)
        guess = pm.Dirichlet("guess", pt.alloc(near * mean, 5, 2))
        members = {"mean": Member(mean, SIMPLEX), "concentration": Member(near, DRAWN)}
        model.pools = [SharedMean("guess", members, np.array([6.0, 2.0]), 4.0, 0.5, 5)]
        raters = bf.build.Consensus(share, pm.Beta("competence", 3.0, 2.0, shape=5), guess)
        bf.build.observe(table, labels=chain(), raters=raters)
    return model


def statements(table):
    """Two of the raters state probabilities, too."""
    said = np.random.default_rng(8).dirichlet([0.6, 0.6], (N_ITEMS, 2))
    return table.joined(bf.Responses.from_probabilities(said, raters=[1, 3], classes=[0, 1]))


def votes(_):
    """Single votes: several different ones of an item would not be drawn independently."""
    column, rng = np.array([[0, -1], [-1, 1], [-1, 2]]), np.random.default_rng(9)
    even = np.full(2, 0.5), np.full((2, 3), 1 / 3)
    table, _ = drawn_votes(*even, column, np.ones(N_ITEMS, dtype=int), rng)
    with pm.Model() as model:
        share = bf.build.dirichlet("share", [[4.0, 3.0, 1.0], [1.0, 2.0, 3.0]])
        prevalence = pm.Dirichlet("prevalence", [3.0, 2.0])
        bf.build.observe(
            table, labels=bf.build.Independent(prevalence), raters=bf.build.Votes(share, column)
        )
    return model


def types(**given):
    return lambda table, **gold: ItemTypes(table, **given, **gold)


def chain():
    initial, step = (
        pm.Dirichlet("initial", [2.0, 1.0]),
        bf.build.dirichlet("step", [[4, 1], [2, 2]]),
    )
    return bf.build.MarkovChain(initial, step, sequences([5, 1, 6]))


def field():
    return bf.build.Potts(pm.Gamma("coupling", 3.0, 4.0), GRID, [0.4, 0.6])


def crowd(prevalence, confusion=None, **given):
    given |= {"prevalence_prior": prevalence, "confusion_prior": confusion}
    return lambda table, **gold: DawidSkene(table, **given, **gold)


SILENCE = crowd([1.0, 3.0], [[3.0, 1.0, 2.0], [1.5, 2.0, 1.0]])
CASES = {
    "silence": (2, lambda t: SILENCE(t.completed())),
    "silence, some missing": (
        3,
        lambda t: SILENCE(bf.Responses.from_long(t.to_frame(), abstain=2, raters=range(5))),
    ),
    "statements": (2, lambda t: crowd([1.0, 3.0])(statements(t))),
    "votes": (2, votes),
    "inferred groups": (2, groups("posterior", [1, 3], share_prior=0.3)),
    "types in sequence": (2, types_in_sequence),
    "confusion": (3, crowd([1.0, 2.0, 4.0])),
    "accuracies by class": (3, crowd([1.0, 2.0, 4.0], [4.0, 2.0], raters="class")),
    "accuracies": (3, crowd([1.0, 2.0, 4.0], [4.0, 2.0], raters="coin")),
    "pooled confusion": (2, crowd([4.0, 8.0], [[24.0, 6.0], [5.0, 30.0]], pooled=True)),
    "pooled accuracies by class": (
        3,
        crowd([4.0, 8.0, 2.0], [8.0, 3.0], raters="class", pooled=True),
    ),
    "pooled accuracies": (2, crowd([4.0, 8.0], [28.0, 6.0], raters="coin", pooled=True)),
    "pooled graded": (3, crowd([4.0, 5.0, 6.0], raters="graded", pooled=True)),
    "populations": (3, crowd(SHARES, populations=POPULATION)),
    "known groups": (3, groups()),
    "chains": (3, chains(initial_prior=[1, 1, 0], transition_prior=ALLOWED)),
    "chains of answers": (2, chains(raters="sequential", confusion_prior=[[4.0, 2.0], [1.0, 3.0]])),
    "stationary chains": (3, chains(initial="stationary", transition_prior=ALLOWED)),
    "chains of populations": (
        2,
        chains(populations=[0, 1, 0], transition_prior=[[4.0, 1.0], [2.0, 2.0]]),
    ),
    "chains of grouped raters": (2, lambda t: grouped(t, chain)),
    "pooled chains": (2, chains(raters="coin", confusion_prior=[28.0, 6.0], pooled=True)),
    "grid, pooled": (
        2,
        lambda t: MarkovRandomField(
            t, GRID, raters="coin", confusion_prior=[28.0, 6.0], pooled=True
        ),
    ),
    "grid": (2, lambda t: MarkovRandomField(t, GRID)),
    "grid of grouped raters": (2, lambda t: grouped(t, field)),
    "types": (2, types()),
    "types with pairs": (3, types()),
    "types of three classes": (3, types(consensus="levels", guesses="even")),
    "types, clean items": (2, types(clean=True)),
    "types of statements": (2, lambda t: types(clean=True)(statements(t))),
    "types, trust given": (2, types(guesses="even", trust=0.7)),
    "types of populations": (2, types(populations=POPULATION)),
    "types, a covariate": (3, types(covariates=np.arange(12.0)[:, None] % 5, trust=1.4)),
}


@cache
def case(name, simulations=100):
    """Return the plan of a case and draws from its prior, which sweeps of both kinds share."""
    n_classes, build = CASES[name]
    return with_draws(build(design(n_classes)), simulations)


# the longest are among the many simulations below
LONG = {"types of populations", "types, a covariate", "pooled graded", "inferred groups"}
LONG |= {"chains of populations"}


@pytest.mark.parametrize("name", [name for name in CASES if name not in LONG])
def test_sweeps_leave_the_posterior_invariant(name):
    assert_sweeps_keep(*case(name), revealed=[0, 7])


COMPILED = ["confusion", "accuracies by class", "accuracies", "populations", "chains"]
COMPILED += ["chains of answers"]
COMPILED += [name for name in CASES if name.startswith("pooled") and "graded" not in name]
COMPILED += [name for name in CASES if name.startswith("types") and "sequence" not in name]


def test_models_whose_chains_are_compiled():
    """Others have labels, rows or hyperparameters for which there are no compiled functions."""
    assert sorted(name for name in CASES if compilable(case(name)[0])) == sorted(COMPILED)


# Quick ones compile every function of labels, raters and pools once, slow ones other combinations.
OTHER_COMBINATIONS = ["accuracies by class", "accuracies", "chains", "pooled confusion"]
OTHER_COMBINATIONS += ["pooled accuracies", "types, trust given"]


@pytest.mark.parametrize("name", with_slow(COMPILED, *OTHER_COMBINATIONS))
def test_compiled_sweeps_leave_the_posterior_invariant(name):
    assert_sweeps_keep(*case(name), revealed=[0, 7], compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_sweeps_leave_the_posterior_invariant_in_many_simulations(name):
    plan, drawn = case(name, 300)
    for compiled in {False, compilable(plan)}:
        assert_sweeps_keep(plan, drawn, revealed=[0, 7], compiled=compiled)


def test_chains_begin_where_only_some_parameters_have_a_pool():
    """Labels come from a start without types, whose shares are none of its parameters."""
    model = types_in_sequence(design(2))
    found = bf.sample(model, 20, tune=10, chains=1, random_seed=1, progressbar=False, quiet=True)
    assert found["posterior"]["share"].shape == (1, 20, 2, 12)
    assert found["posterior"]["share"].std(("chain", "draw")).min() > 0.01


@pytest.mark.parametrize("compiled", [False, True])
def test_sweeps_of_types_keep_the_posterior_where_items_are_merged(compiled):
    """Three raters and two classes have nine patterns with and without a known class."""
    columns = {"item": np.repeat(np.arange(40), 3), "rater": np.tile([0, 1, 2], 40)}
    responses = bf.Responses.from_long(columns | {"label": np.arange(120) // 60}, classes=[0, 1])
    plan, drawn = with_draws(types()(responses), 60)
    assert_sweeps_keep(plan, drawn, revealed=[0, 7, 30], compiled=compiled)


RNG = np.random.default_rng(3)
KNOWN = {"covariates": RNG.normal(size=(N_ITEMS, 1)), "classifier": RNG.dirichlet([3, 2], N_ITEMS)}
BY_NUTS = {
    "pooled confusion": CASES["pooled confusion"],
    "stationary chains": (2, chains(initial="stationary")),
    "chains with a classifier": (2, chains(classifier=KNOWN["classifier"], raters="sequential")),
    "path": (
        2,
        lambda table, **gold: MarkovRandomField(
            table, bf.Graph.grid((N_ITEMS,)), raters="coin", confusion_prior=[16, 4], **gold
        ),
    ),
    "what is known": (2, crowd([[3, 2], [1, 1], [2, 4]], populations=POPULATION, **KNOWN)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NUTS)
def test_gibbs_and_nuts_agree(name):
    """On PyMC's density, which Gibbs steps do not use; with every third class known.

    Item types, groups and grades are compared with importance sampling, and their densities with
    those of Gibbs steps: compiling a density for NUTS takes longer than all these.
    """
    n_classes, build = BY_NUTS[name]
    _, truth, responses = simulate(build(design(n_classes)), 1)
    model = build(responses, gold={n: int(truth[n]) for n in range(0, N_ITEMS, 3)})
    settings = {"chains": 2, "cores": 1, "progressbar": False, "quiet": True}
    of_nuts = {"target_accept": 0.95} if name == "what is known" else {}  # which draws slopes
    gibbs = bf.sample(model, 2000, tune=500, random_seed=1, **of_nuts, **settings)
    nuts = bf.sample(
        model, 300, tune=300, sampler="nuts", nuts_sampler="pymc", target_accept=0.95,
        random_seed=2, **settings,
    )  # fmt: skip
    assert gibbs.attrs["sampler"] == "gibbs" and nuts.attrs["sampler"] == "nuts"
    names = [variable.name for variable in model.free_RVs]
    assert_within_mcse(gibbs["posterior"].dataset, nuts["posterior"].dataset, names)
    one, other = (result["label_posterior"].dataset for result in (gibbs, nuts))
    allowed = 5 * np.hypot(one["mcse"].values, other["mcse"].values) + 1e-9
    assert (np.abs(one["probability"].values - other["probability"].values) <= allowed).all()


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


@pytest.mark.parametrize(("n_classes", "n_items", "n_raters"), [(2, 12, 4), (3, 7, 5)])
def test_chains_visit_all_modes_by_their_shares(n_classes, n_items, n_raters):
    """Agreeing raters and a prior that hardly names the classes: modes far apart, enumerated."""
    rng, names = np.random.default_rng(n_classes), np.eye(n_classes)
    answers = np.tile(np.arange(n_items)[:, None] % n_classes, (1, n_raters))
    odd = rng.random(answers.shape) < 0.1
    answers[odd] = rng.integers(n_classes, size=odd.sum())
    prior = np.ones((n_classes, n_classes)) + 0.12 * names + 0.05 * np.arange(n_classes)
    responses = bf.Responses.from_matrix(answers, classes=list(range(n_classes)))
    labels = names[np.array(list(product(range(n_classes), repeat=n_items)))]
    counts = 1.0 + labels.sum(axis=1)
    log_weight = gammaln(counts).sum(axis=1)
    counts = prior + np.einsum("snk,nrc->srkc", labels, names[answers])
    log_weight += (gammaln(counts).sum(axis=3) - gammaln(counts.sum(axis=3))).sum(axis=(1, 2))
    exact = np.einsum("s,snk->nk", softmax(log_weight), labels)
    model = DawidSkene(responses, confusion_prior=prior)
    result = bf.sample(model, 1500, chains=4, random_seed=1, progressbar=False, quiet=True)
    found = result["label_posterior"].dataset
    assert (exact.max(axis=1) < 0.95).all()
    np.testing.assert_array_less(np.abs(found["probability"] - exact), 5 * found["mcse"] + 1e-3)
