"""Truth and verdict in each other's roles: as probable as before, and a way between two modes."""

from __future__ import annotations

import numpy as np
import pytest
from grouped_crowds import crowd
from scipy import stats

import bayesfuse as bf
from bayesfuse.inference import exchanging, gibbs
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup
from bayesfuse.observation import Observation
from bayesfuse.partitions import draw
from bayesfuse.simplex import draw_dirichlet
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True}


def observe(responses):
    channel = bf.InferredGroups(None, None, np.full(responses.n_raters, -1))
    return Observation.build(responses, bf.Independent(None), channel)


def rows_of(rng, concentration, assignment):
    rows = {name: draw_dirichlet(alpha, rng) for name, alpha in concentration.items()}
    return rows | {"assignment": assignment}


def priors(n_classes, n_raters, n_groups):
    leaning = bf.priors.diagonal(n_classes, weight=2 * n_classes, accuracy=0.5)
    return {
        "prevalence": np.arange(1.0, n_classes + 1),
        "group_confusion": np.tile(leaning, (n_groups, 1, 1)),
        "rater_confusion": np.tile(leaning, (n_raters, 1, 1)),
    }


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_exchanged_roles_explain_responses_as_well_and_back_again(n_classes):
    rng = np.random.default_rng(n_classes)
    responses, _, _ = crowd(rng, 60, n_classes, groups=(3,), n_alone=2)
    rows = rows_of(rng, priors(n_classes, 5, 2), np.array([0, 0, 0, -1, -1]))
    new = exchanging.exchanged(rows, 0)
    assert new["assignment"].tolist() == [-1, -1, -1, 0, 0]
    before, after = (observe(responses).marginal(at).total for at in (rows, new))
    assert after == pytest.approx(before, rel=1e-12)
    assert_close(np.exp(new["prevalence"]).sum(), 1.0, "prevalence")
    for name, row in exchanging.exchanged(new, 0).items():
        assert_close(row, rows[name], name)


def test_the_jacobian_is_that_of_the_exchange():
    """Against differences of the free coordinates of prevalence and verdicts."""
    rng = np.random.default_rng(1)
    n_classes = 3
    rows = rows_of(rng, priors(n_classes, 4, 1), np.array([0, 0, -1, -1]))

    def coordinates(at):
        joined = np.vstack([at["prevalence"], at["group_confusion"][0]])
        return np.exp(joined)[:, :-1].ravel()

    def moved(x):
        free = x.reshape(n_classes + 1, n_classes - 1)
        full = np.log(np.hstack([free, 1 - free.sum(axis=1, keepdims=True)]))
        at = rows | {"prevalence": full[0], "group_confusion": full[None, 1:]}
        return coordinates(exchanging.exchanged(at, 0))

    x, step = coordinates(rows), 1e-6
    columns = [(moved(x + step * e) - moved(x - step * e)) / (2 * step) for e in np.eye(len(x))]
    expected = exchanging.log_jacobian(rows, exchanging.exchanged(rows, 0))
    assert np.log(abs(np.linalg.det(columns))) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_exchanges_leave_the_posterior_as_it_is(n_classes):
    """Parameters from the prior, responses from these: exchanged, all still looks so."""
    n_raters, n_groups, alpha = 6, 2, 2.0
    blank = bf.Responses.from_matrix(np.zeros((4, n_raters), dtype=int), classes=range(n_classes))
    rng = np.random.default_rng(n_classes)
    concentration = priors(n_classes, n_raters, n_groups)
    begun, ended, accepted = [], [], 0
    for _ in range(3000):
        seats = draw(n_raters, n_groups, alpha, rng)
        rows = rows_of(rng, concentration, seats)
        _, label = observe(blank).simulate(rows, rng)
        observation = observe(blank.relabelled(label))
        begun.append(np.count_nonzero(draw(n_raters, n_groups, alpha, rng) == -1))
        for _ in range(3):
            before = rows
            rows, _ = exchanging.exchange(
                observation, rows, concentration | {"assignment": alpha}, rng
            )
            accepted += rows is not before
        first = np.exp([rows["prevalence"][0], rows["group_confusion"][0, 0, 0]])
        ended.append([*first, np.count_nonzero(rows["assignment"] == -1)])
    assert accepted > 1000
    prevalence, right, alone = np.transpose(ended)
    for drawn, name in ((prevalence, "prevalence"), (right, "group_confusion")):
        row = concentration[name].reshape(-1, n_classes)[0]
        assert stats.kstest(drawn, stats.beta(row[0], row[1:].sum()).cdf).pvalue > 1e-4, name
    table = [np.bincount(np.int64(each), minlength=n_raters + 1) for each in (begun, alone)]
    met = np.sum(table, axis=0) > 0
    assert stats.chi2_contingency(np.array(table)[:, met]).pvalue > 1e-4


def test_a_chain_that_begins_in_the_wrong_camp_gets_out(monkeypatch):
    """Five who share a verdict and seven who do not, the seven taken for the group."""
    responses, _, assignment = crowd(
        np.random.default_rng(4), 3000, groups=(5,), n_alone=7, missing=0.0, inner=0.75
    )
    model = LatentGroup(responses, "posterior")
    right = np.tile([[0.75, 0.25], [0.25, 0.75]], (12, 1, 1))
    n_groups = model["group_confusion"].eval().shape[0]
    values = {
        "prevalence": np.array([0.5, 0.5]),
        "group_confusion": np.tile([[0.7, 0.3], [0.3, 0.7]], (n_groups, 1, 1)),
        "rater_confusion": right,
        "assignment": np.where(assignment == 0, -1, 0),
    }
    stayed = []
    for share in (0.0, 0.2):
        monkeypatch.setattr(gibbs, "EXCHANGES", share)
        result = bf.sample(
            model, 100, tune=100, chains=1, start=values, sweeps=1, random_seed=1, **QUIET
        )
        seats = result["posterior"]["assignment"].values[0]
        stayed.append((seats[:, :5] == -1).all(axis=1).mean())
    assert stayed == [1.0, 0.0]


def test_only_models_that_infer_groups_exchange():
    responses, _, _ = crowd(np.random.default_rng(1), 30)
    models = {
        "independent": DawidSkene(responses),
        "known": LatentGroup(responses, [[0, 1, 2]]),
        "inferred": LatentGroup(responses, "posterior"),
        "sequences": HiddenMarkov(responses, bf.Sequences.from_lengths([30])),
    }
    found = [name for name, model in models.items() if bf.LabelGibbs(model=model).exchanges]
    assert found == ["inferred"]


@pytest.mark.parametrize("assignment", [[-1, -1, -1, -1], [0, 0, 0, -1], [0, 0, 1, 1]])
def test_nothing_is_exchanged_where_nobody_is_left_to_be_the_group(assignment):
    rng = np.random.default_rng(1)
    responses, _, _ = crowd(rng, 30, groups=(2,), n_alone=2)
    concentration = priors(2, 4, 2)
    rows = rows_of(rng, concentration, np.array(assignment))
    found, seen = exchanging.exchange(observe(responses), rows, concentration, rng)
    assert found is rows and seen is None


def test_rows_at_the_edge_stay():
    rng = np.random.default_rng(1)
    responses, _, _ = crowd(rng, 30, groups=(2,), n_alone=2)
    concentration = priors(2, 4, 1)
    rows = rows_of(rng, concentration, np.array([0, 0, -1, -1]))
    rows["group_confusion"][0, 0] = [-np.inf, 0.0]
    found, _ = exchanging.exchange(observe(responses), rows, concentration, rng)
    assert found is rows
