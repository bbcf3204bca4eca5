"""The channel of votes given their number against enumeration, and against other samplers."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from rules import drawn_votes

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.testing import assert_close

COLUMN = np.array([[0, -1, -1], [-1, 1, 2], [0, -1, -1], [-1, -1, -1], [-1, -1, 3]])
"""Five sources of three labels: the first and the third are copies, the fourth says nothing."""

SHARE = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.5, 0.2, 0.2], [0.25, 0.05, 0.3, 0.4]])


def table():
    matrix = [[0, 1, 0, 2, -1], [-1, 2, 0, -1, 2], [-1, -1, -1, 0, -1], [0, -1, -1, -1, -1]]
    return bf.Responses.from_matrix(matrix, classes=[0, 1, 2])


def log_lik(channel, responses, share, gold=None):
    known = np.full(responses.n_items, -1) if gold is None else np.array(gold)
    structure = channel.structure(responses, known)
    return channel.log_lik(channel.expand((np.log(share),), len(share), np), structure)


def test_votes_multiply_and_copies_count_once():
    expected = np.log([SHARE[:, 0] * SHARE[:, 1], SHARE[:, 0] * SHARE[:, 2] * SHARE[:, 3],
                       np.ones(3), SHARE[:, 0]])  # fmt: skip
    assert_close(log_lik(bf.Votes(None, COLUMN), table(), SHARE), expected, "log-likelihood")


def test_repeated_votes_count_once_and_known_classes_exclude():
    rows = {"item": [0, 0, 1], "rater": [0, 0, 1], "label": [0, 0, 2]}
    responses = bf.Responses.from_long(rows, raters=range(5), classes=range(3))
    found = log_lik(bf.Votes(None, COLUMN), responses, SHARE, gold=[2, -1])
    assert_close(found[1], np.log(SHARE[:, 2]), "one vote")
    assert found[0].tolist() == [-np.inf, -np.inf, np.log(0.25)]


def test_one_source_that_always_speaks_is_a_confusion_matrix():
    rows = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    responses = bf.Responses.from_matrix([[0], [2], [1], [2]], classes=[0, 1, 2])
    confusion = bf.Confusion(rows[None])
    known = np.full(4, -1)
    other = confusion.log_lik((np.log(rows)[None],), confusion.structure(responses, known))
    assert_close(log_lik(bf.Votes(None, [[0, 1, 2]]), responses, rows), other, "log-likelihood")


def test_what_sources_say_where_they_speak():
    channel = bf.Votes(None, COLUMN)
    tables = channel.expand((np.log(SHARE),), 3, np)
    rows = channel.confusion(tables, 3, np)
    assert_close(rows[1, 0], [0.0, 2 / 3, 1 / 3], "of two labels", atol=1e-9)
    assert_close(rows[3], np.full((3, 3), 1 / 3), "of a silent source")
    drawn = channel.simulate(tables, np.zeros(4, dtype=int), table(), np.random.default_rng(1))
    assert (drawn[table().rater == 0] == 0).all() and (drawn[table().rater == 4] == 2).all()


def prior_model(responses):
    with pm.Model(coords={"class": range(3), "vote": range(4)}) as model:
        prevalence = pm.Dirichlet("prevalence", [3.0, 2.0, 2.0], dims="class")
        share = pm.Dirichlet("vote_share", 8 * SHARE, dims=("class", "vote"))
        bf.observe(responses, labels=bf.Independent(prevalence), raters=bf.Votes(share, ALONE))
    return model


ALONE = np.array([[0, -1, -1], [-1, 1, -1], [-1, -1, 2], [-1, -1, 3]])


def test_prediction_ignores_sources_that_were_not_fitted():
    rng = np.random.default_rng(3)
    responses, _ = drawn_votes([0.5, 0.3, 0.2], SHARE, ALONE, np.repeat([1, 2], 30), rng)
    result = bf.find_map(prior_model(responses))
    new = bf.Responses.from_matrix([[0, -1, -1, -1, 1], [0, -1, -1, -1, -1]], classes=range(3))
    known = bf.Responses.from_matrix([[0, -1, -1, -1]], classes=range(3))
    one, other = (bf.label_probabilities(bf.predict(result, each)).values for each in (new, known))
    assert_close(one[0], one[1], "with a vote of a new source and without")
    assert_close(one[1], other[0], "in a table of old sources")


def test_wrong_columns_are_refused():
    for column, words in (([0, 1, 2], "shape"), ([[0, 1, 2]], "raters"), (-np.ones((5, 3)), "-1")):
        with pytest.raises(ModelError, match=words), pm.Model():
            bf.observe(
                table(),
                labels=bf.Independent(np.ones(3) / 3),
                raters=bf.Votes(SHARE, np.array(column)),
            )
