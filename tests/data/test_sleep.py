"""Nights of sleep by people and networks."""

import numpy as np

import bayesfuse as bf


def test_nights_of_sleep_have_an_order_and_truth():
    """Numbers of the source: rates of agreement with the stage of most people, by rater."""
    night = bf.datasets.sleep()
    assert night.responses.n_raters == 11 and night.sequences.n_sequences == 25
    assert night.sequences.items.tolist() == night.responses.items.tolist()
    responses = night.responses
    code = {stage: number for number, stage in enumerate(responses.classes.tolist())}
    truth = np.array([code.get(night.truth.get(item), -1) for item in responses.items.tolist()])
    known = truth[responses.item] >= 0
    right = (responses.label == truth[responses.item])[known]
    share = np.bincount(responses.rater[known], right) / np.bincount(responses.rater[known])
    expected = [0.878, 0.905, 0.916, 0.836, 0.916, 0.826, 0.889, 0.855, 0.864, 0.887, 0.704]
    np.testing.assert_allclose(share, expected, atol=0.002)


def test_some_nights_by_some_raters():
    networks = bf.datasets.sleep("networks", nights=2)
    assert networks.responses.n_raters == 6 and networks.sequences.n_sequences == 2
    people = bf.datasets.sleep("people", nights=2)
    assert people.truth == networks.truth and people.responses.n_raters == 5
