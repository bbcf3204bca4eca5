"""What to do with a posterior: which labels to doubt, whom to ask next, whom to trust most."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError
from bayesfuse.model import observed
from bayesfuse.observation import Observation, Rows
from bayesfuse.paths import draw_labels
from bayesfuse.points import spread
from bayesfuse.posterior import label_probabilities
from bayesfuse.responses import Responses
from bayesfuse.simplex import Array
from bayesfuse.summaries import balanced_accuracy, most_uncertain, posterior_draws

ROWS_AT_ONCE = 2_000_000
"""Responses in the tables with one more response that are in memory at one time."""


def rank_items(result: xr.DataTree, *, by: Literal["error", "entropy"] = "error") -> pd.DataFrame:
    r"""List the items by how unsure their labels are, the least sure first.

    Parameters
    ----------
    result : DataTree
        With label probabilities.
    by : {"error", "entropy"}
        By the probability that the most probable label is wrong, or by the entropy of all classes:
        with more than two they may differ.

    Returns
    -------
    DataFrame
        One row per item: ``item``, ``label`` (the most probable), ``error`` (the probability that
        it is wrong) and ``entropy`` (:math:`-\sum_k p_k \log p_k`, in nats).

    Raises
    ------
    ModelError
        No label probabilities, or another ``by``.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> point = bf.find_map(DawidSkene(bf.datasets.anesthesia()))
    >>> bf.decisions.rank_items(point)["item"].head(3).tolist()
    [30, 32, 7]
    """
    if by not in ("error", "entropy"):
        raise ModelError(f"Items are ranked by 'error' or 'entropy'. Got: {by!r}.")
    probability = most_uncertain(result)  # by error
    values = probability.values
    table = pd.DataFrame(
        {
            "item": probability["item"].values,
            "label": probability["class"].values[values.argmax(axis=1)],
            "error": 1 - values.max(axis=1),
            "entropy": _entropy(values),
        }
    )
    if by == "error":
        return table
    return table.sort_values(by, ascending=False, kind="stable", ignore_index=True)


def expected_errors(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    draws: int = 1000,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    r"""Say how many of the most probable labels are wrong: the expected number and an interval.

    The expectation is :math:`\sum_n (1 - \max_k p_{nk})`, exactly. For the interval labels are
    drawn jointly (with the model), so that it counts that errors come together: a rater worse than
    thought, a sequence misread. Without the model labels count as independent given the data, the
    number of errors as Poisson-binomial, and the interval is too narrow where raters are few or
    the posterior of their quality is wide.

    Parameters
    ----------
    result : DataTree
        With label probabilities.
    model : pymc.Model, optional
        The model it is of.
    draws : int, default 1000
        Joint draws of the labels, with a model.
    ci_prob : float, optional
        Probability of the (equal-tailed) interval. Default ``az.rcParams["stats.ci_prob"]``.
    random_seed : int, Generator, optional
        For the joint draws.

    Returns
    -------
    Dataset
        Numbers ``expected``, ``low``, ``high`` and ``items`` (how many labels there are, copies of
        an item included). The attribute ``method`` says where the interval is from.

    Raises
    ------
    ModelError
        A result without label probabilities, or of another model; with a model, a table of counts.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> model = DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=200, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.decisions.expected_errors(result, model, random_seed=1)
    >>> bool(found["low"] <= found["expected"] <= found["high"]), int(found["items"])
    (True, 45)
    """
    import arviz as az

    probability = label_probabilities(result)
    error = 1 - probability.max("class").values
    copies = _copies(result, len(error))
    tail = (1 - (ci_prob or az.rcParams["stats.ci_prob"])) / 2
    if model is None:
        method = "independent items"
        below = _number_of_errors(error, copies).cumsum()
        low, high = (int(np.searchsorted(below, q)) for q in (tail, 1 - tail))
    else:
        method = "joint draws of the labels"
        drawn = draw_labels(result, model, draws, random_seed=random_seed)
        best = probability.sel(item=drawn["item"]).values.argmax(axis=1)
        wrong = (drawn.values != best).sum(axis=1)
        low, high = np.quantile(wrong, [tail, 1 - tail], method="inverted_cdf")
    numbers = {
        "expected": float(copies @ error),
        "low": float(low),
        "high": float(high),
        "items": int(copies.sum()),
    }
    return xr.Dataset(numbers, attrs={"method": method})


def value_of_response(
    result: xr.DataTree,
    model: pm.Model,
    *,
    raters: Any = None,
    candidates: int = 20,
    most: int = 3,
    of: Literal["errors", "entropy"] = "errors",
    repeats: bool = False,
    draws: int = 50,
) -> xr.Dataset:
    r"""Say for every item what one more response would be worth, and from whom.

    With :math:`J_{kc} = \mathrm{E}_\theta[p(y_n = k \mid x, \theta)\, p(c \mid k, x_n, \theta)]`,
    the probability that item n is of class k *and* the rater will say c, the expected number of
    wrong labels falls by :math:`\sum_c \max_k J_{kc} - \max_k \sum_c J_{kc}`, and the entropy by
    the mutual information of label and response. Both are exact sums over the classes; the mean
    over θ is taken at some draws of the posterior.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample`` (or ``bf.find_map``).
    model : pymc.Model
        The model it is of.
    raters : list of names, optional
        Who could be asked. Default the ``candidates`` raters of highest balanced accuracy.
    candidates : int, default 20
        How many, where they are not named.
    most : int, default 3
        How many raters to return for each item.
    of : {"errors", "entropy"}
        What is to fall: the expected number of wrong labels, or the entropy (in nats).
    repeats : bool, default False
        Whether raters may be asked again for an item they answered. The model takes a second
        answer for independent of the first, which few raters' are.
    draws : int, default 50
        Evenly spaced posterior draws to average over.

    Returns
    -------
    Dataset, dims (item, choice)
        ``rater``, the best choice first, and ``value``; an empty name and NaN where nobody is left
        to be asked. ``now`` (item,), the expected error or entropy as things stand.

    Raises
    ------
    ModelError
        A result of another model, unknown raters, numbers below one, another ``of``.

    Notes
    -----
    What the response would teach about other items (of its sequence, or through its rater's
    quality) is left out: values are a little too low. Raters of a group know of each other's
    answers here: after two of them, the third is worth little.

    References
    ----------
    Howard (1966), Information value theory, IEEE Transactions on Systems Science and Cybernetics
    2, 22–26. Lindley (1956), Annals of Mathematical Statistics 27, 986–1005 (mutual information).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> model = DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=200, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.decisions.value_of_response(result, model, repeats=True)
    >>> found.sizes["choice"], bool((found["value"] <= found["now"] + 1e-9).all())
    (3, True)
    """
    if of not in ("errors", "entropy"):
        raise ModelError(f"A response is worth fewer 'errors' or less 'entropy'. Got: {of!r}.")
    for name, number in (("candidates", candidates), ("most", most), ("draws", draws)):
        if not isinstance(number, int | np.integer) or number < 1:
            raise ModelError(f"{name} must be a whole number, at least 1. Got: {number!r}.")
    _, observation = observed(model)
    responses = observation.responses
    asked = _candidates(result, responses, raters, candidates)
    points = list(spread(result, model, observation, draws))
    probability = np.array(
        [observation.by_item(observation.marginal(p).probability) for p in points]
    )
    n_items, n_classes = probability.shape[1:]
    most = min(most, len(asked))
    value, choice = np.full((n_items, most), np.nan), np.zeros((n_items, most), dtype=np.int64)
    rows_each = (responses.per_item.mean() + 1) * len(asked) * n_classes
    step = max(int(ROWS_AT_ONCE / rows_each), 1)
    for at in range(0, n_items, step):
        part = np.arange(at, min(at + step, n_items))
        joint = _joint(observation, points, probability[:, part], part, asked)
        gain = _fewer_errors(joint) if of == "errors" else _information(joint)
        if not repeats:
            gain[_answered(responses, part, asked)] = -np.inf
        choice[part] = np.argsort(-gain, axis=1, kind="stable")[:, :most]
        value[part] = np.take_along_axis(gain, choice[part], axis=1)
    nobody = value == -np.inf
    names = responses.raters[asked][choice].astype(object)
    names[nobody], value[nobody] = "", np.nan
    mean = probability.mean(axis=0)
    now = 1 - mean.max(axis=1) if of == "errors" else _entropy(mean)
    pair = ("item", "choice")
    return xr.Dataset(
        {"rater": (pair, names), "value": (pair, value), "now": ("item", now)},
        {"item": responses.items, "choice": np.arange(1, most + 1)},
        {"of": of, "draws": len(points)},
    )


def rank_raters(
    result: xr.DataTree,
    by: Literal["balanced_accuracy", "accuracy", "sensitivity", "specificity"]
    | xr.DataArray = "balanced_accuracy",
    *,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Rank the raters, with the posterior probability of every rank.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, with ``confusion``, ``sensitivity`` and ``specificity``.
    by : str or DataArray, dims (chain, draw, rater)
        "balanced_accuracy" (the mean over classes of how well they are recognised; informedness
        ranks alike), "accuracy" (weighed by the prevalence), with two classes "sensitivity" or
        "specificity", or draws of any quality of one's own.
    ci_prob : float, optional
        Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    Dataset, dims (rater, rank)
        ``probability`` of every rank, the best being 1; ``expected_rank``, ``low`` and ``high``
        (rater,); ``quality``, the posterior mean of what ranks them. Raters in the order of their
        expected rank.

    Raises
    ------
    ModelError
        The result lacks the variables; another ``by``.

    References
    ----------
    Laird & Louis (1989), Empirical Bayes ranking methods, Journal of Educational Statistics 14,
    29–46.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> model = DawidSkene(bf.datasets.caries())
    >>> result = bf.sample(model, draws=200, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.decisions.rank_raters(result)
    >>> found["rater"].values.tolist()[0], found.sizes["rank"]
    ('dentist 2', 5)
    """
    import arviz as az

    quality = _quality(result, by).transpose("chain", "draw", "rater")
    values = quality.values.reshape(-1, quality.sizes["rater"])
    n_draws, n_raters = values.shape
    order = np.argsort(-values, axis=1, kind="stable")
    counts = np.zeros((n_raters, n_raters))
    for rank in range(n_raters):
        counts[:, rank] = np.bincount(order[:, rank], minlength=n_raters)
    probability = counts / n_draws
    ranks = np.arange(1, n_raters + 1)
    expected = probability @ ranks
    tail = (1 - (ci_prob or az.rcParams["stats.ci_prob"])) / 2
    below = probability.cumsum(axis=1)
    low, high = ((below < q - 1e-12).sum(axis=1) + 1 for q in (tail, 1 - tail))
    found = xr.Dataset(
        {
            "probability": (("rater", "rank"), probability),
            "expected_rank": ("rater", expected),
            "low": ("rater", low),
            "high": ("rater", high),
            "quality": ("rater", values.mean(axis=0)),
        },
        {"rater": quality["rater"].values, "rank": ranks},
        {"by": by if isinstance(by, str) else str(by.name or "quality")},
    )
    return found.isel(rater=np.argsort(expected, kind="stable"))


# ---------------------------------------------------------------- numbers


def _entropy(probability: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(probability > 0, probability * np.log(probability), 0.0)
    return np.maximum(-terms.sum(axis=-1), 0.0)


def _copies(result: xr.DataTree, n_items: int) -> NDArray[np.int64]:
    constants = result["constant_data"].dataset if "constant_data" in result else xr.Dataset()
    if "multiplicity" not in constants:
        return np.ones(n_items, dtype=np.int64)
    copies: NDArray[np.int64] = constants["multiplicity"].values
    return copies


def _number_of_errors(error: Array, copies: NDArray[np.int64]) -> Array:
    """Return the Poisson-binomial distribution of a number of errors, by convolution in pairs."""
    from scipy.signal import convolve
    from scipy.stats import binom

    used = (error > 0) & (copies > 0)
    parts = [
        binom.pmf(np.arange(m + 1), m, q) for q, m in zip(error[used], copies[used], strict=True)
    ] or [np.ones(1)]
    while len(parts) > 1:
        paired = [convolve(*parts[n : n + 2]) for n in range(0, len(parts) - 1, 2)]
        parts = paired + parts[len(parts) - len(parts) % 2 :]
    return np.maximum(parts[0], 0.0)  # a transform may leave rounding below zero


def _quality(result: xr.DataTree, by: Any) -> xr.DataArray:
    if isinstance(by, xr.DataArray):
        return by
    if by == "balanced_accuracy":
        return balanced_accuracy(result)
    if by == "accuracy":
        draws = posterior_draws(result, "prevalence", "confusion")
        right = np.diagonal(draws["confusion"].values, axis1=-2, axis2=-1)
        share = xr.DataArray(right, dims=("chain", "draw", "rater", "class"))
        found = (share * draws["prevalence"].drop_vars("class")).sum("class")
        return found.assign_coords(rater=draws["rater"])
    if by in ("sensitivity", "specificity"):
        draws = posterior_draws(result, by)[by]
        if "class" not in draws.dims:
            return draws
    raise ModelError(
        "Raters are ranked by 'balanced_accuracy', 'accuracy', with two classes by 'sensitivity' "
        "or 'specificity' (with more, give the draws of one class), or by draws. "
        f"Got: {by!r}."
    )


# ---------------------------------------------------------------- one more response


def _candidates(
    result: xr.DataTree, responses: Responses, raters: Any, candidates: int
) -> NDArray[np.int64]:
    """Return the numbers of the raters who could be asked."""
    if raters is None:
        quality = balanced_accuracy(result).mean(("chain", "draw")).values
        return np.argsort(-quality, kind="stable")[:candidates]
    place = {name: m for m, name in enumerate(responses.raters.tolist())}
    if unknown := [name for name in raters if name not in place]:
        raise ModelError(
            "Only raters of the table can be asked, since nothing is known of others. Got: "
            f"{unknown[0]!r}."
        )
    if len(raters) == 0:
        raise ModelError("Somebody must be there to be asked. Got: an empty list of raters.")
    return np.array([place[name] for name in raters])


def _answered(
    responses: Responses, part: NDArray[np.int64], asked: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Say which candidates answered which of some items, (items, candidates)."""
    first, last = responses.start[part[0]], responses.start[part[-1] + 1]
    rows = slice(int(first), int(last))
    item = np.repeat(np.arange(len(part)), responses.per_item[part])
    number = np.full(responses.n_raters, -1)
    number[asked] = np.arange(len(asked))
    own = number[responses.cell[rows] // responses.n_classes]
    found = np.zeros((len(part), len(asked)), dtype=bool)
    found[item[own >= 0], own[own >= 0]] = True
    return found


def _joint(
    observation: Observation,
    points: list[Rows],
    probability: Array,
    part: NDArray[np.int64],
    asked: NDArray[np.int64],
) -> Array:
    """Return p(class, next response) of some items, (items, candidates, classes, labels).

    The response's probability is a ratio of likelihoods, with and without it, so that any channel
    can say what the responses that are there tell about the next.
    """
    responses = observation.responses
    n_classes, n_asked = responses.n_classes, len(asked)
    before = responses._take(part, np.ones(len(part), dtype=np.int64))
    after = _with_one_more(before, asked)
    channel = observation.raters.bare()
    tables = [channel.structure(table, np.full(table.n_items, -1)) for table in (before, after)]
    total = np.zeros((len(part), n_asked, n_classes, n_classes))
    for point, share in zip(points, probability, strict=True):
        log_lik = []
        for structure in tables:
            known, arranged = channel.bare().at(point, structure)
            log_lik.append(known.log_lik(observation.tables(point), arranged))
        now, then = log_lik
        then = then.reshape(len(part), n_asked, n_classes, n_classes)  # (…, label, class)
        possible = now > -np.inf
        base = np.where(possible, now, 0.0)[:, None, None, :]
        ratio = np.exp(np.where(possible[:, None, None, :], then - base, -np.inf))
        total += share[:, None, :, None] * ratio.swapaxes(2, 3)
    return total / len(points)


def _with_one_more(responses: Responses, asked: NDArray[np.int64]) -> Responses:
    """Return every item once for each candidate and label, with that response added."""
    n_classes = responses.n_classes
    n_cells = responses.n_raters * n_classes
    options = (asked[:, None] * n_classes + np.arange(n_classes)).ravel()
    number = np.arange(responses.n_items * len(options))
    copies = responses._take(
        np.repeat(np.arange(responses.n_items), len(options)), np.ones_like(number), number
    )
    old = copies.item * n_cells + copies.cell
    new = number * n_cells + np.tile(options, responses.n_items)
    return Responses._from_key(
        np.concatenate([old, new]), number, responses.raters, responses.classes, None
    )


def _fewer_errors(joint: Array) -> Array:
    gain: Array = joint.max(axis=2).sum(axis=2) - joint.sum(axis=3).max(axis=2)
    return np.maximum(gain, 0.0)


def _information(joint: Array) -> Array:
    label, response = joint.sum(axis=3), joint.sum(axis=2)
    whole = _entropy(joint.reshape(*joint.shape[:2], -1))
    return np.maximum(_entropy(label) + _entropy(response) - whole, 0.0)
