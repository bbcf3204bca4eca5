"""What explains the errors of raters: regressions on traits of items and raters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array
from bayesfuse.data.names import places
from bayesfuse.errors import ModelError, brief, require_count, require_seed
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import check
from bayesfuse.results.contents import class_names, constants, evenly_spaced, require_rows
from bayesfuse.results.joint_labels import stored
from bayesfuse.results.summaries import tails

PRIOR_SD = 1.5  # of the effect of a trait by one standard deviation, on the logit scale
INTERCEPT_SD = 3.0
SPREADS = np.geomspace(0.02, 2.0, 20)  # standard deviations of effects between raters
STEPS = 12  # of Newton's method


class Effects(NamedTuple):
    """Effects of traits: on average over raters, and by rater."""

    average: pd.DataFrame
    raters: pd.DataFrame


def error_traits(
    result: xr.DataTree,
    traits: pd.DataFrame,
    *,
    draws: int = 200,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> Effects:
    r"""Return how traits of items and raters change the probability of an error.

    For joint draws of the true labels, errors of a rater have a logistic regression on the traits.
    Effects are partially pooled over raters. Items are reweighted in every draw (Bayesian bootstrap
    [1]_), because raters err together on hard items.

    Parameters
    ----------
    result : DataTree with joint draws of the labels, from ``bf.fuse``, ``bf.sample`` or ``bf.fit``
    traits : DataFrame
        A row for every item, or for every item and rater: columns ``item``, perhaps ``rater``, and
        one of numbers for each trait, such as the length of a text, the hour, or 1 if the judge is
        of the family of the model judged. A trait that depends on the truth has names of classes
        (numbers as a categorical column, because others are read as amounts): it is 1 where that is
        the true class. So with the output that is shown first, an effect is the bias of position:
        errors where the right output is shown first.
    draws : int, default 200: number of joint draws of the labels
    ci_prob, random_seed : probability of the intervals, default that of ArviZ, and seed

    Returns
    -------
    average : DataFrame
        By ``trait``: ``effect``, the change of the log-odds of an error per unit of the trait, on
        average over the raters, ``low`` and ``high``; ``positive``, the probability that it is
        above 0; ``spread``, the standard deviation of effects between raters.
    raters : DataFrame
        By ``rater`` and ``trait``: ``responses``, ``effect``, ``low``, ``high``, ``positive``.

    Raises
    ------
    ModelError
        A result without joint draws; traits without items, or with missing ones, or neither numbers
        nor classes.

    References
    ----------
    .. [1] Rubin (1981), The Bayesian bootstrap, Annals of Statistics 9, 130–134.

    Examples
    --------
    >>> import pandas as pd, bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(100, 4, 2, random_seed=1)
    >>> model = bf.models.DawidSkene(made.responses)
    >>> result = bf.sample(model, 100, random_seed=1, progressbar=False, quiet=True)
    >>> length = pd.DataFrame({"item": range(100), "length": [1.0, 2.0] * 50})
    >>> average, raters = bf.decisions.error_traits(result, length, draws=20, random_seed=1)
    >>> average["trait"].tolist(), len(raters)
    (['length'], 4)
    """
    require_count("draws", draws)
    rng, level = require_seed(random_seed), tails(ci_prob)
    labels, (item, rater, label) = stored(result), require_rows(result, "A regression of errors")
    if not len(item):
        raise ModelError(
            "A regression of errors needs responses, which are right or wrong. Got: stated "
            "probabilities alone."
        )
    names, values, of_class = _read(result, traits, item, rater)
    n_raters = constants(result).sizes["rater"]
    order = np.argsort(rater, kind="stable")
    parts = np.split(order, np.searchsorted(rater[order], np.arange(1, n_raters)))
    average: list[Array] = []
    by_rater: list[Array] = []
    spreads: list[Array] = []
    scale = np.where(of_class, 1.0, np.maximum(values.std(axis=0), 1e-12))
    centred = np.where(of_class, values, (values - values.mean(axis=0)) / scale)
    for sample in evenly_spaced(draws, len(labels)).tolist():
        check()
        truth = labels[sample, item]
        weight = rng.standard_exponential(labels.shape[1:])[item]
        inputs = np.where(of_class, centred == truth[:, None], centred)
        inputs = np.column_stack([inputs, np.ones(len(item))])
        wrong = (label != truth).astype(float)
        estimates = [
            _regress(inputs[part], wrong[part], weight[part], len(names)) for part in parts
        ]
        effect, variance = (np.stack(column) for column in zip(*estimates, strict=True))
        pooled, between = _pool(effect, variance, rng)
        average.append(pooled.mean(axis=0) / scale)
        by_rater.append(pooled / scale)
        spreads.append(between / scale)
    columns = _summary(np.stack(average), level)
    spread = np.stack(spreads).mean(axis=0)
    table = pd.DataFrame({"trait": names, **columns, "spread": spread})
    raters = np.repeat(constants(result)["rater"].values, len(names))
    number = np.repeat(np.bincount(rater, minlength=n_raters), len(names))
    of_raters = {
        name: values.ravel() for name, values in _summary(np.stack(by_rater), level).items()
    }
    first = {"rater": raters, "trait": names * n_raters, "responses": number}
    return Effects(table, pd.DataFrame({**first, **of_raters}))


def _read(
    result: xr.DataTree, traits: Any, item: NDArray[np.int64], rater: NDArray[np.int64]
) -> tuple[list[str], Array, NDArray[np.bool_]]:
    """Return names of traits, values of all responses, and whether they are classes (traits,)."""
    if (
        not isinstance(traits, pd.DataFrame)
        or not set(traits) - {"item", "rater"}
        or "item" not in traits
    ):
        raise ModelError(
            "traits must be a DataFrame with a column 'item', perhaps 'rater', and traits. Got: "
            f"{brief(list(traits)) if isinstance(traits, pd.DataFrame) else brief(traits)}."
        )
    known, classes = constants(result), class_names(result)
    keys = [name for name in ("item", "rater") if name in traits]
    codes = {"item": item, "rater": rater}
    rows = pd.DataFrame({key: codes[key] for key in keys})
    if traits.duplicated(keys).any():
        raise ModelError(f"traits must have one row for every {' and '.join(keys)}. Got: several.")
    by_code = {key: places(as_array(traits[key]), known[key].values) for key in keys}
    joined = rows.merge(traits.assign(**by_code), on=keys, how="left")
    names = [name for name in traits if name not in keys]
    values, of_class = np.empty((len(joined), len(names))), np.zeros(len(names), dtype=bool)
    for at, name in enumerate(names):
        column = joined[name]
        if column.isna().any():
            first = rows[column.isna().to_numpy()].iloc[0]
            missing = [known[key].values[first[key]] for key in keys]
            raise ModelError(
                f"Every response needs a value of {name!r}. Got: none for {brief(missing)}."
            )
        of_class[at] = not pd.api.types.is_numeric_dtype(column)
        if of_class[at]:
            values[:, at] = places(column.to_numpy(), np.asarray(classes))
            if values[:, at].min() < 0:
                raise ModelError(
                    f"A trait must have numbers, or names of classes ({classes}). Got: {name!r} "
                    f"with {brief(column.iloc[int(values[:, at].argmin())])}."
                )
        else:
            values[:, at] = column.to_numpy(dtype=float)
            if not np.isfinite(values[:, at]).all() or not np.ptp(values[:, at]):
                raise ModelError(
                    "A trait explains errors by finite numbers that differ between responses. Got: "
                    f"{name!r} with {brief(sorted(set(values[:3, at].tolist())))}."
                )
    return [*map(str, names)], values, of_class


def _regress(inputs: Array, wrong: Array, weight: Array, n_traits: int) -> tuple[Array, Array]:
    """Return effects of traits in a penalised logistic regression, and their variances."""
    precision = np.full(inputs.shape[1], INTERCEPT_SD**-2)
    precision[:n_traits] = PRIOR_SD**-2
    at = np.zeros(inputs.shape[1])
    curvature = np.diag(precision)
    for _ in range(STEPS):
        probability = 1.0 / (1.0 + np.exp(-np.clip(inputs @ at, -30.0, 30.0)))
        spread = weight * probability * (1.0 - probability)
        curvature = (inputs.T * spread) @ inputs + np.diag(precision)
        step = np.linalg.solve(
            curvature, inputs.T @ (weight * (wrong - probability)) - precision * at
        )
        at = at + step * min(1.0, 2.0 / max(np.abs(step).max(), 1e-12))
    return at[:n_traits], np.diag(np.linalg.inv(curvature))[:n_traits]


def _pool(effect: Array, variance: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw the effects of raters (raters, traits), and their spread (traits,).

    The prior of an effect in a regression is taken out again before raters are pooled.
    """
    information = np.maximum(1.0 / variance - PRIOR_SD**-2, 1e-6)
    effect, variance = effect / variance / information, 1.0 / information
    total = variance + SPREADS[:, None, None] ** 2  # (spreads, raters, traits)
    precision = (1.0 / total).sum(axis=1) + PRIOR_SD**-2
    mean = (effect / total).sum(axis=1) / precision
    log_density = -0.5 * (np.log(total) + (effect - mean[:, None]) ** 2 / total).sum(axis=1)
    log_density -= 0.5 * (np.log(precision) + (mean / PRIOR_SD) ** 2 + SPREADS[:, None] ** 2)
    log_density += np.log(SPREADS)[:, None]  # half-normal, on a logarithmic grid
    weight = np.exp(log_density - log_density.max(axis=0))
    weight /= weight.sum(axis=0)
    which = (rng.random(weight.shape[1]) > weight.cumsum(axis=0)).sum(axis=0)
    which, traits = np.minimum(which, len(SPREADS) - 1), np.arange(weight.shape[1])
    spread = SPREADS[which]
    average, share = mean[which, traits], spread**2 / (spread**2 + variance)
    # estimates of reweighted items already vary as estimates do; shrunken ones vary too little
    noise = np.sqrt(share * (1.0 - share) * variance) * rng.standard_normal(variance.shape)
    pooled = share * effect + (1.0 - share) * average + noise
    return pooled, spread


def _summary(drawn: Array, level: tuple[float, float]) -> dict[str, Array]:
    """Return the mean over draws (draws, …), its interval, and the probability to be positive."""
    low, high = np.quantile(drawn, level, axis=0)
    columns = {"effect": drawn.mean(axis=0), "low": low, "high": high}
    return columns | {"positive": (drawn > 0.0).mean(axis=0)}
