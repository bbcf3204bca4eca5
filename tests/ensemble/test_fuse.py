"""``bf.fuse``: what it averages, what it says, and what it can be told."""

import re

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import refused
from rules import rules

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError, ModelError, QuickAnswerWarning

pytestmark = pytest.mark.usefixtures("few_draws")
QUIET = {"random_seed": 5, "minutes": 10, "progressbar": False}


def probabilities(result):
    return bf.label_probabilities(result).values


def test_labels_are_the_average_of_the_models_and_a_few_votes(fused, crowd):
    models = [probabilities(own) for own in fused["models"].children.values()]
    assert len(models) == 4
    votes = probabilities(bf.vote_shares(crowd.responses))
    expected = 0.95 * np.mean(models, axis=0) + 0.05 * votes
    np.testing.assert_allclose(probabilities(fused), expected, atol=1e-12)
    assert fused.attrs["models"][-1] == "vote shares"


def test_the_explanation_is_code_that_gives_the_same_labels(fused, crowd, capsys):
    space = {"responses": crowd.responses}
    exec(fused.explain().replace("quiet=True", "quiet=True, progressbar=False"), space)
    np.testing.assert_allclose(probabilities(space["fused"]), probabilities(fused), atol=1e-6)
    said = capsys.readouterr().out
    for line in fused.checks:
        words = line.partition(": ")[2]
        assert words in said or "Monte Carlo" in words or "does not apply" in words


def test_abilities_are_draws_of_the_posterior(fused):
    table, draws = fused.raters(), fused["posterior"].dataset
    names = ["accuracy", "balanced_accuracy"]
    for name in names:
        expected = draws[name].mean(("chain", "draw")).to_series()[table["rater"]]
        np.testing.assert_allclose(table[name], expected, rtol=1e-5)
    summary = az.summary(draws[names], round_to="none", kind="stats")
    means = [summary.loc[f"accuracy[{rater}]", "mean"] for rater in table["rater"]]
    np.testing.assert_allclose(means, table["accuracy"], rtol=1e-5)
    assert az.rhat(draws)["accuracy"].max() < 1.1  # in random order
    text = fused.overview()
    for row in table.itertuples():
        assert f"{row.accuracy:.2f} ({row.low:.2f}–{row.high:.2f})" in text
    ranks = bf.decisions.rank_raters(fused)
    expected = table.set_index("rater").loc[ranks["rater"].values, "balanced_accuracy"]
    np.testing.assert_allclose(ranks["quality"], expected, rtol=1e-5)


def test_tables_of_labels_and_raters(fused, crowd):
    labels, raters = fused.labels(), fused.raters(columns="all", ci_prob=0.8)
    probability = probabilities(fused)
    assert labels["item"].tolist() == crowd.responses.items.tolist()
    np.testing.assert_array_equal(labels["probability"], probability.max(axis=1))
    assert (labels["label"] == crowd.responses.classes[probability.argmax(axis=1)]).all()
    assert labels["difficulty"].between(0, 2 / 3).all()
    assert raters["low"].is_monotonic_decreasing
    assert (raters["low"] <= raters["accuracy"]).all()
    assert (raters["accuracy"] <= raters["high"]).all()
    assert raters["responses"].sum() == crowd.responses.n_responses
    # an expectation over labels: the probability of the labels that the rater gave
    given = crowd.responses
    expected = pd.Series(probability[given.item, given.label]).groupby(given.rater).mean()
    found = raters.set_index("rater")["accuracy"]
    np.testing.assert_allclose(found, expected[found.index], atol=0.08)
    half = np.where(np.arange(40) < 20, "early", "late")
    parts = fused.raters(by=half, columns="all")
    assert (
        parts.groupby("rater")["responses"].sum().to_dict()
        == raters.set_index("rater")["responses"].to_dict()
    )
    assert {"sensitivity[0]", "bias[2]", "balanced_accuracy_low"} <= set(parts)
    assert np.allclose(raters.filter(regex=r"^bias\[\d\]$").sum(axis=1), 0, atol=1e-6)


def test_result_functions_accept_answers(fused):
    assert bf.decisions.rank_raters(fused).sizes["rater"] == 6
    weight = fused["comparison"]["weight"].to_series().drop("vote shares")
    heaviest = bf.decisions.value_of_response(fused[f"models/{weight.idxmax()}"])
    assert bf.decisions.value_of_response(fused).identical(heaviest)
    assert "Krippendorff" in repr(bf.agreement(fused, draws=9, random_seed=1))
    assert len(bf.decisions.rank_items(fused)) == 40
    errors = float(bf.decisions.expected_errors(fused)["expected"])
    said = re.search(r"In all, ([\d.]+) labels \(\d+–\d+\) are expected", fused.headline)
    assert float(said[1]) == pytest.approx(errors, abs=0.5)
    assert fused.headline in " ".join(fused.overview().split())


@pytest.mark.slow
@pytest.mark.usefixtures("shared_errors")
def test_the_same_seed_gives_the_same_answer_from_a_data_frame(fused, crowd, unchecked):
    frame = crowd.responses.to_frame().sample(frac=1.0, random_state=1)
    frame = frame.rename(columns={"item": "task", "rater": "worker", "label": "answer"})
    again = bf.fuse(frame, item="task", rater="worker", label="answer", **QUIET)
    by_item = bf.label_probabilities(again).sel(item=crowd.responses.items)
    np.testing.assert_array_equal(by_item.values, probabilities(fused))


@pytest.mark.slow
def test_advice_names_raters_who_guess_and_who_confuse_classes(unchecked):
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 600)
    accuracy = [0.9, 0.9, 0.9, 0.9, 0.9, 0.5, 0.1]
    matrix = np.where(rng.random((600, 7)) < accuracy, truth[:, None], 1 - truth[:, None])
    names = [*"abcde", "guesses", "turns"]
    told = bf.fuse(bf.Responses.from_matrix(matrix, raters=names), **QUIET)
    without = next(line for line in told.advice if line.startswith("Do without"))
    asked = next(line for line in told.advice if line.startswith("Ask rater"))
    assert "guesses" in without and "turns" not in without
    assert "rater turns " in asked and "rater guesses" not in asked


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12])
def test_ten_votes_an_item_are_not_overruled_by_raters_who_guess(unchecked, seed):
    """A hundred raters with few responses, a third of whom guess by a row of their own."""
    rng = np.random.default_rng(seed)
    truth, often = rng.integers(0, 2, 100), rng.gamma(0.7, size=100) + 0.02
    looks = np.where(rng.random(100) < 0.35, 0.0, rng.beta(6, 1.5, 100))
    guess = rng.beta(0.6, 0.6, 100)
    item = np.repeat(np.arange(100), 10)
    rater = np.concatenate([rng.choice(100, 10, False, often / often.sum()) for _ in range(100)])
    seen = np.where(rng.random(1000) < 0.88, truth[item], 1 - truth[item])
    said = np.where(rng.random(1000) < looks[rater], seen, rng.random(1000) < guess[rater])
    table = bf.Responses.from_long({"item": item, "rater": rater, "label": said})
    truth = dict(enumerate(truth))
    own, votes = (
        bf.checks.label_scores(each, truth)
        for each in (bf.fuse(table, **QUIET), bf.vote_shares(table))
    )
    assert own["accuracy"] > votes["accuracy"] - 0.02
    assert own["log_loss"] < votes["log_loss"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_judges_who_copy_are_not_the_best(unchecked, seed):
    """Three of twelve repeat one source, which is right on three of four items."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, 600)[:, None]
    right = np.array([0.6, 0.65, 0.7, 0.75, 0.8, 0.68, 0.72, 0.77, 0.66])
    alone = np.where(rng.random((600, 9)) < right, truth, 1 - truth)
    source = np.where(rng.random((600, 1)) < 0.75, truth, 1 - truth)
    copies = np.where(rng.random((600, 3)) < 0.92, source, 1 - source)
    judges = [f"judge {m}" for m in range(12)]
    told = bf.fuse(bf.Responses.from_matrix(np.hstack([copies, alone]), raters=judges), **QUIET)
    assert "do not err independently: [judge 0, judge 1, judge 2]. Votes of" in told.headline
    assert str(told) == repr(told) == told.overview()
    table = told.raters(columns="all").set_index("rater").loc[judges[:3]]
    of_class = [(copies == truth)[truth[:, 0] == k].mean(axis=0) for k in (0, 1)]
    actual = np.mean(of_class, axis=0)
    assert (table["balanced_accuracy_low"] - 0.01 < actual).all()
    assert (actual < table["balanced_accuracy_high"] + 0.01).all()
    assert (table["balanced_accuracy_high"] < 0.83).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_judges_who_agree_because_they_are_right_are_not_the_worst(unchecked, seed):
    """Four of twelve see through items that lead the others astray."""
    rng = np.random.default_rng(seed)
    truth, hard = rng.integers(0, 2, 400)[:, None], rng.random((400, 1)) < 0.4
    right = np.where(hard, np.r_[[0.8] * 4, [0.35] * 8], np.r_[[0.92] * 4, [0.8] * 8])
    labels = np.where(rng.random((400, 12)) < right, truth, 1 - truth)
    table, truth = bf.Responses.from_matrix(labels), dict(enumerate(truth[:, 0]))
    fused = bf.fuse(table, **QUIET)
    assert "or agree because they are right" in fused.headline
    own, votes = (bf.checks.label_scores(x, truth) for x in (fused, bf.vote_shares(table)))
    assert own["log_loss"] < votes["log_loss"] + 0.1


def test_rules_get_the_model_of_rules(unchecked, monkeypatch):
    monkeypatch.setattr("bayesfuse.ensemble.diagnostics.MAX_DISPERSION", 0.0)
    table, _ = rules(1, n_items=300, n_rules=6)
    told = bf.fuse(table, **QUIET)
    assert told.attrs["models"] == ["labelling functions", "vote shares"]
    assert told.labels()["difficulty"].isna().all()
    assert (told.raters()["accuracy"] > 0.6).all()
    assert "cannot be told from guessing" not in "".join(told.advice)
    (noted,) = (line for line in told.checks if "dispersed" in line)
    factor = told.raters(columns="all")["dispersion"].unique()
    assert f"{factor.item():.1f} times" in noted and "in the table of raters are wider" in noted
    frame = table.to_frame()
    copied = frame[frame["rater"] == frame["rater"].iloc[0]].assign(rater=99)
    found = "".join(bf.fuse(pd.concat([frame, copied]), **QUIET).checks)
    assert re.search(r"Near copies count as one rule: \d = 99\.", found), found


@pytest.mark.parametrize("kind", ["silence", "stated", "counts"])
def test_other_tables(crowd, unchecked, kind):
    stated = np.random.default_rng(1).dirichlet([1, 2], (30, 3))
    table = {
        "silence": lambda: crowd.responses.completed(),
        "stated": lambda: bf.Responses.from_probabilities(stated),
        "counts": lambda: bf.Responses.from_counts({(0, 0): 40, (0, 1): 3, (1, 1): 57}),
    }[kind]()
    told = bf.fuse(table, **QUIET)
    assert probabilities(told).shape == (table.n_items, table.n_classes)
    if kind == "counts":  # an item of each pattern counts as often as it occurs
        sure = table.multiplicity[probabilities(told).max(axis=1) >= 0.95].sum()
        assert told.headline.startswith("200 responses to 100 items in 3 patterns")
        assert f"0.95 or more: {sure}." in told.headline
        assert told.raters().columns[2] == "accuracy" and "sensitivity" in told.overview()
        refused("not on a graph, of counts", told.raters, by=[0, 0, 1])
    else:
        assert told.attrs["models"] == ["Dawid–Skene", "vote shares"]
        no_time = r"No time was left for .*item_difficulty.*: give more.*\(--time\)\."
        assert re.search(no_time, told.checks[-1])
        predicted = bf.predict(told, table.take(np.arange(3)))
        np.testing.assert_allclose(probabilities(predicted), probabilities(told)[:3], atol=1e-6)


def test_too_little_time_gives_vote_shares(crowd):
    with pytest.warns(QuickAnswerWarning, match="minutes=1e-09"):
        quick = bf.fuse(crowd.responses, minutes=1e-9, progressbar=False)
    votes = bf.vote_shares(crowd.responses)
    np.testing.assert_array_equal(probabilities(quick), probabilities(votes))
    space = {"responses": crowd.responses}
    exec(quick.explain(), space)
    np.testing.assert_array_equal(probabilities(quick), probabilities(space["fused"]))
    refused("needs models", quick.raters)
    assert bf.draw_labels(quick).sizes == {"draw": 200, "item": 40}
    assert bf.class_shares(quick).shares["share"].sum() == pytest.approx(1)


@pytest.mark.usefixtures("shared_errors")
def test_labels_of_large_tables_are_predicted(crowd, unchecked, monkeypatch):
    """Models see a part with all raters; all items get labels, and known ones keep theirs."""
    monkeypatch.setattr("bayesfuse.ensemble.candidates.RESPONSES_PER_SECOND", 0)
    monkeypatch.setattr("bayesfuse.ensemble.candidates.MIN_PART", 80)
    last = np.random.default_rng(5).permutation(40)[-2:]  # known items are always in the part
    known = {name: crowd.responses.classes[2] for name in crowd.responses.items[last]}
    told = bf.fuse(crowd.responses, gold=known, random_seed=5, progressbar=False)
    first = next(iter(told["models"].children.values()))
    fitted = first["label_posterior"].sizes["item"]
    assert fitted < 30
    assert f"Models are fitted to {fitted} of the 40 items" in told.overview()
    assert f"# Models are fitted to {fitted} of the 40" in told.explain()
    space = {"responses": crowd.responses, "gold": known}
    code = told.explain().replace(
        "chains=4, random_seed", "chains=4, progressbar=False, random_seed"
    )
    exec(code.split("print(bf.label_probabilities")[0], space)
    np.testing.assert_allclose(probabilities(space["fused"]), probabilities(told), atol=1e-6)
    assert "(ordered=True, --ordered)" in "".join(told.advice)
    labels = told.labels().set_index("item")
    assert (labels.loc[list(known), "probability"] > 0.9).all() and len(labels) == 40
    assert (labels["label"] == crowd.responses.classes[crowd.truth]).mean() > 0.7
    assert len(told.raters()) == 6
    some = np.array([1, 2, 3])
    predicted = bf.predict(told, crowd.responses.take(some))
    np.testing.assert_allclose(probabilities(predicted), probabilities(told)[some], atol=0.05)


def test_errors(crowd, fused):
    refused(r"minutes must be a positive.*Got: 0", bf.fuse, crowd.responses, minutes=0)
    refused(r"Only the answer of bf\.fuse", fused["models"].explain)
    assert not hasattr(fused["label_posterior"], "log_likelihood")


def test_without_time_an_item_of_each_pattern_counts_as_often_as_it_occurs():
    counts = bf.Responses.from_counts({"00": 40, "01": 6, "11": 14})
    with pytest.warns(QuickAnswerWarning):
        quick = bf.fuse(counts, minutes=1e-9, progressbar=False)
    one_by_one = bf.decisions.expected_errors(bf.vote_shares(counts.expand()))
    found = bf.decisions.expected_errors(quick)
    assert int(found["items"]) == 60
    xr.testing.assert_allclose(one_by_one, found)
    assert f"{float(found['expected']):.0f} labels (" in quick.headline


def test_vote_shares_know_of_which_responses_they_are():
    crowd = bf.datasets.simulate_dawid_skene(20, 4, 3, random_seed=2).responses
    votes = bf.vote_shares(crowd, {0: 1})
    assert votes["constant_data"]["gold"].values.tolist() == [1] + [-1] * 19
    for other in (bf.vote_shares(crowd), bf.vote_shares(crowd.relabelled(crowd.label * 0))):
        with pytest.raises(ModelError, match="same responses and gold labels"):
            bf.average({"one": votes, "other": other}, {"one": 1, "other": 1})
    assert bf.decisions.item_grades(votes).sizes["item"] == 20


def test_chains_that_disagree_about_labels_are_reported(fused, crowd, unchecked, monkeypatch):
    """A third of the items are of one class in all chains but the last."""
    fitted = fused["comparison"].dataset.to_dataframe().drop("vote shares")
    # variational fits have independent draws
    assert (fitted["mcse"] > 0).all() and fitted["rhat"].isna().all()

    def sample(*sizes, **settings):
        result = bf.sample(*sizes, **settings)
        labels = result["label_draws"]["label"].values
        labels[:, ::3], labels[-len(labels) // 4 :, ::3] = 0, 1
        return result

    monkeypatch.setattr("bayesfuse.ensemble.evidence.Evidence.independence", 1.0)
    monkeypatch.setattr("bayesfuse.ensemble.fits.sample", sample)
    told = bf.fuse(crowd.responses, **QUIET)
    assert (told["comparison"]["rhat"].to_series().drop("vote shares") == np.inf).all()
    found = re.match(
        r"independent errors, unpooled.*: Of (\d+)% of the items, .* the R-hat", told.checks[0]
    )
    assert int(found[1]) >= 35


def test_weights_of_sides_add_up(crowd, unchecked, monkeypatch):
    """Sides share by the evidence, models within: votes by their side, missing sides to others."""
    monkeypatch.setattr("bayesfuse.ensemble.evidence.Evidence.independence", 0.7)
    weights = bf.fuse(crowd.responses, **QUIET)["comparison"]["weight"].to_series()
    independent = [name for name in weights.index if name.startswith("independent")]
    assert weights.sum() == pytest.approx(1.0)
    assert weights[independent].sum() == pytest.approx(0.7 * 0.99)
    assert weights["vote shares"] == pytest.approx(0.7 * 0.01 + 0.3 * 0.05)

    def sample(model, *sizes, **settings):
        if isinstance(model, bf.models.DawidSkene):
            raise ImpossibleDataError("No class is possible. Got: item 3.")
        return bf.sample(model, *sizes, **settings)

    monkeypatch.setattr("bayesfuse.ensemble.fits.sample", sample)
    weights = bf.fuse(crowd.responses, **QUIET)["comparison"]["weight"].to_series()
    assert weights["vote shares"] == pytest.approx(0.05)


@pytest.mark.usefixtures("shared_errors")
@pytest.mark.parametrize(("behind", "weight"), [(0.02, 1.0), (0.05, 0.5), (0.2, 0.0)])
def test_models_that_predict_far_worse_have_no_weight(
    fused, crowd, unchecked, monkeypatch, behind, weight
):
    """By the log predictive density per response."""
    results = [result.copy(deep=True) for result in fused["models"].children.values()]
    best, n_items = results[0]["log_likelihood"].dataset, crowd.responses.n_items
    for result in results:
        result["log_likelihood"] = xr.DataTree(best)
    lower = best - behind * crowd.responses.n_responses / n_items
    results[1]["log_likelihood"] = xr.DataTree(lower)
    each = iter(results)
    monkeypatch.setattr("bayesfuse.ensemble.fits.variational.fit", lambda *_, **__: next(each))
    table = bf.fuse(crowd.responses, **QUIET)["comparison"].to_dataset().to_dataframe()
    expected = np.array([1.0, weight, 1.0, 1.0, 0.0]) * 0.95 / (3.0 + weight)
    expected[-1] = 0.05
    np.testing.assert_allclose(table["weight"], expected, rtol=1e-6)
    assert ("lower" in table["why"].iloc[1]) == (behind > 0.03)
    gap = table["elpd"].iloc[0] - table["elpd"].iloc[1]
    assert gap == pytest.approx(behind * crowd.responses.n_responses)
