"""Models as PyMC models, of one table or several: densities, draws, refusals."""

import numpy as np
import pymc as pm
import pytest
from conjugate_models import MODELS, SPARSE
from coordinates import coordinates
from gradients import assert_gradient
from refusals import refused
from scipy.special import logsumexp
from slowly import with_slow

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov
from bayesfuse.observation.model import observed, one_against_rest
from bayesfuse.testing import assert_close, assert_frequencies


def test_log_density_is_the_marginal_likelihood(small, small_model):
    """By plain sums over classes, item by item, from the long table; other data are refused."""
    point = pm.draw(small_model.free_RVs, random_seed=1)
    prevalence, confusion = point
    gold, variable = {0: 1, 61: 2}, observed(small_model)[0]
    frame, expected = small.to_frame(), 0.0
    for item in small.items.tolist():
        terms = np.log(prevalence)
        for _, row in frame[frame["item"] == item].iterrows():
            terms = terms + np.log(confusion[row["rater"], :, row["label"]])
        expected += terms[gold[item]] if item in gold else logsumexp(terms)
    found = pm.logp(variable, small.label.astype("int8"))
    found = found.eval(dict(zip(small_model.free_RVs, point, strict=True)))
    assert found == pytest.approx(expected, rel=1e-12)
    refused("another model for others", pm.logp, variable, ((small.label + 1) % 3).astype("int8"))


def test_gradients_count_equal_items_as_often_as_they_occur():
    """Counts, and items that are merged because they have the same responses."""
    counts = bf.Responses.from_counts({"001": 5, "110": 3, "011": 2, "000": 7, "010": 1})
    for responses in (counts, counts.expand()):
        assert_gradient(DawidSkene(responses, prevalence_prior=[2.0, 1.0]))


GRADIENTS = {
    name: {"spread": 1.0, "every": 3, "atol": 6e-6} for name in ("confusion", "class", "coin")
}
GRADIENTS |= {"groups": {"every": 3, "atol": 1e-5}, "sparse chain": {}, "stationary": {}}


@pytest.mark.parametrize("mode", with_slow(["FAST_COMPILE", "NUMBA", "JAX"], "NUMBA", "JAX"))
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_right_in_every_backend(small, name, mode):
    sparse = {"transition_prior": SPARSE["transition_prior"]} if name == "stationary" else {}
    model = MODELS[name](small, gold={0: 1}, **sparse)
    assert_gradient(model, mode=mode, **GRADIENTS[name])


def test_a_second_derivative_is_refused_with_a_reason(small_model):
    with pytest.raises(NotImplementedError, match="gradients, not Hessians"):
        small_model.d2logp()


# PyTensor announces that a CustomDist's Python function will not be compiled: as intended here.
@pytest.mark.filterwarnings("ignore:Numba will use object mode:UserWarning")
def test_predictive_draws_have_the_models_frequencies(small, small_model):
    """Patterns of two raters on one item: their exact probabilities sum over the truth."""
    prevalence = np.array([0.7, 0.2, 0.1])
    confusion = np.random.default_rng(1).dirichlet(np.ones(3), size=(2, 3))
    responses = bf.Responses.from_matrix(np.zeros((2000, 2), dtype=int), classes=[0, 1, 2])
    labels, raters = bf.build.Independent(prevalence), bf.build.Confusion(confusion)
    with pm.Model():
        drawn = pm.draw(bf.build.observe(responses, labels=labels, raters=raters), random_seed=1)
    pairs = drawn.reshape(2000, 2)
    seen = np.bincount(pairs[:, 0] * 3 + pairs[:, 1], minlength=9).astype(float)
    exact = np.einsum("k,kc,kd->cd", prevalence, confusion[0], confusion[1]).ravel()
    assert_frequencies(seen, exact, "pairs of answers")
    result = bf.sample(small_model, 5, chains=1, progressbar=False, quiet=True)
    with small_model:
        prior = pm.sample_prior_predictive(draws=20, random_seed=1)
        after = pm.sample_posterior_predictive(result, random_seed=1, progressbar=False)
    assert prior["prior_predictive"]["responses"].shape == (1, 20, small.n_responses)
    drawn = after["posterior_predictive"]["responses"]
    assert drawn.dims == ("chain", "draw", "response") and set(np.unique(drawn)) == {0, 1, 2}
    with DawidSkene(bf.datasets.caries()), pytest.warns(UserWarning, match="expand"):
        pm.sample_prior_predictive(draws=2)


def test_priors_can_be_given_for_all_for_each_and_by_name(small):
    own = np.full((3, 3), 2.0)
    each = np.arange(1.0, 6 * 9 + 1).reshape(6, 3, 3)
    named = np.tile(bf.priors.diagonal(3), (6, 1, 1))
    named[4] = own
    for given, expected in ((own, 2.0), (each, each), ({4: own}, named)):
        plan = make_plan(DawidSkene(small, confusion_prior=given))
        assert (plan.continuous_priors()["confusion"].concentration == expected).all()


def test_arguments_of_another_kind_are_refused(small):
    flat, half = np.ones(3) / 3, np.ones(6) / 2
    labels, raters = bf.build.Independent(flat), bf.build.OneCoin(half)
    chain = bf.build.MarkovChain(flat, flat, [20])
    odd = np.tile([[0.9, 0.05, 0.15], [0.1, 0.8, 0.1], [0, 0, 1]], (6, 1, 1))
    for build, told in (
        (
            lambda: HiddenMarkov(small, [20, 42], raters="confusion"),
            "sequences must be a bf.Sequences.*list",
        ),
        (lambda: bf.priors.diagonal(1), "n_classes must be .* at least 2.*Got: 1"),
    ):
        refused(told, build)
    for prior, channel, told in (
        (raters, labels, "bf.labels.LabelPrior.*OneCoin"),
        (labels, labels, "bf.raters.RaterChannel.*Independent"),
        (chain, raters, "sequences must be a bf.Sequences.*list"),
        (bf.build.Independent([5.0, 5.0, 5.0]), raters, "prevalence must hold.*Got"),
        (labels, bf.build.OneCoin(np.full(6, 1.2)), "accuracy must hold.*Got"),
        (labels, bf.build.Confusion(odd), "confusion must hold.*Got"),
        (labels, bf.build.Confusion(np.ones((2, 3, 3))), "6 raters, 3 classes, 3 answers"),
        (bf.build.Independent(np.ones(4) / 4), raters, "prevalence"),
        (labels, bf.build.OneCoin(0.5), r"must have shape \(. raters\)"),
    ):
        with pm.Model(), pytest.raises(ModelError, match=told):
            bf.build.observe(small, labels=prior, raters=channel)
    rounded = np.tile([[0.3333333, 0.3333333, 0.3333333], [0, 1, 0], [0, 0, 1]], (6, 1, 1))
    with pm.Model():
        bf.build.observe(small, labels=labels, raters=bf.build.Confusion(rounded))


def test_specificity_is_a_share_where_one_class_has_all_the_prevalence():
    confusion = np.random.default_rng(1).dirichlet(np.ones(3), (4, 3))
    for rare in (1e-12, 1e-290, 1e-320, 0.0):
        prevalence = np.array([1.0, rare, 3 * rare])
        _, found = one_against_rest(confusion, prevalence / prevalence.sum(), 3)
        if rare > 1e-300:  # below, the ratio of the others has no digits
            exact = 1 - confusion[:, 1:, 0] @ [0.25, 0.75]
            assert_close(found[:, 0], exact, "specificity", rtol=1e-9)
        assert_close(found[:, 1], 1 - confusion[:, 0, 1], "specificity of the second", rtol=1e-9)
        assert ((found >= 0) & (found <= 1)).all()


def test_results_call_the_responses_what_the_model_does(small):
    settings = {"draws": 3, "tune": 3, "chains": 1, "progressbar": False, "quiet": True}
    names = (("", "responses", "response"), ("ds", "ds::responses", "ds::responses_row"))
    for name, variable, rows in names:
        result = bf.sample(DawidSkene(small, name=name), **settings)
        for group in ("log_likelihood", "observed_data"):
            assert list(result[group].data_vars) == [variable]
        assert result["observed_data"][variable].dims == (rows,)
        assert result["constant_data"]["item_index"].dims == (rows,)


def test_parts_of_the_draws_are_put_together(small, monkeypatch):
    """Confusion matrices of graded raters are expressions of their thresholds."""
    model = DawidSkene(small, raters="graded")
    settings = {"tune": 3, "chains": 2, "random_seed": 1, "progressbar": False, "quiet": True}
    result = bf.sample(model, 5, **settings)
    del result["label_posterior"]
    found = []
    for size in (1, 13, 10**6):  # of a part: one draw, some, all
        monkeypatch.setattr("bayesfuse.observation.evaluate.CACHE_ENTRIES", size)
        found.append(bf.label_probabilities(result, model).values)
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-12)


QUIET = {"progressbar": False, "quiet": True, "random_seed": 1}
CONFUSION = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.8, 0.2], [0.1, 0.9]], [[0.6, 0.4], [0.2, 0.8]],
                      [[0.7, 0.3], [0.4, 0.6]]])  # fmt: skip
ROWS = np.ones((4, 2, 2)) + 3 * np.eye(2)


def made(n_items, share, seed, **names):
    one = bf.datasets.simulate_dawid_skene(
        n_items, 4, 2, prevalence=share, confusion=CONFUSION, random_seed=seed
    )
    return one.responses, one.truth


FIRST, TRUTH = made(24, [0.3, 0.7], 1)
SECOND, OTHERS = made(16, [0.8, 0.2], 2)


def together(gold=None):
    """Two tables of the same raters."""
    with pm.Model(coords={"table": ["first", "second"], "class": [0, 1]}) as model:
        rows = bf.build.dirichlet("confusion", ROWS)
        share = pm.Dirichlet("share", np.ones((2, 2)), dims=("table", "class"))
        for n, (name, responses) in enumerate((("first", FIRST), ("second", SECOND))):
            known = gold if n == 0 else None
            labels, raters = bf.build.Independent(share[n]), bf.build.Confusion(rows)
            bf.build.observe(responses, labels=labels, raters=raters, name=name, gold=known)
    return model


@pytest.fixture(scope="module")
def fitted():
    model = together(gold={0: int(TRUTH[0])})
    return model, bf.sample(model, 4, tune=2, chains=1, cores=1, **QUIET)


def joined():
    """The same as one table whose items are of two populations."""
    frames = [FIRST.to_frame(), SECOND.to_frame()]
    frames[1]["item"] += 24
    columns = {c: np.concatenate([f[c] for f in frames]) for c in ("item", "rater", "label")}
    return bf.Responses.from_long(columns, items=range(40)), np.repeat(
        ["first", "second"], [24, 16]
    )


def test_two_tables_are_one_table_of_two_populations():
    """The densities differ by a constant, so the posteriors do not differ."""
    gold = {0: int(TRUTH[0])}
    responses, population = joined()
    whole = DawidSkene(responses, populations=population, confusion_prior=ROWS, gold=gold)
    names = {"share": "population_prevalence", "confusion": "confusion"}
    two, rng, gaps = together(gold), np.random.default_rng(1), []
    for _ in range(3):
        rows = {"share": rng.dirichlet([2, 1], 2), "confusion": rng.dirichlet([2, 1], (4, 2))}
        heights = []
        for model, own in ((two, rows), (whole, {names[n]: v for n, v in rows.items()})):
            logp = model.compile_logp(jacobian=False)
            heights.append(float(logp(coordinates(model, own))))
        gaps.append(heights[0] - heights[1])
    assert_close(gaps, np.full(3, gaps[0]), "difference of log densities", rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_what_a_result_holds(fitted, tmp_path):
    model, result = fitted
    assert result.attrs["tables"] == ["first", "second"]
    sizes = result["second"]["log_likelihood"]["second"].sizes
    assert sizes == {"chain": 1, "draw": 4, "item": 16}
    assert (bf.label_probabilities(result["first"]).values[0] == np.eye(2)[TRUTH[0]]).all()
    result.to_netcdf(tmp_path / "both.nc")
    assert len(bf.decisions.rank_items(result["second"])) == 16
    second = bf.build.part(model, "second")
    again = bf.label_probabilities(result, second)
    assert_close(again.values, bf.label_probabilities(result["second"]).values, "labels", atol=1e-9)
    bf.checks.conditional_dependence(result, second, draws=4, random_seed=1)
    found = bf.predict(result, SECOND, model=second, draws=4)
    assert_close(bf.label_probabilities(found).values, again.values, "predicted", atol=1e-9)


def test_a_part_is_a_model_of_its_own():
    model = together()
    part = bf.build.part(model, "first")
    assert {v.name for v in part.free_RVs} == {"confusion", "share"}
    with pm.Model() as alone:
        rows = bf.build.dirichlet("confusion", ROWS)
        share = pm.Dirichlet("share", np.ones((2, 2)))
        bf.build.observe(
            FIRST,
            labels=bf.build.Independent(share[0]),
            raters=bf.build.Confusion(rows),
            name="first",
        )
    point = {k: v + 0.1 for k, v in part.initial_point(1).items()}
    assert part.compile_logp()(point) == pytest.approx(
        float(alone.compile_logp()(point)), rel=1e-12
    )


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda m: bf.find_map(m), r"bf.build.part\(model, name\).*\['first', 'second'\]"),
        (lambda m: bf.build.part(m, "third"), r"\['first', 'second'\]. Got: 'third'"),
        (lambda m: bf.sample(m, 5, sampler="gibbs"), "NUTS, because.*Got: 'gibbs'"),
        (lambda m: bf.sample(m, 5, sweeps=3), "leave sampler= and sweeps= out"),
        (lambda m: bf.build.part(3, "first"), "must be a pm.Model"),
        (lambda m: bf.build.part(m, ["first"]), "one of the tables"),
    ],
)
def test_what_is_refused(call, match):
    refused(match, call, together())


def test_a_part_needs_a_model_without_potentials():
    model = together()
    with model:
        pm.Potential("more", model["share"][0, 0])
    refused(r"not known to which table.*\['more'\]", bf.build.part, model, "first")


@pytest.mark.slow
def test_less_is_stored_of_several_tables():
    model = together()
    stored = {"precision": "single", "thin": 3}
    result = bf.sample(model, 6, tune=5, chains=1, cores=1, **stored, **QUIET)
    assert {name: result.attrs[name] for name in stored} == stored
    assert result["posterior"]["confusion"].dtype == np.float32
    assert result["posterior"].sizes["draw"] == 2
    for name in ("first", "second"):
        assert next(iter(result[name]["log_likelihood"].values())).dtype == np.float32
        anew = bf.label_probabilities(result, bf.build.part(model, name))
        assert_close(bf.label_probabilities(result[name]).values, anew.values, name, atol=1e-5)


def test_models_name_their_table_and_the_positive_class():
    two = bf.Responses.from_matrix([["a", "b"], ["b", "b"], ["b", "a"]])
    title = "DawidSkene: 6 responses to 3 items by 2 raters, 2 classes"
    assert repr(bf.models.DawidSkene(two)) == f"{title}, b is positive"
