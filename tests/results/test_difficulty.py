"""The difficulty of items, against sums over all types, and what it says of the classes."""

import numpy as np
import pymc as pm
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene, ItemTypes
from bayesfuse.pymc.model import observed

QUIET = {"progressbar": False, "quiet": True}


def crowd():
    """Easy and hard items of three classes; the last has no responses, two have the same."""
    made = bf.datasets.simulate_dawid_skene(14, 5, 3, per_item=4, random_seed=3)
    matrix = np.full((16, 5), -1)
    matrix[made.responses.item, made.responses.rater] = made.responses.label
    matrix[14] = matrix[2]
    items = [f"item {n}" for n in range(16)]
    return bf.Responses.from_matrix(matrix, items=items, classes=[0, 1, 2])


def own_model(chain):
    """Types of a user's own model, with independent labels or a chain."""
    responses = crowd()
    with pm.Model(coords={"rater": responses.raters, "class": range(3)}) as model:
        share = pm.Dirichlet("type_of_class", np.ones((3, 24)))
        competence = pm.Beta("competence", 2.0, 1.0, dims="rater")
        first = pm.Dirichlet("first", np.ones(3))
        labels = bf.Independent(first)
        if chain:
            sequences = bf.Sequences.from_lengths([9, 7], items=responses.items)
            transition = pm.Dirichlet("transition", 1 + 4 * np.eye(3))
            labels = bf.MarkovChain(first, transition, sequences)
        channel = bf.Consensus(share, competence, pairs=[(0, 1), (2, 0)])
        bf.observe(responses, labels=labels, raters=channel, gold={"item 1": 2, "item 15": 0})
    return model


def types_by_hand(model, result, consensus, prefix=""):
    """Mean probabilities of types, (items, types): sums over all classes and types, by draw."""
    responses, draws = observed(model)[1].responses, result["posterior"].dataset
    found = np.zeros((responses.n_items, len(consensus)))
    places = list(np.ndindex(draws.sizes["chain"], draws.sizes["draw"]))
    for chain, draw in places:
        one = result.isel(chain=[chain], draw=[draw])
        labels = bf.label_probabilities(one, model).values
        at = draws.isel(chain=chain, draw=draw)
        share, looks = at[f"{prefix}type_of_class"].values, at[f"{prefix}competence"].values
        guess = at[f"{prefix}guess"].values if f"{prefix}guess" in at else np.full((5, 3), 1 / 3)
        rows = looks[:, None, None] * consensus + (1 - looks[:, None, None]) * guess[:, None]
        for n in range(responses.n_items):
            mine = responses.item == n
            given = rows[responses.rater[mine], :, responses.label[mine]].prod(axis=0)
            found[n] += labels[n] @ (share * given / (share @ given)[:, None]) / len(places)
    return found


@pytest.mark.parametrize("kind", ["independent", "chain", "item types"])
def test_difficulty_is_that_of_sums_over_classes_and_types(kind):
    if kind == "item types":
        model = ItemTypes(crowd(), gold={"item 1": 2, "item 15": 0}, name="m")
    else:
        model = own_model(kind == "chain")
    result = bf.sample(model, 4, tune=5, chains=2, random_seed=1, **QUIET)
    rows = observed(model)[1].raters.dictionary(3).rows
    found = bf.difficulty(result, model, draws=8, ci_prob=0.8)
    types = types_by_hand(model, result, rows, "m::" if kind == "item types" else "")
    differ = 1 - (rows**2).sum(axis=1)
    np.testing.assert_allclose(found["disagreement"], types @ differ)
    np.testing.assert_allclose(found["consensus"], types @ rows)
    same = found["disagreement"].values[[2, 14]]  # of items with the same responses
    assert (same[0] == same[1]) == (kind != "chain")
    for n in range(16):
        for name, level in (("low", 0.1), ("high", 0.9)):
            end = float(found[name][n])
            assert (
                types[n, differ < end - 1e-9].sum() < level <= types[n, differ < end + 1e-9].sum()
            )


def hard_and_easy():
    """Twelve raters; on one item in four of class b most of them say c."""
    rng, item = np.random.default_rng(1), np.arange(160)
    truth = item % 3
    hard = (truth == 1) & (item % 4 == 0)
    row = np.array([[0.94, 0.03, 0.03], [0.03, 0.94, 0.03], [0.03, 0.03, 0.94], [0.02, 0.4, 0.58]])
    label = np.stack([rng.choice(3, p=row[z], size=12) for z in np.where(hard, 3, truth)])
    return bf.Responses.from_matrix(np.array(["a", "b", "c"], dtype=object)[label]), hard


@pytest.mark.slow
def test_hard_items_and_the_classes_they_are_confused_with():
    responses, hard = hard_and_easy()
    model = ItemTypes(responses)
    result = bf.sample(model, 60, chains=2, random_seed=1, **QUIET)
    found = bf.difficulty(result, model, draws=50)
    differ = found["disagreement"].values
    assert differ[hard].mean() > 0.35 and differ[~hard].mean() < 0.2
    assert (found["low"] <= found["high"]).all() and (found["high"] <= 1).all()
    assert np.isin(found["confused_with"].values[hard], ["b", "c"]).mean() > 0.8
    mistakes = found["mistakes"]
    pair = [mistakes.sel({"labelled": a, "class": b}) for a, b in ("cb", "bc")]
    assert float(sum(pair)) > 0.4 * float(mistakes.sum())  # one pair of three
    assert "for class" in found.attrs["verdict"]
    errors = bf.decisions.expected_errors(result, model, draws=5, random_seed=1)
    assert float(mistakes.sum()) == pytest.approx(float(errors["expected"]))
    best = bf.label_probabilities(result)
    assert (found["label"].values == best["class"].values[best.values.argmax(axis=1)]).all()
    np.testing.assert_allclose(found["error"], 1 - best.max("class"))
    wider, narrower = (bf.difficulty(result, model, draws=50, ci_prob=p) for p in (0.95, 0.5))
    assert (wider["low"] <= narrower["low"]).all() and (wider["high"] >= narrower["high"]).all()


def test_models_without_types_are_refused():
    model = DawidSkene(bf.datasets.anesthesia())
    result = bf.find_map(model)
    with pytest.raises(ModelError, match=r"models\.ItemTypes.* Got: a model of Confusion"):
        bf.difficulty(result, model)
    with pytest.raises(ModelError, match="draws"):
        bf.difficulty(result, model, draws=0)
