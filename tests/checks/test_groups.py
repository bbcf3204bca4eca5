"""What the posterior says of groups: against simulation, enumeration and known cartels."""

import numpy as np
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.checks import co_assignment, group_summary, rater_covariance, verdict_probabilities
from bayesfuse.checks.groups import _sampling_variance
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene, LatentGroup
from bayesfuse.moments.pairs import class_moments
from bayesfuse.plots import plot_co_assignment, plot_covariance
from bayesfuse.pymc.model import observed, parameter_variables

QUIET = {"progressbar": False, "quiet": True}


def crowd(n_items, n_classes, seed):
    """Return responses of two groups (the second a cartel) and three raters alone, and verdicts."""
    rng = np.random.default_rng(seed)
    truth, other = rng.integers(0, n_classes, (2, n_items))
    heard = np.where(rng.random(n_items) < 0.8, truth, rng.integers(0, n_classes, n_items))
    verdicts = np.stack([heard, other], axis=1)
    source = np.column_stack([*[heard] * 3, *[other] * 3, *[truth] * 4])
    right = rng.random(source.shape) < 0.8
    matrix = np.where(right, source, rng.integers(0, n_classes, source.shape))
    names = list("abcdefghij")
    return bf.Responses.from_matrix(matrix, raters=names, classes=range(n_classes)), verdicts


GROUPS = {"wire": ["a", "b", "c"], "cartel": ["d", "e", "f"]}


@pytest.fixture(scope="module", params=[2, 3])
def fitted(request):
    responses, verdicts = crowd(300, request.param, request.param)
    model = LatentGroup(responses, GROUPS)
    return responses, verdicts, model, bf.sample(model, 60, chains=2, random_seed=1, **QUIET)


@pytest.mark.slow
def test_a_cartel_is_reported_as_such(fitted):
    *_, result = fitted
    table = group_summary(result, margin=0.3)
    assert table["raters"].tolist() == list(GROUPS.values())
    assert (table["probability"] == 1).all()
    wire, cartel = table.to_dict("records")
    assert wire["informative"] > 0.9 and wire["low"] > 0.3
    assert cartel["informative"] < 0.1 and cartel["opposed"] < 0.1
    share = co_assignment(result)
    assert share.sel(rater="a", other=["a", "b", "d"]).values.tolist() == [1, 1, 0]


def test_verdict_of_one_item_by_hand():
    """One draw, an item nobody of one group answered, gold for another."""
    matrix = [[0, 1, -1, -1, 1], [-1, -1, 0, 0, 1]]
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    model = LatentGroup(responses, [[0, 1], [2, 3]], gold={1: 0})
    result = bf.sample(model, 1, tune=1, chains=1, random_seed=1, **QUIET)
    draw = result["posterior"].dataset.isel(chain=0, draw=0)
    outer, inner = draw["group_confusion"].values, draw["rater_confusion"].values
    heard = inner[0, :, 0] * inner[1, :, 1]
    joint = draw["prevalence"].values * inner[4, :, 1] * (outer[0] @ heard)
    label = joint / joint.sum()
    verdict = outer[0] * heard / (outer[0] @ heard)[:, None]
    found = verdict_probabilities(result, model).values
    assert found[0, 0] == pytest.approx(label @ verdict)
    assert found[0, 1] == pytest.approx(label @ outer[1])
    heard = inner[2, :, 0] * inner[3, :, 0]
    assert found[1, 1] == pytest.approx(outer[1, 0] * heard / (outer[1, 0] @ heard))


def test_implied_covariance_is_that_of_simulated_answers(fitted):
    """At one draw: the covariances of simulated answers differ by their sampling error."""
    responses, _, model, result = fitted
    variable, observation = observed(model)
    one = result.isel(chain=slice(0, 1), draw=slice(0, 1))
    constants = one["constant_data"].dataset.drop_vars("item").drop_attrs()
    one["constant_data"] = xr.DataTree(constants)  # of which responses is not said
    names = parameter_variables(variable)
    values = {k: one["posterior"][v.name].values[0, 0] for k, v in names.items()}
    rng = np.random.default_rng(3)
    blank = bf.Responses.from_matrix(
        np.zeros((2000, 10), dtype=int), raters=responses.raters, classes=responses.classes
    )
    channel, _ = observation.raters.at({}, observation.rater_structure)
    tables = observation.tables(observation.rows(values))
    excess = []
    for _ in range(12):
        truth = rng.choice(responses.n_classes, 2000, p=values["prevalence"])
        drawn = blank.relabelled(channel.simulate(tables, truth, blank, rng))
        found = rater_covariance(one, drawn)
        assert np.abs(found["z"].values[np.triu_indices(10, 1)]).max() < 5
        excess.append(found.attrs["excess"])
    # that of one table has a standard deviation of about .55, since all pairs see the same truths
    assert abs(np.mean(excess) - 1.0) < 4 * 0.55 / np.sqrt(12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sampling_error_of_covariances_with_several_answers_of_a_rater(n_classes):
    """Against the spread over many tables: three answers, one, and one item that counts for two."""
    rng = np.random.default_rng(5)
    rows = rng.dirichlet(np.ones(n_classes), (3, n_classes)).cumsum(axis=-1)
    item, rater = np.repeat(np.arange(50), 7), np.tile([0, 0, 0, 1, 1, 1, 2], 50)
    seen, expected = [], []
    for _ in range(200):
        truth = rng.integers(0, n_classes, 50)[item]
        label = (rng.random((350, 1)) > rows[rater, truth, :-1]).sum(axis=1)
        table = {"item": item, "rater": rater, "label": label}
        responses = bf.Responses.from_long(table, classes=range(n_classes))
        seen.append(sum(each.covariance.values for each in class_moments(responses)))
        expected.append(_sampling_variance(responses) / (4 if n_classes == 2 else 1))
    pairs = np.triu_indices(3, 1)
    ratio = np.var(seen, axis=0)[pairs] / np.mean(expected, axis=0)[pairs]
    assert (np.abs(ratio - 1) < 5 * np.sqrt(2 / 200)).all(), ratio


def test_dependence_shows_where_the_model_ignores_it(fitted):
    responses, *_, result = fitted
    independent = bf.sample(DawidSkene(responses), 60, chains=2, random_seed=1, **QUIET)
    known, ignored = (rater_covariance(each, responses) for each in (result, independent))
    assert known.attrs["excess"] < 2 < 5 < ignored.attrs["excess"]
    assert float(known["together"].sel(rater="a", other="b")) == 1
    assert float(ignored["together"].max()) == 0


@pytest.mark.slow
def test_sets_of_inferred_groups_have_their_probabilities():
    responses, _ = crowd(500, 2, 5)
    model = LatentGroup(responses, "posterior")
    result = bf.sample(model, 150, chains=2, random_seed=1, log_likelihood=False, **QUIET)
    table = group_summary(result)
    share = co_assignment(result)
    assert np.allclose(share, share.T) and np.allclose(np.diagonal(share), 1)
    assert table["probability"].is_monotonic_decreasing
    for raters, probability in zip(table["raters"], table["probability"], strict=True):
        assert (share.sel(rater=raters, other=raters) >= probability - 1e-12).all()
    assert share.sel(rater="d", other=["e", "f"]).min() > 0.8
    covered = rater_covariance(result, responses)
    assert covered.attrs["excess"] < 2


def test_pictures_show_the_numbers(fitted):
    responses, *_, result = fitted
    ax = plot_covariance(result, responses)
    (points,) = ax.collections
    found = rater_covariance(result, responses)
    upper = np.triu_indices(10, 1)
    assert np.allclose(points.get_offsets()[:, 0], found["implied"].values[upper])
    assert np.allclose(points.get_offsets()[:, 1], found["observed"].values[upper])
    ax = plot_co_assignment(result)
    assert np.allclose(ax.images[0].get_array(), co_assignment(result))


def test_results_without_groups_are_refused():
    result = bf.sample(DawidSkene(bf.datasets.caries()), 5, chains=1, **QUIET)
    for use in (co_assignment, group_summary):
        with pytest.raises(ModelError, match="LatentGroup"):
            use(result)
    with pytest.raises(ModelError, match="prevalence"):
        rater_covariance(xr.DataTree(), bf.datasets.caries())
    alone = LatentGroup(bf.datasets.caries(), [])
    assert len(group_summary(bf.sample(alone, 5, chains=1, **QUIET))) == 0
