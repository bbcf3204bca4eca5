"""The move of the prevalence: it keeps what it says, leaves the posterior as it is, and helps."""

import numpy as np
import pymc as pm
import pytest
from grouped_crowds import GROUPS, crowd

import bayesfuse as bf
from bayesfuse.inference import turning
from bayesfuse.inference.gibbs import Sweep
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup
from bayesfuse.numerics.kernels import kernel
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.numerics.turns import turn_rows
from bayesfuse.observation import Observation
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.testing import assert_close


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
        found = turning.propose(rows, "prevalence", {"confusion": slice(None)}, 0.1, rng)
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
    assert turning.propose(rows, "prevalence", {"confusion": slice(None)}, 0.1, rng) is None


def tilted(shares, n_raters, **diagonal):
    rater = bf.priors.diagonal(len(shares), **diagonal)
    return {
        "prevalence": Dirichlet(np.array(shares)),
        "confusion": Dirichlet(np.tile(rater, (n_raters, 1, 1))),
    }


# Of few items priors decide which turns are accepted, of many what the responses say.
CASES = {
    "two classes": (60, tilted([4.0, 10.0], 5, weight=12, accuracy=0.6)),
    "three classes": (300, tilted([4.0, 6.0, 14.0], 4, weight=15, accuracy=0.5)),
    "mixtures": (
        60,
        {
            "prevalence": bf.priors.mixture([0.6, 0.4], [[8.0, 4.0], [3.0, 9.0]]),
            "confusion": bf.priors.mixture(
                [0.7, 0.3], [[[9.0, 3.0], [2.0, 8.0]], [[2.0, 6.0], [9.0, 6.0]]]
            ).repeated(4),
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_turns_leave_the_posterior_as_it_is(name):
    """Parameters from the prior, responses from these: turned, they still look so together."""
    (n_items, priors), rng = CASES[name], np.random.default_rng(3)
    n_raters, n_classes = priors["confusion"].shape[:2]
    zeros = np.zeros((n_items, n_raters), dtype=int)
    blank = bf.Responses.from_matrix(zeros, classes=range(n_classes))
    moved, accepted = [], 0
    for _ in range(400):
        rows = {
            key: draw_dirichlet(a.picked(rng) if name == "mixtures" else a.concentration, rng)
            for key, a in priors.items()
        }
        _, label = observe(blank).simulate(rows, rng)
        observation = observe(blank.relabelled(label))
        begun = numbers(observation, rows)
        for _ in range(8):
            before = rows
            rows, _ = turning.turn(observation, rows, priors, rng)
            accepted += rows is not before
        moved.append(numbers(observation, rows) - begun)
    assert accepted > 160
    error = np.std(moved, axis=0) / np.sqrt(len(moved))
    assert (np.abs(np.mean(moved, axis=0)) < 4.5 * error).all()


@kernel
def compiled_turn(log_shares, log_rows, shares_prior, rows_prior, least, rng):
    return turn_rows(log_shares, log_rows, shares_prior, rows_prior, least, rng)


def test_compiled_turns_are_those_in_python():
    """Both take the same random numbers; the compiled ratio has the part of the priors."""
    priors, possible, least = CASES["three classes"][1], 0, 0.05
    shares_prior, rows_prior = (priors[name].concentration for name in priors)
    for seed in range(20):
        rows, rng = rows_of(np.random.default_rng(seed), 3, 4), np.random.default_rng(seed)
        angle = turning.WIDEST * (least / turning.WIDEST) ** rng.random()
        found = turning.propose(rows, "prevalence", {"confusion": slice(None)}, angle, rng)
        shares, own = rows["prevalence"][None].copy(), rows["confusion"].copy()
        given = shares_prior[None], rows_prior.reshape(-1, 3), least
        ratio = compiled_turn(shares, own, *given, np.random.default_rng(seed))
        if found is None:
            assert ratio == -np.inf
            continue
        new, expected = found
        possible += 1
        expected += sum(priors[n].log_ratio(new[n], rows[n], slice(None)) for n in priors)
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
    return Observation.build(responses, bf.Independent(None), bf.Confusion(None))


def test_only_models_whose_matrices_can_be_mixed_are_turned():
    responses, _, _ = crowd(np.random.default_rng(1), 30)
    with pm.Model() as zeros:
        rows = bf.dirichlet("confusion", np.tile([[1.0, 0.0], [1.0, 1.0]], (9, 1, 1)))
        labels = bf.Independent(pm.Dirichlet("prevalence", np.ones(2)))
        bf.observe(responses, labels=labels, raters=bf.Confusion(rows))
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
