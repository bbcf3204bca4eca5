"""Evidence on the order of items, and the weights of models with and without it."""

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.ensemble.candidates import sides
from bayesfuse.ensemble.evidence import Evidence, OrderEvidence, measure_order
from bayesfuse.ensemble.inputs import Inputs


def chain_of_labels(seed=1, n_items=600, n_raters=5, stay=0.9):
    """Return responses with independent errors to a chain of three classes, and its sequences."""
    rng = np.random.default_rng(seed)
    truth = np.zeros(n_items, dtype=int)
    for n in range(1, n_items):
        truth[n] = truth[n - 1] if rng.random() < stay else rng.integers(3)
    wrong = rng.random((n_items, n_raters)) < 0.35
    answers = np.where(wrong, rng.integers(0, 3, wrong.shape), truth[:, None])
    responses = bf.Responses.from_matrix(answers, classes=range(3))
    return responses, bf.Sequences.from_lengths([60] * (n_items // 60))


@pytest.fixture(scope="module")
def chain():
    return chain_of_labels()


@pytest.mark.parametrize("raters", ["confusion", "types"])
def test_order_helps_in_a_chain_and_not_where_items_are_shuffled(chain, raters):
    responses, sequences = chain
    in_order = measure_order(responses, sequences, raters)
    assert in_order.gain > 3 * in_order.error > 0.0 and in_order.weight > 0.7
    items = np.random.default_rng(2).permutation(responses.items)
    shuffled = bf.Sequences.from_lengths([60] * 10, items=items.tolist())
    without = measure_order(responses, shuffled, raters)
    assert without.gain < 2 * without.error and without.weight < 0.6


def test_one_sequence_has_no_standard_error(chain):
    responses, _ = chain
    evidence = measure_order(responses, bf.Sequences.from_lengths([600]), "confusion")
    assert evidence.gain > 0.0 and np.isnan(evidence.error)


def test_evidence_may_be_of_some_sequences(chain, monkeypatch):
    whole = measure_order(*chain, "confusion")
    monkeypatch.setattr("bayesfuse.ensemble.order.MAX_RESPONSES", 1500)
    part = measure_order(*chain, "confusion")
    assert part.error > whole.error and abs(part.gain - whole.gain) < 5 * part.error


def test_models_with_order_have_the_weight_of_the_order(chain):
    responses, sequences = chain
    of_types, of_classes = OrderEvidence(0.01, 0.001, 0.7), OrderEvidence(0.1, 0.001, 0.9)
    evidence = Evidence(unmeasured=0.5, order_of_types=of_types, order_of_classes=of_classes)
    weights = {
        side.candidates[0].name: side.weight
        for side in sides(Inputs(responses, sequences), evidence)
    }
    names = "sequences", "independent errors, unpooled", "types in sequence", "consensus"
    expected = dict(zip(names, (0.45, 0.05, 0.35, 0.15), strict=True))
    assert weights == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_the_answer_states_what_the_order_is_worth(chain):
    responses, sequences = chain
    options = {"minutes": 5, "draws": 50, "checks": False, "random_seed": 1, "progressbar": False}
    fused = bf.fuse(responses, sequences=sequences, **options)
    assert "The order of the items predicts a rater who is left out better by" in str(fused)
