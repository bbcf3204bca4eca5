"""Raters who look or guess, and graded raters: rows and likelihoods against enumeration."""

from itertools import permutations, product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from refusals import refused
from scipy.stats import norm
from typed_crowds import by_type, random_crowd, random_rows, summed

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.testing import assert_close, check_rater_channel

CASES = {
    "two classes": (2, []),
    "levels": (3, []),
    "some pairs": (3, [(0, 2), (2, 1)]),
    "many classes": (5, list(permutations(range(5), 2))),
    "clean types": (3, [(0, 2), (2, 1)], True),
}


def consensus(n_classes, pairs):
    """The rows as the reference states them, one by one."""
    found = []
    for k, level in product(range(n_classes), (0.02, 0.2, 0.4, 0.6, 0.8, 0.95)):
        row = np.full(n_classes, (1 - level) / n_classes)
        row[k] += level
        found.append(row)
    for (k, j), (first, second) in product(pairs, ((0.5, 0.4), (0.65, 0.3), (0.8, 0.17))):
        row = np.full(n_classes, (1 - first - second) / max(n_classes - 2, 1))
        row[[k, j]] = first, second
        found.append(row)
    return np.array(found)


def made(n_classes, pairs, clean=False, n_raters=5, seed=1):
    """Return a channel, shares, competence (raters, 2) and guesses; some are zero or one.

    Values of clean types, if any, are rows of raters (raters, classes, answers).
    """
    rows = consensus(n_classes, pairs)
    n_types = len(rows) + n_classes * clean
    shapes = [(n_classes, n_types), (n_raters, 2), (n_raters, n_classes)]
    shapes += [(n_raters, n_classes, n_classes)] * clean
    share, competence, guess, *of_clean = (
        random_rows(shape, seed + number) for number, shape in enumerate(shapes)
    )
    share[0] = np.eye(n_types)[-n_classes if clean else 3]
    competence[:2] = [[1.0, 0.0], [0.0, 1.0]]
    guess[2] = np.eye(n_classes)[1]
    if clean:
        of_clean[0][1] = np.eye(n_classes)
    channel = bf.build.Consensus(None, None, 0, 0 if clean else None, pairs=pairs)
    return channel, (share, competence, guess, *of_clean), rows


def confusion_of(values, rows):
    """Rows of raters by type, (raters, types, answers)."""
    _, competence, guess, *of_clean = values
    of_consensus = competence[:, :1, None] * rows + competence[:, 1:, None] * guess[:, None]
    return np.concatenate([of_consensus, *of_clean], axis=1)


def tables(channel, values):
    with np.errstate(divide="ignore"):
        logs = tuple(np.log(value) for value in values)
    return channel.expand(logs, len(values[0]), np)


def known(responses, gold):
    found = np.full(responses.n_items, -1)
    for n, k in gold.items():
        found[n] = k
    return found


@pytest.mark.parametrize("name", CASES)
def test_likelihood_is_the_sum_over_types_and_looks(name):
    """Raters who always or never look, answers never guessed, and known items, too."""
    n_classes, pairs, *clean = CASES[name]
    channel, values, rows = made(n_classes, pairs, *clean)
    certain = np.eye(n_classes)[: n_classes * len(clean)]
    assert_close(channel.dictionary(n_classes).rows, np.vstack([rows, certain]), "consensus rows")
    responses, gold = random_crowd(40, 4, n_classes, seed=3), {3: 1, 17: 0, 40: n_classes - 1}
    structure = channel.structure(responses, known(responses, gold))
    found = channel.log_lik(tables(channel, values), structure)
    expected = summed(values[0], confusion_of(values, rows), responses, gold)
    assert_close(found, expected, "log-likelihood")
    even = bf.build.Consensus(None, None, None, 0 if clean else None, pairs=pairs)
    found = even.log_lik(tables(even, (*values[:2], *values[3:])), structure)
    values = *values[:2], np.full(values[2].shape, 1 / n_classes), *values[3:]
    expected = summed(values[0], confusion_of(values, rows), responses, gold)
    assert_close(found, expected, "log-likelihood of even guesses")


def test_types_are_named_by_answers_and_their_probability():
    found = (
        bf.build.Consensus(None, None, clean_confusion=0, pairs=[(2, 0)])
        .dictionary(3)
        .names(np.array(["a", "b", "c"]))
    )
    assert found[:2] + found[-7:] == [
        "a (0.35)", "a (0.47)", "c (0.97)", "c|a (0.50)", "c|a (0.65)", "c|a (0.80)",
        "a (clean)", "b (clean)", "c (clean)",
    ]  # fmt: skip


def test_likelihood_of_five_hundred_answers_does_not_underflow():
    """Products underflow; types differ by hundreds of nats."""
    rng = np.random.default_rng(3)
    item = np.repeat([0, 1, 2], [500, 2, 500])
    said = np.where(item == 0, rng.integers(0, 3, 1002), 2)
    columns = {"item": item, "rater": rng.integers(3, 5, 1002), "label": said}
    responses = bf.Responses.from_long(columns, raters=range(5), classes=range(3))
    channel, values, rows = made(3, [])
    values[1][3:] = [0.98, 0.02]
    expected = summed(values[0], confusion_of(values, rows), responses)
    assert expected[0].max() < -500 and expected[2].max() - expected[2].min() > 300
    structure = channel.structure(responses, np.full(3, -1))
    found = channel.log_lik(tables(channel, values), structure)
    # weights below 1e-290 of the largest of an item are kept there, so that nothing is impossible
    largest = by_type(np.ones(values[0].shape), confusion_of(values, rows), responses)[2, 0].max()
    assert found[2, 0] == pytest.approx(largest + np.log(1e-290))
    found[2, 0] = expected[2, 0]
    assert_close(found, expected, "log-likelihood", rtol=1e-11)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("copies", [False, True])
def test_counts_by_kind_sum_to_counts(copies, clean):
    """But for items without responses and of unknown class: types of these say nothing."""
    responses = random_crowd(40, 4, 3, seed=4)  # the last item has no responses
    assert responses.per_item[-1] == 0
    plain, values, _ = made(3, [(0, 2), (2, 1)], clean)
    kind = np.arange(41) % 3
    of_clean = 0 if clean else None
    by_kind = bf.build.Consensus(None, None, 0, of_clean, pairs=plain.pairs, kind=kind)
    at, number = tables(plain, values), known(responses, {3: 1, 17: 0})
    labels = np.random.default_rng(1).integers(1, 3, responses.n_items)
    labels[[3, 17]] = 1, 0
    drawn = 2 * np.eye(3)[labels] if copies else labels
    expected, found = (
        each.sample_counts(at, drawn, each.structure(responses, number), np.random.default_rng(5))
        for each in (plain, by_kind)
    )
    for one, other in zip(found[1:4], expected[1:], strict=True):
        assert_close(one, other, "looks, guesses and answers to clean items")
    left_out = expected[0] - found[0]
    assert left_out.min() == 0 and left_out.sum() == 1 + copies
    counts = found[4]
    assert_close(counts.sum(axis=1), found[0].sum(axis=1), "types of unknown and known class")
    sizes = np.bincount(kind[:40], minlength=3) * (1 + copies)
    assert_close(counts.sum(axis=(0, 2)), sizes, "items by kind")
    assert_close(counts[1].sum(axis=1), [1 + copies, 0, 1 + copies], "known items by kind")
    assert by_kind.subset(np.array([5, 1])).kind.tolist() == [2, 1]
    few = random_crowd(10, 4, 3, seed=4)
    assert not by_kind.structure(few, np.full(few.n_items, -1))[4].any()  # other items


def test_full_competence_and_one_type_per_class_is_confusion():
    responses, plain = random_crowd(60, 4, 3, seed=3), bf.build.Confusion(None)
    channel, (share, competence, guess), rows = made(3, [])
    own = [2, 9, 17]  # a type for each class
    share[:], competence[:] = np.eye(18)[own], [1.0, 0.0]
    number = known(responses, {0: 2, 7: 1})
    arranged, at = channel.structure(responses, number), tables(channel, (share, competence, guess))
    table = (np.log(np.tile(rows[own], (5, 1, 1))),)
    one = plain.log_lik(table, plain.structure(responses, number))
    assert_close(channel.log_lik(at, arranged), one, "log-likelihood")
    competence[:] = [0.0, 1.0]  # who only guesses says nothing of the class
    at = tables(channel, (share, competence, random_rows((5, 3), 3)))
    found = channel.log_lik(at, channel.structure(responses, known(responses, {})))
    assert_close(np.ptp(found, axis=1), np.zeros(61), "differences of classes", atol=1e-12)


def test_clean_types_alone_are_confusion():
    responses, plain = random_crowd(60, 4, 3, seed=3), bf.build.Confusion(None)
    channel, (share, *values), _ = made(3, [], clean=True)
    share[:] = np.eye(21)[18:]
    number = known(responses, {0: 2, 7: 1})
    structure = channel.structure(responses, number)
    found = channel.log_lik(tables(channel, (share, *values)), structure)
    with np.errstate(divide="ignore"):
        log_rows = np.log(values[2])
    expected = plain.log_lik((log_rows,), plain.structure(responses, number))
    assert_close(found, expected, "log-likelihood")


@pytest.mark.parametrize(
    ("shapes", "match"),
    [
        (((3, 12), (4,), (4, 2)), "share must have shape"),
        (((2, 11), (4,), (4, 2)), "share must have shape"),
        (((2, 12), (3,), (4, 2)), "competence must have shape"),
        (((2, 12), (4,), (4, 3)), "guess must have shape"),
        (((2, 12), (4,), (4, 2), (4, 2, 2)), "share must have shape"),
        (((2, 14), (4,), (4, 2), (3, 2, 2)), "clean_confusion must have shape"),
    ],
)
def test_shapes_that_do_not_fit_the_responses(shapes, match):
    responses = bf.Responses.from_matrix(np.zeros((5, 4), dtype=int), classes=[0, 1])
    values = [np.full(shape, 1 / shape[-1]) for shape in shapes]
    with pm.Model():
        channel = bf.build.Consensus(*values)
        refused(
            match,
            bf.build.observe,
            responses,
            labels=bf.build.Independent([0.5, 0.5]),
            raters=channel,
        )


THRESHOLDS = np.array([[-1.2, 0.1, 0.9], [-0.3, 0.6, 2.5]])
PRECISION = np.array([1.3, 2.6])
RATE = np.array([0.1, 0.02])
POSITIONS = np.array([-1.5, -0.4, 0.2, 1.5])
GUESS = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.1, 0.7]])


GIVEN = {
    "thresholds": THRESHOLDS,
    "precision": PRECISION,
    "guess_rate": RATE,
    "guess": GUESS,
    "positions": POSITIONS,
}


def channel(**changed):
    return bf.build.Graded(**GIVEN | changed)


def rows(**changed):
    return channel(**changed).parameters["confusion"]


def test_rows_are_the_shares_of_noisy_items_between_thresholds():
    """Integrated over the noise on a grid."""
    grid = np.linspace(-9, 9, 200_001)
    weight = norm.pdf(grid) * (grid[1] - grid[0])
    for m in range(2):
        for k in range(4):
            seen = POSITIONS[k] + grid / PRECISION[m]
            answer = np.searchsorted(THRESHOLDS[m], seen)
            share = np.bincount(answer, weight, minlength=4)
            expected = (1 - RATE[m]) * share + RATE[m] * GUESS[m]
            assert_close(rows()[m, k], expected, "row", rtol=0, atol=1e-4)
    assert_close(rows().sum(axis=-1), np.ones((2, 4)), "sum of a row")


def test_kernels():
    table = bf.Responses.from_matrix([[0, 1], [3, 3], [2, -1]], classes=range(4))
    check_rater_channel(channel(), (np.log(rows()),), table)


def test_tensors_give_the_same_rows():
    tensors = {name: pt.as_tensor(value) for name, value in GIVEN.items()}
    found = bf.build.Graded(**tensors).parameters["confusion"].eval()
    assert_close(found, rows(), "rows by tensors", rtol=1e-12)


def test_far_tails_are_exact():
    far = bf.build.Graded([[-9.0, 9.0]], [1.0], positions=[-1.0, 0.0, 1.0]).parameters["confusion"]
    assert_close(far[0, 0, 2], norm.sf(10.0), "upper tail", rtol=1e-9)
    assert_close(far[0, 2, 0], norm.cdf(-10.0), "lower tail", rtol=1e-9)


def test_gradients():
    """Of the log rows with respect to all arguments, against central differences."""
    inputs = {name: pt.as_tensor(value) for name, value in GIVEN.items()}
    weight = np.random.default_rng(1).random((2, 4, 4))
    total = (weight * pt.log(bf.build.Graded(**inputs).parameters["confusion"])).sum()
    for name, value in GIVEN.items():
        slope = pt.grad(total, inputs[name]).eval()
        for place in np.ndindex(value.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = value.copy()
                moved[place] += step
                ends.append((weight * np.log(rows(**{name: moved}))).sum())
            # central differences lose rounding / step
            assert abs(slope[place] - (ends[0] - ends[1]) / 2e-6) < 1e-6, (name, place)


def test_two_classes_are_ordinary_rows():
    sensitivity, specificity = np.array([0.9, 0.6]), np.array([0.7, 0.95])
    low, high = norm.ppf(specificity), norm.ppf(1 - sensitivity)
    precision = low - high
    cut = (low + high) / 2 / precision
    found = bf.build.Graded(cut[:, None], precision).parameters["confusion"]
    ordinary = [[[q, 1 - q], [1 - p, p]] for p, q in zip(sensitivity, specificity, strict=True)]
    assert_close(found, ordinary, "rows", rtol=1e-12)


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"thresholds": [[1.0, 0.5, 2.0]] * 2}, "thresholds must increase"),
        ({"positions": [0.0, 1.0, 1.0, 2.0]}, "positions must increase"),
        ({"positions": [0.0, 1.0]}, "one number per class"),
        ({"precision": [1.0, 0.0]}, "precision must be positive"),
        ({"guess_rate": 1.5}, "must be a probability"),
    ],
)
def test_constants_out_of_range(changed, rule):
    refused(rf"{rule}.* Got: ", channel, **changed)


@pytest.mark.parametrize(
    ("table", "rule"),
    [
        (bf.Responses.from_matrix([[0, 1], [1, 2]]), "one less than classes"),
        (bf.Responses.from_matrix([[0, 1, 2], [3, 1, 2]]), "one row or number per rater"),
        (bf.Responses.from_matrix([["a", "b"], ["c", "d"]]), "need ordered classes"),
    ],
)
def test_tables_that_do_not_fit(table, rule):
    labels = bf.build.Independent(np.full(table.n_classes, 1 / table.n_classes))
    with pm.Model(), pytest.raises(ModelError, match=rf"{rule}.* Got: "):
        bf.build.observe(table, labels=labels, raters=channel())
