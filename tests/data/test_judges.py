"""Verdicts of language models on pairs of outputs."""

import numpy as np
import pytest
from refusals import refused_as

import bayesfuse as bf
from bayesfuse.errors import ModelError


def test_accuracies_of_the_source():
    """Shares of right verdicts, without a prompt that explains, as counted in the source."""
    panel = bf.datasets.judges()
    responses = panel.responses
    code = {name: number for number, name in enumerate(responses.classes.tolist())}
    truth = np.array([code[panel.truth[item]] for item in responses.items.tolist()])
    right = responses.label == truth[responses.item]
    share = np.bincount(responses.rater, right) / np.bincount(responses.rater)
    found = dict(zip(responses.raters.tolist(), share.round(3).tolist(), strict=True))
    assert found["GPT-4"] == 0.828 and found["GPT-4 (swapped)"] == 0.862
    assert found["ChatGPT"] == 0.406
    assert panel.items["subset"].value_counts().to_dict() == {
        "Neighbor": 134, "Natural": 100, "GPTInst": 92, "GPTOut": 47, "Manual": 46
    }  # fmt: skip


@pytest.mark.parametrize(("prompt", "n_raters"), [("Vanilla", 12), ("Rating", 4), ("all", 130)])
def test_every_judge_has_both_orders(prompt, n_raters):
    panel = bf.datasets.judges(prompt)
    assert panel.responses.n_raters == n_raters
    assert {name for pair in panel.orders for name in pair} == set(panel.responses.raters)
    assert panel.items["item"].tolist() == panel.responses.items.tolist()


def test_unknown_prompts_are_refused():
    refused_as(
        ModelError, "prompt must be 'CoT'.* or 'all'. Got: 'best'", bf.datasets.judges, "best"
    )
