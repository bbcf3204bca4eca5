"""Models of items of which something is known, and arguments of which no model can be made."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from coordinates import at_random
from refusals import refused

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import (
    DawidSkene,
    HiddenMarkov,
    ItemTypes,
    LabellingFunctions,
    MarkovRandomField,
)
from bayesfuse.parameters.compiled import without_compilation
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True}


def three_populations():
    """Three classes, five raters, populations of 60, 20 and 10 in 90, responses missing."""
    rng = np.random.default_rng(1)
    population = np.repeat(["north", "south", "west"], [60, 20, 10])
    share = {"north": [0.7, 0.2, 0.1], "south": [0.1, 0.3, 0.6], "west": [0.1, 0.8, 0.1]}
    truth = np.array([rng.choice(3, p=share[name]) for name in population])
    right = rng.random((90, 5)) < [0.9, 0.8, 0.7, 0.85, 0.6]
    said = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, 3, right.shape)) % 3)
    said[rng.random(said.shape) < 0.3] = -1
    return population, truth, bf.Responses.from_matrix(said, classes=[0, 1, 2])


POPULATION, TRUTH, RESPONSES = three_populations()
X = pd.DataFrame({"height": 170 + 5 * TRUTH + np.random.default_rng(2).normal(0, 5, 90),
                  "tall": (TRUTH == 2) ^ (np.arange(90) % 5 == 0)})  # fmt: skip
WORD = np.log(np.random.default_rng(5).dirichlet(np.ones(3), 90))
"""What a classifier says, in logarithms."""
GOLD = {0: int(TRUTH[0]), 70: int(TRUTH[70])}


def evidence_at(model, **values):
    """Return the log evidence of the responses, other variables where PyMC begins."""
    point = {**model.initial_point(1), **{name: np.asarray(v) for name, v in values.items()}}
    with without_compilation():
        return model.compile_logp([model["responses"]])(point)


SHARE = np.array([0.3, -0.8])
"""Of the classes, in PyMC's coordinates."""


def test_a_constant_covariate_has_no_effect():
    expected = evidence_at(DawidSkene(RESPONSES, gold=GOLD), prevalence_simplex__=SHARE)
    same = DawidSkene(RESPONSES, covariates=np.full((90, 1), 3.7), gold=GOLD)
    for slope in ([[0.0, 0.0]], [[5.0, -2.0]]):
        found = evidence_at(
            same, average_prevalence_simplex__=SHARE, standard_slope_zerosum__=slope
        )
        assert found == pytest.approx(expected, abs=1e-9)


def test_prior_spread_of_slope_differences():
    model = DawidSkene(RESPONSES, covariates=X)
    names = "standard_slope", "slope_scale"
    slope, spread = pm.draw([model[name] for name in names], 2000, random_seed=1)
    gaps = (slope[..., 1:] - slope[..., :1]) / spread[:, None, None]
    assert np.var(gaps, axis=(0, 1)) == pytest.approx([1, 1], abs=5 * np.sqrt(2 / 4000))


def log_odds_by_hand(values):
    """Return the log-odds of all items from the values of the variables."""
    x = X.astype(float).to_numpy()
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    rows = np.log(values["population_prevalence"][np.unique(POPULATION, return_inverse=True)[1]])
    rows += x @ values["standard_slope"]
    return rows + values["classifier_scale"] * (WORD - WORD.mean(axis=0))


def test_density_by_hand():
    """Populations, covariates in the user's units and a classifier: prior of labels, shares."""
    model = DawidSkene(
        RESPONSES, populations=POPULATION, covariates=X, classifier=np.exp(WORD), gold=GOLD
    )
    point, values = at_random(model, seed=3)
    odds = log_odds_by_hand(values)
    share = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    assert_close(values["prevalence"], share.mean(axis=0), "prevalence")
    sd = X.astype(float).std(ddof=0).to_numpy()
    against_first = values["standard_slope"][:, 1:] - values["standard_slope"][:, :1]
    assert_close(values["slope"], against_first / sd[:, None], "slope")
    total = 0.0
    for n in range(90):
        own = RESPONSES.item == n
        each = share[n].copy()
        for m, c in zip(RESPONSES.rater[own], RESPONSES.label[own], strict=True):
            each *= values["confusion"][m, :, c]
        total += np.log(each[GOLD[n]] if n in GOLD else each.sum())
    assert evidence_at(model, **point) == pytest.approx(total, rel=1e-9)


def test_populations_are_permuted_with_switched_classes():
    model = DawidSkene(RESPONSES, populations=POPULATION)
    result = bf.sample(model, 10, tune=30, chains=2, cores=1, random_seed=1, **QUIET)
    posterior = result["posterior"].dataset.copy(deep=True)
    for name in ("confusion", "prevalence", "population_prevalence"):
        axis = posterior[name].dims.index("class") - 1
        posterior[name].values[1] = np.flip(posterior[name].values[1], axis)
    result["posterior"] = posterior
    aligned = bf.checks.align_labels(result, model)
    assert aligned.attrs["aligned"] == 10
    found = aligned["posterior"]["population_prevalence"].values
    np.testing.assert_array_equal(found[1], posterior["population_prevalence"].values[1][..., ::-1])
    result["posterior"] = posterior.assign(classifier_scale=posterior["prevalence"][..., 0])
    refused("covariates or a classifier cannot be permuted", bf.checks.align_labels, result)


def test_populations_are_conjugate_and_merged():
    plan = make_plan(DawidSkene(RESPONSES, populations=POPULATION))
    assert plan.complete and set(plan.blocks) == {"prevalence", "confusion"}
    assert not make_plan(DawidSkene(RESPONSES, covariates=X)).complete
    binary = bf.Responses.from_matrix(np.random.default_rng(1).integers(0, 2, (900, 3)))
    cells = pd.DataFrame({"smokes": np.arange(900) % 2})
    for known in ({"populations": np.arange(900) % 3}, {"covariates": cells}):
        model = DawidSkene(binary, **known)
        seen = model["responses"].owner.op.observation
        assert seen.table.n_items <= 8 * 3


@pytest.mark.parametrize(
    "prior",
    [
        2.0,
        [2.0, 1.0, 3.0],
        np.array([[2.0, 1.0, 3.0], [1.0, 1.0, 1.0], [4.0, 1.0, 1.0]]),
        {"west": [4.0, 1.0, 1.0], "north": [2.0, 1.0, 3.0]},
    ],
)
def test_priors_of_populations(prior):
    model = DawidSkene(RESPONSES, populations=POPULATION, prevalence_prior=prior)
    found = model["population_prevalence"].owner.op.dist_params(
        model["population_prevalence"].owner
    )[0].eval()  # fmt: skip
    expected = np.ones((3, 3))
    if isinstance(prior, dict):
        expected[[2, 0]] = list(prior.values())
    else:
        expected[:] = prior
    np.testing.assert_array_equal(np.broadcast_to(found, (3, 3)), expected)


def test_the_published_maximum_of_two_tests_in_two_populations():
    """Hui & Walter (1980): flat priors, so the mode is their maximum likelihood."""
    responses, populations = bf.datasets.tuberculosis()
    flat = {"prevalence_prior": 1.0, "confusion_prior": np.ones((2, 2))}
    point = bf.find_map(DawidSkene(responses, populations=populations, **flat))["point"].dataset
    positive = point["population_prevalence"].sel({"class": "+"})
    assert positive.round(4).values.tolist() == [0.0268, 0.7168]
    assert (1 - point["sensitivity"]).round(4).values.tolist() == [0.0339, 0.0312]
    assert (1 - point["specificity"]).round(4).values.tolist() == [0.0067, 0.0159]
    in_all = positive.values @ [555, 1322] / 1877
    assert point["prevalence"].values[1] == pytest.approx(in_all, abs=1e-9)


def test_patterns_count_as_often_as_they_occur():
    """A table of counts is standardised, and has the density, of its items one by one."""
    table = bf.Responses.from_counts({"00": 60, "11": 3, "01": 3, "10": 2})
    x, word = np.array([[0.0], [3.0], [1.0], [1.5]]), np.array([0.1, 0.8, 0.4, 0.5])
    copies = np.repeat(np.arange(4), table.multiplicity)
    models = [
        DawidSkene(each, covariates=x[row], classifier=np.stack([1 - word, word], axis=1)[row])
        for each, row in ((table, np.arange(4)), (table.expand(), copies))
    ]
    for name in ("covariate_mean", "covariate_sd", "classifier_mean"):
        assert_close(*(model[name].get_value() for model in models), name)
    values = {"standard_slope_zerosum__": [[1.5]], "classifier_scale_log__": 0.3}
    one, other = (evidence_at(model, **values) for model in models)
    assert one == pytest.approx(other, rel=1e-9)


TABLE = bf.Responses.from_matrix(np.arange(72).reshape(12, 6) % 3, classes=range(3))
ONES, EVERY = np.ones((3, 3)), [1, 1, 1]
NORTH = np.repeat(["north", "south", "west"], 4)
TWELVE = pd.DataFrame({"height": np.arange(12) % 5 + 170.0, "tall": np.arange(12) % 2})
FIELD, CHAINS = bf.Graph.grid((3, 4)), bf.Sequences.from_lengths([4, 8])

MODELS = {
    "crowd": lambda **given: DawidSkene(TABLE, **given),
    "pooled": lambda **given: DawidSkene(TABLE, **{"pooled": True} | given),
    "pooled field": lambda **given: MarkovRandomField(TABLE, FIELD, pooled=True, **given),
    "graded": lambda **given: DawidSkene(TABLE, **{"raters": "graded"} | given),
    "chains": lambda **given: HiddenMarkov(TABLE, CHAINS, **{"raters": "confusion"} | given),
    "field": lambda **given: MarkovRandomField(TABLE, **{"graph": FIELD} | given),
    "types": lambda **given: ItemTypes(TABLE, **given),
    "rules": lambda **given: LabellingFunctions(TABLE, **given),
}
REFUSED = [
    ("pooled", {"pooled": "yes"}, "pooled must be True or False. Got: 'yes'"),
    ("pooled", {"confusion_prior": {0: ONES}}, "the same for all raters.* Got: dict"),
    ("pooled", {"confusion_prior": bf.priors.robust(3)}, "no mixture.* Got: DirichletMixture"),
    ("pooled", {"confusion_prior": np.ones((6, 3, 3))}, r"no axis of raters. Got: shape \(6, 3, 3"),
    ("pooled", {"confusion_prior": np.ones((3, 2))}, r"must have shape \(3 classes, 3 labels\)"),
    ("pooled", {"confusion_prior": np.ones((6, 2)), "raters": "coin"}, "no axis of raters"),
    ("pooled", {"confusion_prior": [1, 2, 3], "raters": "coin"}, r"have shape \(2 outcomes: r"),
    ("graded", {"confusion_prior": bf.priors.diagonal(3)}, "confusion_prior is for free rows"),
    ("graded", {"raters": "ordered"}, r"must be 'confusion', .*'graded'\. Got: "),
    (
        "crowd",
        {"covariates": TWELVE.assign(twice=2 * TWELVE["height"] + 1)},
        r"collinear.*\['twice'\]",
    ),
    ("crowd", {"populations": NORTH, "prevalence_prior": {"east": 1.0}}, "'east'"),
    ("crowd", {"populations": NORTH, "prevalence_prior": np.ones((2, 3))}, "3 populat"),
    ("crowd", {"prevalence_prior": ONES}, "3 classes"),
    ("crowd", {"prevalence_prior": [1, 1]}, r"shape \(2,\)"),
    ("crowd", {"confusion_prior": np.ones((2, 2))}, r"shape \(2, 2\)"),
    ("crowd", {"confusion_prior": {"nobody": ONES}}, r"its keys, such as \[0, 1, .*'nobody'"),
    (
        "crowd",
        {"confusion_prior": [8, 2]},
        r"for all raters, or .* for each; \(right, wrong\) alone",
    ),
    (
        "crowd",
        {"confusion_prior": bf.priors.diagonal(3), "raters": "coin"},
        r"shape \(2 outcomes: right, wrong\) for all.*diagonal, are for raters=\"confusion\"",
    ),
    ("crowd", {"confusion_prior": bf.priors.robust(2)}, r"for each\. Got: shape \(2, 2\)"),
    *(("crowd", {"confusion_prior": {1: prior}}, "rater 1") for prior in ([1, 2], "flat")),
    ("crowd", {"covariates": TWELVE.iloc[1:]}, "missing"),
    (
        "chains",
        {"covariates": TWELVE, "populations": [0, 1]},
        "one population.* Got: populations=.",
    ),
    ("chains", {"raters": "sequential", "pooled": True}, "independent.* Got: pooled=True"),
    ("chains", {"initial": "anywhere"}, "Got: 'anywhere'"),
    ("chains", {"transition_prior": -ONES}, "Got.*-1.0"),
    ("chains", {"initial": "stationary", "initial_prior": 2.0}, "initial_prior=2.0"),
    ("chains", {"transition_prior": np.ones((2, 3))}, r"shape \(2, 3\)"),
    ("chains", {"initial_prior": [1, 1]}, r"shape \(2,\)"),
    ("chains", {"transition_prior": [EVERY, [0, 0, 0], EVERY]}, "Got.* 1"),
    (
        "chains",
        {"initial_prior": [1, 1, 0], "transition_prior": [[1, 1, 0], [1, 1, 0], EVERY]},
        "rule out 2",
    ),
    (
        "chains",
        {"initial": "stationary", "transition_prior": [EVERY, EVERY, [0, 0, 1]]},
        "separate 2 from 0",
    ),
    *(("field", {"trust": trust}, "trust must be") for trust in (0, "much", True, np.nan)),
    ("field", {"edges": "cut"}, "edges must be"),
    ("field", {"graph": bf.Graph.grid((5, 5))}, "Items of a graph"),
    ("types", {"consensus": "some"}, "consensus must be .* Got: 'some'"),
    ("types", {"guesses": "no"}, "guesses must be .* Got: 'no'"),
    ("types", {"trust": 0.0}, "trust must be positive.* Got: 0.0"),
    ("types", {"gold": {3: "bottom"}}, "Got: 'bottom' for item 3"),
    ("rules", {"odds": 1.0}, "odds must be above one"),
    ("rules", {"weight": 0.0}, "weight"),
    ("rules", {"dispersion": 0.5}, "dispersion must be above one"),
    ("rules", {"class_shares": [0.7, 0.7, 0.1]}, "sum"),
    ("rules", {"groups": "posterior"}, "groups"),
]


@pytest.mark.parametrize(("model", "given", "match"), REFUSED)
def test_invalid_arguments_of_models(model, given, match):
    with pytest.raises((ModelError, ResponsesError), match=match) as error:
        MODELS[model](**given)
    assert "Got" in str(error.value)


def test_tables_without_order_are_refused():
    with pytest.raises(ModelError, match="expand"):
        table = bf.Responses.from_counts({"00": 2, "01": 3})
        HiddenMarkov(table, bf.Sequences.from_lengths([2], items=["00", "01"]), raters="confusion")
    words = bf.Responses.from_matrix([["a", "b"], ["c", "b"]])
    refused(r"need ordered classes.*ordered=True.* Got: ", DawidSkene, words, raters="graded")


def test_a_confusion_matrix_as_prior_of_accuracies_is_named():
    """It has the shape of (right, wrong) for two classes, with the second one upside down."""
    table, rows = bf.datasets.caries(), bf.priors.diagonal(2)
    with pytest.warns(UserWarning, match=r"may be a confusion matrix.*1\.4 right and 2\.1 wrong"):
        DawidSkene(table, raters="class", confusion_prior=rows)
    DawidSkene(table, raters="class", confusion_prior=[[8, 2], [3, 6]])  # warnings are errors here
