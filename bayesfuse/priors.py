"""Default priors, and checks of priors given by users."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.arrays import quoted, shown
from bayesfuse.data.responses import Responses
from bayesfuse.data.tags import Tag, read_tags
from bayesfuse.errors import (
    ModelError,
    require_count,
    require_names,
    require_numbers,
    require_positive,
    require_probability,
    require_shape,
    warn,
)
from bayesfuse.parameters.dirichlet import DirichletMixture, stacked

Array = NDArray[np.float64]

WEIGHT = 1.5  # prior responses of a confusion row, besides one for every class

IDENTIFIED = 3  # raters whose agreement identifies their accuracies

RIGHT_WRONG = "outcomes: right, wrong"  # the axis of an accuracy's prior, in messages

N_CONCENTRATIONS = 50  # of a grid over which the prior of groups is averaged

__all__ = ["bio_transitions", "diagonal", "mixture", "robust"]
__dir__ = __all__.copy


def diagonal(n_classes: int, *, weight: float | None = None, accuracy: float = 0.6) -> Array:
    """Dirichlet concentrations of confusion rows with more weight on the diagonal.

    Without ground truth, only this prior identifies the classes: raters are better than chance. One
    rater who is nearly always wrong on a class can outweigh several who are mostly right, which
    :func:`bayesfuse.checks.switching` detects, :func:`robust` makes rare, and known labels prevent.

    Parameters
    ----------
    n_classes : int
    weight : float, optional
        Prior responses that a row counts as. Default K + 1.5.
    accuracy : float, default 0.6: share of them that are right
        Models of fewer than three raters, who do not identify it, have (1 + 1/K) / 2 by default.

    Returns
    -------
    ndarray, shape (classes, labels)

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.priors.diagonal(3, weight=8, accuracy=0.6)
    array([[4.8, 1.6, 1.6],
           [1.6, 4.8, 1.6],
           [1.6, 1.6, 4.8]])
    """
    require_count("n_classes", n_classes, least=2)
    weight = n_classes + WEIGHT if weight is None else require_positive("weight", weight)
    accuracy = require_probability("accuracy", accuracy)
    wrong = weight * (1 - accuracy) / (n_classes - 1)
    rows = np.full((n_classes, n_classes), wrong)
    np.fill_diagonal(rows, weight * accuracy)
    return rows


def usual_rows(responses: Responses) -> Array:
    """Return the default concentrations of a rater's rows, (classes, labels).

    Fewer than three raters do not identify their accuracies, so the prior is then centred halfway
    between chance and one, and its intervals begin near chance.
    """
    n_classes = responses.n_classes
    if responses.n_raters >= IDENTIFIED:
        return diagonal(n_classes)
    return diagonal(n_classes, accuracy=(1 + 1 / n_classes) / 2)


def copied(n_classes: int) -> Array:
    """Return concentrations of the rows of a rater who repeats the verdict of a group."""
    return diagonal(n_classes, weight=n_classes + 4.0, accuracy=0.9)


def robust(
    n_classes: int, *, share: float = 0.2, weight: float | None = None, accuracy: float = 0.6
) -> DirichletMixture:
    """Mixture prior of confusion rows: :func:`diagonal`, or uniform for a small share of rows.

    An inaccurate row lowers the log density by at most about −log ``share``, so one odd rater does
    not switch the labels. With five raters and four classes, two of the raters random, the diagonal
    prior prefers switched labels in one table of nine, this prior in one of fifty.

    Parameters
    ----------
    share : float, default 0.2: prior probability of a uniform row
    n_classes, weight, accuracy : as for :func:`diagonal`

    Returns
    -------
    DirichletMixture, rows of shape (classes, labels)
        For ``confusion_prior=`` of the models. In your own model:
        ``bf.build.dirichlet("confusion", bf.priors.robust(2), shape=(n_raters, 2, 2))``.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> prior = bf.priors.robust(4)
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia(), confusion_prior=prior)
    """
    share = require_probability("share", share)
    rows = diagonal(n_classes, weight=weight, accuracy=accuracy)
    return mixture([1 - share, share], [rows, np.ones_like(rows)])


def mixture(shares: ArrayLike, concentration: ArrayLike) -> DirichletMixture:
    """Mixture of Dirichlet distributions as a prior for rows.

    Parameters
    ----------
    shares : array-like, shape (components,) or (components, …)
        Prior probabilities of the components, for all rows or for each; they sum to one.
    concentration : array-like, shape (components, …, columns)

    Returns
    -------
    DirichletMixture, rows of shape (…, columns)

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> right = bf.priors.diagonal(2)
    >>> bf.priors.mixture([0.9, 0.1], [right, right[:, ::-1]]).mean().round(2)
    array([[0.58, 0.42],
           [0.42, 0.58]])
    """
    alpha = require_numbers("concentration", concentration)
    weights = require_numbers("shares", shares)
    by_row = weights.shape == alpha.shape[:-1]
    if alpha.ndim < 2 or not (by_row or weights.shape == alpha.shape[:1]):
        raise ModelError(
            "shares must have shape (components,) or (components, …), and concentration "
            f"(components, …, columns). Got: shapes {weights.shape} and {alpha.shape}."
        )
    _checked("concentration", alpha)
    if not (np.all(weights > 0) and np.allclose(weights.sum(axis=0), 1.0, rtol=0, atol=1e-8)):
        raise ModelError(f"shares must be positive and sum to one. Got: {weights.tolist()}.")
    if not by_row:
        weights = weights.reshape(-1, *(1 for _ in alpha.shape[1:-1]))
    log_shares = np.log(weights / weights.sum(axis=0))
    return DirichletMixture(np.broadcast_to(log_shares, alpha.shape[:-1]), alpha.copy())


def prevalence(prior: ArrayLike | None, responses: Responses) -> Array:
    """Return the concentration of the prevalence (classes,), by default all ones."""
    return _filled("prevalence_prior", prior, {"classes": responses.n_classes})


def transition(prior: ArrayLike | None, responses: Responses, *, irreducible: bool) -> Array:
    """Return the concentration of the transition rows (classes, classes), by default all ones."""
    from scipy.sparse.csgraph import connected_components  # slow to import

    axes = {"classes": responses.n_classes, "next classes": responses.n_classes}
    alpha = _filled("transition_prior", prior, axes, zeros=True)
    if stuck := responses.classes[~alpha.any(axis=1)].tolist():
        raise ModelError(
            "Every class must have a possible next class, if only itself, so that sequences can "
            f"continue. Got: a transition_prior of zeros for {stuck[0]!r} ({len(stuck)} such)."
        )
    if irreducible and (parts := connected_components(alpha > 0, connection="strong"))[0] > 1:
        unlike = responses.classes[parts[1] != parts[1][0]].tolist()
        raise ModelError(
            'initial="stationary" needs transitions that lead from every class to every other; '
            'otherwise use initial="free". Got: a transition_prior whose zeros separate '
            f"{unlike[0]!r} from {responses.classes.tolist()[0]!r}."
        )
    return alpha


def initial(prior: ArrayLike | None, allowed: Array, responses: Responses) -> Array:
    """Return the concentration of the first label (classes,); classes it excludes are reached."""
    alpha = _filled("initial_prior", prior, {"classes": responses.n_classes}, zeros=True)
    reached = alpha > 0
    for _ in alpha:
        reached |= (allowed[reached] > 0).any(axis=0)
    if not reached.all():
        never = responses.classes[~reached].tolist()
        raise ModelError(
            "Sequences must be able to reach every class; drop the others. Got: zeros in "
            f"initial_prior and transition_prior that rule out {never[0]!r} ({len(never)} such)."
        )
    return alpha


def bio_transitions(classes: Iterable[str], *, outside: str = "O") -> dict[str, Array]:
    """Return priors for BIO tags: one such as I-PER follows B-PER or I-PER and is never first.

    Parameters
    ----------
    classes : iterable of str
        ``outside``, and B-X and optionally I-X for every kind X, or B and I for spans of one kind.
    outside : str, default "O"

    Returns
    -------
    dict
        ``initial_prior`` (classes,) and ``transition_prior`` (classes, classes) of
        :class:`bayesfuse.models.HiddenMarkov`, with structural zeros.

    Raises
    ------
    ModelError : other names; an inside tag without its beginning

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.priors.bio_transitions(["O", "B-X", "I-X"])["transition_prior"]
    array([[1., 1., 0.],
           [1., 1., 1.],
           [1., 1., 1.]])
    """
    names = require_names("classes", classes)
    tags = read_tags(names, outside)
    for name, tag in zip(names, tags, strict=True):
        if tag.kind is not None and Tag(tag.kind, True) not in tags:
            raise ModelError(
                "An inside tag needs its beginning tag, which it must follow. Got: "
                f"{name!r} without {'B-' + tag.kind if tag.kind else 'B'!r}."
            )
    inside = np.array([tag.kind is not None and not tag.begins for tag in tags])
    kinds = np.array([tag.kind for tag in tags], dtype=object)
    allowed = ~inside | (kinds[:, None] == kinds)
    return {
        "initial_prior": np.where(inside, 0.0, 1.0),
        "transition_prior": np.where(allowed, 1.0, 0.0),
    }


def confusion(prior: Any, responses: Responses, base: Any = None) -> Array | DirichletMixture:
    """Return the prior of confusion rows (raters, classes, labels); zeros under ``own`` default."""
    zeros = base is not None  # structural zeros, of labels that a source never gives
    default = usual_rows(responses) if base is None else base
    axes = {"classes": responses.n_classes, "labels": default.shape[1]}
    if isinstance(prior, DirichletMixture):
        by_rater = _is_by_rater(prior.shape, axes, responses)
        return prior if by_rater else stacked([prior] * responses.n_raters)
    rows = _per_rater(prior, default, axes, responses, zeros)
    mixed = any(isinstance(row, DirichletMixture) for row in rows)
    return stacked(rows) if mixed else np.stack(rows)


def groups(
    prior: ArrayLike | None, n_groups: int, responses: Responses, *, alike: bool = False
) -> Array:
    """Return the concentration (groups, classes, verdicts), ``alike`` for exchangeable groups."""
    default = diagonal(responses.n_classes)
    axes = {"classes": responses.n_classes, "verdicts": responses.n_classes}
    concentration = require_numbers("group_prior", default if prior is None else prior)
    if alike or concentration.ndim == 2:
        concentration = np.tile(_checked("group_prior", concentration, axes), (n_groups, 1, 1))
    return _checked("group_prior", concentration, {"groups": n_groups, **axes})


def sharing(prior: float | None, responses: Responses) -> float:
    """Return α of a Chinese restaurant process from the prior probability of a shared group."""
    default = 1 / max(responses.n_raters, 2) ** 2
    share = default if prior is None else require_probability("share_prior", prior)
    return 1 / share - 1


def log_odds_of_groups(groups: Sequence[Sequence[Any]], responses: Responses) -> float:
    """Return the log prior odds of groups of raters against none.

    Where some raters share sources, others may: the concentration of the Chinese restaurant process
    is log-uniform from 1 (two raters share one with probability 1/2) to that of :func:`sharing`.
    """
    n_raters = max(responses.n_raters, 2)
    concentration = np.geomspace(1.0, sharing(None, responses), N_CONCENTRATIONS)
    number_before = np.arange(n_raters)[:, None]
    none = (np.log(concentration) - np.log(concentration + number_before)).sum(axis=0)
    odds = np.zeros(N_CONCENTRATIONS)
    for raters in groups:
        odds += math.lgamma(len(raters)) - (len(raters) - 1) * np.log(concentration)
    return float(np.logaddexp.reduce(none + odds) - np.logaddexp.reduce(none))


def accuracy(prior: Any, responses: Responses, *, by_class: bool) -> tuple[Array, Array]:
    """Return the two concentrations of Beta accuracies, (raters,) or (raters, classes)."""
    priors = prior.values() if isinstance(prior, Mapping) else [prior]
    if any(isinstance(prior_of_rater, DirichletMixture) for prior_of_rater in priors):
        raise ModelError(
            "The prior of an accuracy must be two concentrations of a Beta distribution; mixtures "
            "are for raters='confusion'. Got: a DirichletMixture as confusion_prior."
        )
    row = usual_rows(responses)[0]
    default = np.array([row[0], row.sum() - row[0]])
    axes = {RIGHT_WRONG: 2}
    if by_class:
        axes = {"classes": responses.n_classes, RIGHT_WRONG: 2}
        default = np.tile(default, (responses.n_classes, 1))
        if not isinstance(prior, Mapping) and np.shape(prior) == (2,):
            prior = np.tile(require_numbers("confusion_prior", prior), (responses.n_classes, 1))
    full = np.stack(_per_rater(prior, default, axes, responses))
    if by_class and _is_matrix(full[0]) and (full == full[0]).all():
        right, wrong = full[0, 1]
        warn(
            'With raters="class" a row of confusion_prior is (right, wrong) of a class, and this '
            "one may be a confusion matrix (bf.priors.diagonal), whose rows are (labels,): use it "
            f'with raters="confusion". Got: {right:g} right and {wrong:g} wrong responses to '
            f"{quoted(responses.classes[1])}."
        )
    return full[..., 0], full[..., 1]


def _per_rater(
    prior: Any, default: Array, axes: dict[str, int], responses: Responses, zeros: bool = False
) -> list[Any]:
    """Return a concentration for every rater, from one for all, one each, or some by name."""
    rows: list[Any] = [default] * responses.n_raters
    if isinstance(prior, Mapping):
        place = {rater: index for index, rater in enumerate(responses.raters.tolist())}
        for rater, concentration in prior.items():
            if rater not in place:
                raise ModelError(
                    "A mapping as confusion_prior must have raters of the table as its keys, such "
                    f"as {shown(responses.raters, 3)}. Got: {rater!r}."
                )
            label, row = f"confusion_prior of rater {rater!r}", concentration
            if isinstance(concentration, DirichletMixture):
                require_shape(label, concentration.shape, **axes)
            else:
                row = _checked(label, require_numbers(label, concentration), axes, zeros=zeros)
            rows[place[rater]] = row
    elif prior is not None:
        concentration = require_numbers("confusion_prior", prior)
        by_rater = _is_by_rater(concentration.shape, axes, responses)
        checked = _checked("confusion_prior", concentration, zeros=zeros)
        rows = list(checked) if by_rater else [checked] * len(rows)
    return rows


def _is_by_rater(shape: tuple[int, ...], axes: dict[str, int], responses: Responses) -> bool:
    """Return whether a prior is one for each rater and not one for all, or raise ModelError."""
    of_all, of_each = tuple(axes.values()), (responses.n_raters, *axes.values())
    if shape in (of_all, of_each):
        return shape == of_each
    sizes = ", ".join(f"{size} {axis}" for axis, size in axes.items())
    n_raters, n_classes = of_each[0], responses.n_classes
    hint = ""
    if RIGHT_WRONG in axes and shape[-2:] == (n_classes, n_classes):
        hint = '; confusion matrices, as from bf.priors.diagonal, are for raters="confusion"'
    elif RIGHT_WRONG not in axes and shape in ((2,), (n_classes, 2), (n_raters, 2)):
        hint = '; (right, wrong) alone is for raters="coin" or raters="class"'
    raise ModelError(
        f"confusion_prior must have shape ({sizes}) for all raters, or ({n_raters} raters, "
        f"{sizes}) for each{hint}. Got: shape {shape}."
    )


def _is_matrix(rows: Array) -> bool:
    """Return whether two rows have their larger entry on the diagonal, alike in both."""
    return (
        rows.shape == (2, 2) and rows[0, 0] > rows[0, 1] and np.array_equal(rows, rows[::-1, ::-1])
    )


def _filled(name: str, prior: Any, axes: dict[str, int], *, zeros: bool = False) -> Array:
    """Return checked concentrations; a single number, by default 1, is repeated."""
    concentration = require_numbers(name, 1.0 if prior is None else prior)
    if concentration.ndim == 0:
        concentration = np.full(tuple(axes.values()), concentration)
    return _checked(name, concentration, axes, zeros=zeros)


def _checked(
    name: str, concentration: Array, axes: dict[str, int] | None = None, *, zeros: bool = False
) -> Array:
    if axes is not None:
        require_shape(name, concentration.shape, **axes)
    legal = np.isfinite(concentration) & ((concentration >= 0) if zeros else (concentration > 0))
    if not np.all(legal):
        raise ModelError(
            f"{name} must be positive and finite, because a Dirichlet has no density otherwise. "
            f"Got: {concentration[~legal][0]}."
        )
    return concentration
