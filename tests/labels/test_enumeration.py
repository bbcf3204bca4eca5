"""Label priors against joints written out: every one of them, independent labels, known truths."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from gradients import assert_gradient
from scipy.special import log_softmax, logsumexp, softmax

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference.plan import make_plan
from bayesfuse.observation import ResponseModel
from bayesfuse.testing import assert_close, assert_frequencies, check_label_prior, enumerate_labels

POPULATION = np.array([1, 0, 3, 1, 1])
"""Of five items; nobody is of the third population."""
SHARES = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.3, 0.3, 0.4], [0.05, 0.9, 0.05]])


def five(seed=1):
    """Responses of three raters, some missing, one given twice."""
    table = np.random.default_rng(seed).integers(-1, 3, (5, 3))
    return bf.Responses.from_matrix(table, classes=range(3))


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5])
@pytest.mark.parametrize("kind", ["population", "item", "log-odds of populations", "of items"])
def test_labels_against_enumeration(kind, n_classes):
    rng = np.random.default_rng(n_classes)
    rows = {True: 4, False: 5}["population" in kind]
    place = POPULATION if rows == 4 else None
    values = rng.normal(0, 1.5, (rows, n_classes))
    if "of" in kind:
        prior = bf.build.Independent(log_odds=pt.as_tensor(values), population=place)
        given = values
    else:
        prior = bf.build.Independent(
            pt.as_tensor(np.exp(log_softmax(values, axis=1))), population=place
        )
        given = log_softmax(values, axis=1)
    responses = bf.Responses.from_matrix(np.zeros((5, 1), int), classes=range(n_classes))
    tables = prior.expand((given,), n_classes, np)
    assert_close(tables[0], log_softmax(values, axis=1), "table")
    log_lik = np.random.default_rng(n_classes).normal(0, 2, (5, n_classes))
    log_lik[1, 1], log_lik[2] = -np.inf, log_lik[2] - 5000.0
    check_label_prior(prior, tables, log_lik, prior.structure(responses))
    share = np.exp(tables[0])[prior.structure(responses)[1]].mean(axis=0)
    value = values if "of" in kind else np.exp(given)
    found = prior.prevalence((value,), n_classes, prior.structure(responses), np)
    assert_close(found, share, "share of every class")


CONFUSION = np.tile([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]], (3, 1, 1))


def observe(labels, responses=None, gold=None):
    table = five() if responses is None else responses
    return ResponseModel.build(table, labels, bf.build.Confusion(CONFUSION), gold)


def evaluated(observation, labels):
    values = {k: np.asarray(v) for k, v in labels.parameters.items()}
    rows = observation.rows(values | {"confusion": CONFUSION})
    found = observation.marginal(rows)
    return found.total, observation.by_item(found.probability)


def many(n_items=300, seed=3):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, n_items), bf.Responses.from_matrix(
        rng.integers(0, 3, (n_items, 3)), classes=range(3)
    )


@pytest.mark.parametrize("constant", [False, True])
def test_equal_items_are_merged_within_populations(constant):
    population, responses = many()
    labels = (
        bf.build.Independent(SHARES[population])
        if constant
        else bf.build.Independent(SHARES, population=population)
    )
    merged = observe(labels, responses)
    assert merged.table.n_items <= 4 * 27 < responses.n_items
    total, probability = evaluated(merged, labels)
    apart = sum(
        evaluated(observe(labels, responses.take(np.flatnonzero(population == p))), labels)[0]
        for p, share in enumerate(SHARES)
        for labels in [bf.build.Independent(share)]
    )
    assert_close(total, apart, "evidence")
    one = observe(bf.build.Independent(SHARES[2]), responses.take(np.flatnonzero(population == 2)))
    _, others = evaluated(one, bf.build.Independent(SHARES[2]))
    assert_close(probability[population == 2], others, "labels")


def test_merged_items_are_counted_by_population():
    """Counts of labels drawn for merged items have the expected counts as their mean."""
    population, responses = many()
    labels = bf.build.Independent(SHARES, population=population)
    seen, rng = observe(labels, responses), np.random.default_rng(0)
    rows = seen.rows({"prevalence": SHARES, "confusion": CONFUSION})
    _, expected = seen.expected(rows)
    drawn = np.array(
        [seen.sample_counts(rows, seen.draw(rows, rng), rng)["prevalence"] for _ in range(500)]
    )
    np.testing.assert_array_equal(drawn.sum(axis=2), np.tile(np.bincount(population), (500, 1)))
    error = np.maximum(drawn.std(axis=0), 0.1) / np.sqrt(500)
    assert (np.abs(drawn.mean(axis=0) - expected["prevalence"]) < 5 * error).all()


def test_gradients_of_log_odds():
    with pm.Model() as model:
        effect = pm.Normal("effect", shape=(5, 3))
        channel = bf.build.Confusion(np.tile(np.eye(3) * 0.4 + 0.2, (3, 1, 1)))
        bf.build.observe(five(), labels=bf.build.Independent(log_odds=effect), raters=channel)
    assert [v.name for v in make_plan(model).others] == ["effect"]
    assert_gradient(model, spread=1.0)


BAD = {
    "both": (lambda: bf.build.Independent(SHARES[0], log_odds=SHARES[0]), "one of the two"),
    "too few": (lambda: bf.build.Independent(SHARES, population=[0, 1]), "for 5 items"),
    "fractions": (lambda: bf.build.Independent(SHARES, population=np.ones(5)), "float64 values"),
    "below zero": (lambda: bf.build.Independent(SHARES, population=[0, 1, -1, 0, 0]), "least -1"),
    "no row": (lambda: bf.build.Independent(pt.as_tensor(SHARES[:2]), population=POPULATION),
               r"4 populations, 3 classes\). Got: shape \(2, 3\)"),
    "items": (lambda: bf.build.Independent(pt.as_tensor(SHARES)), r"5 items, 3 classes"),
    "no sum": (lambda: bf.build.Independent(2 * SHARES, population=POPULATION), "sum to one"),
    "missing": (lambda: bf.build.Independent(log_odds=np.full((5, 3), np.nan)), "NaN is none"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_wrong_shapes_are_refused(name):
    make, match = BAD[name]
    with pytest.raises(ModelError, match=match), pm.Model():
        bf.build.observe(five(), labels=make(), raters=bf.build.OneCoin(np.full(3, 0.7)))


ITEMS = list("cadb")
"""Of the responses, in another order than in sequence."""
RNG = np.random.default_rng(1)
RESPONSES = bf.Responses.from_matrix(RNG.integers(0, 3, (4, 2)), items=ITEMS, classes=range(3))
LOG_LIK = RNG.normal(0, 1.5, (4, 3))
ROWS, MOVES = RNG.dirichlet(np.ones(3), 4), RNG.dirichlet(np.ones(3), (2, 3))
ODDS = RNG.normal(0, 1.5, (4, 3))
GROUP, RUN = np.array([1, 0, 1, 2]), np.array([1, 0])
SEQUENCES = bf.Sequences.from_lengths([3, 1], items=list("abcd"))
EDGES = [("a", "b", 1.0), ("b", "c", 0.7), ("c", "a", 1.5), ("c", "d", 0.4)]
GRAPH = bf.Graph.from_edges([edge[:2] for edge in EDGES], [edge[2] for edge in EDGES])
COUPLING, PULL = 0.8, np.array([0.5, 0.2, 0.3])


def by_item(rows):
    """Return the log probability of labels (items,) that are independent."""
    return lambda y: sum(np.log(rows[n, k]) for n, k in enumerate(y))


def in_sequence(initial, transition):
    """Return that of chains, from rows by sequence: a, b, c and d."""

    def log_prob(y):
        a, b, c, d = (y[ITEMS.index(name)] for name in "abcd")
        first, then = initial[0], transition[0]
        return np.log(first[a] * then[a, b] * then[b, c] * initial[1][d])

    return log_prob


def on_graph(y):
    """Return the log weight of labels on the graph; their sum is normalised below."""
    at = dict(zip(ITEMS, y, strict=True))
    agree = sum(weight * (at[one] == at[other]) for one, other, weight in EDGES)
    return np.log(PULL[list(y)]).sum() + COUPLING * agree


def stationary(rows):
    return np.linalg.matrix_power(rows, 200)[0]


def potts(kind):
    return kind(COUPLING, GRAPH, PULL), (np.array(COUPLING),), on_graph


def cases():
    """Return label priors, their parameters as kernels have them, and joints by hand."""
    independent, log = bf.build.Independent, np.log
    stay = stationary(MOVES[0])
    chain = bf.build.MarkovChain(ROWS[0], MOVES[0], SEQUENCES)
    populations = bf.build.MarkovChain(ROWS[:2], MOVES, SEQUENCES, population=RUN)
    one = np.repeat(ROWS[:1], 4, axis=0)
    return {
        "one prevalence": (independent(ROWS[0]), (log(ROWS[0]),), by_item(one)),
        "table": (independent(ROWS[0]), (log(ROWS[:1]),), by_item(one)),
        "populations": (
            independent(ROWS, population=GROUP), (log(ROWS),), by_item(ROWS[GROUP]),
        ),
        "log-odds": (
            independent(log_odds=ODDS[0]), (ODDS[0],),
            by_item(np.repeat(softmax(ODDS[:1], axis=1), 4, axis=0)),
        ),
        "log-odds of populations": (
            independent(log_odds=ODDS, population=GROUP), (ODDS,),
            by_item(softmax(ODDS, axis=1)[GROUP]),
        ),
        "MarkovChain": (
            chain, (log(ROWS[0]), log(MOVES[0])),
            in_sequence(ROWS[[0, 0]], MOVES[[0, 0]]),
        ),
        "StationaryMarkovChain": (
            bf.build.StationaryMarkovChain(MOVES[0], SEQUENCES), (log(MOVES[0]),),
            in_sequence([stay, stay], MOVES[[0, 0]]),
        ),
        "chain with a classifier": (
            bf.build.MarkovChain(
                SHARES[0], MOVES[0], SEQUENCES, classifier=SHARES, shares=SHARES[1]
            ),
            (log(SHARES[0]), log(MOVES[0])),
            lambda y: in_sequence(SHARES[[0, 0]], MOVES[[0, 0]])(y)
            + sum(log(SHARES[n, k] / SHARES[1, k]) for n, k in enumerate(y)),
        ),
        "chains of populations": (
            populations, (log(ROWS[:2]), log(MOVES)), in_sequence(ROWS[RUN], MOVES[RUN]),
        ),
        "Potts": potts(bf.build.Potts),
        "PlantedPotts": potts(bf.build.PlantedPotts),
    }  # fmt: skip


def test_every_label_prior_is_among_the_cases():
    """But for those with hidden states: ``test_type_chain.py``, ``test_profiles.py``."""
    known = {type(prior) for prior, *_ in cases().values()}
    every = (getattr(bf.labels, name) for name in bf.labels.__all__)
    assert known == {
        each for each in every
        if isinstance(each, type) and issubclass(each, bf.labels.LabelPrior)
    } - {bf.labels.LabelPrior, bf.build.TypeChain, bf.build.Profiles}  # fmt: skip


@pytest.mark.parametrize("name", cases())
def test_label_probabilities_of_every_label_prior_by_hand(name):
    prior, parameters, log_prob = cases()[name]
    found = enumerate_labels(prior, parameters, LOG_LIK, prior.structure(RESPONSES))
    every = np.array(list(product(range(3), repeat=4)))
    log_prior = np.array([log_prob(y) for y in every])
    log_prior -= logsumexp(log_prior)
    joint = log_prior + LOG_LIK[np.arange(4), every].sum(axis=1)
    weight = np.exp(joint - logsumexp(joint))
    expected = [[weight[every[:, n] == k].sum() for k in range(3)] for n in range(4)]
    # with cycles belief propagation approximates log Z of a fixed coupling: a constant
    # that of a chain with a classifier is relative to that of its inputs
    given = prior.capabilities.exact and name != "chain with a classifier"
    exact = logsumexp(joint) if given else found.total
    assert_close(found.total, exact, "log evidence", rtol=1e-9)
    assert_close(found.probability, expected, "label probability", atol=1e-9)


INITIAL = np.array([0.5, 0.3, 0.2])
TRANSITION = np.array([[0.8, 0.2, 0.0], [0.1, 0.6, 0.3], [0.3, 0.0, 0.7]])
FIVE = ["e", "b", "d", "a", "c"]  # in the table in another order than in sequence
GOLD = {"b": 2, "d": 0}


def priors():
    sequences = bf.Sequences.from_table(
        {"item": list("abcde"), "sequence": [0, 0, 0, 0, 1], "position": [0, 1, 2, 3, 0]}
    )
    circle = bf.Graph.from_edges(
        [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("d", "e")], [1.0, 0.7, 1.5, 1.0, 0.4]
    )
    share = [0.5, 0.2, 0.3]
    return {
        "independent": (bf.build.Independent(INITIAL), 2000),
        "chain": (bf.build.MarkovChain(INITIAL, TRANSITION, sequences), 2000),
        "stationary": (bf.build.StationaryMarkovChain(TRANSITION, sequences), 2000),
        "Potts": (bf.build.Potts(1.3, circle, share), 200),
        "planted": (bf.build.PlantedPotts(1.3, circle, share), 200),
    }


@pytest.mark.parametrize("name", priors())
def test_truths_are_drawn_given_the_known_ones(name):
    prior, draws = priors()[name]
    responses = bf.Responses.from_matrix(np.zeros((5, 1), dtype=int), items=FIVE, classes=range(3))
    channel = bf.build.Confusion(np.full((1, 3, 3), 1 / 3))
    observation = ResponseModel.build(responses, prior, channel, GOLD)
    rows = observation.rows({**prior.parameters, **channel.parameters})
    log_lik = np.zeros((5, 3))
    for item, label in GOLD.items():
        log_lik[FIVE.index(item), [k for k in range(3) if k != label]] = -np.inf
    structure = prior.structure(responses)
    exact = enumerate_labels(prior, observation.label_tables(rows), log_lik, structure)
    rng = np.random.default_rng(1)
    seen = np.zeros(len(exact.weight))
    for _ in range(draws):
        truth, _ = observation.simulate(rows, rng)
        seen[truth @ 3 ** np.arange(5)[::-1]] += 1
    assert not seen[exact.weight == 0].any()
    assert_frequencies(seen, exact.weight, "truths")
