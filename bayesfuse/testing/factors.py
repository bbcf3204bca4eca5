"""Label priors against enumeration of all labels, and the contract of rater channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy.special import logsumexp

from bayesfuse.data.responses import Responses
from bayesfuse.labels import Independent
from bayesfuse.labels.base import LabelPrior
from bayesfuse.numerics.kernels import Array, rescale
from bayesfuse.parameters.factor import Integers, Structure, Tables, weight_of
from bayesfuse.raters.base import RaterChannel
from bayesfuse.results.fitted import Fitted, bind
from bayesfuse.testing.calibration import assert_close, assert_frequencies


@dataclass(frozen=True)
class Enumerated:
    """Posterior of the labels, from :func:`enumerate_labels`."""

    total: float
    probability: Array
    expected: Tables
    configurations: Integers
    weight: Array


def enumerate_labels(
    prior: LabelPrior, log_parameters: Tables, log_lik: Array, structure: Structure
) -> Enumerated:
    """Sum over all ``classes ** items`` configurations of the labels: slow but exact.

    The normalising constant is that of ``prior.log_prob``, which for labels on a graph with cycles
    may be an approximation; probabilities do not depend on it.

    Parameters
    ----------
    prior : LabelPrior
    log_parameters : tuple of ndarray
        Logarithms of the parameters of the prior, in their order; log-odds and couplings unchanged.
        Or the kernels' tables, from ``prior.expand``.
    log_lik : ndarray, shape (items, classes)
    structure : tuple of ndarray: from ``prior.structure``, with every item once

    Returns
    -------
    Enumerated
        ``total`` log evidence, ``probability`` (items, classes), ``expected`` uses of each entry of
        the kernels' tables, and ``configurations`` (number, items) with their posterior ``weight``.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> prior, log_lik = bf.build.Independent([0.7, 0.3]), np.log([[0.8, 0.1], [0.3, 0.6]])
    >>> structure = prior.structure(bf.Responses.from_matrix([[0, 1], [1, 1]]))
    >>> posterior = bf.testing.enumerate_labels(prior, (np.log([0.7, 0.3]),), log_lik, structure)
    >>> posterior.probability.round(2).tolist()
    [[0.95, 0.05], [0.54, 0.46]]
    """
    n_items, n_classes = log_lik.shape
    tables = _tables(prior, log_parameters, n_classes)
    configurations = np.array(list(product(range(n_classes), repeat=n_items)))
    all_items = np.arange(n_items)
    log_prior = [prior.log_prob(tables, labels, structure) for labels in configurations]
    log_joint = np.array(log_prior) + log_lik[all_items, configurations].sum(axis=1)
    total = float(logsumexp(log_joint))
    weight = np.exp(log_joint - total)
    probability = np.zeros((n_items, n_classes))
    expected = [np.zeros_like(rows, dtype=float) for rows in tables]
    for labels, share in zip(configurations, weight, strict=True):
        probability[all_items, labels] += share
        for sum_, counts in zip(
            expected, prior.sample_counts(labels, structure, n_classes), strict=True
        ):
            sum_[...] += share * counts
    return Enumerated(total, probability, tuple(expected), configurations, weight)


def _tables(prior: LabelPrior, log_parameters: Tables, n_classes: int) -> Tables:
    """Return the tables of kernels; arrays with other axes than the parameters are tables."""
    axes = [len(parameter.dims) for parameter in prior.used_parameters]
    if [np.ndim(value) for value in log_parameters] != axes:
        return log_parameters
    return prior.expand(log_parameters, n_classes, np)


def relative(log_lik: Array) -> tuple[Array, Array]:
    """Return likelihoods (items, classes) relative to the largest of an item, and log scales."""
    likelihood = log_lik.copy()
    return likelihood, np.array([rescale.py_func(likelihood, n) for n in range(len(likelihood))])


def check_label_prior(
    prior: LabelPrior,
    log_parameters: Tables,
    log_lik: Array,
    structure: Structure,
    *,
    draws: int = 4000,
    random_seed: int = 0,
) -> None:
    """Compare a label prior's kernels with enumeration; arguments as of :func:`enumerate_labels`.

    Log evidence, label probabilities and expected counts must agree to rounding (if the prior is
    exact), decoded labels must be a mode (among those that differ in one label, for a local
    decoder), and drawn configurations must have the right frequencies (chi-square test at level
    10⁻⁵). Draws of priors with ``moves_labels`` are thinned by ten.

    Raises
    ------
    AssertionError : names the quantity and its worst entry

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> prior, log_lik = bf.build.Independent([0.7, 0.3]), np.log([[0.8, 0.1], [0.3, 0.6]])
    >>> structure = prior.structure(bf.Responses.from_matrix([[0, 1], [1, 1]]))
    >>> bf.testing.check_label_prior(prior, (np.log([0.7, 0.3]),), log_lik, structure)
    """
    log_parameters = _tables(prior, log_parameters, log_lik.shape[1])
    exact = enumerate_labels(prior, log_parameters, log_lik, structure)
    likelihood, log_scale = relative(log_lik)
    computed = prior.marginal(log_parameters, likelihood, log_scale, structure)
    arrays = computed.log_evidence, computed.probability, *computed.expected
    for actual, reference in combinations(arrays, 2):
        assert not np.shares_memory(actual, reference), (
            "outputs share memory, which PyTensor overwrites"
        )
    if prior.capabilities.exact:
        assert_close(computed.total, exact.total, "log evidence", rtol=1e-9)
        assert_close(computed.probability, exact.probability, "label probability", atol=1e-9)
        expected_counts = prior.used(computed.expected, log_parameters, structure)
        for name, actual, reference in zip(
            prior.parameters, expected_counts, exact.expected, strict=True
        ):
            assert_close(actual, reference, f"expected counts of {name}", atol=1e-8)
    if prior.capabilities.adds_up:
        assert_close(computed.log_evidence.sum(), exact.total, "sum of the units' log evidence")
    labels = prior.decode(log_parameters, likelihood, structure)
    differ = (exact.configurations != labels).sum(axis=1)
    is_near = differ <= (1 if not prior.capabilities.decodes_exactly else len(labels))
    chosen = exact.weight[differ == 0][0]
    assert_close(chosen, exact.weight[is_near].max(), "probability of the decoded labels")
    rng = np.random.default_rng(random_seed)
    radix = log_lik.shape[1] ** np.arange(len(log_lik))[::-1]
    counts = np.zeros(len(exact.weight))
    labels = prior.draw(log_parameters, likelihood, structure, rng)
    for _ in range(draws):
        for _ in range(10 if prior.capabilities.moves_labels else 1):
            labels = prior.draw(log_parameters, likelihood, structure, rng, labels)
        counts[labels @ radix] += 1
    impossible = exact.weight < 1e-14
    assert not counts[impossible].any(), (
        f"drew impossible labels {exact.configurations[impossible]}"
    )
    assert_frequencies(counts, exact.weight, "drawn labels")


N_HIDDEN_DRAWS = 1000  # of hidden variables, whose mean is compared with its expectation


def check_rater_channel(
    channel: RaterChannel,
    tables: Tables,
    responses: Responses,
    *,
    values: Tables | None = None,
    step: float = 1e-6,
) -> None:
    """Check the kernels of a rater channel.

    The probabilities of all possible answers to an item must sum to one for every truth; expected
    counts must be the derivative of the weighted log-likelihood (central differences), which lies
    above its tangents, as EM needs; a known truth must rule out the other classes. With ``values``,
    the logarithms that ``expand`` turns into these tables, counts that ``collapse`` returns must be
    the derivatives by them, the dimensions of parameters must be known, and predictions for some of
    the raters, in another order, must be those of the channel.

    Raises
    ------
    AssertionError : names the quantity and its worst entry
    ModelError : dimensions of parameters that ``sizes`` does not know; settings of predictions

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 1], [1, 1], [0, -1]], missing=-1)
    >>> tables = (np.log([[[0.8, 0.2], [0.3, 0.7]], [[0.9, 0.1], [0.4, 0.6]]]),)
    >>> channel = bf.build.Confusion(None)  # kernels take the tables, not the variables of a model
    >>> bf.testing.check_rater_channel(channel, tables, responses)
    """
    n_items, n_classes = responses.n_items, responses.n_classes
    if values is not None:
        _check_collapse(channel, values, tables, n_classes)
        _check_raters(channel, values, responses)
    unknown = np.full(n_items, -1)
    structure = channel.structure(responses, unknown)
    rng = np.random.default_rng(0)
    weight = rng.random((n_items, n_classes))

    def total(*changed: Array) -> float:
        return float((weight * channel.log_lik(changed, structure)).sum())

    # central differences lose rounding / step, and the third derivative times step²
    error = max(abs(total(*tables)), 1.0) * 1e-15 / step + 1e-6
    counts = channel.expected_kernel(*tables, weight, *structure)
    for computed, slope in zip(counts, _slopes(total, tables, step), strict=True):
        assert_close(computed, slope, "expected counts", atol=error)
    labels = channel.log_lik(tables, structure).argmax(axis=1)
    expected = channel.expected_kernel(*tables, np.eye(n_classes)[labels], *structure)
    drawn = [channel.sample_counts(tables, labels, structure, rng) for _ in range(N_HIDDEN_DRAWS)]
    for counts, weighed in zip(zip(*drawn, strict=True), expected, strict=True):
        # the sample variance of rare counts is unreliable
        error = np.sqrt(
            np.maximum(np.var(counts, axis=0), np.minimum(weighed, 1.0)) / N_HIDDEN_DRAWS
        )
        gap = np.abs(np.mean(counts, axis=0) - weighed)
        assert (gap <= 5 * error + 1e-3 * weighed + 1e-9).all(), (
            "sampled counts differ from expected counts"
        )
    _check_tangent(channel, tables, structure)
    gold = np.arange(n_items) % n_classes
    known = channel.log_lik(tables, channel.structure(responses, gold))
    free = channel.log_lik(tables, structure)
    only = np.where(np.arange(n_classes) == gold[:, None], free, -np.inf)
    assert_close(known, only, "log-likelihood of known labels")
    first = int(np.argmax(responses.per_item))
    mass = np.zeros(n_classes)
    for other in outcomes(channel, responses, first):
        mass += np.exp(channel.log_lik(tables, channel.structure(other, unknown))[first])
    assert_close(mass, np.ones(n_classes), "sum of the probabilities of all answers")


def outcomes(channel: RaterChannel, responses: Responses, item: int) -> Iterator[Responses]:
    """Yield the table with all that might have been observed of an item in its place."""
    items, response_codes, n_codes = channel.response_codes(responses)
    of_item = items == item
    for codes in product(range(n_codes), repeat=int(of_item.sum())):
        response_codes[of_item] = codes
        yield channel.from_response_codes(responses, response_codes)


def _check_collapse(channel: RaterChannel, values: Tables, tables: Tables, n_classes: int) -> None:
    """Check that counts of tables become those of the values, whose tables are linear in them."""
    rng = np.random.default_rng(1)
    for table, expanded in zip(tables, channel.expand(values, n_classes, np), strict=True):
        assert_close(expanded, table, "tables from values")
    counts = tuple(rng.random(table.shape) for table in tables)

    def total(*changed: Array) -> float:
        pairs = zip(counts, channel.expand(changed, n_classes, np), strict=True)
        return sum(float((count * table).sum()) for count, table in pairs)

    slopes = _slopes(total, values, 1.0)
    for computed, slope in zip(channel.collapse(counts), slopes, strict=True):
        assert_close(computed, slope, "collapsed counts", atol=1e-9)


def _slopes(function: Callable[..., float], arrays: Tables, step: float) -> list[Array]:
    """Return central differences of a function by every entry of its arguments."""
    moved = tuple(np.array(array, dtype=float) for array in arrays)
    slopes = [np.empty_like(array) for array in moved]
    for table, slope in zip(moved, slopes, strict=True):
        for index in np.ndindex(table.shape):
            value = table[index]
            table[index] = value + step
            above = function(*moved)
            table[index] = value - step
            slope[index] = (above - function(*moved)) / (2 * step)
            table[index] = value
    return slopes


def _check_raters(channel: RaterChannel, values: Tables, responses: Responses) -> None:
    """Check shapes, and predictions for all raters but the first, in reverse order."""
    pairs = [*zip(channel.used_parameters, values, strict=True)]
    by_name = {parameter.name: parameter.support.from_kernel(value) for parameter, value in pairs}
    channel.check({name: value.shape for name, value in by_name.items()}, responses)
    if channel.needs or any("item" in p.dims for p, _ in pairs) or responses.silent is not None:
        return
    by_name["prevalence"] = np.full(responses.n_classes, 1 / responses.n_classes)
    drawn = {name: value[None, None] for name, value in by_name.items()}
    arguments: Any = {}, channel.settings(), [], drawn, {}, responses.raters, responses.classes
    fitted, probabilities = Fitted(Independent, type(channel), *arguments), []
    first, *others = responses.raters.tolist()
    frame = responses.without_statements().to_frame()
    for raters in ([first, *others], others[::-1]):
        names: Any = {"items": responses.items, "raters": raters, "classes": responses.classes}
        table = Responses.from_long(frame[frame["rater"] != first], **names)
        predicted, by_rater, _ = bind(fitted, table, {})
        rows = predicted.rows({name: value[0, 0] for name, value in by_rater.items()})
        probabilities.append(predicted.by_item(predicted.marginal(rows).probability))
    name = "labels predicted from some raters, in another order (see by_rater, settings)"
    assert_close(probabilities[1], probabilities[0], name, atol=1e-9)


def _check_tangent(channel: RaterChannel, tables: Tables, structure: Structure) -> None:
    """Check that the log-likelihood at random other tables lies above its tangent at these."""
    rng = np.random.default_rng(1)
    moved_tables = [np.array(table + rng.standard_normal(table.shape)) for table in tables]
    for table, moved in zip(tables, moved_tables, strict=True):
        rows = np.isclose(np.exp(np.atleast_1d(table)).sum(axis=-1), 1.0)  # sum to one again
        moved[rows] -= logsumexp(moved[rows], axis=-1, keepdims=True)
    log_lik, tangent = (
        channel.log_lik(parameters, structure) for parameters in (tuple(moved_tables), tables)
    )
    for weight in np.eye(tangent.size).reshape(-1, *tangent.shape):  # one item, one class
        slope = channel.expected_kernel(*tables, weight, *structure)
        tangent += weight * (weight_of(tuple(moved_tables), slope) - weight_of(tables, slope))
    name = "log-likelihood below its tangent, but EM needs it convex in the tables"
    assert_close(np.minimum(log_lik, tangent), tangent, name, rtol=1e-9, atol=1e-9)
