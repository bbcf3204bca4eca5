"""What is updated in closed form; EM and coordinate ascent are monotone and at an optimum."""

from functools import partial

import numpy as np
import pymc as pm
import pytest
from conjugate_models import MODELS, pieces
from coordinates import coordinates
from own_factors import Guessing
from refusals import refused
from scipy import special, stats

import bayesfuse as bf
from bayesfuse.inference import cavi, em
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, LatentGroup
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.testing import assert_close


@pytest.fixture(scope="module", params=MODELS)
def fitted(request, small):
    """Observation, prior and a fit to the last digit, of every prior and channel."""
    observation, prior, rows = pieces(MODELS[request.param](small, gold={0: 1, 61: 2}))
    return observation, prior, cavi.fit(observation, rows, prior, tolerance=1e-15, iterations=5000)


def test_bounds_and_log_posteriors_never_fall(small):
    for name, build in MODELS.items():
        observation, prior, _ = pieces(build(small))
        rng = np.random.default_rng(1)
        rows = {
            key: np.log(special.softmax(rng.normal(size=a.shape), axis=-1))
            for key, a in prior.items()
        }
        rows = {
            key: np.where(prior[key].concentration > 0, value, -np.inf)
            for key, value in rows.items()
        }
        for fit in (cavi.fit, em.fit):
            trace = fit(observation, rows, prior, tolerance=1e-14, iterations=300).trace
            assert len(trace) > 10, name
            assert (np.diff(trace) > -1e-9 * abs(trace[-1])).all(), name


def test_slope_of_the_bound_vanishes_at_the_optimum(fitted):
    """Central differences of the bound with respect to the logarithms of concentrations."""
    observation, prior, found = fitted
    assert found.converged
    _, counts = observation.expected(cavi.expected_log(found.approximation))
    rng, step = np.random.default_rng(2), 1e-3
    for name, q in found.approximation.items():
        alpha = q.concentration
        np.testing.assert_allclose(q - prior[name], counts[name], rtol=1e-5, atol=1e-6)
        assert ((alpha > 0) == (prior[name].concentration > 0)).all()
        for place in rng.permutation(np.argwhere(alpha > 0))[:4]:
            heights = []
            for sign in (-1, 0, 1):
                moved = alpha.copy()
                moved[tuple(place)] *= np.exp(sign * step)
                moved = dict(found.approximation) | {name: Dirichlet(moved)}
                heights.append(cavi.bound(observation, moved, prior))
            slope = (heights[2] - heights[0]) / (2 * step)
            # an error of the optimum shows as slope = curvature × error, of differences as step²
            assert abs(slope) < 1e-4 * max(alpha[tuple(place)], 1.0)
            assert heights[1] >= max(heights[0], heights[2]) - 1e-9


def evidence_by_quadrature(responses, prior):
    """Log evidence of one coin with two classes, both parameters integrated out on a grid."""
    x = (np.arange(1000) + 0.5) / 1000
    one, accuracy = np.meshgrid(x, x, indexing="ij")
    log_weight = stats.beta(*prior["prevalence"].concentration[::-1]).logpdf(one)
    log_weight += stats.beta(*prior["accuracy"].concentration[0]).logpdf(accuracy)
    for n in range(responses.n_items):
        label = responses.label[responses.start[n] : responses.start[n + 1]]
        right = [
            np.prod([accuracy if c == k else 1 - accuracy for c in label], axis=0) for k in (0, 1)
        ]
        log_weight += np.log((1 - one) * right[0] + one * right[1])
    return special.logsumexp(log_weight) - 2 * np.log(1000)


@pytest.mark.parametrize(("weight", "gap"), [(1, 0.5), (30, 0.02)])
def test_bound_is_below_the_evidence_and_near_it(weight, gap):
    """Nearer, the less there is to learn: the labels depend on each other through parameters."""
    answers = {"item": [0, 0, 1, 1, 1, 2], "rater": [0] * 6, "label": [1, 1, 0, 1, 0, 0]}
    responses = bf.Responses.from_long(answers)
    given = {"prevalence_prior": [2 * weight, weight], "confusion_prior": [6 * weight, 2 * weight]}
    observation, prior, rows = pieces(DawidSkene(responses, raters="coin", **given))
    exact = evidence_by_quadrature(responses, prior)
    found = cavi.fit(observation, rows, prior, tolerance=1e-14)
    assert exact - gap < found.trace[-1] < exact
    rng = np.random.default_rng(3)
    for _ in range(50):  # a bound is one wherever it is taken
        other = {
            name: Dirichlet(each.concentration * rng.gamma(2.0, size=each.shape))
            for name, each in prior.items()
        }
        assert cavi.bound(observation, other, prior) < exact


def test_degenerate_models_coincide(small):
    """A group of nobody is Dawid–Skene; counts of a pattern are as many items."""
    counted, mixture = bf.datasets.caries(), bf.priors.robust(3)
    for pair in (
        (DawidSkene(small), LatentGroup(small, groups={})),
        [m(small, confusion_prior=mixture) for m in (DawidSkene, partial(LatentGroup, groups={}))],
        (DawidSkene(counted), DawidSkene(counted.expand())),
    ):
        for fit in (cavi.fit, em.fit):
            heights = []
            for model in pair:
                observation, prior, rows = pieces(model)
                heights.append(fit(observation, rows, prior, tolerance=1e-13).trace[-1])
            assert heights[0] == pytest.approx(heights[1], rel=1e-9)


def test_what_is_held_is_as_good_as_known(small):
    """A prevalence that is held, and one whose prior leaves no doubt."""
    share = np.array([0.2, 0.3, 0.5])
    observation, prior, rows = pieces(DawidSkene(small, prevalence_prior=1e6 * share))
    known = cavi.fit(observation, rows, prior, tolerance=1e-13)
    others = {name: alpha for name, alpha in prior.items() if name != "prevalence"}
    held = {"prevalence": np.log(share)}
    found = cavi.fit(observation, rows, others, held=held, tolerance=1e-13)
    assert found.trace[-1] == pytest.approx(known.trace[-1], abs=0.01)
    np.testing.assert_allclose(
        found.approximation["confusion"].concentration,
        known.approximation["confusion"].concentration,
        rtol=5e-3,
    )
    settings = {"held": held, "epochs": 400, "tolerance": 1e-12}
    steps = cavi.fit_stochastic([observation], rows, others, np.random.default_rng(1), **settings)
    assert steps.trace[-1] == pytest.approx(found.trace[-1], abs=1e-3)


IN_PARTS = MODELS | {
    "populations": lambda r, **kw: DawidSkene(r, populations=np.arange(r.n_items) % 3, **kw)
}


@pytest.mark.parametrize("name", IN_PARTS)
def test_parts_add_up_to_the_whole(small, name):
    observation, prior, rows = pieces(IN_PARTS[name](small, gold={0: 1, 61: 2}))
    n_units = len(observation.labels.units(observation.table))
    halves = np.array_split(np.random.default_rng(1).permutation(n_units), 2)
    whole, counts = observation.expected(rows)
    parts = [observation.part(units).expected(rows) for units in halves]
    assert sum(total for total, _ in parts) == pytest.approx(whole, rel=1e-12)
    for key in prior:
        np.testing.assert_allclose(sum(found[key] for _, found in parts), counts[key], atol=1e-9)


def test_published_estimates_of_dawid_and_skene():
    """Table 3 of the paper: prevalence .40 .42 .11 .07, by EM from the shares of the votes.

    That is a local maximum: the default start ends in a higher one.
    """
    model = DawidSkene(bf.datasets.anesthesia(), confusion_prior=np.ones((4, 4)))
    plan = make_plan(model)
    observation, flat = plan.observation, plan.continuous_priors()
    votes = observation.table.votes().astype(float)
    share = votes / votes.sum(axis=1, keepdims=True)
    uniform = {name: prior.centre() for name, prior in flat.items()}
    counts = observation.sample_counts(uniform, share, np.random.default_rng(0))
    with np.errstate(divide="ignore"):
        rows = {name: np.log(c / c.sum(-1, keepdims=True)) for name, c in counts.items()}
    fit = em.fit(observation, rows, flat, tolerance=1e-12)
    assert np.abs(np.exp(fit.rows["prevalence"]) - [0.40, 0.42, 0.11, 0.07]).max() < 0.005
    assert bf.find_map(model).attrs["log_evidence"] > fit.log_evidence


def test_gold_labels_of_all_items_give_counts(small):
    """Everything known: the mode is counting, by hand."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, small.n_items)
    gold = dict(zip(small.items.tolist(), truth.tolist(), strict=True))
    model = DawidSkene(small, gold=gold, confusion_prior=np.full((3, 3), 1.5))
    point = bf.find_map(model)["point"]
    counts = np.full((6, 3, 3), 0.5)
    np.add.at(counts, (small.rater, truth[small.item], small.label), 1)
    assert np.allclose(point["confusion"], counts / counts.sum(axis=-1, keepdims=True))
    assert np.allclose(point["prevalence"], np.bincount(truth) / len(truth))


def test_em_takes_gradient_steps_where_a_prior_depends_on_other_variables(small):
    """The mode has no neighbour that is higher, and no hyperparameter is left behind."""
    with pm.Model() as model:
        weight = pm.Gamma("weight", 5, 1)
        prevalence = pm.Dirichlet("prevalence", 1 + weight * np.ones(3))
        confusion = pm.Dirichlet("confusion", np.ones((6, 3, 3)) + 1)
        bf.build.observe(
            small, labels=bf.build.Independent(prevalence), raters=bf.build.Confusion(confusion)
        )
    result = bf.find_map(model, tolerance=1e-12)
    point, last = result["point"], result["trace"]["log_posterior"].values[-1]
    from_values = bf.find_map(model, start={"confusion": point["confusion"].values})
    assert from_values.attrs["start"] == "given"
    assert abs(from_values["trace"]["log_posterior"].values[-1] - last) < 1e-3
    logp = model.compile_logp(jacobian=False)

    def height(weight, prevalence):
        at = {"weight": weight, "prevalence": prevalence, "confusion": point["confusion"].values}
        return logp(coordinates(model, at))

    weight, prevalence = float(point["weight"]), point["prevalence"].values
    best = height(weight, prevalence)
    for factor in (0.98, 1.02):
        assert height(factor * weight, prevalence) < best
    for step in (-0.005, 0.005):
        assert height(weight, prevalence + step * np.array([1, -1, 0])) < best
        assert height(weight, prevalence + step * np.array([0, -1, 1])) < best


def test_em_refuses_what_it_cannot_do(small, small_model):
    refused(r"start, unless it is a word,.*Got: 3", bf.find_map, small_model, start=3)
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", np.ones(3))
        accuracy = pm.Beta("accuracy", 1 + pm.Poisson("extra", 1.0), 1, shape=6)
        bf.build.observe(
            small, labels=bf.build.Independent(prevalence), raters=bf.build.OneCoin(accuracy)
        )
    refused(r"whole ones have no gradients.*\['extra'\]", bf.find_map, model)


def test_constant_parameters_stay_as_they_are(small):
    """With a known prevalence the accuracies climb to where it was set free with that mode."""
    share = np.array([0.2, 0.3, 0.5])
    with pm.Model() as known:
        accuracy = pm.Beta("accuracy", 2, 1, shape=6)
        bf.build.observe(
            small, labels=bf.build.Independent(share), raters=bf.build.OneCoin(accuracy)
        )
    with pm.Model() as nearly:
        prevalence = pm.Dirichlet("prevalence", 1e9 * share)
        accuracy = pm.Beta("accuracy", 2, 1, shape=6)
        bf.build.observe(
            small, labels=bf.build.Independent(prevalence), raters=bf.build.OneCoin(accuracy)
        )
    one, other = (bf.find_map(each, tolerance=1e-12) for each in (known, nearly))
    assert_close(
        one["point"]["accuracy"].values, other["point"]["accuracy"].values, "accuracy", atol=1e-4
    )
    assert bf.fit(known, draws=50, random_seed=1).attrs["method"] == "cavi"


TRUTH = np.random.default_rng(0).integers(0, 2, 30)
UNANIMOUS = bf.Responses.from_matrix(np.column_stack([TRUTH] * 3))
SEEDED = {"progressbar": False, "quiet": True, "random_seed": 1}


def test_mixtures_are_updated_only_where_shares_and_components_are_fixed():
    """Else the first argument of PyMC's mixture would be taken for concentrations."""
    components = pm.Dirichlet.dist([[2.0, 40.0], [40.0, 2.0]])
    with pm.Model() as model:
        shares = pm.Dirichlet("shares", [4.0, 1.0])
        prevalence = pm.Mixture("prevalence", w=shares, comp_dists=components)
        channel = bf.build.OneCoin(np.array([0.9, 0.8, 0.7]))
        bf.build.observe(UNANIMOUS, labels=bf.build.Independent(prevalence), raters=channel)
    assert not make_plan(model).blocks
    with pm.Model() as model:
        prevalence = pm.Mixture("prevalence", w=[0.8, 0.2], comp_dists=components)
        bf.build.observe(UNANIMOUS, labels=bf.build.Independent(prevalence), raters=channel)
    prior = make_plan(model).blocks["prevalence"].prior
    assert np.allclose(prior.mean(), [0.8 * 2 / 42 + 0.2 * 40 / 42, 0.8 * 40 / 42 + 0.2 * 2 / 42])


def test_a_variable_that_is_two_parameters_is_no_block():
    responses = bf.Responses.from_matrix([[0] * 4, [1] * 4, [2] * 4, [0, 0, 0, 1]])
    with pm.Model() as model:
        both = pm.Beta("both", 2, 2, shape=4)
        labels = bf.build.Independent(np.ones(3) / 3)
        bf.build.observe(responses, labels=labels, raters=Guessing(both, both))
    assert not make_plan(model).blocks
    with pm.Model() as model:  # as is one on which another depends
        after, rows = pm.Dirichlet("after", np.ones((3, 3))), bf.priors.diagonal(3)
        labels = bf.build.MarkovChain(after.mean(axis=0), after, bf.Sequences.from_lengths([4]))
        rows = bf.build.dirichlet("rows", rows, shape=(4, 3, 3))
        bf.build.observe(responses, labels=labels, raters=bf.build.Confusion(rows))
    assert set(make_plan(model).blocks) == {"confusion"}


@pytest.mark.slow
@pytest.mark.parametrize("below_one", [False, True])
def test_pooled_accuracies_of_raters_who_never_err(below_one):
    """Accuracies near one stay below it, or NUTS could not move what they depend on."""
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", [1.0, 1.0])
        if below_one:  # a density with a pole at one
            accuracy = pm.Beta("accuracy", 3, pm.Gamma("b", 2, 10), shape=3)
        else:
            mean, size = pm.Beta("mean", 2, 2), pm.Exponential("size", 0.5)
            accuracy = pm.Beta("accuracy", mean * size, (1 - mean) * size, shape=3)
        bf.build.observe(
            UNANIMOUS, labels=bf.build.Independent(prevalence), raters=bf.build.OneCoin(accuracy)
        )
    result = bf.sample(model, 5, tune=5, chains=1, **SEEDED)
    assert result.attrs["sampler"] == "gibbs"
    assert (result["posterior"]["accuracy"] < 1).all()
    point = bf.find_map(model, iterations=5)
    assert np.isfinite(point["trace"]["log_posterior"]).all()


@pytest.mark.slow
def test_starts_stay_within_the_support_of_variables_without_a_transform():
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", [1.0, 1.0])
        sd = pm.HalfNormal("sd", 1, default_transform=None)
        channel = bf.build.OneCoin(pm.math.sigmoid(pm.Normal("logit", 1, sd, shape=3)))
        bf.build.observe(UNANIMOUS, labels=bf.build.Independent(prevalence), raters=channel)
    result = bf.sample(model, 5, tune=3, chains=2, cores=1, **SEEDED)
    assert (result["posterior"]["sd"] > 0).all()


N_ITEMS, N_RATERS = 90, 6


@pytest.fixture(scope="module")
def crowd():
    rng = np.random.default_rng(1)
    truth = np.repeat(rng.integers(0, 3, 30), 3)
    right = rng.random((N_ITEMS, N_RATERS)) < 0.7
    said = np.where(right, truth[:, None], rng.integers(0, 3, right.shape))
    said[rng.random(said.shape) < 0.3] = -1
    return truth, bf.Responses.from_matrix(said, classes=[0, 1, 2])


SEQUENCES = bf.Sequences.from_lengths([45, 45])
GRAPH = bf.Graph.from_edges([(n, n + step) for step in (1, 2) for n in range(N_ITEMS - step)])


def pooled_transition():
    stay = pm.Gamma("stay", 2, 0.5)
    return pm.Dirichlet("transition", np.ones((3, 3)) + stay * np.eye(3), shape=(3, 3))


LABELS = {
    "pooled": lambda: bf.build.Independent(pm.Dirichlet("p", 1 + pm.Gamma("w", 2, 1) * np.ones(3))),
    "chain": lambda: bf.build.MarkovChain(
        pm.Dirichlet("initial", np.ones(3)), pooled_transition(), SEQUENCES
    ),
    "stationary": lambda: bf.build.StationaryMarkovChain(pooled_transition(), SEQUENCES),
    "coupling": lambda: bf.build.Potts(pm.HalfNormal("c", sigma=pm.Gamma("scale", 3, 3)), GRAPH),
}


def pooled_rows():
    size = pm.Gamma("size", 2, 0.2, shape=3)
    mean = pm.Dirichlet("mean", np.ones((3, 3)) + 2 * np.eye(3))
    rows = (size[:, None] * mean)[None] * np.ones((N_RATERS, 1, 1))
    return bf.build.Confusion(pm.Dirichlet("confusion", rows, shape=(N_RATERS, 3, 3)))


def pooled_accuracies():
    mean, sd = pm.Normal("logit", 1, 1), pm.HalfNormal("sd", 1)
    return bf.build.OneCoin(pm.math.sigmoid(pm.Normal("own", mean, sd, shape=N_RATERS)))


def groups():
    outer = pm.Dirichlet("outer", 1 + pm.Gamma("size", 2, 0.2) * np.eye(3)[None], shape=(1, 3, 3))
    inner = pm.Dirichlet("inner", np.tile(1 + 3 * np.eye(3), (N_RATERS, 1, 1)))
    return bf.build.LatentGroups(outer, inner, np.array([0, 0, -1, -1, -1, -1]))


RATERS = {"rows": pooled_rows, "accuracies": pooled_accuracies, "groups": groups}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "raters"), [*zip(LABELS, ["accuracies", "groups", "rows", "groups"], strict=True)]
)
def test_em_climbs(crowd, labels, raters):
    truth, responses = crowd
    with pm.Model() as model:
        bf.build.observe(responses, labels=LABELS[labels](), raters=RATERS[raters]())
    point = bf.find_map(model, iterations=5)
    assert "start_log_evidence_moments" in point.attrs
    height = point["trace"]["log_posterior"].values
    assert (np.diff(height) > -1e-6 * responses.n_responses).all()
    guess = point["label_posterior"]["probability"].values.argmax(axis=1)
    assert (guess == truth).mean() > 0.85
    for variable in model.free_RVs:
        assert np.isfinite(point["point"][variable.name]).all()


def test_a_coupling_that_is_an_expression_is_refused(crowd):
    _, responses = crowd
    with pm.Model() as model:
        labels = bf.build.Potts(pm.math.exp(pm.Normal("log_coupling", -1, 0.5)), GRAPH)
        rows = bf.build.dirichlet("confusion", bf.priors.diagonal(3), shape=(N_RATERS, 3, 3))
        bf.build.observe(responses, labels=labels, raters=bf.build.Confusion(rows))
    refused("expression of other variables", bf.find_map, model)
