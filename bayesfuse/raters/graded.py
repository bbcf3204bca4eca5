"""Ordered classes: raters cut a line at thresholds of their own, or guess."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import scipy

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.numerics.tables import SMALLEST
from bayesfuse.parameters.capabilities import Capabilities
from bayesfuse.parameters.factor import Integers, made
from bayesfuse.parameters.graded_rows import even_positions
from bayesfuse.raters.confusion import Confusion


def require_ordered(responses: Responses) -> None:
    """Raise ModelError unless the classes of a table are ordered."""
    if not responses.ordered:
        raise ModelError(
            "Graded raters need ordered classes, because thresholds lie between neighbouring ones: "
            "read the table with classes= in order and ordered=True, or from an ordered "
            f"categorical. Got: classes {responses.classes.tolist()} without an order."
        )


class Graded(Confusion):
    r"""Raters who perceive an item's grade with noise, and answer by their own thresholds.

    Rater m perceives an item of class k at its position :math:`\tau_k` plus normal noise of
    standard deviation :math:`1 / s_m`, and answers by thresholds :math:`b_{m1} < … < b_{m,K-1}`, as
    in McCullagh (1980), Regression models for ordinal data, JRSS B 42, 109–142:

    .. math::

        P(x \le c \mid y = k) = (1 - \epsilon_m)\, \Phi(s_m (b_{mc} - \tau_k))
            + \epsilon_m \sum_{j \le c} g_{mj}

    Parameters
    ----------
    thresholds : tensor or array, shape (raters, classes − 1) or (classes − 1,)
        Increasing. A strict rater has high ones.
    precision, guess_rate : tensor or array, shape (raters,) or ()
        Positive; and the probability that a response is a guess, by default 0.
    guess : tensor or array, shape (raters, classes) or (classes,), optional
        Distribution of guesses. Default uniform.
    positions : tensor or array, shape (classes,), optional
        Units of thresholds and precision. Default one apart around zero: −1, 0, 1 for three.

    Raises
    ------
    ModelError
        Constants out of order or out of their range.

    Examples
    --------
    A lenient and a strict rater of three grades:

    >>> import bayesfuse as bf
    >>> raters = bf.build.Graded(thresholds=[[-1.0, 0.0], [0.0, 1.0]], precision=[2.0, 2.0])
    >>> raters.parameters["confusion"][:, 1].round(2)  # of items of the middle grade
    array([[0.02, 0.48, 0.5 ],
           [0.5 , 0.48, 0.02]])
    """

    capabilities = Capabilities(independent=True, by_rater=())

    def __init__(
        self,
        thresholds: Any,
        precision: Any,
        guess_rate: Any = 0.0,
        guess: Any = None,
        positions: Any = None,
    ) -> None:
        super().__init__(graded_rows(thresholds, precision, guess_rate, guess, positions))

    @classmethod
    def of_rows(cls, confusion: Any) -> Self:
        """Return the channel of raters with these rows (raters, classes, labels)."""
        channel = cls.__new__(cls)
        channel.parameters = {"confusion": confusion}
        return channel

    @classmethod
    def rebuild_for(
        cls, values: Mapping[str, Any], settings: Mapping[str, Any], raters: Integers
    ) -> Any:
        # rows of new raters are means of graded ones
        return made(Confusion, {**values, **settings})

    def check(self, shapes: Mapping[str, tuple[int | None, ...]], responses: Responses) -> None:
        n_raters, *_, n_labels = shapes["confusion"]
        if n_labels not in (responses.n_classes, None):
            raise ModelError(
                "There must be one threshold between any two neighbouring classes, so one less "
                f"than classes. Got: {n_labels - 1} for {responses.n_classes} classes."
            )
        if n_raters not in (responses.n_raters, None):
            raise ModelError(
                "thresholds or precision must have one row or number per rater. Got: "
                f"{n_raters} for {responses.n_raters} raters."
            )
        require_ordered(responses)
        super().check(shapes, responses)


def graded_rows(
    thresholds: Any, precision: Any, guess_rate: Any, guess: Any = None, positions: Any = None
) -> Any:
    """Return the rows (raters, classes, labels) of :class:`Graded`, of tensors or arrays."""
    values = thresholds, precision, guess_rate, guess, positions
    if any(hasattr(value, "owner") for value in values):
        import pytensor.tensor as pt

        xp, erfc = pt, pt.erfc
    else:
        xp, erfc = np, scipy.special.erfc
    thresholds, precision, guess_rate, guess, positions = (
        v if v is None or hasattr(v, "owner") else np.asarray(v, dtype=float) for v in values
    )
    _require_sound(thresholds, precision, guess_rate, positions)
    size, n_positions = (
        v.type.shape if hasattr(v, "owner") else np.shape(v) for v in (thresholds, positions)
    )
    if (n_thresholds := size[-1] if size else None) is None:
        raise ModelError(f"thresholds must have classes − 1 known columns. Got: shape {size}.")
    n_classes = n_thresholds + 1
    if positions is None:
        positions = even_positions(n_classes)
    elif n_positions not in ((n_classes,), (None,)):
        raise ModelError(
            f"positions must be one number per class, here {n_classes}. Got: shape {n_positions}."
        )
    if guess is None:
        guess = np.full(n_classes, 1 / n_classes)
    if thresholds.ndim == 1:
        thresholds = thresholds[None]
    precision, guess_rate = (
        rate[:, None, None] if rate.ndim == 1 else rate for rate in (precision, guess_rate)
    )
    if guess.ndim == 2:
        guess = guess[:, None, :]
    z = precision * (thresholds[:, None, :] - positions[:, None])  # (raters, classes, cuts)
    below, above = 0.5 * erfc(-z * math.sqrt(0.5)), 0.5 * erfc(z * math.sqrt(0.5))
    none = xp.zeros_like(z[..., :1])
    below = xp.concatenate([none, below, none + 1.0], axis=-1)
    above = xp.concatenate([none + 1.0, above, none], axis=-1)
    right = xp.concatenate([none, xp.where(z > 0, 1.0, 0.0)], axis=-1)  # the exact tail
    tails = above[..., :-1] - above[..., 1:], below[..., 1:] - below[..., :-1]
    informed = xp.where(right > 0, *tails)
    return xp.maximum((1.0 - guess_rate) * informed + guess_rate * guess, SMALLEST)


def _require_sound(thresholds: Any, precision: Any, guess_rate: Any, positions: Any) -> None:
    """Raise ModelError if constants are out of order or out of their range."""
    increasing = "increase with the class, because the classes are ordered"
    for name, value, rule, sound in (
        ("thresholds", thresholds, increasing, lambda value: np.diff(value) > 0),
        ("positions", positions, increasing, lambda value: np.diff(value) > 0),
        ("precision", precision, "be positive", lambda value: value > 0),
        ("guess_rate", guess_rate, "be a probability, from 0 to 1", lambda v: (v >= 0) & (v <= 1)),
    ):
        if isinstance(value, np.ndarray) and not np.all(sound(value)):
            raise ModelError(f"{name} must {rule}. Got: {value.tolist()}.")
