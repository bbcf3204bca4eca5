"""Answers for tags of spans, of which raters miss whole ones."""

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.ensemble.evidence import correlation_along
from bayesfuse.errors import CollapseWarning
from bayesfuse.models import DawidSkene, HiddenMarkov

TAGS = ["O", "B", "I"]


def abstracts(seed, n_texts=80, size=50, missed=0.65):
    """Return responses, sequences and true tags of texts; raters see whole spans or miss them."""
    rng = np.random.default_rng(seed)
    truth, rows = np.zeros((n_texts, size), dtype=int), []
    for text in range(n_texts):
        begins = np.flatnonzero(rng.random(size // 10) < 0.3) * 10
        spans = [(begin, begin + rng.integers(2, 8)) for begin in begins]
        for rater in [-1, *rng.choice(30, 3, replace=False)]:  # the truth first
            seen = [span for span in spans if rater < 0 or rng.random() > missed]
            said = truth[text] if rater < 0 else np.zeros(size, dtype=int)
            if rater >= 0 and rng.random() < 0.2:
                seen.append((begin := rng.integers(0, size - 3), begin + 2))
            for begin, end in seen:
                said[begin], said[begin + 1 : end] = 1, 2
            rows += [(text * size + at, rater, TAGS[tag]) for at, tag in enumerate(said)]
    frame = pd.DataFrame(rows, columns=["item", "rater", "label"])
    responses = bf.Responses.from_long(frame[frame["rater"] >= 0], classes=TAGS)
    return responses, bf.Sequences.from_lengths([size] * n_texts), truth.ravel()


@pytest.fixture(scope="module")
def given():
    return abstracts(1)


def test_errors_of_missed_spans_persist(given):
    assert correlation_along(*given[:2]) > 0.6
    rng = np.random.default_rng(1)
    truth = np.tile([0, 1, 2, 2, 2, 0], 500)
    wrong = rng.random((3000, 5)) < [0.1, 0.15, 0.2, 0.3, 0.4]
    said = np.where(wrong, rng.integers(0, 3, wrong.shape), truth[:, None])
    apart = bf.Responses.from_matrix(np.array(TAGS)[said], classes=TAGS)
    assert correlation_along(apart, bf.Sequences.from_lengths([30] * 100)) < 0.1
    few = bf.Responses.from_matrix(np.array(TAGS)[said[:12]], classes=TAGS)
    assert correlation_along(few, bf.Sequences.from_lengths([6] * 2)) == 0.0


def test_spans_are_lost_below_half_of_what_raters_mark(given):
    responses, _, truth = given
    share = np.mean(responses.label > 0)
    point = bf.find_map(DawidSkene(responses))
    for factor, lost in ((0.4, True), (0.6, False), (2.0, False)):
        expected = np.tile([1 - factor * share, factor * share, 0.0], (len(truth), 1))
        point["label_posterior"]["probability"][:] = expected
        verdict = bf.checks.collapse(point).attrs["verdict"]
        shares = (
            f"{factor * share:.2%} of the items are expected in spans, and raters put {share:.2%}"
        )
        assert (f"Labels have lost spans: {shares}" in verdict) == lost


@pytest.mark.slow
def test_a_chain_that_lost_spans_has_no_weight(given):
    responses, sequences, truth = given
    short = {"tune": 50, "chains": 2, "random_seed": 1, "progressbar": False}
    with pytest.warns(CollapseWarning, match=r"lost spans: 0\.\d+% of the items .*DawidSkene"):
        chain = bf.sample(HiddenMarkov(responses, sequences, raters="sequential"), 50, **short)
    fused = bf.fuse(
        responses, sequences=sequences, draws=50, checks=False, random_seed=1, progressbar=False
    )
    assert fused.attrs["weights"] == pytest.approx([0.0, 0.6, 0.4], abs=0.03)
    table = fused["comparison"].to_dataset().to_dataframe()
    assert "less than half" in table["why"]["sequences"] and "half" not in table["why"].iloc[1]
    true = dict(enumerate(np.array(TAGS)[truth].tolist()))
    losses = [bf.checks.label_scores(each, true)["log_loss"] for each in (chain, fused)]
    assert losses[1] < losses[0] / 2
    new, order, _ = abstracts(2, n_texts=3)
    predicted = bf.label_probabilities(bf.predict(fused, new, sequences=order))
    np.testing.assert_allclose(predicted.sum("class"), 1.0)
