"""What holds of every rater channel, products of pairs, and rows by the rater's last answer."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from typed_crowds import random_crowd, random_rows, unknown

import bayesfuse as bf
from bayesfuse.errors import PoorFitWarning
from bayesfuse.models import HiddenMarkov
from bayesfuse.observation import ResponseModel
from bayesfuse.testing import assert_close, assert_frequencies, check_rater_channel

GROUPS = bf.build.LatentGroups(
    0, 0, np.array([0, -1, 0])
)  # kernels take tables, whatever stands here
PAIRS = (0, 1), (2, 0)
FIRING = np.array([[0, 1], [-1, 2], [3, -1]])


def plain(n_items, rng, n_classes=2):
    """Three raters, the second of whom may say nothing; the first may answer once more."""
    said = rng.integers(0, n_classes, (n_items, 3))
    said[rng.random(n_items) < 0.3, 1] = -1
    again = np.flatnonzero(rng.random(n_items) < 0.3)
    item, rater = np.nonzero(said >= 0)
    label = np.append(said[item, rater], rng.integers(0, n_classes, len(again)))
    item, rater = np.append(item, again), np.append(rater, np.zeros(len(again), dtype=int))
    names = {"items": range(n_items), "raters": range(3), "classes": range(n_classes)}
    return bf.Responses.from_long({"item": item, "rater": rater, "label": label}, **names)


def complete(n_items, rng):
    said = rng.integers(-1, 2, (n_items, 3))
    return bf.Responses.from_matrix(said, abstain=-1, raters=range(3), classes=[0, 1])


def partly_silent(n_items, rng):
    said = rng.integers(-1, 2, (n_items, 3)).astype(float)
    said[rng.random(n_items) < 0.3, 1] = np.nan
    return bf.Responses.from_matrix(said, abstain=-1, raters=range(3), classes=[0, 1])


def stated(n_items, rng):
    """One item in three has a statement as well."""
    said = np.where(np.arange(n_items)[:, None] % 3 == 0, [[0.7, 0.3]], np.nan)[:, None]
    soft = bf.Responses.from_probabilities(said, raters=[2], classes=[0, 1])
    return plain(n_items, rng).joined(soft)


def partial(n_items, rng):
    """On one item in five the last rater names two classes."""
    said = np.where(np.arange(n_items)[:, None] % 5 == 0, [[0.5, 0.0, 0.5]], np.nan)[:, None]
    soft = bf.Responses.from_probabilities(said, raters=[2], classes=range(3))
    return plain(n_items, rng, n_classes=3).joined(soft)


def three(n_items, rng):
    return plain(n_items, rng, n_classes=3)


def rows_of(*shapes):
    return tuple(np.log(random_rows(shape, seed)) for seed, shape in enumerate(shapes, 1))


CHANNELS = {
    "confusion": (bf.build.Confusion(None), rows_of((3, 2, 2)), plain),
    "three classes": (bf.build.Confusion(None), rows_of((3, 3, 3)), three),
    "coins": (bf.build.OneCoin(None), rows_of((3, 2, 2)), plain),
    "silence": (bf.build.Abstaining(None), rows_of((3, 2, 3)), complete),
    "some silence": (bf.build.Abstaining(None), rows_of((3, 2, 3)), partly_silent),
    "statements": (bf.build.Stated(None), rows_of((3, 2, 2)), stated),
    "silence of votes": (bf.build.Firing(None, FIRING), rows_of((4, 2, 2)), plain),
    "groups": (GROUPS, rows_of((1, 2, 2), (3, 2, 2)), plain),
    "groups, three classes": (GROUPS, rows_of((1, 3, 3), (3, 3, 3)), three),
    "consensus": (bf.build.Consensus(0, 0, 0), rows_of((2, 12), (3, 2), (3, 2)), plain),
    "consensus, statements": (
        bf.build.Consensus(0, 0, 0, 0, pairs=PAIRS),
        rows_of((3, 27), (3, 2), (3, 3), (3, 3, 3)),
        partial,
    ),
    "even guesses": (bf.build.Consensus(0, 0), rows_of((2, 12), (3, 2)), plain),
    "clean types": (
        bf.build.Consensus(0, 0, 0, 0),
        rows_of((2, 14), (3, 2), (3, 2), (3, 2, 2)),
        plain,
    ),
    "pairs": (bf.build.Consensus(0, 0, 0, pairs=PAIRS), rows_of((3, 24), (3, 2), (3, 3)), three),
}


def made(name, n_items, seed=1):
    """Return the channel, its tables, and responses."""
    channel, rows, table = CHANNELS[name]
    responses = table(n_items, np.random.default_rng(seed))
    return channel, channel.expand(rows, responses.n_classes, np), responses


DERIVED = ["confusion", "three classes", "silence", "groups"]


@pytest.mark.parametrize("name", CHANNELS)
def test_contract(name):
    """Counts are also the derivatives by the rows of channels in ``DERIVED``."""
    values = CHANNELS[name][1] if name in DERIVED else None
    check_rater_channel(*made(name, 5), values=values)


def test_contract_detects_wrong_counts():
    class Swapped(bf.build.OneCoin):
        capabilities = bf.build.OneCoin.capabilities

        def collapse(self, counts):
            return (super().collapse(counts)[0][..., ::-1],)

    rows, responses = rows_of((3, 2)), made("three classes", 5)[2]
    for channel in (bf.build.OneCoin(0), Swapped(0)):
        given = channel, channel.expand(rows, 3, np), responses
        if isinstance(channel, Swapped):
            with pytest.raises(AssertionError, match="collapsed counts"):
                check_rater_channel(*given, values=rows)
        else:
            check_rater_channel(*given, values=rows)


@pytest.mark.parametrize("name", CHANNELS)
def test_equal_items_are_merged_and_count_as_often(name):
    channel, tables, responses = made(name, 300)
    gold = {0: 1, 1: 0, 2: 1}
    merged = ResponseModel.build(responses, bf.build.Independent(None), channel, gold)
    assert merged.table.n_items < 150
    prevalence = np.log(random_rows((responses.n_classes,), 9))
    known = unknown(responses)
    known[:3] = 1, 0, 1
    structure = channel.structure(responses, known)
    joint = prevalence + channel.log_lik(tables, structure)
    log_evidence = np.logaddexp.reduce(joint, axis=1)
    probability = np.exp(joint - log_evidence[:, None])
    rows = {"prevalence": prevalence} | dict(
        zip(merged.raters.parameters, CHANNELS[name][1], strict=True)
    )
    marginal, (_, counts) = merged.marginal(rows), merged.expected(rows)
    assert_close(marginal.total, log_evidence.sum(), "log evidence")
    assert_close(merged.by_item(marginal.probability), probability, "label probability")
    assert_close(counts["prevalence"], probability.sum(axis=0), "class counts", rtol=1e-9)
    apart = channel.collapse(channel.expected_kernel(*tables, probability, *structure))
    for parameter, own in zip(merged.raters.parameters, apart, strict=True):
        assert_close(counts[parameter], own, parameter, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CHANNELS)
def test_latent_variables_of_merged_items_are_drawn_by_copy(name):
    """Many copies of items of every class: whole counts with the mean of expected ones."""
    channel, tables, responses = made(name, 5)
    rng = np.random.default_rng(2)
    structure = channel.structure(responses, unknown(responses))
    copies = rng.integers(0, 20, (5, responses.n_classes)).astype(float)
    expected = channel.expected_kernel(*tables, copies, *structure)
    drawn = [channel.sample_counts(tables, copies, structure, rng) for _ in range(500)]
    for number, (counts, wanted) in enumerate(zip(zip(*drawn, strict=True), expected, strict=True)):
        each = np.array(counts)
        assert (each == np.round(each)).all()
        # guesses, the third, are of a random number; with clean types, looks are so, too
        if number < (1 if "clean_confusion" in channel.parameters else 2):
            assert_close(each[0].sum(), wanted.sum(), "number of answers")
        # of what is rarely drawn, the sample says little about its own variance
        error = np.sqrt(np.maximum(each.var(axis=0), np.minimum(wanted, 1.0)) / 500)
        assert (np.abs(each.mean(axis=0) - wanted) <= 5 * error + 1e-9).all()


@pytest.mark.parametrize("name", CHANNELS)
def test_answers_are_drawn_with_the_probabilities_of_the_likelihood(name):
    """All that may be observed of an item, told apart by its likelihoods, jointly."""
    channel, tables, responses = made(name, 1, seed=3)
    size = 4000

    def log_lik(table):
        return channel.log_lik(tables, channel.structure(table, unknown(table)))

    _, codes, n_codes = channel.response_codes(responses)
    every = map(np.array, product(range(n_codes), repeat=len(codes)))
    outcomes = [channel.from_response_codes(responses, each) for each in every]
    possible = np.concatenate([log_lik(each) for each in outcomes])
    many = replace(responses.take(np.zeros(size, dtype=int)), items=np.arange(size))
    for k in range(responses.n_classes):
        truth, rng = np.full(size, k), np.random.default_rng(k)
        drawn = log_lik(channel.redraw_fixed_features(tables, truth, many, rng))
        both = np.round(np.concatenate([possible, drawn]), 9)
        which = np.unique(both, axis=0, return_inverse=True)[1]
        seen = np.bincount(which[len(possible) :], minlength=which.max() + 1).astype(float)
        expected = np.bincount(which[: len(possible)], np.exp(possible[:, k]), which.max() + 1)
        assert expected.sum() == pytest.approx(1.0) and len(seen) > 3
        assert_frequencies(seen, expected, f"answers to class {k}")


@pytest.mark.parametrize("name", [name for name in CHANNELS if "silence" not in name])
def test_confusion_is_the_likelihood_of_one_response(name):
    channel, tables, responses = made(name, 3)
    n_classes = responses.n_classes
    found = channel.confusion(tables, n_classes, np)
    for m, c in np.ndindex(3, n_classes):
        table = {"item": [0], "rater": [m], "label": [c]}
        one = bf.Responses.from_long(table, raters=range(3), classes=range(n_classes))
        likelihood = np.exp(channel.log_lik(tables, channel.structure(one, unknown(one))))
        assert_close(found[m, :, c], likelihood[0], f"rater {m}, label {c}")


def arranged(responses, gold=None):
    """The channel's structure, checked to have pairs."""
    gold = np.full(responses.n_items, -1) if gold is None else gold
    structure = bf.build.Confusion(None).structure(responses, gold)
    assert len(structure[2]) > 0
    return structure


def log_confusion(n_classes, seed):
    return np.log(random_rows((4, n_classes, n_classes), seed))


def plain_sum(table, responses):
    """Sum over the responses one by one."""
    total = np.zeros((responses.n_items, responses.n_classes))
    np.add.at(total, responses.item, table[responses.rater, :, responses.label])
    return total


def test_rows_are_the_responses_in_their_order():
    responses = random_crowd(900, 3, 2, seed=1)
    start, row, pair, _ = arranged(responses)
    n_cells = 8
    for n in range(responses.n_items):
        named = row[start[n] : start[n + 1]]
        cells = [c for r in named for c in ([r] if r < n_cells else pair[r - n_cells])]
        given = responses.cell[responses.start[n] : responses.start[n + 1]]
        assert cells == given.tolist()
        assert (named >= n_cells).sum() == len(given) // 2
    assert responses.per_item.min() == 0 and (responses.per_item % 2 == 1).any()
    assert row.dtype == start.dtype == pair.dtype == np.uint32


def test_pairs_are_used_only_if_frequent():
    """Two raters, and all pairs of their labels, a thousand times or once."""
    channel, said = bf.build.Confusion(None), np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    often, once = (
        channel.structure(
            bf.Responses.from_matrix(np.tile(said, (times, 1))), np.full(4 * times, -1)
        )
        for times in (1000, 1)
    )
    assert often[2].tolist() == [[0, 2], [0, 3], [1, 2], [1, 3]]
    assert once[2].shape == (0, 2) and once[1].tolist() == [0, 2, 0, 3, 1, 2, 1, 3]


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5])
def test_likelihood_is_the_plain_sum(n_classes):
    responses = random_crowd(3000, 3, n_classes, seed=n_classes)
    table = log_confusion(n_classes, 3)
    with np.errstate(divide="ignore"):  # a label that one rater never gives to one class
        table[1, 0] = np.log(np.append(0.0, np.full(n_classes - 1, 1 / (n_classes - 1))))
    gold = np.where(np.arange(responses.n_items) % 7 == 3, 1, -1)
    expected = plain_sum(table, responses)
    expected[gold == 1, :1] = expected[gold == 1, 2:] = -np.inf
    found = bf.build.Confusion(None).log_lik((table,), arranged(responses, gold))
    assert (expected == -np.inf).sum() > 1000
    assert_close(found, expected, "log-likelihood")


def test_likelihood_does_not_underflow():
    """A pair's product is zero in floating point, its logarithm is not."""
    responses = random_crowd(900, 3, 2, seed=7)
    table = log_confusion(2, 1) - np.array([380.0, 400.0])[:, None]
    found = bf.build.Confusion(None).log_lik((table,), arranged(responses))
    assert_close(found, plain_sum(table, responses), "log-likelihood")


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_counts_are_those_of_the_responses(n_classes):
    responses = random_crowd(3000, 3, n_classes, seed=n_classes)
    structure, tables = arranged(responses), (log_confusion(n_classes, 3),)
    rng = np.random.default_rng(n_classes)
    labels = rng.integers(0, n_classes, responses.n_items)
    expected = np.zeros((4, n_classes, n_classes))
    np.add.at(expected, (responses.rater, labels[responses.item], responses.label), 1.0)
    channel = bf.build.Confusion(None)
    (hard,) = channel.sample_counts(tables, labels, structure, rng)
    np.testing.assert_array_equal(hard, expected)
    (soft,) = channel.sample_counts(tables, np.eye(n_classes)[labels], structure, rng)
    assert_close(soft, expected, "expected counts")


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


def test_contract_of_sequential_confusion():
    channel = bf.build.SequentialConfusion(None, SEQUENCES)
    check_rater_channel(channel, channel.expand((np.log(ROWS),), 3, np), table())


def test_sequential_rows_are_by_rater_and_previous_answer():
    responses = table()
    said = {}  # of several answers to an item, the last
    for item, rater, label in zip(responses.item, responses.rater, responses.label, strict=True):
        said[item, rater] = label
    order = SEQUENCES.items.tolist()
    before = {item: last for begin in (0, 4) for last, item in pairwise(order[begin : begin + 4])}
    expected = np.zeros((7, 3))
    for item, rater, label in zip(responses.item, responses.rater, responses.label, strict=True):
        last = said.get((before.get(item), rater), -1)
        expected[item] += np.log(ROWS[rater, last + 1, :, label])
    assert_close(
        log_lik(bf.build.SequentialConfusion(None, SEQUENCES), ROWS, responses), expected, ""
    )


def test_equal_sequential_rows_are_confusion():
    responses, plain = table(), bf.build.Confusion(None)
    same = np.repeat(ROWS[:, :1], 4, axis=1)
    channel = bf.build.SequentialConfusion(same, SEQUENCES)
    expected = plain.log_lik((np.log(ROWS[:, 0]),), plain.structure(responses, np.full(7, -1)))
    assert_close(log_lik(channel, same, responses), expected, "log-likelihood")
    tables = channel.expand((np.log(same),), 3, np)
    assert_close(channel.confusion(tables, 3, np), ROWS[:, 0], "average over last answers")


def test_simulated_answers_depend_on_previous_ones():
    responses = bf.Responses.from_matrix([[0], [1], [2]] * 5000, classes=range(3))
    sequences = bf.Sequences.from_lengths([3] * 5000)
    channel = bf.build.SequentialConfusion(None, sequences)
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
    scores = bf.checks.span_scores(result, sequences).loc["exact"]
    kept = bf.spans(result, sequences).query("probability > 0.5")
    true = truth.reshape(400, 8)[kept["sequence"], kept["start"]] == "B"
    for name, value in {"precision": true.mean(), "recall": true.sum() / 400}.items():
        assert abs(scores[name] - value) < 0.04
        assert scores[f"{name}_low"] < scores[name] < scores[f"{name}_high"] + 1e-9
    raters = bf.rater_table(result, columns="all").sort_values("rater")
    assert_close(raters["span_recall"].to_numpy(), [0.4, 0.5, 0.6, 0.7], "recall", atol=0.08)
    with pytest.warns(PoorFitWarning, match=r"errors go on.*HiddenMarkov\(raters=\"sequential\"\)"):
        plain = bf.find_map(HiddenMarkov(responses, sequences, raters="confusion"))
    doubt = [1 - bf.label_probabilities(each).max("class").values for each in (plain, result)]
    wrong = (bf.label_probabilities(result).idxmax("class").values != truth).sum()
    assert doubt[0].sum() < 0.7 * doubt[1].sum() and 0.7 < doubt[1].sum() / wrong < 1.4
