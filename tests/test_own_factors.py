"""A channel, a support and a label prior of one's own get all that those of the package get."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from coordinates import coordinates
from own_factors import ByItem, Guessing, expected, likelihood
from refusals import refused

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference.plan import make_plan
from bayesfuse.parameters.contract import REAL, Parameter
from bayesfuse.parameters.simplex import PROBABILITY
from bayesfuse.testing import assert_frequencies, check_label_prior, check_rater_channel

N_ITEMS, N_RATERS = 100, 6
ODDS = np.array([0.5, -0.3]), np.array([1.2, -1.0])


@pytest.fixture(scope="module")
def crowd():
    """Return truths, a covariate, and three classes of responses with repeats and gaps."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(N_ITEMS)
    odds = np.column_stack([np.zeros(N_ITEMS), *(a + b * x for a, b in zip(*ODDS, strict=True))])
    share = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    truth = (share.cumsum(axis=1) < rng.random((N_ITEMS, 1))).sum(axis=1)
    skill, easy = np.array([0.9, 0.8, 0.85, 0.7, 0.6, 0.95]), rng.random(N_ITEMS) < 0.75
    right = rng.random((N_ITEMS, N_RATERS)) < skill
    said = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, 3, right.shape)) % 3)
    said = np.where(easy[:, None], said, rng.integers(0, 3, said.shape))
    said[rng.random(said.shape) < 0.2] = -1
    return truth, x, bf.Responses.from_matrix(said, classes=[0, 1, 2])


def guessing(responses, gold=None, by_item=False):
    with pm.Model(coords={"rater": responses.raters.tolist()}) as model:
        prevalence = pm.Dirichlet("prevalence", [2.0, 1.0, 1.0])
        ease = pm.Beta("ease", 2.0, 1.0, shape=responses.n_items if by_item else None)
        skill = pm.Uniform("skill", 1 / 3, 1.0, dims="rater")
        channel = Guessing(ease, skill)
        bf.build.observe(
            responses, labels=bf.build.Independent(prevalence), raters=channel, gold=gold
        )
    return model


def regression(responses, x, gold=None):
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 1.0, shape=2)
        slope = pm.Normal("slope", 0.0, 1.0, shape=2)
        odds = pm.math.concatenate([np.zeros((len(x), 1)), level + slope * x[:, None]], axis=1)
        rows = np.ones((responses.n_raters, 3, 3)) + 3 * np.eye(3)
        channel = bf.build.Confusion(bf.build.dirichlet("confusion", rows))
        bf.build.observe(responses, labels=ByItem(odds), raters=channel, gold=gold)
    return model


@pytest.fixture(scope="module", params=["channel", "label prior"])
def model(request, crowd):
    """Return a model with gold labels."""
    truth, x, responses = crowd
    gold = {responses.items[n]: responses.classes[truth[n]] for n in range(20)}
    if request.param == "channel":
        return guessing(responses, gold)
    return regression(responses, x, gold)


def test_the_shipped_contracts_hold(crowd):
    rng = np.random.default_rng(2)
    odds = rng.standard_normal((4, 3))
    prior = ByItem(odds)
    small = bf.Responses.from_matrix([[0, 1], [1, 1], [2, -1], [0, 0]], classes=[0, 1, 2])
    check_label_prior(
        prior, prior.expand((odds,), 3, np), np.log(rng.random((4, 3))), prior.structure(small)
    )
    skill = np.log([[0.9, 0.1], [0.6, 0.4]])
    for ease in (np.log([[0.7, 0.3]]), np.log([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])):
        channel = Guessing(None, None)
        check_rater_channel(channel, (ease, skill), small)


def log_rows(odds):
    return -np.logaddexp(0, np.stack([-odds, odds], axis=-1))


class LogOdds(Guessing):
    """The table holds the log-odds that a rater is right, not log rows.

    Derivatives are right and probabilities sum to one, but the likelihood is no sum of
    exponentials of linear functions of the table.
    """

    @staticmethod
    def likelihood_kernel(log_ease, odds, *structure):
        return likelihood(log_ease, log_rows(odds), *structure)

    @staticmethod
    def expected_kernel(log_ease, odds, weight, *structure):
        ease, used = expected(log_ease, log_rows(odds), weight, *structure)
        return ease, used[:, 0] - used.sum(axis=1) / (1 + np.exp(-odds))

    def sample_counts(self, tables, drawn, structure, rng):
        return self.expected_kernel(*tables, np.eye(len(structure[0]))[drawn], *structure)


def test_a_channel_for_which_em_has_no_bound_is_refused():
    small = bf.Responses.from_matrix([[0, 1], [1, 1], [2, -1], [0, 0]], classes=[0, 1, 2])
    tables = np.log([[0.999, 0.001]]), np.array([1.5, 0.4])
    with pytest.raises(AssertionError, match=r"below its tangent, but EM needs .* worst at \("):
        check_rater_channel(LogOdds(None, None), tables, small)


def test_items_are_merged_only_where_both_factors_treat_them_alike():
    few = bf.Responses.from_matrix(np.tile([[0, 1], [1, 1], [2, 0]], (20, 1)), classes=[0, 1, 2])
    plan = make_plan(guessing(few))
    assert plan.observation.table.n_items == 3
    assert make_plan(guessing(few, by_item=True)).observation.table is few
    covariate = np.arange(60.0)
    assert make_plan(regression(few, covariate)).observation.table is few


def test_em_finds_the_classes_and_a_mode_of_the_models_density(crowd):
    truth, x, responses = crowd
    for model in (guessing(responses), regression(responses, x)):
        point = bf.find_map(model, tolerance=1e-12)
        assert point.attrs["start"] in ("moments", "majority") and point.attrs["converged"]
        assert "start_log_evidence_moments" in point.attrs
        right = point["label_posterior"]["probability"].values.argmax(axis=1) == truth
        assert right.mean() > 0.7
        logp = model.compile_logp(jacobian=False)
        values = coordinates(model, {v.name: point["point"][v.name].values for v in model.free_RVs})
        best = logp(values)
        rng = np.random.default_rng(3)
        for name, value in values.items():
            for _ in range(5):
                near = value + 0.02 * rng.standard_normal(np.shape(value))
                assert logp({**values, name: near}) < best + 1e-6, name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Numba will use object mode")
@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")  # influential items
def test_results_are_whole(model, crowd):
    truth, _, responses = crowd
    result = bf.sample(model, 40, tune=30, chains=2, random_seed=1, progressbar=False, quiet=True)
    probability = bf.label_probabilities(result)
    assert probability.shape == (N_ITEMS, 3)
    assert (probability.values[np.arange(20), truth[:20]] == 1).all()  # gold
    assert (probability.values.argmax(axis=1) == truth).mean() > 0.7
    assert np.isfinite(az.loo(result).elpd)
    with model:
        drawn = pm.sample_posterior_predictive(
            result.isel(draw=slice(None, None, 20)), progressbar=False, random_seed=1
        )
    label = drawn["posterior_predictive"]["responses"].values
    assert label.shape[-1] == responses.n_responses and set(np.unique(label)) == {0, 1, 2}
    assert bf.checks.conditional_dependence(result, model, draws=10, random_seed=1).sizes


@pytest.mark.slow
def test_parameters_by_item_are_drawn(crowd):
    _, _, responses = crowd
    model = guessing(responses, by_item=True)
    result = bf.sample(model, 60, tune=60, chains=2, random_seed=3, progressbar=False, quiet=True)
    assert result.attrs["sampler"] == "gibbs"
    ease = result["posterior"]["ease"].mean(("chain", "draw")).values
    assert ease.shape == (N_ITEMS,)
    # on items that all agree about, nobody needs to have guessed
    votes = responses.votes()
    sure = (votes.max(axis=1) == votes.sum(axis=1)) & (votes.sum(axis=1) >= 4)
    split = (votes.max(axis=1) <= 2) & (votes.sum(axis=1) >= 4)
    assert ease[sure].mean() > ease[split].mean() + 0.1
    refused("single items", bf.fit, model, method="cavi", batch_size=50)


def test_frequencies_of_impossible_labels_fail():
    with pytest.raises(AssertionError, match="frequencies differ"):
        assert_frequencies(np.array([500.0, 495.0, 5.0]), np.array([0.5, 0.5, 0.0]), "a coin")


class Favouring(bf.build.Confusion):
    """One accuracy by rater, and the weight of class 0 among the errors."""

    declared = (Parameter("accuracy", PROBABILITY, ("rater",)),)
    capabilities = bf.build.Capabilities(by_rater=("share",))

    def __init__(self, accuracy, share):
        self.parameters, self.share = {"accuracy": accuracy}, np.asarray(share)

    def settings(self):
        return {"share": self.share}

    def expand(self, log_rows, n_classes, xp):
        (rows,) = log_rows
        weight = np.column_stack([self.share, 1 - self.share, np.ones_like(self.share)])
        errors = weight[:, None] * (1 - np.eye(3))
        log_error = np.log(errors / errors.sum(axis=2, keepdims=True) + np.eye(3))
        return (xp.where(np.eye(3), rows[:, 0, None, None], rows[:, 1, None, None] + log_error),)

    def collapse(self, counts):
        right = np.trace(counts[0], axis1=1, axis2=2)
        return (np.stack([right, counts[0].sum(axis=(1, 2)) - right], axis=-1),)


class Unsaid(Favouring):
    capabilities = bf.build.Capabilities()


class Position(Favouring):
    capabilities = bf.build.Capabilities(by_rater=())

    def expand(self, log_rows, n_classes, xp):
        few = Favouring(None, self.share[: len(log_rows[0])])
        return few.expand(log_rows, n_classes, xp)


def test_subclasses_declare_capabilities_again():
    """Compiled kernels and claims of exactness are those of the overridden methods."""
    with pytest.raises(ModelError, match=r"declare its capabilities.*Got: Lazy.*draw"):

        class Lazy(bf.build.Independent):
            def draw(self, *arguments, **options):
                return super().draw(*arguments, **options)

    with pytest.raises(ModelError, match=r"Got: Parted, which overrides part"):

        class Parted(ByItem):
            def part(self, structure, units):
                return units, tuple(array[units] for array in structure)

    class Named(bf.build.Independent):
        """Overrides nothing of which capabilities are claims."""

    assert Named.capabilities is bf.build.Independent.capabilities


class ByGroup(Favouring):
    declared = (Parameter("accuracy", PROBABILITY, ("group",)),)


def test_settings_by_rater_are_taken_by_name():
    said = [[0, 1, 2], [1, 1, 0], [2, -1, 0], [0, 0, 1]]
    responses = bf.Responses.from_matrix(said, classes=[0, 1, 2])
    accuracy, share = np.array([0.9, 0.6, 0.7]), np.array([0.1, 0.9, 0.3])
    rows = np.log(np.column_stack([accuracy, 1 - accuracy]))
    given = Favouring(None, share).expand((rows,), 3, np), responses
    check_rater_channel(Favouring(None, share), *given, values=(rows,))
    with pytest.raises(AssertionError, match="predicted from some raters"):
        check_rater_channel(Position(None, share), *given, values=(rows,))
    with pytest.raises(ModelError, match=r"sizes\(\) of ByGroup"):
        check_rater_channel(ByGroup(None, share), *given, values=(rows,))

    point = xr.Dataset({"accuracy": (("chain", "draw", "rater"), accuracy[None, None])})
    result, models = xr.DataTree.from_dict({"posterior": point}), {}
    for kind in (Favouring, Unsaid):
        with pm.Model() as models[kind]:
            channel = kind(pm.Beta("accuracy", 3.0, 1.5, shape=3), share)
            bf.build.observe(
                responses, labels=bf.build.Independent(np.full(3, 1 / 3)), raters=channel
            )
    few = responses.to_frame()[lambda frame: frame["rater"] > 0]
    swapped, strange = (
        bf.Responses.from_long(few.replace({"rater": {2: name}}), raters=[name, 1])
        for name in (2, 9)
    )
    whole = bf.Responses.from_long(few, raters=range(3))
    model = models[Favouring]
    found, expected = (
        bf.label_probabilities(bf.predict(result, table, model=model)) for table in (swapped, whole)
    )
    np.testing.assert_allclose(found, expected, atol=1e-12)
    refused("without fitted responses", bf.predict, result, strange, model=model)
    refused("by_rater", bf.predict, result, swapped, model=models[Unsaid])


def test_what_a_factor_declares_is_checked():
    class Silent(bf.build.OneCoin):
        declared = ()

    class Lost(bf.build.OneCoin):
        declared = (Parameter("accuracy", REAL, ("camera",)),)

    with pm.Model():
        labels, table = bf.build.Independent(np.ones(2) / 2), bf.datasets.caries()
        for kind, rule in ((Silent, "must declare all its parameters"), (Lost, "camera")):
            channel = kind(np.full(5, 0.8))
            refused(rule, bf.build.observe, table, labels=labels, raters=channel)
