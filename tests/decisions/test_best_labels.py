"""Labels of least cost against the cost of every decision, and realised costs."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesfuse as bf

CLASSES = ["a", "b", "c"]
COSTS = pd.DataFrame([[0, 1, 4, 2], [5, 0, 1, 2], [9, 2, 0, 2]], CLASSES, [*CLASSES, "reject"])


def labels_of(probability, **groups):
    """Return a result of label probabilities alone, (items, classes)."""
    variables = {"probability": (("item", "class"), probability)}
    coords = {"item": np.arange(len(probability)), "class": CLASSES[: probability.shape[1]]}
    return xr.DataTree.from_dict({"label_posterior": xr.Dataset(variables, coords), **groups})


@pytest.fixture(scope="module")
def result():
    return labels_of(np.random.default_rng(1).dirichlet([0.5, 0.5, 0.5], 6))


def test_labels_have_the_least_expected_cost_of_all(result):
    best = bf.decisions.best_labels(result, COSTS)
    probability = result["label_posterior"]["probability"].values
    by_label = probability @ COSTS.to_numpy()
    totals = {labels: by_label[range(6), labels].sum() for labels in product(range(4), repeat=6)}
    cheapest = min(totals, key=totals.get)
    assert best["label"].values.tolist() == COSTS.columns[list(cheapest)].tolist()
    assert float(best["expected"]) == pytest.approx(totals[cheapest])
    assert float(best["cost"].sum()) == pytest.approx(totals[cheapest])
    assert int(best["rejected"]) == (best["label"] == "reject").sum()


def test_forms_of_costs_are_alike(result, tmp_path):
    COSTS.to_csv(tmp_path / "costs.csv")
    turned = COSTS.loc[CLASSES[::-1], COSTS.columns[::-1]]
    forms = turned, COSTS.T.to_dict(), COSTS.to_numpy(), tmp_path / "costs.csv"
    expected = bf.decisions.best_labels(result, COSTS)
    for form in forms:
        assert bf.decisions.best_labels(result, form).equals(expected)


def test_equal_costs_give_the_most_probable_label_and_thresholds_are_a_case():
    probability = np.column_stack([1 - np.linspace(0, 1, 11), np.linspace(0, 1, 11)])
    result = labels_of(probability)
    even = bf.decisions.best_labels(result, 1 - np.eye(2))
    assert np.allclose(even["cost"], 1 - probability.max(axis=1))
    threshold = bf.decisions.best_labels(result, [[0, 0.25], [0.75, 0]])
    positive = threshold["label"].values == "b"
    assert positive.tolist() == (probability[:, 1] > 0.25).tolist()


def test_rejection_that_costs_nothing_is_always_chosen_and_one_without_gain_never(result):
    free = COSTS.assign(reject=0.0)
    assert (bf.decisions.best_labels(result, free)["label"] == "reject").all()
    dear = COSTS.assign(reject=99.0)
    assert bf.decisions.best_labels(result, dear).equals(
        bf.decisions.best_labels(result, COSTS.drop(columns="reject"))
    )


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (COSTS.rename(columns={"reject": "unsure"}), "'reject'"),
        (COSTS.drop("a"), "row for every class"),
        (COSTS[[]], "at least one label"),
        (COSTS.replace(9, np.nan), "costs"),
        (np.zeros((3, 5)), "costs"),
        ("no_such.csv", "CSV"),
    ],
)
def test_costs_that_do_not_fit_are_refused(result, costs, message):
    with pytest.raises(bf.errors.ModelError, match=message):
        bf.decisions.best_labels(result, costs)


def test_a_class_called_reject_is_no_decision():
    result = labels_of(np.array([[0.9, 0.1], [0.2, 0.8]]))
    labels = result["label_posterior"].dataset.assign_coords({"class": ["accept", "reject"]})
    result = xr.DataTree.from_dict({"label_posterior": labels})
    with pytest.raises(bf.errors.ModelError, match="No class may be called 'reject'"):
        bf.decisions.best_labels(result, [[0, 1, 0.3], [1, 0, 0.3]])
    best = bf.decisions.best_labels(result, 1 - np.eye(2))
    assert best["label"].values.tolist() == ["accept", "reject"] and int(best["rejected"]) == 0


def test_interval_is_of_the_cost_of_joint_draws():
    """Two items that are always right or wrong together cost 0 or 2, not 1."""
    probability = np.full((2, 2), 0.5)
    drawn = np.array([[0, 0], [1, 1]] * 50)
    draws = xr.Dataset({"label": (("sample", "item"), drawn)})
    together = bf.decisions.best_labels(labels_of(probability, label_draws=draws), 1 - np.eye(2))
    assert (float(together["low"]), float(together["high"])) == (0.0, 2.0)
    assert float(together["expected"]) == 1.0


def test_accepted_labels_by_cost(result):
    probability = result["label_posterior"]["probability"].values
    by_label = (probability @ COSTS.to_numpy()).min(axis=1)
    rejected = (probability @ COSTS.to_numpy()).argmin(axis=1) == 3
    accepted = bf.decisions.accept_labels(result, 0.5, costs=COSTS)
    taken = accepted["accepted"].values
    assert not (taken & rejected).any() and 0 < taken.sum() < 6
    assert float(accepted["expected"]) == pytest.approx(by_label[taken].mean())
    assert by_label[taken].mean() <= 0.5
    assert by_label[taken].max() <= by_label[~taken & ~rejected].min(initial=np.inf)
    everything = bf.decisions.accept_labels(result, 100.0, costs=COSTS)
    assert (everything["accepted"].values == ~rejected).all()
    by_error = bf.decisions.accept_labels(result, 0.3)
    by_unit_cost = bf.decisions.accept_labels(result, 0.3, costs=1 - np.eye(3))
    assert by_unit_cost["accepted"].equals(by_error["accepted"])
    assert float(by_unit_cost["expected"]) == pytest.approx(float(by_error["expected"]))


def test_answers_take_costs(result):
    answer = bf.Fused.from_dict({"label_posterior": result["label_posterior"].dataset})
    table = answer.labels(COSTS)
    best = bf.decisions.best_labels(answer, COSTS)
    assert table["label"].tolist() == best["label"].values.tolist()
    assert table["probability"].isna().tolist() == (table["label"] == "reject").tolist()
    assert table["cost"].sum() == pytest.approx(float(best["expected"]))


@pytest.mark.slow
def test_expected_cost_comes_first_in_the_overview():
    made = bf.datasets.simulate_dawid_skene(60, 5, 2, random_seed=1)
    answer = bf.fuse(made.responses, draws=30, checks=False, random_seed=1, progressbar=False)
    costs = [[0, 1, 0.2], [4, 0, 0.2]]
    best = bf.decisions.best_labels(answer, costs)
    words = answer.overview(costs)
    assert f"of least cost is {float(best['expected']):.4g}" in words.split("\n\n")[0].replace(
        "\n", " "
    )
    assert words.endswith(answer.overview())


@pytest.mark.slow
def test_realised_costs_are_inside_the_interval():
    costs, inside = np.array([[0, 1, 0.4], [5, 0, 0.4]]), []
    for seed in range(40):
        made = bf.datasets.simulate_dawid_skene(200, 5, 2, random_seed=seed)
        model = bf.models.DawidSkene(made.responses)
        fit = bf.sample(model, 200, random_seed=seed, progressbar=False, quiet=True)
        best = bf.decisions.best_labels(fit, costs, ci_prob=0.9)
        column = pd.Index([*made.responses.classes, "reject"]).get_indexer(best["label"].values)
        real = costs[made.truth.astype(int), column].sum()
        inside.append(float(best["low"]) <= real <= float(best["high"]))
    assert np.mean(inside) >= 0.9 - 3 * np.sqrt(0.9 * 0.1 / 40)
