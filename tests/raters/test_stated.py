"""Sources that state probabilities: kernels against enumeration and hard labels, and fits."""

import math
from itertools import product

import numpy as np
import pytest
import xarray as xr
from typed_crowds import unknown

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene
from bayesfuse.observation import ResponseModel
from bayesfuse.observation.model import observed
from bayesfuse.testing import assert_close, assert_frequencies

CHANNEL = bf.build.Stated(None)
N_RATERS = 4


def rows(n_classes, seed=0):
    """Random log rows (raters, classes, answers)."""
    rng = np.random.default_rng(seed)
    return np.log(rng.dirichlet(np.ones(n_classes), (N_RATERS, n_classes)))


def soft(code, probability, n_items=5):
    """Statements on (item, rater)."""
    item, rater = zip(*code, strict=True)
    columns = dict(enumerate(np.transpose(probability)))
    return bf.Responses.from_probabilities(
        {"item": item, "rater": rater, **columns}, items=range(n_items), raters=range(N_RATERS)
    )


CODE = [(0, 0), (0, 3), (1, 3), (1, 3), (3, 2)]


def mixed(n_classes, seed=0):
    """Hard and soft, by one source and by others, repeated, and an item without any."""
    rng = np.random.default_rng(seed)
    votes = {
        "item": [0, 0, 1, 2, 2, 2, 3],
        "rater": [0, 1, 0, 1, 1, 2, 2],
        "label": rng.integers(0, n_classes, 7),
    }
    hard = bf.Responses.from_long(votes, items=range(5), classes=range(n_classes))
    return hard.joined(soft(CODE, rng.dirichlet(np.full(n_classes, 0.7), len(CODE))))


def log_lik(log_rows, responses, channel=CHANNEL):
    return channel.log_lik((log_rows,), channel.structure(responses, unknown(responses)))


def enumerated(log_rows, responses):
    """Likelihood (items, classes) and expected uses, over all hidden answers, one by one."""
    theta = np.exp(log_rows).tolist()
    n_classes, stated = responses.n_classes, responses.stated
    found = np.zeros((responses.n_items, n_classes))
    uses = np.zeros((responses.n_items, n_classes, *np.shape(theta)))
    for n, k in product(range(responses.n_items), range(n_classes)):
        own = responses.item == n
        hard = list(zip(responses.rater[own], responses.label[own], strict=True))
        mine = np.flatnonzero(stated.item == n)
        for answers in product(range(n_classes), repeat=len(mine)):
            said = [float(stated.probability[r, c]) for r, c in zip(mine, answers, strict=True)]
            whole = [*hard, *zip(stated.rater[mine], answers, strict=True)]
            weight = math.prod(said) * math.prod(theta[m][k][c] for m, c in whole)
            found[n, k] += weight
            for m, c in whole:
                uses[n, k, m, k, c] += weight
        uses[n, k] /= found[n, k]
    return found, uses


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_likelihood_and_counts_are_sums_over_hidden_answers(n_classes):
    responses, log_rows = mixed(n_classes), rows(n_classes)
    found, uses = enumerated(log_rows, responses)
    assert_close(log_lik(log_rows, responses), np.log(found), "log_lik")
    weight = np.random.default_rng(1).random(found.shape)
    structure = CHANNEL.structure(responses, unknown(responses))
    for sign in (1.0, -1.0):  # gradients of minus the density have negative weights
        (counts,) = CHANNEL.expected_kernel(log_rows, sign * weight, *structure)
        assert_close(counts, sign * np.einsum("nk,nkmjc->mjc", weight, uses), "expected counts")


@pytest.mark.parametrize("n_classes", [2, 3, 4, 7])
def test_certain_statements_are_hard_labels(n_classes):
    rng = np.random.default_rng(n_classes)
    label = rng.integers(0, n_classes, 30)
    item, rater = rng.integers(0, 5, 30), rng.integers(0, N_RATERS, 30)
    names = {"items": range(5), "raters": range(N_RATERS), "classes": range(n_classes)}
    table = bf.Responses.from_long({"item": item, "rater": rater, "label": label}, **names)
    certain = soft(list(zip(item, rater, strict=True)), np.eye(n_classes)[label])
    log_rows = rows(n_classes)
    log_rows[0, 1], log_rows[1] = -np.inf, log_rows[1] - 900  # exponentials underflow
    log_rows[0, 1, 0] = 0.0
    gold = np.array([-1, 0, -1, 1, -1])
    labels = rng.integers(0, n_classes, 5)
    labels[labels == 1] = 0  # which rater 0 may rule out
    weight, found = rng.random((5, n_classes)), []
    for channel, responses in ((CHANNEL, certain), (bf.build.Confusion(None), table)):
        structure = channel.structure(responses, gold)
        log = channel.log_lik((log_rows,), structure)
        possible = np.where(np.isneginf(log), 0.0, weight)
        found.append([log, *channel.expected_kernel(log_rows, possible, *structure)])
        for drawn in (labels, np.eye(n_classes)[labels] * 3):
            found[-1] += channel.sample_counts((log_rows,), drawn, structure, rng)
    for one, other in zip(*found, strict=True):
        assert_close(one, other, "statements and labels")


def test_without_statements_it_is_confusion():
    responses, log_rows = mixed(3).without_statements(), rows(3)
    plain = log_lik(log_rows, responses, bf.build.Confusion(None))
    assert_close(log_lik(log_rows, responses), plain, "log-likelihood")
    assert CHANNEL.fixed_feature_likelihood((log_rows,), responses) is None


def test_thousands_of_statements_do_not_underflow():
    rng = np.random.default_rng(4)
    said = rng.dirichlet([1.0, 1.0, 1.0], 3000)
    code = list(zip([0] * 1500 + [2] * 1500, rng.integers(0, 4, 3000), strict=True))
    hard = bf.Responses.from_long(
        {"item": [1] * 2000 + [2] * 2000, "rater": [1] * 4000, "label": rng.integers(0, 3, 4000)},
        items=range(5), classes=range(3),
    )  # fmt: skip
    responses, log_rows = hard.joined(soft(code, said)), rows(3)
    expected, stated = np.zeros((5, 3)), responses.stated
    np.add.at(expected, responses.item, log_rows[responses.rater, :, responses.label])
    means = np.einsum("rkc,rc->rk", np.exp(log_rows)[stated.rater], stated.probability)
    np.add.at(expected, stated.item, np.log(means))
    assert expected[:3].max() < -1000
    top = expected.max(axis=1, keepdims=True)
    found = np.maximum(log_lik(log_rows, responses), top - 660)  # below, entries only stay positive
    assert_close(found, np.maximum(expected, top - 660), "log_lik", rtol=1e-9)


def test_impossible_statements():
    """Zeros in rows rule out classes only where every stated answer is impossible."""
    with np.errstate(divide="ignore"):
        log_rows = np.log(np.tile(np.eye(3), (N_RATERS, 1, 1)))
    responses = soft([(0, 0), (1, 0), (2, 0), (2, 1)],
                     [[0.5, 0.5, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]])  # fmt: skip
    found = np.exp(log_lik(log_rows, responses))
    assert found[:3].tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    structure = CHANNEL.structure(responses, unknown(responses))
    (counts,) = CHANNEL.expected_kernel(log_rows, np.ones((5, 3)), *structure)
    assert np.isfinite(counts).all() and (counts[np.isneginf(log_rows)] == 0).all()
    rng = np.random.default_rng(0)
    for drawn in (np.array([1, 2, 0, 0, 0]), np.eye(3)[[1, 2, 0, 0, 0]] * 2):
        (counts,) = CHANNEL.sample_counts((log_rows,), drawn, structure, rng)
        assert (counts[np.isneginf(log_rows)] == 0).all() and counts[0, 1, 1] >= 1


def test_predictive_draws_keep_statements():
    """Truths follow from the statements, labels from the truths."""
    hard = bf.Responses.from_matrix([[0], [0]], classes=[0, 1])
    responses = hard.joined(soft([(0, 0), (0, 3)], [[0.9, 0.1], [0.6, 0.4]], 2))
    observation = ResponseModel.build(responses, bf.build.Independent(None), CHANNEL)
    point = {"prevalence": np.log([0.4, 0.6]), "confusion": rows(2, 1)}
    rng, seen = np.random.default_rng(1), np.zeros((2, 2))
    for _ in range(4000):
        first, second = observation.simulate(point, rng)[1]
        seen[first, second] += 1
    theta = np.exp(point["confusion"])
    share = np.array([0.4, 0.6]) * (theta[0] @ [0.9, 0.1]) * (theta[3] @ [0.6, 0.4])
    one, two = share / share.sum() @ theta[0], np.array([0.4, 0.6]) @ theta[0]
    assert_frequencies(seen.ravel(), np.outer(one, two).ravel(), "predictive draws")


def test_other_channels_refuse_statements():
    responses = mixed(2)
    for channel in (bf.build.Confusion(None), bf.build.OneCoin(np.full(4, 0.7))):
        with pytest.raises(ModelError, match=r"bf\.build\.Stated.*without_statements.*Got: "):
            ResponseModel.build(responses, bf.build.Independent(None), channel)
        assert ResponseModel.build(
            responses.without_statements(), bf.build.Independent(None), channel
        )
    silent = mixed(2).completed()
    with pytest.raises(ModelError, match=r"without_silence.*Got: Stated"):
        ResponseModel.build(silent, bf.build.Independent(None), CHANNEL)
    with pytest.raises(ModelError, match=r"without_statements.*Got: Abstaining"):
        ResponseModel.build(silent, bf.build.Independent(None), bf.build.Abstaining(None))


QUIET = {"progressbar": False, "quiet": True}
RATERS = ["ann", "bob", "eve"]
CLASSES = ["cat", "dog", "eel"]
OWN = np.array([[0.75, 0.1, 0.15], [0.05, 0.8, 0.15], [0.2, 0.1, 0.7]])


def overconfident(n_items, seed, n_classes=3, skip=0.0):
    """Three raters who are often wrong, and a classifier that is surer than it is right."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_items)
    label = np.where(
        rng.random((n_items, 3)) < [0.6, 0.5, 0.55],
        truth[:, None],
        rng.integers(0, n_classes, (n_items, 3)),
    )
    rows = OWN[:n_classes, :n_classes] / OWN[:n_classes, :n_classes].sum(axis=1, keepdims=True)
    answer = (rows.cumsum(axis=1)[truth] < rng.random((n_items, 1))).sum(axis=1)
    gamma = rng.standard_gamma(0.15 + np.eye(n_classes)[answer])
    said = gamma / gamma.sum(axis=1, keepdims=True)
    names = CLASSES[:n_classes]
    hard = bf.Responses.from_matrix(np.array(names)[label], raters=RATERS, classes=names)
    cells = np.where(rng.random((n_items, 1)) < skip, np.nan, said)[:, None]
    soft = bf.Responses.from_probabilities(cells, raters=["net"], classes=names)
    return truth, hard.joined(soft)


@pytest.fixture(scope="module")
def fitted():
    truth, both = overconfident(120, 6, 2, skip=0.3)
    gold = {n: CLASSES[truth[n]] for n in range(10)}
    model = DawidSkene(both, gold=gold)
    return model, bf.sample(model, 250, chains=2, random_seed=1, **QUIET)


@pytest.mark.slow
def test_a_file_predicts_new_items(fitted, tmp_path):
    """Statements of new items count, whatever the order of their classes."""
    model, gibbs = fitted
    gibbs.to_netcdf(tmp_path / "fit.nc")
    kept = xr.load_datatree(tmp_path / "fit.nc")
    whole = observed(model)[1].responses
    free = np.arange(10, whole.n_items)
    found, known = (
        bf.label_probabilities(each).values[free] for each in (bf.predict(kept, whole), gibbs)
    )
    assert np.abs(found - known).max() < 0.1 and np.abs(found - known).mean() < 0.01
    table = {"item": ["p", "q"], "rater": ["net"] * 2, "dog": [0.9, 0.3], "cat": [0.1, 0.7]}
    new = bf.predict(kept, bf.Responses.from_probabilities(table), draws=500)
    posterior = gibbs["posterior"].dataset
    rows = posterior["confusion"].sel(rater="net")
    share = posterior["prevalence"] * (0.9 * rows.sel(answer="dog") + 0.1 * rows.sel(answer="cat"))
    share = share.sum(("chain", "draw"))
    expected = share / share.sum()
    one = bf.label_probabilities(new).sel(item="p")
    assert_close(one, expected.sel({"class": one["class"]}), "new item", rtol=1e-6)
    with pytest.warns(bf.errors.NewRatersWarning):
        other = bf.predict(kept, bf.Responses.from_probabilities(table | {"rater": ["new"] * 2}))
    assert other["raters"]["source"].values.tolist() == ["prior"]
    point = bf.find_map(DawidSkene(whole.without_statements()))
    with pytest.raises(ModelError, match="without_statements"):
        bf.predict(point, bf.Responses.from_probabilities(table | {"rater": ["ann"] * 2}))


def test_value_of_response_uses_statements():
    """A sure statement leaves less to learn than an even one."""
    hard = bf.Responses.from_matrix([["cat", "dog", None]] * 2, raters=RATERS, classes=CLASSES[:2])
    table = {"item": [0, 1], "rater": ["net"] * 2, "cat": [0.5, 1.0], "dog": [0.5, 0.0]}
    responses = hard.joined(bf.Responses.from_probabilities(table))
    prior = np.array([[90.0, 10.0], [10.0, 90.0]])
    model = DawidSkene(responses, confusion_prior=prior)
    result = bf.find_map(model)
    value = bf.decisions.value_of_response(result, model, raters=["eve"], of="entropy")
    value = value["value"].values[:, 0]
    assert value[0] > 2 * value[1] > 0
