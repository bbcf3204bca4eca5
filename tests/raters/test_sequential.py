"""Rows by the rater's own last answer: calculus, two algorithms, the degenerate case, tags."""

from __future__ import annotations

import numpy as np
import pytest
from typed_crowds import random_rows

import bayesfuse as bf
from bayesfuse.data.sequences import previous_labels
from bayesfuse.models import HiddenMarkov
from bayesfuse.testing import assert_close, assert_frequencies, check_rater_channel

ROWS = random_rows((2, 4, 3, 3), 1)


def table():
    """Two raters of seven items, whose second skips some and whose first repeats one."""
    rng = np.random.default_rng(2)
    item = np.array([0, 1, 2, 3, 4, 5, 6, 0, 2, 3, 4, 6, 3])
    rater = np.array([0] * 7 + [1] * 5 + [0])
    label = rng.integers(0, 3, len(item))
    given = {"item": item, "rater": rater, "label": label}
    return bf.Responses.from_long(given, items=range(7), raters=range(2), classes=range(3))


SEQUENCES = bf.Sequences.from_lengths([4, 3], items=[6, 0, 2, 3, 1, 4, 5])


def log_lik(channel, rows, responses):
    tables = channel.expand((np.log(rows),), 3, np)
    return channel.log_lik(tables, channel.structure(responses, np.full(7, -1)))


def test_contract():
    channel = bf.SequentialConfusion(None, SEQUENCES)
    check_rater_channel(channel, channel.expand((np.log(ROWS),), 3, np), table())


def test_every_answer_has_the_row_of_the_rater_and_the_last_answer():
    responses = table()
    said, _ = previous_labels(SEQUENCES, responses)
    expected = np.zeros((7, 3))
    for item, rater, last, label in zip(
        responses.item, responses.rater, said, responses.label, strict=True
    ):
        expected[item] += np.log(ROWS[rater, last + 1, :, label])
    assert_close(log_lik(bf.SequentialConfusion(None, SEQUENCES), ROWS, responses), expected, "")


def test_rows_that_do_not_look_back_are_those_of_confusion():
    responses, plain = table(), bf.Confusion(None)
    same = np.repeat(ROWS[:, :1], 4, axis=1)
    channel = bf.SequentialConfusion(same, SEQUENCES)
    expected = plain.log_lik((np.log(ROWS[:, 0]),), plain.structure(responses, np.full(7, -1)))
    assert_close(log_lik(channel, same, responses), expected, "log-likelihood")
    tables = channel.expand((np.log(same),), 3, np)
    assert_close(channel.confusion(tables, 3, np), ROWS[:, 0], "average over last answers")


def test_answers_follow_those_drawn_before():
    responses = bf.Responses.from_matrix([[0], [1], [2]] * 5000, classes=range(3))
    sequences = bf.Sequences.from_lengths([3] * 5000)
    channel = bf.SequentialConfusion(None, sequences)
    tables = channel.expand((np.log(ROWS[:1]),), 3, np)
    truth = np.tile([2, 0, 1], 5000)
    drawn = channel.simulate(tables, truth, responses, np.random.default_rng(1)).reshape(-1, 3)
    seen = np.zeros((3, 3, 3))
    np.add.at(seen, tuple(drawn.T), 1.0)
    first, after = ROWS[0, 0], ROWS[0, 1:]
    expected = first[2][:, None, None] * after[:, 0, :, None] * after[None, :, 1, :]
    assert_frequencies(seen.ravel(), expected.ravel(), "answers in a row")


def spans_missed_whole(n_sequences, rng):
    """Sentences of eight words with one span of two; raters find it whole, or miss it whole."""
    truth = np.zeros((n_sequences, 8), dtype=int)
    begin = rng.integers(0, 7, n_sequences)
    truth[np.arange(n_sequences), begin] = 1
    truth[np.arange(n_sequences), begin + 1] = 2
    said = np.repeat(truth[:, :, None], 4, axis=2)
    said *= (rng.random((n_sequences, 1, 4)) < [0.4, 0.5, 0.6, 0.7]).astype(int)
    tags = np.array(["O", "B", "I"])
    responses = bf.Responses.from_matrix(tags[said.reshape(-1, 4)], classes=tags)
    return responses, bf.Sequences.from_lengths([8] * n_sequences), tags[truth.ravel()]


@pytest.mark.slow
def test_spans_of_raters_who_miss_them_whole_are_calibrated():
    """By default tags have these rows; plain ones count every word of a missed span as evidence."""
    responses, sequences, truth = spans_missed_whole(400, np.random.default_rng(1))
    model = HiddenMarkov(responses, sequences)
    assert model.named_vars_to_dims["sequential_confusion"] == (
        "rater", "previous", "class", "answer",
    )  # fmt: skip
    result = bf.sample(model, 300, chains=2, random_seed=1, progressbar=False, quiet=True)
    scores = bf.span_scores(result, sequences).loc["exact"]
    kept = bf.spans(result, sequences).query("probability > 0.5")
    true = truth.reshape(400, 8)[kept["sequence"], kept["start"]] == "B"
    for name, value in {"precision": true.mean(), "recall": true.sum() / 400}.items():
        assert abs(scores[name] - value) < 0.04
        assert scores[f"{name}_low"] < scores[name] < scores[f"{name}_high"] + 1e-9
    raters = bf.rater_spans(result, sequences)
    assert_close(raters["recall"].to_numpy(), [0.4, 0.5, 0.6, 0.7], "recall", atol=0.08)
    plain = bf.find_map(HiddenMarkov(responses, sequences, raters="confusion"))
    doubt = [1 - bf.label_probabilities(each).max("class").values for each in (plain, result)]
    wrong = (bf.label_probabilities(result).idxmax("class").values != truth).sum()
    assert doubt[0].sum() < 0.7 * doubt[1].sum() and 0.7 < doubt[1].sum() / wrong < 1.4
