"""Hidden Markov models as PyMC models: gradients, modes, degenerate cases, refusals."""

import numpy as np
import pymc as pm
import pytest
from gradients import assert_gradient

import bayesfuse as bf
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import HiddenMarkov
from bayesfuse.testing import assert_close, simulate

ALLOWED = np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 1.0], [3.0, 0.0, 1.0]])
CASES = {
    "free": {},
    "zeros": {"initial_prior": [1, 1, 0], "transition_prior": ALLOWED},
    "stationary": {"initial": "stationary"},
    "stationary with zeros": {"initial": "stationary", "transition_prior": ALLOWED},
}


def sequences_of(lengths):
    return bf.Sequences.from_lengths(lengths, names=[f"s{n}" for n in range(len(lengths))])


@pytest.fixture(scope="module")
def data():
    """Responses drawn from the model with zeros, some twice, some items without; its sequences."""
    rng = np.random.default_rng(3)
    item, rater = np.nonzero(rng.random((60, 3)) < 0.7)
    item, rater = np.append(item, item[:8]), np.append(rater, rater[:8])
    columns = {"item": item, "rater": rater, "label": np.arange(len(item)) % 3}
    table = bf.Responses.from_long(columns, items=range(60))
    sequences = sequences_of([5, 1, 14, 10, 3, 7, 20])
    return simulate(HiddenMarkov(table, sequences, **CASES["zeros"]), 4)[2], sequences


@pytest.mark.parametrize(
    ("case", "mode"),
    [
        ("zeros", "FAST_COMPILE"),
        ("stationary with zeros", "FAST_COMPILE"),
        pytest.param("zeros", "JAX", marks=pytest.mark.slow),
        pytest.param("stationary with zeros", "JAX", marks=pytest.mark.slow),
        pytest.param("zeros", "NUMBA", marks=pytest.mark.slow),
        pytest.param("stationary", "NUMBA", marks=pytest.mark.slow),
    ],
)
def test_gradients_are_right_in_every_backend(data, case, mode):
    assert_gradient(HiddenMarkov(*data, **CASES[case], raters="class"), mode=mode)


@pytest.mark.parametrize("case", CASES)
def test_log_posterior_never_falls(data, case):
    point = bf.find_map(HiddenMarkov(*data, **CASES[case]), tolerance=1e-12)
    trace = point["trace"]["log_posterior"].values
    assert (np.diff(trace) > -1e-9).all() and len(trace) > 3
    assert point.attrs["converged"] == 1
    transition = point["point"]["transition"].values
    assert_close(transition.sum(axis=1), np.ones(3), "row sums")
    if "zeros" in case:
        assert (transition[ALLOWED == 0] == 0).all()


def test_the_mode_of_a_stationary_chain_has_no_slope(data):
    """EM is not closed there: its end must still be where the plain density is flat."""
    prior = {"transition_prior": np.full((3, 3), 3.0), "confusion_prior": np.full((3, 3), 2.0)}
    prior["confusion_prior"] += np.eye(3)
    model = HiddenMarkov(*data, initial="stationary", **prior)
    point = bf.find_map(model, tolerance=1e-14, iterations=20_000)["point"]
    observation = make_plan(model).observation
    values = {name: point[name].values for name in ("transition", "confusion")}
    _, counts = observation.expected(observation.rows(values))
    for name, alpha in make_plan(model).continuous_priors().items():
        total = counts[name] + alpha.concentration - 1
        assert np.allclose(total / total.sum(axis=-1, keepdims=True), values[name], atol=1e-5)


def test_first_labels_inform_stationary_chains():
    """All labels known: draws of the transition against its density on a grid."""
    labels = np.array([0, 0, 1, 0, 1, *[0] * 24])  # one sequence of five items, 24 of one
    responses = bf.Responses.from_matrix(labels[:, None], classes=[0, 1])
    prior = np.array([[2.0, 1.0], [1.5, 2.5]])
    model = HiddenMarkov(
        responses,
        sequences_of([5] + [1] * 24),
        initial="stationary",
        transition_prior=prior,
        gold=dict(enumerate(labels.tolist())),
    )
    drawn = bf.sample(model, 2000, chains=1, random_seed=1, progressbar=False, quiet=True)
    leave, back = np.meshgrid(*[(np.arange(400) + 0.5) / 400] * 2, indexing="ij")
    counts = prior - 1 + [[1, 2], [1, 0]]
    weight = (1 - leave) ** counts[0, 0] * leave ** counts[0, 1] * back ** counts[1, 0]
    weight *= (1 - back) ** counts[1, 1] * (back / (leave + back)) ** 25
    weight /= weight.sum()
    transition = drawn["posterior"]["transition"].sel(chain=0).values
    for values, expected in (
        (transition[:, 0, 1], (weight * leave).sum()),
        (transition[:, 1, 0], (weight * back).sum()),
    ):
        error = values.reshape(50, 40).mean(axis=1).std(ddof=1) / np.sqrt(50)
        assert abs(values.mean() - expected) < 5 * error < 0.1


def test_short_sequences_may_be_stationary():
    """A step of what is not EM may rule out what was observed; half of it does not."""
    matrix = np.random.default_rng(0).integers(0, 2, (40, 6))
    responses = bf.Responses.from_matrix(matrix)
    point = bf.find_map(HiddenMarkov(responses, sequences_of([1] * 40), initial="stationary"))
    trace = point["trace"]["log_posterior"].values
    assert (np.diff(trace) > -1e-9).all() and np.isfinite(point.attrs["log_evidence"])
    assert np.isfinite([v for k, v in point.attrs.items() if "start_log" in k]).all()
    assert_close(point["label_posterior"]["probability"].sum("class").values, np.ones(40), "sums")


def test_the_order_of_the_items_never_matters(data):
    responses, sequences = data
    frame = responses.to_frame()
    order = np.random.default_rng(2).permutation(60)
    shuffled = bf.Responses.from_long(frame, items=order, classes=range(3))
    table = sequences.to_frame().sample(frac=1, random_state=1)
    one, other = (
        bf.find_map(HiddenMarkov(*given, initial="stationary"), tolerance=1e-12)
        for given in ((responses, sequences), (shuffled, bf.Sequences.from_table(table)))
    )
    assert np.allclose(one["point"]["transition"], other["point"]["transition"], atol=1e-6)
    probability = bf.label_probabilities(other).sel(item=responses.items)
    assert np.allclose(bf.label_probabilities(one), probability, atol=1e-6)


def test_an_own_model_with_a_start_that_depends_on_the_transition(data):
    """What reaches the responses by two ways has no Dirichlet conditional: NUTS must draw it."""
    responses, sequences = data
    with pm.Model() as model:
        transition = pm.Dirichlet("transition", np.ones((3, 3)))
        confusion = pm.Dirichlet("confusion", np.ones((3, 3, 3)) + 3 * np.eye(3))
        bf.observe(
            responses,
            labels=bf.MarkovChain(transition.mean(axis=0), transition, sequences),
            raters=bf.Confusion(confusion),
        )
    assert set(make_plan(model).blocks) == {"confusion"}
