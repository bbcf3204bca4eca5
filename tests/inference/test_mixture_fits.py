"""Priors that are mixtures, and moves of the prevalence: enumeration, every fit, invariance."""

from itertools import product

import numpy as np
import pymc as pm
import pytest
from conjugate_models import chains, log_multinomial, pieces
from grouped_crowds import GROUPS, crowd
from odd_rater import odd_table
from scipy import special

import bayesfuse as bf
from bayesfuse.inference import cavi, em, gibbs
from bayesfuse.inference.gibbs import Sweep
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup
from bayesfuse.numerics.chains import turn_rows
from bayesfuse.numerics.kernels import kernel
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import ResponseModel
from bayesfuse.parameters.compiled import without_compilation
from bayesfuse.parameters.dirichlet import Dirichlet, stacked
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True}


def same(alpha):
    """A degenerate mixture of components that are the same, or of one."""
    shares = [1.0] if alpha.ndim > 2 else [0.7, 0.2, 0.1]
    return bf.priors.mixture(shares, np.stack([alpha] * len(shares)))


# A table of two classes small enough for all labellings, with priors that are not symmetric.
TINY = bf.Responses.from_matrix([[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1], [1, 0, 1], [1, 1, 1]])
TINY_ROWS = [[[5.0, 1.0], [1.5, 4.0]], [[1.0, 1.0], [3.0, 0.8]]]
TINY_PRIOR = stacked([bf.priors.mixture([0.6, 0.4], TINY_ROWS)] * 3)
TINY_MODELS = {
    "independent": lambda: DawidSkene(
        TINY, prevalence_prior=[1.0, 2.0], confusion_prior=TINY_PRIOR
    ),
    "chain": lambda: HiddenMarkov(
        TINY,
        bf.Sequences.from_lengths([4, 2]),
        initial_prior=[1.0, 2.0],
        transition_prior=[[3.0, 1.0], [1.0, 2.0]],
        confusion_prior=TINY_PRIOR,
    ),
}


def enumerated(kind):
    """Log evidence, and label probabilities: all parameters summed out for every labelling."""
    labellings = np.array(list(product((0, 1), repeat=TINY.n_items)))
    logs = []
    for labels in labellings:
        counts = np.zeros((3, 2, 2))
        np.add.at(counts, (TINY.rater, labels[TINY.item], TINY.label), 1.0)
        alpha, shares = TINY_PRIOR.concentration, TINY_PRIOR.shares
        total = special.logsumexp(log_multinomial(alpha, counts), b=shares, axis=0).sum()
        first = labels if kind == "independent" else labels[[0, 4]]
        total += log_multinomial(np.array([1.0, 2.0]), np.bincount(first, minlength=2))
        if kind == "chain":
            steps = np.zeros((2, 2))
            np.add.at(steps, (labels[[0, 1, 2, 4]], labels[[1, 2, 3, 5]]), 1.0)
            total += log_multinomial(np.array([[3.0, 1.0], [1.0, 2.0]]), steps).sum()
        logs.append(total)
    return special.logsumexp(logs), special.softmax(logs) @ labellings


@pytest.mark.parametrize("kind", TINY_MODELS)
def test_gibbs_against_enumeration(kind):
    model = TINY_MODELS[kind]()
    result = bf.sample(model, 500, chains=2, random_seed=1, log_likelihood=False, **QUIET)
    found, exact = bf.label_probabilities(result).values[:, 1], enumerated(kind)[1]
    error = result["label_posterior"]["mcse"].values[:, 1]
    assert (np.abs(found - exact) < 5 * error).all(), (found, exact, error)
    assert error.max() < 0.06


@pytest.mark.parametrize("kind", TINY_MODELS)
def test_bound_of_cavi_never_falls_and_is_below_the_evidence(kind):
    observation, prior, rows = pieces(TINY_MODELS[kind]())
    exact = enumerated(kind)[0]
    found = cavi.fit(observation, rows, prior, tolerance=0.0, iterations=500)
    assert (np.diff(found.trace) > -1e-10).all() and len(found.trace) > 10
    assert exact - 2.0 < found.trace[-1] < exact
    rng = np.random.default_rng(3)
    for _ in range(50):  # a bound is one wherever it is taken
        other = {name: a + 5 * rng.gamma(0.5, size=a.shape) for name, a in prior.items()}
        assert cavi.bound(observation, other, prior) < exact
    settings = {"held": {}, "epochs": 400, "tolerance": 1e-13}
    stochastic = cavi.fit_stochastic([observation], rows, prior, rng, **settings)
    assert stochastic.trace[-1] == pytest.approx(found.trace[-1], abs=1e-3)


def test_bound_is_the_evidence_where_nothing_is_hidden():
    """With every label known q is the posterior, mixture and all."""
    labels = np.array([0, 0, 1, 1, 0, 1])
    model = DawidSkene(
        TINY,
        prevalence_prior=[1.0, 2.0],
        confusion_prior=TINY_PRIOR,
        gold=dict(enumerate(labels.tolist())),
    )
    observation, prior, rows = pieces(model)
    found = cavi.fit(observation, rows, prior)
    counts = np.zeros((3, 2, 2))
    np.add.at(counts, (TINY.rater, labels[TINY.item], TINY.label), 1.0)
    alpha, shares = TINY_PRIOR.concentration, TINY_PRIOR.shares
    exact = special.logsumexp(log_multinomial(alpha, counts), b=shares, axis=0).sum()
    exact += log_multinomial(np.array([1.0, 2.0]), np.bincount(labels))
    assert found.trace[-1] == pytest.approx(exact, rel=1e-12)
    q = found.approximation["confusion"]
    assert_close(q.shares, (TINY_PRIOR + counts).shares, "shares of q")


@pytest.fixture(scope="module")
def asymmetric(small):
    """All concentrations above one, so that modes are inside; three kinds of raters by name."""
    leaning = 1.5 + 2 * np.eye(3) + np.arange(9).reshape(3, 3) / 10
    wide = np.full((3, 3), 1.2)
    priors = {
        0: bf.priors.mixture([0.7, 0.3], [leaning, wide]),
        3: bf.priors.mixture([0.5, 0.3, 0.2], [leaning, wide, leaning[:, ::-1]]),
        4: wide,
    }
    rest = dict.fromkeys((1, 2, 5), bf.priors.mixture([0.9, 0.1], [leaning, wide]))
    return DawidSkene(
        small, prevalence_prior=[2.0, 3.0, 2.0], confusion_prior=priors | rest, gold={0: 1, 61: 2}
    )


def test_em_never_falls_and_ends_where_the_models_gradient_vanishes(asymmetric):
    point = bf.find_map(asymmetric, tolerance=1e-15, iterations=20_000)
    trace = point["trace"]["log_posterior"].values
    assert (np.diff(trace) > -1e-9).all() and len(trace) > 5
    plan = make_plan(asymmetric)
    with np.errstate(divide="ignore"):
        at = {
            block.value: block.coordinates.write(np.log(point["point"][name].values))
            for name, block in plan.blocks.items()
        }
    # the mode of the density of the rows, not of their coordinates
    with without_compilation():
        density = asymmetric.compile_logp(jacobian=False)
        slope = asymmetric.compile_dlogp(jacobian=False)
        moved = {name: value + 0.1 for name, value in at.items()}
        assert np.abs(slope(at)).max() < 1e-4 < 0.1 < np.abs(slope(moved)).max()
    # what EM calls its height is that density but for a constant
    other = {name: block.read(moved) for name, block in plan.blocks.items()}
    prior = plan.continuous_priors()
    start = em.fit(plan.observation, other, prior, iterations=1).trace[0]
    assert trace[-1] - start == pytest.approx(float(density(at) - density(moved)), rel=1e-9)


def test_one_odd_rater_does_not_name_the_classes():
    """Under the prior that leans to the diagonal one rater outweighs three, here not."""
    confusion, truth, responses = odd_table(1)
    renamed = confusion[:, [1, 0, 2]]
    gains, right = {}, {}
    for name, prior in {"diagonal": None, "robust": bf.priors.robust(3)}.items():
        model = DawidSkene(responses, confusion_prior=prior)
        alpha = make_plan(model).continuous_priors()["confusion"]
        densities = [alpha.log_density(np.log(rows)) for rows in (confusion, renamed)]
        gains[name] = densities[0] - densities[1]
        right[name] = np.mean(bf.label_probabilities(bf.find_map(model)).argmax("class") == truth)
    assert gains["diagonal"] < -1 < 1 < gains["robust"]
    assert right["diagonal"] < 0.3 and right["robust"] > 0.9


def test_any_parameter_of_a_model_of_ones_own_may_be_a_mixture(small):
    """Rows, steps and prevalence; degenerate ones fit as the Dirichlet that they are."""
    alpha = np.array([[4.0, 1.0, 2.0], [1.0, 3.0, 1.0], [2.0, 1.5, 5.0]])
    heights = {}
    for stationary in (False, True):
        for mixed in (False, True):
            with pm.Model() as model:
                rows = same(alpha) if mixed else alpha
                if stationary:
                    steps = bf.build.dirichlet("transition", rows)
                    labels = bf.build.StationaryMarkovChain(steps, chains(small))
                else:
                    first = same(alpha[0]) if mixed else alpha[0]
                    labels = bf.build.Independent(bf.build.dirichlet("prevalence", first))
                each = np.tile(alpha + np.eye(3), (6, 1, 1))
                confusion = bf.build.dirichlet("confusion", same(each) if mixed else each)
                bf.build.observe(small, labels=labels, raters=bf.build.Confusion(confusion))
            observation, prior, begun = pieces(model)
            heights[stationary, mixed] = [
                np.diff(em.fit(observation, begun, prior, iterations=9, tolerance=-np.inf).trace),
                cavi.fit(observation, begun, prior, iterations=9, tolerance=-np.inf).trace,
            ]
    for stationary in (False, True):
        for one, other in zip(heights[stationary, False], heights[stationary, True], strict=True):
            assert_close(other, one, "gains and bounds", rtol=1e-6, atol=1e-8)


def rows_of(rng, n_classes, n_raters):
    shape = (n_raters, n_classes, n_classes)
    return {
        "prevalence": np.log(rng.dirichlet(np.full(n_classes, 5.0))),
        "confusion": np.log(rng.dirichlet(np.full(n_classes, 3.0), shape[:2])),
    }


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_turn_keeps_what_all_pairs_of_raters_say(n_classes):
    rng = np.random.default_rng(n_classes)
    found = None
    while found is None:  # rows may leave the simplex
        rows = rows_of(rng, n_classes, 4)
        found = gibbs.propose(rows, "prevalence", {"confusion": slice(None)}, 0.1, rng)
    one, other = ({name: np.exp(row) for name, row in at.items()} for at in (rows, found[0]))
    cosine = np.sqrt(one["prevalence"]) @ np.sqrt(other["prevalence"])
    assert np.arccos(cosine) == pytest.approx(0.1)
    assert_close(other["confusion"].sum(axis=2), np.ones((4, n_classes)), "rows")
    pairs, triples = [], []
    for at in (one, other):
        theta = at["confusion"]
        pairs.append(np.einsum("k,ikc,jkd->ijcd", at["prevalence"], theta, theta))
        triples.append(np.einsum("k,kc,kd,ke->cde", at["prevalence"], *theta[:3]))
    assert_close(pairs[1], pairs[0], "pairs")
    assert np.abs(triples[1] - triples[0]).max() > 1e-5  # far above rounding


@pytest.mark.parametrize("name", ["prevalence", "confusion"])
def test_rows_at_the_edge_stay(name):
    rng = np.random.default_rng(1)
    rows = rows_of(rng, 2, 3)
    rows[name][..., 0], rows[name][..., 1] = -np.inf, 0.0
    assert gibbs.propose(rows, "prevalence", {"confusion": slice(None)}, 0.1, rng) is None


def tilted(shares, n_raters, **diagonal):
    rater = bf.priors.diagonal(len(shares), **diagonal)
    return {
        "prevalence": Dirichlet(np.array(shares)),
        "confusion": Dirichlet(np.tile(rater, (n_raters, 1, 1))),
    }


TURNED_ROWS = [[[9.0, 3.0], [2.0, 8.0]], [[2.0, 6.0], [9.0, 6.0]]]
# Of few items priors decide which turns are accepted, of many what the responses say.
CASES = {
    "two classes": (60, tilted([4.0, 10.0], 5, weight=12, accuracy=0.6)),
    "three classes": (300, tilted([4.0, 6.0, 14.0], 4, weight=15, accuracy=0.5)),
    "mixtures": (
        60,
        {
            "prevalence": bf.priors.mixture([0.6, 0.4], [[8.0, 4.0], [3.0, 9.0]]),
            "confusion": stacked([bf.priors.mixture([0.7, 0.3], TURNED_ROWS)] * 4),
        },
    ),
}


def simulated(name, rng):
    """Draw parameters from the prior and responses from these; return what is observed."""
    n_items, priors = CASES[name]
    rows = {key: draw_dirichlet(each.sample_component(rng), rng) for key, each in priors.items()}
    n_raters, n_classes = priors["confusion"].shape[:2]
    zeros = np.zeros((n_items, n_raters), dtype=int)
    blank = bf.Responses.from_matrix(zeros, classes=range(n_classes))
    _, label = observe(blank).simulate(rows, rng)
    return observe(blank.relabelled(label)), rows, priors


@pytest.mark.parametrize("name", CASES)
def test_turns_leave_the_posterior_as_it_is(name):
    """Parameters and responses, turned, still look as if drawn together."""
    moved, accepted, rng = [], 0, np.random.default_rng(3)
    for _ in range(400):
        observation, rows, priors = simulated(name, rng)
        begun = numbers(observation, rows)
        for _ in range(8):
            before = rows
            rows, _ = gibbs.rotate_prevalence(observation, rows, priors, rng)
            accepted += rows is not before
        moved.append(numbers(observation, rows) - begun)
    assert accepted > 160
    error = np.std(moved, axis=0) / np.sqrt(len(moved))
    assert (np.abs(np.mean(moved, axis=0)) < 4.5 * error).all()


@pytest.mark.parametrize("name", CASES)
def test_turns_are_accepted_by_their_ratio(name):
    """Of the densities of parameters and responses, and of the turn, with the same numbers."""
    outcomes = []
    for seed in range(60):
        observation, rows, priors = simulated(name, np.random.default_rng(seed))
        after, _ = gibbs.rotate_prevalence(observation, rows, priors, np.random.default_rng(seed))
        rng, least = np.random.default_rng(seed), gibbs.least_angle(observation)
        angle = gibbs.WIDEST * (least / gibbs.WIDEST) ** rng.random()
        found = gibbs.propose(rows, "prevalence", {"confusion": slice(None)}, angle, rng)
        if found is None:
            assert after is rows
            continue
        new, ratio = found
        ratio += observation.evidence(new)[0] - observation.evidence(rows)[0]
        ratio += sum(p.log_density(new[k]) - p.log_density(rows[k]) for k, p in priors.items())
        outcomes.append(np.log(1.0 - rng.random()) < ratio)
        assert (after is not rows) == outcomes[-1]
    assert 5 < sum(outcomes) < len(outcomes) - 5


@kernel
def compiled_turn(log_shares, log_rows, shares_prior, rows_prior, least, rng):
    return turn_rows(log_shares, log_rows, shares_prior, rows_prior, least, rng)


def test_compiled_turns_are_those_in_python():
    """Both take the same random numbers; the compiled ratio has the part of the priors."""
    priors, possible, least = CASES["three classes"][1], 0, 0.05
    shares_prior, rows_prior = (priors[name].concentration for name in priors)
    for seed in range(20):
        rows, rng = rows_of(np.random.default_rng(seed), 3, 4), np.random.default_rng(seed)
        angle = gibbs.WIDEST * (least / gibbs.WIDEST) ** rng.random()
        found = gibbs.propose(rows, "prevalence", {"confusion": slice(None)}, angle, rng)
        shares, own = rows["prevalence"][None].copy(), rows["confusion"].copy()
        given = shares_prior[None], rows_prior.reshape(-1, 3), least
        ratio = compiled_turn(shares, own, *given, np.random.default_rng(seed))
        if found is None:
            assert ratio == -np.inf
            continue
        new, expected = found
        possible += 1
        expected += sum(p.log_density(new[n]) - p.log_density(rows[n]) for n, p in priors.items())
        assert ratio == pytest.approx(expected, rel=1e-9)
        assert_close(shares[0], new["prevalence"], "shares", rtol=1e-9)
        assert_close(own, new["confusion"], "rows", rtol=1e-9)
    assert 5 < possible < 20


def numbers(observation, rows):
    """Of the parameters, whose mean the prior alone tells, and of these and the responses."""
    some = np.exp([rows["prevalence"][0], rows["confusion"][1, 0, 0], rows["confusion"][2, 1, 1]])
    evidence, _ = observation.evidence(rows)
    return np.concatenate([some, some**2, [evidence]])


def observe(responses):
    return ResponseModel.build(responses, bf.build.Independent(None), bf.build.Confusion(None))


def test_only_models_whose_matrices_can_be_mixed_are_turned():
    responses, _, _ = crowd(np.random.default_rng(1), 30)
    with pm.Model() as zeros:
        rows = bf.build.dirichlet("confusion", np.tile([[1.0, 0.0], [1.0, 1.0]], (9, 1, 1)))
        labels = bf.build.Independent(pm.Dirichlet("prevalence", np.ones(2)))
        bf.build.observe(responses, labels=labels, raters=bf.build.Confusion(rows))
    chain = bf.Sequences.from_lengths([30])
    turned = {
        "confusion": DawidSkene(responses),
        "groups": LatentGroup(responses, GROUPS),
        "inferred": LatentGroup(responses, "posterior"),
        "one coin": DawidSkene(responses, raters="coin"),
        "zeros": zeros,
        "sequences": HiddenMarkov(responses, chain),
    }
    found = {name for name, model in turned.items() if Sweep.of(make_plan(model)).may_turn}
    assert found == {"confusion", "groups", "inferred"}
