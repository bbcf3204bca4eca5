"""Agreement of raters, scores of labels, and what the posterior says of groups."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import refused, refused_table

import bayesfuse as bf
from bayesfuse.checks import co_assignment, group_summary, rater_covariance, verdict_probabilities
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import DawidSkene, LatentGroup
from bayesfuse.observation.model import observed, parameter_variables
from bayesfuse.plots import plot_dependence

OBSERVERS = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""
"""Four observers of twelve units (Krippendorff 2011)."""

COUNTS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]
"""Ten subjects, fourteen raters, five categories: Fleiss' kappa is .210."""


def observers(ordered=True):
    rows = [line.split() for line in OBSERVERS.strip().splitlines()]
    table = [
        [None if said == "." else int(said) for said in unit] for unit in zip(*rows, strict=True)
    ]
    return bf.Responses.from_matrix(np.array(table, dtype=object), ordered=ordered)


def from_counts(counts):
    rows = [[k for k, n in enumerate(row) for _ in range(n)] for row in counts]
    return bf.Responses.from_matrix(np.array(rows), ordered=False)


def values(responses, **kwargs):
    measures = bf.agreement(responses, random_seed=1, draws=50, **kwargs).measures
    return measures.set_index("measure")["value"].round(3).to_dict()


def test_published_values():
    assert values(observers()) == {
        "agreement": 0.818,
        "Krippendorff's alpha": 0.743,
        "Krippendorff's alpha, ordinal": 0.815,
        "Fleiss' kappa": 0.761,  # Gwet (2014), with missing responses
        "Gwet's AC1": 0.775,
    }
    found = values(from_counts(COUNTS))
    assert (found["Fleiss' kappa"], found["agreement"]) == (0.210, 0.378)


def test_cohens_kappa_and_its_error():
    counts = bf.Responses.from_counts({"00": 20, "01": 5, "10": 10, "11": 15})
    measures, pairs = bf.agreement(counts, ci_prob=0.95, random_seed=1)
    (row,) = pairs.itertuples(index=False)
    assert (row.items, round(row.agreement, 3), round(row.kappa, 3)) == (50, 0.7, 0.4)
    again = bf.agreement(counts.expand(), ci_prob=0.95, random_seed=1)
    pd.testing.assert_frame_equal(again.pairs, pairs)
    pd.testing.assert_frame_equal(again.measures, measures)
    # the bootstrap of kappa, as a check of the asymptotic interval
    rng = np.random.default_rng(1)
    share = rng.multinomial(50, np.array([20, 5, 10, 15]) / 50, 4000).reshape(-1, 2, 2) / 50
    same, chance = np.trace(share, axis1=1, axis2=2), (share.sum(2) * share.sum(1)).sum(1)
    sd = ((same - chance) / (1 - chance)).std()
    assert (row.high - row.low) / (2 * 1.96) == pytest.approx(sd, rel=0.06)


def test_intervals_cover_at_about_their_probability():
    """Two raters who are right with .8: the coefficients' values for ever more items are known."""
    rng = np.random.default_rng(3)
    share = {"agreement": 0.68, "Krippendorff's alpha": 0.36, "Gwet's AC1": 0.36}
    hits = dict.fromkeys(share, 0)
    for _ in range(100):
        truth = rng.integers(2, size=80)
        said = np.where(rng.random((2, 80)) < 0.8, truth, 1 - truth).T
        found = bf.agreement(bf.Responses.from_matrix(said), draws=200, ci_prob=0.9, random_seed=1)
        for row in found.measures.itertuples(index=False):
            if row.measure in hits:
                hits[row.measure] += row.low <= share[row.measure] <= row.high
    assert all(80 <= count <= 98 for count in hits.values()), hits


def test_groups_and_odd_tables():
    measures, pairs = bf.agreement(observers(), by=["a"] * 11 + ["b"], draws=20, random_seed=1)
    assert measures["group"].unique().tolist() == ["all items", "a", "b"]
    alone = measures[measures["group"] == "b"]
    assert alone["value"].isna().all() and (alone["items"] == 0).all()
    assert set(pairs["group"]) == {"all items", "a"} and len(pairs) == 12
    same = bf.Responses.from_matrix([[1, 1], [1, 1]], classes=[0, 1])
    found = values(same)
    assert found["agreement"] == 1 and found["Gwet's AC1"] == 1
    assert np.isnan(found["Fleiss' kappa"]) and np.isnan(found["Krippendorff's alpha"])
    alike = bf.agreement(same, random_seed=1).measures
    assert alike[["low", "high"]].isna().all(axis=None)  # two of them do not make others certain
    repeated = bf.Responses.from_long({"item": [0, 0, 1], "rater": ["x"] * 3, "label": [0, 1, 1]})
    measures, pairs = bf.agreement(repeated, draws=5, random_seed=1)
    assert measures["value"][0] == 0 and pairs.empty


def test_samples_without_two_responses_to_an_item_have_no_interval():
    table = np.full((60, 2), -1)
    table[:, 0], table[0, 1] = np.arange(60) % 2, 0
    for seed in range(5):  # a sample leaves out the only such item with a probability of .36
        measures = bf.agreement(table, draws=1, random_seed=seed).measures
        assert measures["value"][0] == 1.0 and measures["low"].isna().all()


def test_bad_input():
    refused_table(r"by= is a mapping .* from items to groups", bf.agreement, observers(), by=["a"])
    refused_table(r"two raters. Got: none among 2", bf.agreement, np.array([[0], [1]]))
    with pytest.raises(ResponsesError, match=r"Every item has one value or row"):
        bf.agreement(observers(), by=pd.Series(["a", "b"], index=[0, 0]))


def probabilities(values, classes):
    items = [f"i{n}" for n in range(len(values))]
    return xr.DataArray(values, {"item": items, "class": classes}, ("item", "class"))


@pytest.fixture(scope="module")
def calibrated():
    """Truths drawn from the probabilities themselves."""
    rng = np.random.default_rng(1)
    values = rng.dirichlet([0.7, 0.5, 0.3], 4000)
    truth = (rng.random(4000)[:, None] > values.cumsum(axis=1)).sum(axis=1)
    labels = probabilities(values, ["a", "b", "c"])
    names = labels["item"].values
    return labels, pd.Series(np.array(["a", "b", "c"])[truth], index=names), truth


def test_scores_are_those_of_scikit_learn(calibrated):
    metrics = pytest.importorskip("sklearn.metrics")
    labels, truth, numbers = calibrated
    scores = bf.checks.label_scores(labels, truth, floor=0.0)
    assert scores["items"] == 4000
    assert scores["log_loss"] == pytest.approx(metrics.log_loss(numbers, labels.values))
    right = metrics.accuracy_score(numbers, labels.values.argmax(axis=1))
    assert scores["accuracy"] == pytest.approx(right)
    one_hot = np.eye(3)[numbers]
    assert scores["brier"] == pytest.approx(((labels.values - one_hot) ** 2).sum(axis=1).mean())


def test_calibration_error_by_hand():
    labels = probabilities([[0.91, 0.09], [0.95, 0.05], [0.3, 0.7], [0.38, 0.62]], [0, 1])
    truth = {"i0": 0, "i1": 1, "i2": 1, "i3": 1}
    scores = bf.checks.label_scores(labels, truth)
    # bins: two items near 0.93, half right; one at 0.7, right; one at 0.62, right
    assert scores["ece"] == pytest.approx((2 * 0.43 + 0.3 + 0.38) / 4)
    found = bf.checks.calibration(labels, truth)
    assert found["count"].values.tolist() == [1, 1, 2]
    assert found["right"].values.tolist() == [1, 1, 0.5]
    assert np.allclose(found["stated"], [0.62, 0.7, 0.93])
    frame = pd.Series(truth).rename_axis("task").reset_index(name="label")
    assert found.attrs == scores == bf.checks.label_scores(labels.to_pandas(), frame)


def test_bins_of_equal_counts():
    top = np.array([0.6, 0.7, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0])
    labels = probabilities(np.column_stack([top, 1 - top]), [0, 1])
    truth = {f"i{n}": int(n == 3) for n in range(8)}
    found = bf.checks.calibration(labels, truth, bins=4, equal="count")
    # items of one probability are in one bin
    assert found["count"].values.tolist() == [2, 1, 5]
    assert found["lower"].values.tolist() == [0.6, 0.8, 0.9]
    assert np.allclose(found["stated"], [0.65, 0.8, 0.92])
    assert np.allclose(found["right"], [1.0, 1.0, 0.8])
    assert found.attrs == bf.checks.label_scores(labels, truth, bins=4)
    with pytest.raises(ModelError, match=r"equal must be 'width' or 'count'\. Got: 'size'"):
        bf.checks.calibration(labels, truth, equal="size")


def test_ties_count_by_their_number():
    labels = probabilities([[0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.0, 0.5, 0.5]], list("abc"))
    with pytest.warns(UserWarning, match=r"forbids .* Got: item 'i2' \(1 such of 3\)"):
        scores = bf.checks.label_scores(labels, {"i0": "b", "i1": "a", "i2": "a"}, floor=0.0)
    assert scores["accuracy"] == pytest.approx((1 / 2 + 1 / 3 + 0) / 3)
    assert scores["log_loss"] == np.inf and scores["clipped"] == 0


@pytest.mark.parametrize("floor", [1e-4, 1e-3, 0.2])
def test_the_floor_of_the_log_loss_and_clipped_items_are_stated(floor):
    labels = probabilities([[1.0, 0.0], [1e-30, 1.0], [0.1, 0.9], [0.7, 0.3]], [0, 1])
    truth = {"i0": 1, "i1": 0, "i2": 0, "i3": 0}
    scores = bf.checks.label_scores(labels, truth, floor=floor)
    of_truth = np.maximum([0.0, 1e-30, 0.1, 0.7], floor)
    assert scores["log_loss"] == pytest.approx(-np.log(of_truth).mean())
    assert scores["floor"] == floor and scores["clipped"] == 2 + (floor > 0.1)
    if floor == 1e-4:  # the default
        assert scores == bf.checks.label_scores(labels, truth)
        assert scores == bf.checks.calibration(labels, truth).attrs
    with pytest.raises(ModelError, match=r"floor must be .* from 0 to 0.5\. Got: 2"):
        bf.checks.label_scores(labels, truth, floor=2)


def test_intervals_cover_what_is_calibrated(calibrated):
    labels, truth, _ = calibrated
    found = bf.checks.calibration(labels, truth, ci_prob=0.999)
    assert ((found["low"] <= found["stated"]) & (found["stated"] <= found["high"])).all()
    assert found.attrs["ece"] < 0.03
    squeezed = labels**3 / (labels**3).sum("class")
    sure = bf.checks.calibration(squeezed, truth, ci_prob=0.999)
    assert not ((sure["low"] <= sure["stated"]) & (sure["stated"] <= sure["high"])).all()
    assert sure.attrs["ece"] > 0.05 and sure.attrs["log_loss"] > found.attrs["log_loss"]


def test_results_are_scored_on_the_items_with_a_truth():
    made = bf.datasets.simulate_dawid_skene(400, 6, 3, random_seed=2)
    point = bf.find_map(DawidSkene(made.responses))
    truth = dict(enumerate(made.truth[:134].tolist()))
    scores = bf.checks.label_scores(point, truth)
    best = bf.label_probabilities(point).values.argmax(axis=1)
    assert scores["accuracy"] == np.mean([best[n] == k for n, k in truth.items()])
    gold = {n: truth[n] for n in range(30)}
    informed, rest = bf.find_map(DawidSkene(made.responses, gold=gold)), dict([*truth.items()][30:])
    assert bf.checks.label_scores(informed, truth) == bf.checks.label_scores(informed, rest)
    assert bf.checks.calibration(informed, truth)["count"].sum() == 104
    refused_table("not given .gold", bf.checks.label_scores, informed, gold)


def test_other_truths_are_refused():
    labels = probabilities([[0.5, 0.5]], [0, 1])
    refused_table(r"of items that .* 'x'", bf.checks.label_scores, labels, {"x": 0})
    refused_table("be among the classes", bf.checks.label_scores, labels, {"i0": 2})
    both = pd.Series([0, 1], ["i0", "i0"])
    refused_table("one true class", bf.checks.label_scores, labels, both)
    assert bf.checks.label_scores(labels, 0 * both)["items"] == 1
    refused_table("need known labels", bf.checks.label_scores, labels, {})
    refused("bins", bf.checks.calibration, labels, {"i0": 0}, bins=0)


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


def unnamed(result):
    """Return a result that does not say of which responses it is."""
    result["constant_data"] = xr.DataTree(
        result["constant_data"].dataset.drop_vars("item").drop_attrs()
    )
    return result


def test_implied_covariance_is_that_of_simulated_answers(fitted):
    """At one draw: the covariances of simulated answers differ by their sampling error."""
    responses, _, model, result = fitted
    variable, observation = observed(model)
    one = unnamed(result.isel(chain=slice(0, 1), draw=slice(0, 1)))
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
        if not seen:
            one = unnamed(bf.sample(DawidSkene(responses), 1, tune=1, chains=1, **QUIET))
        found = rater_covariance(one, responses)  # of one draw: z has the sampling error alone
        seen.append(found["observed"].values)
        expected.append((((found["observed"] - found["implied"]) / found["z"]) ** 2).values)
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
    assert rater_covariance(result, responses).attrs["excess"] < 2


def test_pictures_show_the_numbers(fitted):
    responses, *_, result = fitted
    found = rater_covariance(result, responses)
    for values in (found["observed"] - found["implied"], co_assignment(result)):
        ax = plot_dependence(values)
        names = [tick.get_text() for tick in ax.get_yticklabels()]
        expected, off = values.sel(rater=names, other=names).values, ~np.eye(10, dtype=bool)
        assert np.allclose(ax.images[0].get_array()[off], expected[off])


def test_results_without_groups_are_refused():
    result = bf.sample(DawidSkene(bf.datasets.caries()), 5, chains=1, **QUIET)
    for use in (co_assignment, group_summary):
        refused("LatentGroup", use, result)
    refused("prevalence", rater_covariance, xr.DataTree(), bf.datasets.caries())
    alone = LatentGroup(bf.datasets.caries(), [])
    assert len(group_summary(bf.sample(alone, 5, chains=1, **QUIET))) == 0
