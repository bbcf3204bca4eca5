"""What explains errors, and how many labels are needed: simulated traits, and known formulas."""

import arviz as az
import numpy as np
import pandas as pd
import pytest
from drawn_results import drawn_result
from refusals import refused
from scipy.special import expit

import bayesfuse as bf

SLOPES = np.array([0.8, 0.5, 0.2, 0.5, 1.0, 0.4])


def biased(seed, n_items=150, effect=SLOPES, classes=("A", "B")):
    """Raters err more on long texts, and where the right output is shown first."""
    rng = np.random.default_rng(seed)
    truth, length = rng.integers(0, 2, n_items), rng.normal(5.0, 2.0, n_items)
    first = rng.integers(0, 2, n_items)
    logits = -1.5 + effect * (length[:, None] - 5.0) / 2.0 + 1.0 * (first == truth)[:, None]
    wrong = rng.random((n_items, len(effect))) < expit(logits)
    names = np.array(classes, dtype=object)
    shown = pd.Categorical(names[first])
    traits = pd.DataFrame({"item": range(n_items), "length": length, "shown first": shown})
    labels = names[np.where(wrong, 1 - truth[:, None], truth[:, None])]
    responses = bf.Responses.from_matrix(labels, classes=list(classes))
    return drawn_result([truth] * 60, list(classes), responses), traits


def test_traits_that_cause_errors_are_recovered():
    result, traits = biased(1, n_items=600)
    average, raters = bf.decisions.error_traits(result, traits, draws=60, random_seed=1)
    average = average.set_index("trait")
    # four standard errors of a mean of six, of a slope 1 / √(variance of the trait × n p(1 - p))
    wrong = 1.0 - bf.rater_table(result)["accuracy"].mean()
    error = 4.0 / np.sqrt(6 * 600 * wrong * (1.0 - wrong))
    assert average.loc["length", "effect"] == pytest.approx(SLOPES.mean() / 2.0, abs=error / 2.0)
    assert average.loc["shown first", "effect"] == pytest.approx(1.0, abs=error / 0.5)
    assert (average["positive"] > 0.95).all()
    slopes = raters[raters["trait"] == "length"]["effect"]
    assert np.corrcoef(slopes, SLOPES)[0, 1] > 0.7
    assert (raters["responses"] == 600).all()


def test_classes_that_are_numbers_are_named_by_a_categorical_column():
    averages = [
        bf.decisions.error_traits(*biased(1, 60, classes=classes), draws=5, random_seed=1).average
        for classes in (("A", "B"), (0, 1))
    ]
    pd.testing.assert_frame_equal(*averages)


@pytest.mark.slow
def test_intervals_of_effects_hold_the_true_ones():
    of_average, of_raters = [], []
    for seed in range(40):
        result, traits = biased(seed)
        average, raters = bf.decisions.error_traits(result, traits, draws=60, random_seed=seed)
        row, own = average.iloc[0], raters[raters["trait"] == "length"]
        of_average.append(row["low"] <= SLOPES.mean() / 2.0 <= row["high"])
        of_raters.append((own["low"] <= SLOPES / 2.0) & (SLOPES / 2.0 <= own["high"]))
    stated = az.rcParams["stats.ci_prob"]
    for inside in (of_average, of_raters):
        error = np.sqrt(stated * (1.0 - stated) / np.size(inside))
        assert np.mean(inside) > stated - 3.0 * error


def test_traits_are_read_by_item_and_rater():
    result, traits = biased(2)
    every = pd.concat([traits.assign(rater=rater) for rater in range(6)], ignore_index=True)
    one, other = (
        bf.decisions.error_traits(result, table, draws=5, random_seed=1).average
        for table in (traits, every.sample(frac=1.0, random_state=1))
    )
    pd.testing.assert_frame_equal(one, other)
    numbered = traits.rename(columns={"length": 0})  # as of a table without headings
    by_number = bf.decisions.error_traits(result, numbered, draws=5, random_seed=1).average
    assert by_number["trait"].tolist() == ["0", "shown first"]
    pd.testing.assert_frame_equal(by_number.drop(columns="trait"), one.drop(columns="trait"))
    refused(
        "one row for every item", bf.decisions.error_traits, result, every.drop(columns="rater")
    )
    refused("needs a value of 'length'", bf.decisions.error_traits, result, traits.iloc[1:])
    for constant in (1.0, np.inf):
        odd = traits.assign(length=constant)
        refused("finite numbers that differ", bf.decisions.error_traits, result, odd)
    refused("traits must be", bf.decisions.error_traits, result, traits[["item"]])
    odd = traits.assign(colour="red")
    refused("names of classes", bf.decisions.error_traits, result, odd)
    refused("traits must be", bf.decisions.error_traits, result, [1])
    stated = drawn_result([[0, 1]], ["A", "B"], bf.Responses.from_probabilities(np.eye(2)[:, None]))
    refused("stated probabilities alone", bf.decisions.error_traits, stated, traits.head(2))


def test_labels_needed_shrink_the_interval_as_computed():
    """A quarter more known labels of N: the width now times that of the formula."""
    made = bf.datasets.simulate_dawid_skene(300, 4, 2, random_seed=1)
    gold = {item: int(made.truth[item]) for item in range(40)}
    model = bf.models.WeightedVotes(made.responses, gold)
    result = bf.sample(model, 50, random_seed=1, progressbar=False, quiet=True)
    narrow, wide = (
        bf.decisions.labels_needed(result, width=width, random_seed=1) for width in (0.05, 0.9)
    )
    row = narrow.iloc[0]
    n = np.array([row["labels"] - 1, row["labels"]])
    width = row["width"] * (1 - n / 300) / np.sqrt(n) / ((1 - 40 / 300) / np.sqrt(40))
    assert width[0] > 0.05 >= width[1]
    assert np.isnan(row["new_labels"])  # 300 items leave more than this uncertain
    assert wide.iloc[0][["labels", "new_labels"]].tolist() == [40, 40]
    parts = bf.decisions.labels_needed(result, width=0.2, by=["a", "b"] * 150, random_seed=1)
    assert parts["group"].tolist() == ["all items", "a", "b"]
    assert (parts["labels"][1:] >= parts["labels"][0]).all()


def test_labels_needed_of_classes_that_are_truth_values():
    drawn = np.random.default_rng(1).integers(0, 2, (100, 20))
    needed = []
    for names in ([0, 1], [False, True]):
        responses = bf.Responses.from_matrix(np.array(names)[np.arange(40).reshape(20, 2) % 2])
        result = drawn_result(drawn, names, responses)
        needed.append(bf.decisions.labels_needed(result, width=0.3, random_seed=1))
    numbers = ["width", "labels", "new_labels"]
    pd.testing.assert_frame_equal(needed[0][numbers], needed[1][numbers])
