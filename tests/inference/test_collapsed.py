"""Collapsed variational fits of item types: against Gibbs sampling, and what must not matter."""

import arviz as az
import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError, PoorFitWarning
from bayesfuse.models import ItemTypes

QUIET = {"progressbar": False, "quiet": True}


def crowd(seed, n_items=150, n_raters=8, n_classes=2):
    """Return a table with gaps and the classes; a fifth of the items are hard."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(n_classes, n_items, p=[0.6, *[0.4 / (n_classes - 1)] * (n_classes - 1)])
    right = rng.uniform(0.6, 0.95, n_raters)
    right = np.where(rng.random(n_items) < 0.2, 0.4, 1.0)[:, None] * right
    wrong = (truth[:, None] + rng.integers(1, n_classes, (n_items, n_raters))) % n_classes
    answers = np.where(rng.random((n_items, n_raters)) < right, truth[:, None], wrong)
    answers = np.where(rng.random(answers.shape) < 0.25, -1, answers)
    return bf.Responses.from_matrix(answers, missing=-1), truth


def labels_of(model, **settings):
    result = bf.fit(model, "cavi", **{"draws": 300, "random_seed": 1, **settings})
    return bf.label_probabilities(result).values


OPTIONS = {
    "by default": lambda r, y, rng: {},
    "even guesses": lambda r, y, rng: {"guesses": "even"},
    "levels, trust given": lambda r, y, rng: {"consensus": "levels", "trust": 1.5},
    "clean items": lambda r, y, rng: {"clean": True},
    "clean items of populations": lambda r, y, rng: {
        "clean": True,
        "populations": (y + (rng.random(len(y)) < 0.2)) % 2,
    },
    "known labels": lambda r, y, rng: {"gold": {n: int(y[n]) for n in range(40)}},
    "populations": lambda r, y, rng: {"populations": (y + (rng.random(len(y)) < 0.2)) % 2},
    "covariates": lambda r, y, rng: {"covariates": (y + rng.normal(0, 1, len(y)))[:, None]},
    "classifier": lambda r, y, rng: {"classifier": 0.15 + 0.7 * np.eye(2)[y]},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_fits_are_near_the_draws_of_gibbs_sampling(name):
    responses, truth = crowd(3)
    model = ItemTypes(responses, **OPTIONS[name](responses, truth, np.random.default_rng(1)))
    fitted = bf.fit(model, draws=500, random_seed=1)
    # many clean items with others that are hard, or few: the fit is of one, slow chains of both
    draws, largest_bias = (3000, 0.2) if name.startswith("clean") else (500, 0.13)
    drawn = bf.sample(model, draws, chains=2, random_seed=1, **QUIET)
    assert set(fitted["posterior"]) == set(drawn["posterior"])
    one, two = (bf.label_probabilities(result).values for result in (fitted, drawn))
    assert np.abs(one - two).mean() < 0.06  # it is somewhat surer
    decided = two.max(axis=1) > 0.65  # of near ties, the largest says nothing
    assert np.mean((one.argmax(1) == two.argmax(1))[decided]) > 0.97
    posterior = drawn["posterior"].dataset
    for variable, largest in (("competence", largest_bias), ("prevalence", 0.02)):
        error = az.mcse(posterior[[variable]])[variable].values
        means = [
            result["posterior"][variable].mean(("chain", "draw")).values
            for result in (fitted, drawn)
        ]
        # the fit is biased by less than its uncertainty, and chains err besides
        deviation = posterior[variable].std(("chain", "draw")).values
        allowed = np.minimum(1.4 * deviation, largest) + 4 * error
        assert np.all(np.abs(means[0] - means[1]) < allowed)


def test_several_classes_and_hard_items():
    responses, truth = crowd(5, n_classes=3)
    probability = labels_of(ItemTypes(responses))
    drawn = bf.sample(ItemTypes(responses), 150, chains=2, random_seed=1, **QUIET)
    assert np.abs(probability - bf.label_probabilities(drawn).values).mean() < 0.06
    votes = responses.votes().argmax(1)
    assert np.mean(probability.argmax(1) == truth) > np.mean(votes == truth) - 0.02


def log_loss(probability, truth):
    return -np.log(np.maximum(probability[np.arange(len(truth)), truth], 1e-4)).mean()


def test_clean_items_help_where_errors_are_independent():
    """Raters with rows of their own, which levels of agreement cannot describe."""
    rng = np.random.default_rng(0)
    truth = rng.choice(3, 250, p=[0.5, 0.3, 0.2])
    concentration = 0.8 + rng.uniform(1.2, 7.2, (8, 3, 1)) * np.eye(3)
    rows = rng.standard_gamma(concentration)
    rows /= rows.sum(axis=-1, keepdims=True)
    up_to = rows[:, truth].swapaxes(0, 1).cumsum(axis=-1)  # (items, raters, answers)
    answers = (up_to < rng.random((250, 8, 1))).sum(axis=-1)
    answers = np.where(rng.random(answers.shape) < 0.4, -1, answers)
    responses = bf.Responses.from_matrix(answers, missing=-1, classes=range(3))
    levels, clean = (
        labels_of(ItemTypes(responses, consensus="levels", clean=clean), draws=50)
        for clean in (False, True)
    )
    assert log_loss(clean, truth) < log_loss(levels, truth) - 0.03
    assert np.mean(clean.argmax(1) == truth) >= np.mean(levels.argmax(1) == truth)


def test_clean_types_do_no_harm_where_items_are_hard():
    """Raters answer by a row of the item; the bound prefers the model without clean types."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 200)
    level = rng.choice([0.2, 0.4, 0.6], 200)[:, None]
    rows = (1 - level) / 3 + level * np.eye(3)[truth]
    up_to = rows.cumsum(axis=1)[:, None]
    answers = (up_to < rng.random((200, 12, 1))).sum(axis=-1)
    responses = bf.Responses.from_matrix(answers, classes=range(3))
    fits = [
        bf.fit(ItemTypes(responses, consensus="levels", clean=clean), draws=50, random_seed=1)
        for clean in (False, True)
    ]
    levels, clean = (log_loss(bf.label_probabilities(each).values, truth) for each in fits)
    assert fits[1].attrs["elbo"] < fits[0].attrs["elbo"]
    assert clean < levels + 0.03


def test_fits_have_their_attributes():
    responses, _ = crowd(1)
    result = bf.fit(ItemTypes(responses), draws=50, random_seed=1)
    attributes = result.attrs
    assert attributes["method"] == "cavi" and attributes["converged"] == 1
    assert 5 < attributes["iterations"] < 200 and np.isfinite(attributes["elbo"])
    assert result["posterior"].sizes["draw"] == 50
    again = bf.fit(ItemTypes(responses), draws=50, random_seed=1)
    assert result["posterior"].dataset.equals(again["posterior"].dataset)


def test_the_bound_is_below_the_log_evidence():
    """Of a tiny table: the evidence follows from draws of the prior."""
    responses = bf.Responses.from_matrix([[0, 0, 1], [1, 0, 1], [0, 0, 0]], classes=[0, 1])
    model = ItemTypes(responses, guesses="even", trust=1.0)
    height = bf.fit(model, draws=2, random_seed=1).attrs["elbo"]
    rng = np.random.default_rng(1)
    rows, n_draws = bf.build.Consensus([[1.0]], [1.0]).dictionary(2).rows, 20_000
    share = rng.dirichlet(np.full(12, 3.0 / 12), n_draws)
    mean, near = rng.beta(2, 1, (n_draws, 1)), rng.gamma(2.0, 2.0, (n_draws, 1))
    competence = rng.beta(near * mean, near * (1 - mean), (n_draws, 3))
    likelihood = np.ones(n_draws)
    for answers in ([0, 0, 1], [1, 0, 1], [0, 0, 0]):
        of_types = competence[:, None] * rows[:, answers] + (1 - competence[:, None]) / 2
        likelihood *= (share * of_types.prod(axis=2)).sum(axis=1)
    assert height < np.log(likelihood.mean()) + 0.5  # hyperparameters are at their mode


def test_order_and_names_do_not_matter():
    responses, _ = crowd(2, n_classes=3)
    frame = responses.to_frame()
    probability = labels_of(ItemTypes(responses))
    shuffled = frame.sample(frac=1.0, random_state=1).assign(
        rater=lambda f: "r" + f["rater"].astype(str),
        label=lambda f: f["label"].map({0: "c", 1: "a", 2: "b"}),
    )
    other = bf.Responses.from_long(shuffled)
    result = bf.fit(ItemTypes(other), "cavi", draws=300, random_seed=1)
    table = bf.label_probabilities(result).to_pandas().loc[responses.items, ["c", "a", "b"]]
    assert np.abs(table.to_numpy() - probability).max() < 0.03


def test_repeated_tables_are_merged():
    """Items with the same responses count as many as they are."""
    responses, _ = crowd(4, n_items=20, n_raters=3)
    frame = responses.to_frame()
    copies = pd.concat([frame.assign(item=frame["item"] + 100 * copy) for copy in range(10)])
    merged = ItemTypes(bf.Responses.from_long(copies))
    probability = labels_of(merged)
    assert len(probability) == 200
    n = responses.n_items
    assert np.abs(probability[:n] - probability[n : 2 * n]).max() < 1e-12


def test_items_and_raters_without_responses_return_their_priors():
    responses, _ = crowd(6, n_items=60)
    frame = responses.to_frame()
    table = bf.Responses.from_long(frame, items=range(62), raters=range(9), classes=[0, 1])
    result = bf.fit(ItemTypes(table), draws=400, random_seed=1)
    posterior = result["posterior"].dataset
    label = bf.label_probabilities(result).values[60]
    assert np.abs(label - posterior["prevalence"].mean(("chain", "draw"))).max() < 0.03
    competence = posterior["competence"].sel(rater=8).mean()
    assert abs(competence - posterior["competence_mean"].mean()) < 0.1


def test_sweeps_widen_the_draws():
    responses, _ = crowd(1, n_items=60)
    narrow = bf.fit(ItemTypes(responses), draws=150, random_seed=1)
    with pytest.warns(PoorFitWarning, match="they widen the intervals"):
        wide = bf.fit(ItemTypes(responses), draws=150, sweeps=6, random_seed=1)
    ratio = wide["posterior"]["competence"].std() / narrow["posterior"]["competence"].std()
    assert wide.attrs["sweeps"] == 6 and 1.0 < ratio < 3.0


def test_batches_are_refused():
    responses, _ = crowd(1)
    with pytest.raises(ModelError, match=r"all items at once.*batch_size="):
        bf.fit(ItemTypes(responses), "cavi", batch_size=10)


def test_a_fit_exchanges_clean_types_when_it_starts_at_the_wrong_ones():
    # most votes are wrong, but the prior of the rows prefers three raters who are nearly perfect
    rng, truth = np.random.default_rng(0), np.repeat([0, 1], [45, 55])
    right = np.repeat([0.99, 0.33], [3, 10])
    answers = np.where(rng.random((100, 13)) < right, truth[:, None], 1 - truth[:, None])
    for votes, gold in ((answers, None), (1 - answers, None), (answers, {0: 0, 99: 1})):
        start = bf.vote_shares(votes)
        labels = labels_of(ItemTypes(answers, clean=True, gold=gold), start=start, draws=20)
        assert (labels.argmax(axis=1) == truth).mean() > 0.97
