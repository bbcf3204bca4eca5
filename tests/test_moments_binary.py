"""Binary moments: exact on exact populations, right on average on samples, clear when undefined."""

import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.optimize import minimize

import bayesfuse as bf
from bayesfuse.errors import MomentsError
from bayesfuse.moments import binary, completion, imbalance, pairs
from bayesfuse.moments.one_vs_rest import against_rest, one_vs_rest
from bayesfuse.moments.targets import spectrum

SENSITIVITY = np.array([0.9, 0.7, 0.6, 0.8, 0.3])
SPECIFICITY = np.array([0.6, 0.8, 0.5, 0.9, 0.4])  # the last one is worse than random
PREVALENCE = 0.3
CONSISTENT = ["log_linear", "weighted", "least_squares"]


def joint(prevalence, confusion):
    """Enumerate all patterns of conditionally independent raters: patterns, P(pattern, class)."""
    raters, classes, _ = confusion.shape
    patterns = np.array(list(itertools.product(range(classes), repeat=raters)))
    chance = np.stack(
        [prevalence[k] * confusion[np.arange(raters), k, patterns].prod(1) for k in range(classes)],
        axis=1,
    )
    return patterns, chance


def exact(prevalence, confusion):
    """Return the whole population as counts so large that n/(n - 1) is one to 1e-12."""
    patterns, chance = joint(prevalence, confusion)
    return bf.Responses.from_counts(patterns, np.round(chance.sum(1) * 1e14).astype(np.int64))


def two_class(sensitivity=SENSITIVITY, specificity=SPECIFICITY):
    rows = [[specificity, 1 - specificity], [1 - sensitivity, sensitivity]]
    return np.moveaxis(np.array(rows), -1, 0)


def population():
    return exact([1 - PREVALENCE, PREVALENCE], two_class())


def true_v(prevalence=PREVALENCE):
    b = 2 * prevalence - 1
    return np.sqrt(1 - b**2) * (SENSITIVITY + SPECIFICITY - 1)


def sample(rng, items, sensitivity, specificity, prevalence, answered=1.0, truth=None):
    """Labels of so many items, or of those with a given truth; −1 where nobody answered."""
    if truth is None:
        truth = rng.random((items, 1)) < prevalence
    chance = np.where(truth, sensitivity, 1 - specificity)
    says = rng.random(chance.shape) < chance
    return np.where(rng.random(says.shape) < answered, says.astype(int), -1)


def moments(q, items=1000, mean=None):
    """Build what ``covariance`` returns from population moments."""
    q = np.asarray(q, dtype=float)
    mean = np.zeros(len(q)) if mean is None else mean
    overlap = np.broadcast_to(np.asarray(items), q.shape).copy()
    variance = pairs.sampling_variance(mean[:, None], mean, q, overlap)
    pair = ("rater", "other")
    names = np.arange(len(q))
    return xr.Dataset(
        {
            "mean": ("rater", mean),
            "covariance": (pair, q),
            "variance": (pair, variance),
            "overlap": (pair, overlap),
        },
        coords={"rater": names, "other": names},
    )


# ---------------------------------------------------------------- covariance


def test_covariance_of_a_population_is_rank_one_off_its_diagonal():
    found = binary.covariance(population())
    mean = PREVALENCE * (2 * SENSITIVITY - 1) - (1 - PREVALENCE) * (2 * SPECIFICITY - 1)
    q = np.outer(true_v(), true_v())
    np.fill_diagonal(q, 1 - mean**2)
    np.testing.assert_allclose(found["mean"], mean, atol=1e-12)
    np.testing.assert_allclose(found.covariance, q, atol=1e-12)


@pytest.mark.parametrize("items", [2, 3, 4])
def test_sampling_variance_is_exact(items):
    """Against the enumeration of all samples of so many pairs of labels."""
    cells = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]])
    chance = np.array([0.4, 0.05, 0.25, 0.3])
    mean = chance @ cells
    q = chance @ (cells - mean).prod(1)
    # rows: every sample, with its probability and the sample covariance matrix
    draws = np.array(list(itertools.product(range(4), repeat=items)))
    weight = chance[draws].prod(1)
    covariance = np.array([np.cov(cells[draw].T) for draw in draws])
    average = np.tensordot(weight, covariance, 1)
    wanted = np.tensordot(weight, (covariance - average) ** 2, 1)
    entries = np.array([[1 - mean[0] ** 2, q], [q, 1 - mean[1] ** 2]])
    np.testing.assert_allclose(average, entries, atol=1e-12)
    found = pairs.sampling_variance(mean[:, None], mean, entries, np.array(items))
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_covariance_compares_pairs_on_their_common_items():
    rng = np.random.default_rng(1)
    labels = sample(rng, 60, SENSITIVITY, SPECIFICITY, 0.4, answered=0.5)
    labels[:, 4] = -1
    labels[:3, 4] = 1, 0, 1  # one rater with three responses
    found = binary.covariance(bf.Responses.from_matrix(labels))
    frame = pd.DataFrame(np.where(labels < 0, np.nan, 2 * labels - 1))
    np.testing.assert_allclose(found["mean"], frame.mean())
    np.testing.assert_allclose(found.covariance, frame.cov(min_periods=2), atol=1e-14)
    together = (labels >= 0).astype(int)
    np.testing.assert_array_equal(found.overlap, together.T @ together)
    both = (labels[:, 0] >= 0) & (labels[:, 1] >= 0)
    first, second = (2 * labels[both, i].mean() - 1 for i in (0, 1))
    wanted = pairs.sampling_variance(first, second, found.covariance.values[0, 1], both.sum())
    np.testing.assert_allclose(found.variance[0, 1], wanted)


def test_covariance_averages_repeats_within_an_item():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, size=(3, 40, 3))  # three answers by everybody to everything
    _, item, rater = np.indices(labels.shape)
    table = {"item": item.ravel(), "rater": rater.ravel(), "label": labels.ravel()}
    found = binary.covariance(bf.Responses.from_long(table))
    np.testing.assert_allclose(found.covariance, np.cov(2 * labels.mean(0).T - 1), atol=1e-14)
    np.testing.assert_array_equal(found.overlap, np.full((3, 3), 40))


def test_identical_items_count_as_often_as_they_occur():
    rng = np.random.default_rng(3)
    labels = sample(rng, 30, SENSITIVITY, SPECIFICITY, 0.4, answered=0.8)
    counted = bf.Responses.from_counts(labels, rng.integers(0, 5, size=30))
    written_out = counted.expand()
    for function in (binary.covariance, binary.accuracies):
        xr.testing.assert_allclose(function(counted), function(written_out))
    for method in ("likelihood", "tensor"):
        counts, rows = (
            binary.class_imbalance(responses, method).imbalance
            for responses in (counted, written_out)
        )
        assert counts == pytest.approx(rows, abs=1e-6)  # the maximum is flat: √rounding


# ---------------------------------------------------------------- rank one


@pytest.mark.parametrize("method", CONSISTENT)
def test_rank_one_recovers_a_population(method):
    found = completion.rank_one(binary.covariance(population()), method)
    np.testing.assert_allclose(found, true_v(), atol=1e-10)


def test_sdp_recovers_a_population_as_its_penalty_vanishes():
    """No entry may exceed the sum of the others, as with one very good rater among three."""
    found = binary.covariance(population())
    errors = [
        np.abs(completion.rank_one(found, "sdp", penalty=penalty) - true_v()).max()
        for penalty in (1e-2, 1e-4, 1e-6)
    ]
    assert errors[2] < 1e-5
    assert errors[0] > errors[1] > errors[2]


def test_eigen_errs_as_much_as_lemma_3_allows():
    """The diagonal of ones tilts the eigenvector of few raters, and hardly that of many."""
    angles = []
    for copies in (1, 10):
        v = np.tile(true_v(), copies)
        q = np.outer(v, v)
        np.fill_diagonal(q, 1 - np.tile(binary.covariance(population())["mean"], copies) ** 2)
        found = completion.rank_one(moments(q), "eigen").values
        angles.append((found @ v) ** 2 / (found @ found) / (v @ v))
    assert angles[0] < 0.99
    assert angles[1] > 1 - 2 / (v @ v) > 0
    assert angles[1] > angles[0]


def test_least_squares_is_the_best_fit():
    rng = np.random.default_rng(4)
    labels = sample(rng, 80, SENSITIVITY, SPECIFICITY, 0.4, answered=0.7)
    found = binary.covariance(bf.Responses.from_matrix(labels))
    q, weight = found.covariance.values, found.overlap.values.astype(float)
    np.fill_diagonal(weight, 0)

    def loss(v):
        return np.sum(weight * (q - np.outer(v, v)) ** 2)

    bound = np.sqrt(np.diagonal(q))
    best = min(
        minimize(loss, rng.uniform(-bound, bound), bounds=list(zip(-bound, bound, strict=True))).fun
        for _ in range(20)
    )
    v = completion.rank_one(found, "least_squares").values
    assert np.all(np.abs(v) <= bound)
    assert loss(v) <= best * (1 + 1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_log_methods_solve_their_equations(weighted):
    rng = np.random.default_rng(5)
    labels = sample(rng, 2000, SENSITIVITY, SPECIFICITY, 0.4)
    found = binary.covariance(bf.Responses.from_matrix(labels))
    q, variance = found.covariance.values, found.variance.values
    rows, target, weight = [], [], []
    for i, j in itertools.combinations(range(5), 2):
        if weighted or abs(q[i, j]) > 2 * np.sqrt(variance[i, j]):
            rows.append(np.eye(5)[i] + np.eye(5)[j])
            target.append(np.log(abs(q[i, j])))
            weight.append(abs(q[i, j]) / np.sqrt(variance[i, j]) if weighted else 1.0)
    weight = np.array(weight)
    wanted = np.linalg.lstsq(np.array(rows) * weight[:, None], np.array(target) * weight)[0]
    known = ~np.eye(5, dtype=bool)
    diagonal = completion.log_diagonal(q, variance, np.full(5, 0.5), known, weighted)
    np.testing.assert_allclose(diagonal, np.exp(2 * wanted), rtol=1e-9)


@pytest.mark.parametrize("hidden", [False, True])
def test_smallest_trace_is_optimal(hidden):
    """Kuhn–Tucker: the gradient is positive semidefinite and orthogonal to the solution."""
    rng = np.random.default_rng(6)
    q = np.outer(true_v(), true_v()) + rng.normal(0, 0.1, (5, 5))
    q = (q + q.T) / 2
    np.fill_diagonal(q, 1.0)
    known = ~np.eye(5, dtype=bool)
    known[0, 1] = known[1, 0] = not hidden
    r = completion.smallest_trace(q, known, penalty=0.2)
    gradient = np.where(known, 2 * (r - q), 0.0) + 0.2 * np.eye(5)
    assert np.linalg.eigvalsh(r).min() > -1e-12
    assert np.linalg.eigvalsh(gradient).min() > -1e-7
    np.testing.assert_allclose(gradient @ r, 0, atol=1e-7)
    assert np.trace(r) > 0.1


@pytest.mark.parametrize("method", completion.METHODS)
def test_two_items_leave_no_variance_and_no_crash(method):
    """Equal or opposite answers to both items: all sampling variances look like the smallest."""
    responses = bf.Responses.from_matrix([[0, 0, 0, 1], [1, 1, 1, 0]])
    found = completion.rank_one(binary.covariance(responses), method)
    np.testing.assert_array_equal(np.sign(found), [1, 1, 1, -1])


@pytest.mark.parametrize("method", [*CONSISTENT, "sdp"])
def test_pairs_that_share_nothing_are_no_obstacle(method):
    """Raters 0 and 1 never meet, yet their product is known from the others."""
    v = true_v()
    q = np.outer(v, v)
    np.fill_diagonal(q, 1.0)
    overlap = np.full((5, 5), 1000)
    overlap[0, 1] = overlap[1, 0] = 0
    q[0, 1] = q[1, 0] = np.nan
    found = completion.rank_one(moments(q, overlap), method, penalty=1e-7)
    np.testing.assert_allclose(found, v, atol=1e-6 if method == "sdp" else 1e-10)


def test_blocks_are_estimated_and_signed_each_by_itself():
    v = np.array([0.5, 0.4, 0.7, 0.3, 0.6, 0.2, 0.8, 0.5, 0.5])
    q = np.outer(v, v)
    np.fill_diagonal(q, 1.0)
    q[6, 6] = 0.0  # a rater who always says the same
    overlap = np.zeros((9, 9), int)
    overlap[:3, :3] = overlap[3:7, 3:7] = 50
    overlap[7, 8] = overlap[8, 7] = 50  # two raters by themselves
    q[overlap == 0] = np.nan
    q[6, :6] = q[:6, 6] = 0.0
    found = completion.rank_one(moments(q, overlap))
    np.testing.assert_allclose(found[:6], v[:6], atol=1e-10)
    assert found[6] == 0
    assert np.isnan(found[7:]).all()


def test_a_star_determines_nothing():
    """One rater shares items with all others, who share none: v has no scale."""
    linked = np.zeros((4, 4), bool)
    linked[0, 1:] = linked[1:, 0] = True
    assert completion.determined_blocks(linked) == []
    linked[1, 2] = linked[2, 1] = True
    assert [block.tolist() for block in completion.determined_blocks(linked)] == [[0, 1, 2, 3]]


def test_the_sign_is_an_assumption():
    v = np.array([-0.1, -0.1, -0.1, 0.6, 0.6])
    q = np.outer(v, v)
    np.fill_diagonal(q, 1.0)
    np.testing.assert_allclose(completion.rank_one(moments(q), sign="majority"), -v, atol=1e-10)
    np.testing.assert_allclose(completion.rank_one(moments(q)), v, atol=1e-10)
    np.testing.assert_array_equal(completion.orient(np.array([0.1, -0.3]), "majority"), [-0.1, 0.3])


def test_rank_raters_puts_the_unknown_last():
    responses = bf.Responses.from_counts(
        {"000-": 40, "010-": 10, "110-": 20, "111-": 29, "1111": 1},
        missing="-",
        raters=["c", "a", "b", "new"],
    )
    ranked = binary.rank_raters(responses)
    assert ranked.rater.values.tolist() == ["c", "a", "b", "new"]
    assert np.isnan(ranked[-1])
    assert (np.diff(ranked[:3]) < 0).all()


# ---------------------------------------------------------------- imbalance, accuracies


@pytest.mark.parametrize("prevalence", [0.2, 0.5, 0.7])
@pytest.mark.parametrize(("method", "tolerance"), [("tensor", 1e-10), ("likelihood", 1e-6)])
def test_a_population_reveals_prevalence_and_accuracies(prevalence, method, tolerance):
    """The likelihood is flat at its maximum, which is found to the square root of rounding."""
    responses = exact([1 - prevalence, prevalence], two_class())
    found = binary.class_imbalance(responses, method)
    assert found.imbalance == pytest.approx(2 * prevalence - 1, abs=tolerance)
    assert found.prevalence == pytest.approx(prevalence, abs=tolerance)
    quality = binary.accuracies(responses, method=method)
    np.testing.assert_allclose(quality.sensitivity, SENSITIVITY, atol=tolerance)
    np.testing.assert_allclose(quality.specificity, SPECIFICITY, atol=tolerance)
    np.testing.assert_allclose(
        quality.balanced_accuracy, (SENSITIVITY + SPECIFICITY) / 2, atol=tolerance
    )
    given = binary.accuracies(responses, prevalence)
    np.testing.assert_allclose(given.sensitivity, SENSITIVITY, atol=1e-10)
    assert given.attrs == {"prevalence": prevalence, "method": "given", "positive": 1}


def messy():
    """Missing and repeated responses and identical items, with the table behind them."""
    rng = np.random.default_rng(7)
    rows = [
        {"item": n, "rater": m, "label": int(rng.random() < 0.3 + 0.1 * m)}
        for n in range(25)
        for m in range(5)
        for _ in range(rng.choice([0, 1, 3]))
    ]
    return bf.Responses.from_long(pd.DataFrame(rows))


def test_triple_sums_are_those_over_triples():
    responses = messy()
    rng = np.random.default_rng(8)
    mean, v = rng.uniform(-0.5, 0.5, 5), rng.uniform(-0.2, 0.8, 5)
    multiplicity = rng.integers(0, 4, responses.n_items)
    answers = responses.to_frame().groupby(["item", "rater"]).label.mean().unstack()
    z = (2 * answers.to_numpy() - 1 - mean) * v
    wanted = np.zeros(2)
    for i, j, k in itertools.combinations(range(5), 3):
        product = z[:, i] * z[:, j] * z[:, k]
        wanted += (
            np.nansum(multiplicity * product),
            (np.sum(multiplicity[np.isfinite(product)]) * (v[i] * v[j] * v[k]) ** 2),
        )
    found = imbalance.triple_sums(responses.start, responses.cell, multiplicity, mean, v)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_mixture_is_the_likelihood_of_every_response():
    responses = messy()
    table = imbalance.log_table(SENSITIVITY, SPECIFICITY)
    confusion = two_class()
    total = 0.0
    for n in range(responses.n_items):
        mine = responses.item == n
        chance = confusion[responses.rater[mine], :, responses.label[mine]].prod(0)
        total += np.log(0.6 * chance[0] + 0.4 * chance[1])
    rows = responses.start, responses.cell, responses.multiplicity
    found = imbalance.mixture(table, np.log([0.6, 0.4]), *rows)
    assert found == pytest.approx(total / responses.n_items, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["likelihood", "tensor"])
def test_estimates_are_right_on_average_with_missing_and_repeated_responses(method):
    rng = np.random.default_rng(9)
    errors = []
    for _ in range(60):
        truth = rng.random((8000, 1)) < PREVALENCE
        labels = np.stack(
            [sample(rng, None, SENSITIVITY, SPECIFICITY, None, 0.6, truth) for _ in "12"]
        )
        answer, item, rater = np.nonzero(labels >= 0)
        table = {"item": item, "rater": rater, "label": labels[answer, item, rater]}
        found = binary.accuracies(bf.Responses.from_long(table), method=method)
        errors.append(
            [found.attrs["prevalence"] - PREVALENCE, *(found.sensitivity.values - SENSITIVITY)]
        )
    errors = np.array(errors)
    # the estimators are biased in the order of their variance, so that is allowed besides noise
    allowed = 4 * errors.std(0) / np.sqrt(60) + 10 * errors.var(0)
    assert np.all(np.abs(errors.mean(0)) < allowed)
    assert np.all(errors.std(0) < 0.05)


def test_a_rater_without_responses_is_unknown():
    labels = sample(np.random.default_rng(10), 500, SENSITIVITY, SPECIFICITY, 0.4)
    with_ghost = np.column_stack([labels, np.full(500, -1)])
    found = binary.accuracies(bf.Responses.from_matrix(with_ghost))
    without = binary.accuracies(bf.Responses.from_matrix(labels))
    assert np.isnan(found.sensitivity[-1])
    np.testing.assert_allclose(found.sensitivity[:-1], without.sensitivity)


# ---------------------------------------------------------------- fused labels


def test_improved_sml_gives_the_posterior_odds_of_a_population():
    _, chance = joint([1 - PREVALENCE, PREVALENCE], two_class())
    odds = np.log(chance[:, 1] / chance[:, 0])
    found = binary.improved_sml(population(), PREVALENCE, prior=True)
    np.testing.assert_allclose(found.score, odds, atol=1e-9)
    np.testing.assert_array_equal(found.label, (odds > 0).astype(int))
    vote = binary.improved_sml(population(), PREVALENCE)
    prior = np.log(PREVALENCE / (1 - PREVALENCE))
    np.testing.assert_allclose(vote.score, odds - prior, atol=1e-9)


def test_sml_is_the_weighted_vote_of_all_responses():
    responses = messy()
    found = binary.sml(responses)
    v = completion.rank_one(binary.covariance(responses))
    np.testing.assert_array_equal(found.weight, v)
    for n in range(responses.n_items):
        mine = responses.item == n
        score = np.sum((2 * responses.label[mine] - 1) * v.values[responses.rater[mine]])
        assert found.score[n] == pytest.approx(score, abs=1e-12)


def test_ties_and_unanswered_items_get_the_usual_class():
    labels = np.array([["a", "a", "a"]] * 6 + [["b", "b", "b"]] * 4 + [["a", "a", "b"]])
    table = pd.DataFrame(labels).melt(ignore_index=False).reset_index()
    responses = bf.Responses.from_long(
        table, item="index", rater="variable", label="value", items=[*range(11), "nobody"]
    )
    for fused in (binary.sml(responses), binary.improved_sml(responses, 0.4)):
        assert fused.score[-1] == 0
        assert fused.label[-1] == "a"
        assert fused.label[6] == "b"
        assert fused.attrs["positive"] == "b"
    prior = binary.improved_sml(responses, 0.6, prior=True)
    assert prior.score[-1] == pytest.approx(np.log(1.5))
    assert prior.label[-1] == "b"


# ---------------------------------------------------------------- more than one target


def test_residuals_of_one_target_vanish():
    found = spectrum(binary.covariance(population()))
    assert found.statistic < 1e-3  # 1e-10 in units of a standard deviation at n = 1e14
    assert np.isnan(found.p_value)
    wanted = [true_v() @ true_v(), 0, 0, 0, 0]
    np.testing.assert_allclose(found.eigenvalue, wanted, atol=1e-10)


def test_suspicion_falls_on_those_who_share_another_target():
    v = np.array([0.6, 0.5, 0.7, 0.4, 0.0, 0.0, 0.0])
    other = np.array([0.0, 0.0, 0.0, 0.0, 0.5, 0.4, 0.3])
    q = np.outer(v, v) + np.outer(other, other)
    np.fill_diagonal(q, 1.0)
    found = spectrum(moments(q))
    assert np.all(found.suspicion[4:] > 0.3)
    assert np.all(np.abs(found.suspicion[:4]) < 0.1)


def alarms(cartel, rounds, answered, level, seed):
    """Share of tables of eight raters that the test finds suspicious at this level."""
    rng = np.random.default_rng(seed)
    found = 0
    for _ in range(rounds):
        sensitivity, specificity = rng.uniform(0.6, 0.95, (2, 8))
        truth, other = rng.random((2, 800, 1)) < 0.4
        target = np.repeat(truth, 8, axis=1)
        target[:, 8 - cartel :] = other
        labels = sample(rng, None, sensitivity, specificity, None, answered, target)
        p = spectrum(bf.Responses.from_matrix(labels), draws=39, random_seed=rng).p_value
        found += p <= level
    return float(found / rounds)


def test_spectrum_fires_with_a_cartel():
    assert alarms(3, 10, 0.8, 0.05, seed=1) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("answered", [1.0, 0.5])
def test_spectrum_is_quiet_without_a_cartel(answered):
    """The share of false alarms is the level, within three standard errors above."""
    rounds, level = 200, 0.1
    share = alarms(0, rounds, answered, level, seed=2)
    assert share <= level + 3 * np.sqrt(level * (1 - level) / rounds)
    assert share > 0


def test_spectrum_of_few_responses_suspects_nobody():
    """Two items: many a simulated table has no covariances at all, which must not count."""
    responses = bf.Responses.from_matrix([[0, 0, 0, 1], [1, 1, 1, 0]])
    found = spectrum(responses, prevalence=0.5, draws=39, random_seed=1)
    assert found.p_value > 0.1


def test_spectrum_is_reproducible():
    labels = sample(np.random.default_rng(11), 100, SENSITIVITY, SPECIFICITY, 0.4)
    responses = bf.Responses.from_matrix(labels)
    first, second = (spectrum(responses, draws=9, random_seed=3) for _ in "12")
    xr.testing.assert_identical(first, second)


# ---------------------------------------------------------------- one class against the rest


def test_one_vs_rest_recovers_prevalence_and_diagonals():
    """Of raters who know, or guess with their own favourites: the rest is then no mixture."""
    prevalence = np.array([0.5, 0.3, 0.2])
    guess = np.array([[0.1, 0.2, 0.1], [0.3, 0.1, 0.1], [0.1, 0.1, 0.3], [0.2, 0.1, 0.1]])
    confusion = (1 - guess.sum(1))[:, None, None] * np.eye(3) + guess[:, None, :]
    found = one_vs_rest(exact(prevalence, confusion))
    diagonal = np.diagonal(confusion, axis1=1, axis2=2)
    np.testing.assert_allclose(found.prevalence, prevalence, atol=1e-6)
    np.testing.assert_allclose(found.diagonal, diagonal, atol=1e-6)
    np.testing.assert_allclose(found.specificity, 1 - guess, atol=1e-6)
    assert found.attrs["total"] == pytest.approx(1, abs=1e-6)


def test_against_rest_keeps_the_rows_of_repeats_in_order():
    table = {"item": [0] * 5, "rater": [0, 0, 0, 1, 1], "label": [0, 1, 2, 1, 2]}
    part = against_rest(bf.Responses.from_long(table), 1)
    assert part.rater.tolist() == [0, 0, 0, 1, 1]
    assert part.label.tolist() == [0, 0, 1, 0, 1]


# ---------------------------------------------------------------- limits


def test_memory_is_linear_in_the_responses():
    """300 raters × 100,000 items would take 30 MB even as bytes; the table has 300,000 rows."""
    rng = np.random.default_rng(13)
    items = np.repeat(np.arange(100_000), 3)
    table = {
        "item": items,
        "rater": rng.integers(0, 300, items.size),
        "label": rng.integers(0, 2, items.size),
    }
    responses = bf.Responses.from_long(table)
    binary.improved_sml(responses, 0.4)  # compile before measuring
    tracemalloc.start()
    binary.covariance(responses)
    binary.improved_sml(responses, 0.4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # a few columns of the table and of raters × raters


def test_three_classes_are_refused():
    responses = bf.Responses.from_matrix([[0, 1, 2], [0, 1, 1]])
    for function in (binary.covariance, binary.sml, binary.rank_raters, binary.accuracies):
        with pytest.raises(MomentsError, match=r"two classes, .* Got: 3 classes"):
            function(responses)


def test_bad_moments_are_refused():
    good = np.full((3, 3), 0.25) + 0.75 * np.eye(3)
    with pytest.raises(MomentsError, match=r"at least three raters.* Got: 2 raters"):
        completion.rank_one(moments(good[:2, :2]))
    broken = moments(good)
    broken["covariance"][0, 1] = np.nan
    with pytest.raises(MomentsError, match=r"finite .* Got: nan"):
        completion.rank_one(broken)
    with pytest.raises(MomentsError, match=r"share at least two items in pairs.* with 0 pairs"):
        completion.rank_one(moments(good, np.eye(3, dtype=int) * 50))
    with pytest.raises(MomentsError, match=r"method of rank_one is one of .* Got: 'magic'"):
        completion.rank_one(moments(good), "magic")
    with pytest.raises(MomentsError, match=r"sign of rank_one is one of .* Got: 'both'"):
        completion.rank_one(moments(good), sign="both")
    with pytest.raises(MomentsError, match=r"penalty .* positive.* Got: 0"):
        completion.rank_one(moments(good), "sdp", penalty=0)
    with pytest.raises(MomentsError, match=r"four raters.* Got: 3 raters"):
        spectrum(moments(good))


def test_bad_arguments_are_refused():
    responses = population()
    with pytest.raises(MomentsError, match=r"methods of class_imbalance .* Got: 'guess'"):
        binary.class_imbalance(responses, "guess")
    for prevalence in (0, 1, np.nan):
        with pytest.raises(MomentsError, match=rf"between 0 and 1.* Got: {prevalence}"):
            binary.accuracies(responses, prevalence)
    with pytest.raises(MomentsError, match=r"at least one draw.* Got: draws=0"):
        spectrum(responses, draws=0)


def test_raters_who_never_differ_are_refused():
    responses = bf.Responses.from_matrix(np.zeros((9, 4), int), classes=[0, 1])
    with pytest.raises(MomentsError, match=r"do not always say the same.* 0 of them varying"):
        binary.sml(responses)
    with pytest.raises(MomentsError, match="Class 0 against the rest: Three raters"):
        one_vs_rest(bf.Responses.from_matrix([[0, 0, 1], [1, 1, 1], [0, 1, 1]], classes=[0, 1, 2]))


def test_third_moments_need_three_answers_to_an_item():
    """Raters meet in all pairs, but never three of them."""
    rng = np.random.default_rng(14)
    labels = sample(rng, 300, SENSITIVITY[:3], SPECIFICITY[:3], 0.4)
    labels[np.arange(300), np.arange(300) % 3] = -1
    responses = bf.Responses.from_matrix(labels)
    with pytest.raises(MomentsError, match=r"three raters .* Got: none among 300 items"):
        binary.class_imbalance(responses, "tensor")


def test_an_imbalance_at_the_edge_is_refused():
    rare = exact([0.997, 0.003], two_class(SENSITIVITY[:4], np.full(4, 0.99)))
    for method in ("likelihood", "tensor"):
        with pytest.raises(MomentsError, match=r"at the edge.* Got: imbalance -0\.99"):
            binary.class_imbalance(rare, method)
    found = binary.accuracies(rare, prevalence=0.003)
    np.testing.assert_allclose(found.sensitivity, SENSITIVITY[:4], atol=1e-6)
