"""What the truth says of answers about real crowds."""

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.answer import budget
from bayesfuse.models import DawidSkene


def scores(labels, truth):
    """Return accuracy and log-loss."""
    probability = labels.sel(item=truth["item"].to_numpy()).values
    own = probability[np.arange(len(truth)), truth["label"]]
    return (probability.argmax(axis=1) == truth["label"]).mean(), -np.log(own).mean()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rte", "bluebird"])
def test_labels_are_about_as_good_as_the_best_models_and_honest(
    development_data, monkeypatch, name
):
    responses, truth = development_data(name)
    for number in ("DRAWS", "TUNE"):
        monkeypatch.setattr(budget, number, 150)
    # so much time that the answer does not depend on the machine
    fused = bf.fuse(responses, random_seed=1, minutes=600, progressbar=False)
    accuracy, loss = scores(bf.label_probabilities(fused), truth)
    each = [scores(bf.label_probabilities(own), truth) for own in fused["models"].children.values()]
    best, least = max(right for right, _ in each), min(lost for _, lost in each)
    assert accuracy >= best - 1 / np.sqrt(len(truth)) / 2  # a standard error of a share
    assert loss <= least + 0.02
    quick = bf.label_probabilities(bf.find_map(DawidSkene(responses)))
    assert loss < scores(quick.clip(1e-4), truth)[1] - 0.05
    assert loss < scores(bf.label_probabilities(bf.vote_shares(responses)), truth)[1] - 0.05
    wrong = (1 - accuracy) * len(truth)
    errors = bf.decisions.expected_errors(fused)
    assert abs(float(errors["expected"]) - wrong) < 4 * np.sqrt(wrong)
