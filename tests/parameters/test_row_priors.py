"""Priors of rows: mixtures, structural zeros, one for several rows, unequal ones."""

import numpy as np
import pymc as pm
import pytest
from conjugate_models import log_multinomial
from refusals import refused
from scipy import special, stats

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, LatentGroup
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.parameters.dirichlet import Dirichlet, stacked
from bayesfuse.parameters.variables import RaterGrouping
from bayesfuse.testing import assert_close

# Three components, other shares in every row: rows of a 2 × 3 matrix of which no two are alike.
SHARES = np.array([[0.5, 0.2], [0.3, 0.1], [0.2, 0.7]])
ALPHA = np.array(
    [
        [[4.0, 1.0, 2.0], [0.5, 3.0, 0.7]],
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],
        [[0.6, 5.0, 1.5], [2.0, 2.0, 6.0]],
    ]
)
PRIOR = bf.priors.mixture(SHARES, ALPHA)
COUNTS = np.array([[3.0, 0.0, 1.5], [0.0, 7.0, 2.0]])


def by_scipy(shares, alpha, rows):
    """Log density of every row, (…)."""
    found = np.zeros(alpha.shape[1:-1])
    for place in np.ndindex(found.shape):
        logs = [stats.dirichlet(a).logpdf(rows[place]) for a in alpha[:, *place]]
        found[place] = special.logsumexp(logs, b=shares[:, *place])
    return found


def some_rows(shape, seed=1):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1])


def test_density_is_scipys():
    rows = some_rows((2, 3))
    exact = by_scipy(SHARES, ALPHA, rows)
    with pm.Model() as model:
        variable = bf.build.dirichlet("rows", PRIOR)
    assert_close(pm.logp(variable, rows).eval(), exact, "the variable's log density")
    found = PRIOR.log_density(np.log(rows)) - PRIOR.log_beta().sum()
    assert found == pytest.approx(exact.sum(), rel=1e-12)
    value = model.rvs_to_transforms[variable].from_log(np.log(rows))
    jacobian = np.log(rows).sum()  # of log ratios to any entry
    at = model.compile_logp()({"rows_logratio__": value})
    assert at == pytest.approx(exact.sum() + jacobian, rel=1e-12)


@pytest.mark.parametrize("n_components", [1, 3])
def test_ratio_of_densities_where_some_rows_differ(n_components):
    """As a turn of the classes asks for it; one component is a plain Dirichlet."""
    old, new = some_rows((2, 3)), some_rows((2, 3), seed=2)
    new[0] = old[0]
    shares, alpha, prior = SHARES, ALPHA, PRIOR
    if n_components == 1:
        shares, alpha, prior = np.ones((1, 2)), ALPHA[:1], Dirichlet(ALPHA[0])
    expected = (by_scipy(shares, alpha, new) - by_scipy(shares, alpha, old)).sum()
    found = prior.log_density(np.log(new)) - prior.log_density(np.log(old))
    assert found == pytest.approx(expected, rel=1e-12)


def test_prior_draws_and_moments():
    with pm.Model() as model:
        variable = bf.build.dirichlet("rows", PRIOR)
    n = 3000
    own = np.exp(
        draw_dirichlet(
            PRIOR.sample_component(np.random.default_rng(1), n), np.random.default_rng(2)
        )
    )
    mean = (SHARES[..., None] * ALPHA / ALPHA.sum(-1, keepdims=True)).sum(0)
    assert_close(PRIOR.mean(), mean, "mean")
    logs = PRIOR.expected_log()
    for drawn in (own, pm.draw(variable, n, random_seed=3)):
        error = drawn.std(0) / np.sqrt(n)
        assert (np.abs(drawn.mean(0) - mean) < 5 * error).all()
        error = np.log(drawn).std(0) / np.sqrt(n)
        assert (np.abs(np.log(drawn).mean(0) - logs) < 5 * error).all()
    assert_close(model.initial_point()["rows_logratio__"].shape, (2, 2), "coordinates")


def test_prior_plus_counts_is_the_posterior():
    rows = some_rows((2, 3), 2)
    evidence = special.logsumexp(log_multinomial(ALPHA, COUNTS), b=SHARES, axis=0)
    posterior = PRIOR + COUNTS
    exact = by_scipy(SHARES, ALPHA, rows) + (COUNTS * np.log(rows)).sum(-1) - evidence
    assert_close(by_scipy(posterior.shares, posterior.concentration, rows), exact, "posterior")
    assert_close(posterior.log_beta() - PRIOR.log_beta(), evidence, "evidence")
    assert_close(posterior - PRIOR, COUNTS, "counts")
    halves = PRIOR + 0.25 * COUNTS + 0.75 * COUNTS
    assert_close(halves.log_shares, posterior.log_shares, "shares in two steps")
    with pytest.raises(TypeError):
        COUNTS + PRIOR


def test_concentration_at_known_rows():
    rows = some_rows((2, 3), 3)
    odds = np.array([by_scipy(np.ones((1, 2)), alpha[None], rows) for alpha in ALPHA])
    weight = special.softmax(np.log(SHARES) + odds, axis=0)
    assert_close(PRIOR.at(np.log(rows)), (weight[..., None] * ALPHA).sum(0), "at known rows")
    steep = bf.priors.mixture([0.25, 0.75], [[2.0, 3.0], [4.0, 2.0]])
    with np.errstate(divide="ignore"):  # no component allows the row: nothing learnt, no NaN
        assert_close(steep.at(np.log([0.0, 1.0])), [3.5, 2.25], "where nothing is possible")


def test_priors_by_name(small):
    own = bf.priors.robust(3, share=0.4)
    model = DawidSkene(small, confusion_prior={4: own, 2: np.full((3, 3), 2.0)})
    found = make_plan(model).continuous_priors()["confusion"]
    assert found.shape == (6, 3, 3)
    rows = some_rows((6, 3, 3), 5)
    exact = [by_scipy(np.ones((1, 3)), bf.priors.diagonal(3)[None], each) for each in rows]
    exact[2] = by_scipy(np.ones((1, 3)), np.full((1, 3, 3), 2.0), rows[2])
    exact[4] = by_scipy(own.shares, own.concentration, rows[4])
    assert_close(by_scipy(found.shares, found.concentration, rows), np.array(exact), "by name")


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda r: bf.priors.robust(3, share=1.0), "share"),
        (lambda r: bf.priors.robust(3, weight=0), "weight must be a positive"),
        (lambda r: bf.priors.mixture([0.5, 0.6], ALPHA[:2]), "0.6"),
        (lambda r: bf.priors.mixture([0.5, 0.3, 0.2], ALPHA[:2]), "(3,)"),
        (lambda r: bf.priors.mixture(SHARES, 0 * ALPHA), "0.0"),
        (lambda r: bf.priors.mixture("half", ALPHA), "'half'"),
        (lambda r: DawidSkene(r, confusion_prior=bf.priors.robust(4)), "(4, 4)"),
        (lambda r: DawidSkene(r, confusion_prior={"nobody": bf.priors.robust(3)}), "'nobody'"),
        (lambda r: DawidSkene(r, confusion_prior={1: bf.priors.robust(2)}), "rater 1"),
        (lambda r: DawidSkene(r, raters="coin", confusion_prior=PRIOR), "raters='confusion'"),
        (lambda r: DawidSkene(r, prevalence_prior=bf.priors.robust(3)), "prevalence"),
        (lambda r: LatentGroup(r, "posterior", confusion_prior=bf.priors.robust(3)), "integrated"),
    ],
)
def test_bad_mixtures_are_refused_with_the_offender(small, build, told):
    refused(told, build, small)


MASK = np.array([[1.0, 2.0, 0.0], [0.5, 1.0, 1.0], [0.0, 0.0, 3.0]])


def test_sparse_rows_are_dirichlet_rows_of_what_is_left():
    with pm.Model() as model:
        rows = bf.build.dirichlet("rows", MASK)
    point = {"rows_logratio__": np.array([0.3, -0.2, 0.5])}
    natural = model.rvs_to_transforms[rows].backward(point["rows_logratio__"]).eval()
    assert (natural[MASK == 0] == 0).all()
    assert_close(natural.sum(axis=1), np.ones(3), "row sums")
    parts = [natural[0, :2], natural[1]]
    with pm.Model() as whole:
        two = [bf.build.dirichlet("a", MASK[0, :2]), bf.build.dirichlet("b", MASK[1])]
    values = {
        whole.rvs_to_values[rv].name: whole.rvs_to_transforms[rv].forward(part).eval()
        for rv, part in zip(two, parts, strict=True)
    }
    expected = whole.compile_fn(whole.logp(), point_fn=True)(values)
    assert model.compile_fn(model.logp(), point_fn=True)(point) == pytest.approx(expected)


def test_rows_far_out_are_finite():
    with pm.Model() as model:
        rows = bf.build.dirichlet("rows", MASK)
    far = np.array([800.0, -900.0, 700.0])
    transform = model.rvs_to_transforms[rows]
    assert np.isfinite(transform.to_log(far)[MASK > 0]).all()
    assert np.isfinite(transform.backward(far).eval()).all()


def test_prior_draws_of_sparse_rows_have_their_moments():
    with pm.Model():
        rows = bf.build.dirichlet("rows", MASK)
    drawn = pm.draw(rows, 2000, random_seed=1)
    total = MASK.sum(axis=1, keepdims=True)
    mean = MASK / total
    error = np.sqrt(mean * (1 - mean) / (total + 1) / 2000)
    assert (np.abs(drawn.mean(axis=0) - mean) <= 5 * error).all()
    assert (drawn[:, MASK == 0] == 0).all()


@pytest.mark.parametrize("bad", [[[1.0, -1.0]], [[np.inf, 1.0]], [[0.0, 0.0], [1.0, 1.0]]])
def test_bad_concentrations_are_refused(bad):
    with pm.Model(), pytest.raises(ModelError, match="Got: "):
        bf.build.dirichlet("rows", bad)


def test_bio_tags():
    classes = ["O", "B-PER", "I-PER", "B-LOC"]
    found = bf.priors.bio_transitions(classes)
    assert found["initial_prior"].tolist() == [1, 1, 0, 1]
    outside, inside = [1, 1, 0, 1], [1, 1, 1, 1]
    assert found["transition_prior"].tolist() == [outside, inside, inside, outside]
    for tags, told in ((["O", "I-LOC"], "'I-LOC' without 'B-LOC'"), (["N", "B-LOC"], "'N'")):
        refused(told, bf.priors.bio_transitions, tags)
    assert bf.priors.bio_transitions(["N", "B-LOC"], outside="N")["initial_prior"].tolist() == [
        1,
        1,
    ]
    plain, named = (
        bf.priors.bio_transitions(list("BIO")),
        bf.priors.bio_transitions(["B-X", "I-X", "O"]),
    )
    assert plain["transition_prior"].tolist() == named["transition_prior"].tolist()
    refused("'I' without 'B'", bf.priors.bio_transitions, ["O", "I"])


LEANING = np.array([[4.0, 1.0, 2.0], [1.0, 5.0, 1.0], [2.0, 1.0, 3.0]])
RESPONSES = bf.Responses.from_matrix(np.random.default_rng(0).integers(0, 3, (20, 4)))
START = np.array([0, 0, -1, -1])
ZEROS = LEANING * [[1, 1, 1], [1, 1, 0], [1, 1, 1]]


def build(channel, weight, *, spread=False, group=LEANING, rater=LEANING):
    """A model whose concentrations are given once for all matrices, or for every one of them."""

    def rows(name, alpha, size):
        if spread:
            return pm.Dirichlet(name, weight * np.tile(alpha, (size, 1, 1)))
        return pm.Dirichlet(name, weight * np.asarray(alpha), shape=(size, 3, 3))

    prevalence = pm.Dirichlet("prevalence", np.ones(3))
    if channel == "coin":
        a = weight * np.full(4, 3.0) if spread else weight * 3.0
        raters = bf.build.OneCoin(pm.Beta("accuracy", a, 2.0, shape=4))
    else:
        inner, outer = rows("inner", rater, 4), None
        if channel != "confusion":
            outer = rows("outer", group, 2)
        raters = {
            "confusion": lambda: bf.build.Confusion(inner),
            "groups": lambda: bf.build.LatentGroups(outer, inner, [0, 0, 1, 1]),
            "inferred": lambda: bf.build.InferredGroups(
                outer, inner, RaterGrouping("assignment", 1.0, 2, START)
            ),
        }[channel]()
    bf.build.observe(RESPONSES, labels=bf.build.Independent(prevalence), raters=raters)


@pytest.mark.parametrize(
    ("channel", "varies"),
    [("confusion", True), ("coin", True), ("coin", False), ("groups", False), ("inferred", True)],
)
def test_a_concentration_for_several_rows_is_that_of_each(channel, varies):
    draws = []
    for spread in (False, True):
        with pm.Model() as model:
            build(channel, pm.Gamma("weight", 5, 5) if varies else 1.5, spread=spread)
            step = bf.build.LabelGibbs(rng=1)
        point = model.initial_point()
        for _ in range(3):
            point, _ = step.step(point)
        draws.append(np.concatenate([np.ravel(value) for value in point.values()]))
    assert np.isfinite(draws[0]).all()
    assert (draws[0] == draws[1]).all()


@pytest.mark.parametrize("prior", [ZEROS, bf.priors.robust(3)])
def test_rows_of_ones_own_with_one_prior_for_several_sets(prior):
    """Sparse rows and mixtures: EM has their prior, row by row."""
    repeated = np.tile(prior, (4, 1, 1)) if prior is ZEROS else stacked([prior] * 4)
    found = []
    for given, shape in ((prior, {"shape": (4, 3, 3)}), (repeated, {})):
        with pm.Model() as model:
            rows = bf.build.dirichlet("rows", given, **shape)
            labels = bf.build.Independent(pm.Dirichlet("prevalence", np.ones(3)))
            bf.build.observe(RESPONSES, labels=labels, raters=bf.build.Confusion(rows))
        assert make_plan(model).blocks["confusion"].prior.shape == (4, 3, 3)
        found.append(bf.find_map(model)["point"]["rows"].values)
    assert (found[0] == found[1]).all()


UNEQUAL = np.stack([LEANING, LEANING + np.eye(3)])


@pytest.mark.parametrize("varies", [True, False])
def test_inferred_groups_must_have_one_prior(varies):
    with pm.Model() as model:
        build("inferred", pm.Gamma("weight", 5, 5) if varies else 1.0, group=UNEQUAL)
    with pytest.raises(ModelError, match=r"the same for all groups.* for group 1"):
        step = bf.build.LabelGibbs(model=model)
        step.step(model.initial_point())
    with pm.Model() as model:  # where they are known any will do
        build("groups", 1.0, group=UNEQUAL)
    assert bf.build.LabelGibbs(model=model).blocks


@pytest.mark.parametrize(
    ("outer", "inner", "told"),
    [
        (ZEROS, LEANING, r"positive concentration.* Got: a row of \[1\.0, 5\.0, 0"),
        (LEANING, ZEROS, r"positive concentration.* Got: a row of \[1\.0, 5\.0, 0"),
        (LEANING, stacked([bf.priors.robust(3)] * 4), "integrated out.*DirichletMixture"),
    ],
)
def test_groups_are_not_inferred_where_rows_have_zeros_or_mixtures(outer, inner, told):
    with pm.Model() as model:
        rows = [
            bf.build.dirichlet(name, alpha, shape=(size, 3, 3))
            for name, alpha, size in (("outer", outer, 2), ("inner", inner, 4))
        ]
        seats = RaterGrouping("assignment", 1.0, 2, START)
        prevalence = pm.Dirichlet("prevalence", np.ones(3))
        raters = bf.build.InferredGroups(*rows, seats)
        bf.build.observe(RESPONSES, labels=bf.build.Independent(prevalence), raters=raters)
    refused(told, bf.sample, model, 5, progressbar=False)
