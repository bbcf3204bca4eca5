"""Hyperparameters of graded raters: thresholds, precision, guesses, class positions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayesfuse.numerics import grades
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.pool import Member, Pool, Values

LOGS = "threshold_gap", "precision"  # those that are positive: the coordinates are their logarithms
ROUNDS = 6  # moves of shared hyperparameters per draw, more for few raters
SCORING = 6  # steps of Fisher scoring to where raters are most probable if all are alike
START = 8.0  # number of responses that a rater's row counts for where chains begin


class Normal(NamedTuple):
    """Prior of a coordinate, and the approximate information of a response, for slices.

    Its centre; standard deviation alone and, if pooled, of the mean; scale of the spread.
    """

    centre: float
    alone: float
    mean: float
    spread: float
    information: float


PRIORS = {
    "strictness": Normal(0.0, 1.0, 0.2, 1.0, 0.5),
    "threshold_gap": Normal(0.0, 0.5, 0.25, 0.5, 0.1),
    "precision": Normal(math.log(2.0), 1.0, 0.7, 1.0, 0.2),
    "guess_log_odds": Normal(-3.0, 1.5, 1.0, 1.5, 0.03),
}
"""Priors of a rater's coordinates, in their order: in distances of neighbouring classes, log-normal
of gaps (from three classes on) and precision, half-normal of spreads. Raters are unbiased on
average, because all could be strict by one grade and the classes shifted by one: with a mean of
standard deviation .5, chains of three marks an essay were in different modes."""


class Point(NamedTuple):
    """Coordinates of raters, their means and spreads, and gaps of classes."""

    raters: Array
    mean: Array
    spread: Array
    gaps: Array


ROLES = tuple(PRIORS)
NORMAL = np.array([*PRIORS.values()]).T  # the same by number

POSITION_GAP = 20.0  # Dirichlet concentration of the distances of neighbouring classes


def even_positions(n_classes: int) -> Array:
    """Return equally spaced positions around zero, one apart."""
    return np.arange(n_classes, dtype=np.float64) - (n_classes - 1) / 2


@dataclass(frozen=True)
class GradedRows(Pool):
    """The pool of graded raters, drawn given the counts by rater, class and answer.

    Raters are moved by slice sampling, which needs no tuning. Distances of neighbouring classes
    (from three classes on) and, if ``pooled``, means and spreads are drawn given the raters, and
    moved together with them (Yu & Meng 2011).
    """

    members: dict[str, Member]
    n_raters: int
    n_classes: int
    pooled: bool
    has_mode: bool = True
    parameter: str = "confusion"

    @property
    def roles(self) -> list[str]:
        """The coordinates of a rater."""
        return [role for role in ROLES if role in self.members]

    def begin(self, rng):
        n_raters, n_classes, initial = self.n_raters, self.n_classes, {}
        for role in self.roles:
            mean = PRIORS[role].centre
            shape = (n_raters, n_classes - 2) if role == "threshold_gap" else (n_raters,)
            initial[role] = mean + 0.2 * rng.standard_normal(shape)
            if self.pooled:
                initial[f"{role}_mean"] = np.full(shape[1:], mean)
                initial[f"{role}_spread"] = 0.5 * PRIORS[role].spread
            for name in (role, f"{role}_mean") if role in LOGS else ():
                initial[name] = np.exp(initial.get(name, 0.0))
        if "position_gap" in self.members:
            initial["position_gap"] = np.log(self._even_gaps)
        return {role: np.asarray(initial[role]) for role in self.members}

    def draw(self, values, counts, rng):
        (counted,) = counts.raters
        coordinates, mean, spread, gaps = self._point(values)
        groups, guess = self._groups(), self._guess
        # the constants of the priors as `grades.move_all` takes them
        centre, _, of_mean, scale, information = NORMAL
        hyper = np.ones((4, max(len(groups), len(ROLES))))
        hyper[:2, : len(groups)] = centre[groups], of_mean[groups]
        hyper[2, : len(ROLES)], hyper[3] = scale, POSITION_GAP
        common = coordinates, gaps, mean, spread, hyper
        along = self._directions(counted.sum(axis=0), guess, hyper, rng)
        grades.move_all(along, self.pooled, *common, guess, counted, rng)
        positions, by_coordinate = self._positions(gaps), spread[groups]
        known = counted.sum(axis=(1, 2))[:, None] * information[groups]
        width = 3.0 / np.sqrt(by_coordinate**-2.0 + known)  # about three posterior sd
        grades.move_raters(coordinates, positions, guess, counted, mean, by_coordinate, width, rng)
        if self.pooled:
            grades.move_spreads(coordinates, mean, spread, hyper, self.n_classes, rng)
        return self._values(coordinates, mean, spread, gaps)

    def prior(self, values):
        return self.unpooled()

    def implied(self, values):
        point = self._point(values)
        rows = grades.log_rows(point.raters, self._positions(point.gaps), self._guess)
        return {self.parameter: rows}

    def unpooled(self):
        """Return rows around those of a typical rater, so that a start knows the order."""
        typical, even = NORMAL[0][self._groups()], even_positions(self.n_classes)
        rows = np.exp(grades.log_rows(typical[None], even, self._guess))
        return Dirichlet(START * np.repeat(rows, self.n_raters, axis=0))

    def seconds(self, n_responses):
        by_rater = 7 * (self.n_classes + 1 + self.rounds) * self.n_classes**2 * 10e-9
        return 300e-6 + by_rater * self.n_raters

    @property
    def rounds(self) -> int:
        """Number of moves of shared hyperparameters."""
        return ROUNDS + 100 // self.n_raters

    @property
    def _even_gaps(self) -> Array:
        """Distances of neighbouring classes as shares of the line."""
        return np.full(self.n_classes - 1, 1 / (self.n_classes - 1))

    @property
    def _guess(self) -> Array:
        return np.full(self.n_classes, 1 / self.n_classes)

    def _groups(self) -> Any:
        """Return the role of every coordinate of a rater."""
        return np.repeat(np.arange(len(ROLES)), [1, self.n_classes - 2, 1, 1])

    def _positions(self, gaps: Array) -> Array:
        return (self.n_classes - 1) * (np.concatenate([[0.0], gaps.cumsum()]) - 0.5)

    def _point(self, values: Values) -> Point:
        """Return values as arrays, which are copies."""
        values = {
            n: np.log(v) if n.startswith(LOGS) and not n.endswith("spread") else v
            for n, v in values.items()
        }
        coordinates = np.column_stack([values[role] for role in self.roles])
        mean, spread = NORMAL[0][self._groups()], NORMAL[1].copy()
        if self.pooled:
            mean = np.concatenate([np.atleast_1d(values[f"{role}_mean"]) for role in self.roles])
            for g, role in enumerate(ROLES):
                if role in self.members:
                    spread[g] = values[f"{role}_spread"]
        gaps = np.exp(values["position_gap"]) if "position_gap" in values else self._even_gaps
        return Point(coordinates, mean, spread, gaps)

    def _directions(
        self, total: Array, guess: Array, hyper: Array, rng: np.random.Generator
    ) -> Array:
        """Return steps (rounds, entries) of shared hyperparameters, as large as their posterior."""
        groups, n_gaps = self._groups(), self.n_classes - 1
        n_coordinates = len(groups)
        steps = np.zeros((self.rounds, n_coordinates + n_gaps + len(ROLES)))
        free = np.arange(
            n_coordinates + n_gaps if "position_gap" in self.members else n_coordinates
        )
        prior, flat = np.full(len(free), POSITION_GAP), np.zeros(len(free))
        prior[:n_coordinates] = hyper[1, :n_coordinates] ** -2.0
        if not self.pooled:
            prior[:n_coordinates] = self.n_raters * NORMAL[1][groups] ** -2.0
        at, centre = flat.copy(), hyper[0, :n_coordinates]
        for _ in range(SCORING):
            gaps = self._even_gaps
            if len(free) > n_coordinates:
                gaps *= np.exp(at[n_coordinates:])
            derivatives = grades.slopes(centre + at[:n_coordinates], gaps / gaps.sum(), guess, 1e-5)
            slope, rows = derivatives[: len(free)].reshape(len(free), -1), derivatives[-1].ravel()
            used = np.repeat(total.sum(axis=1), total.shape[1])
            weighed = slope / rows
            information = (weighed * (used * rows)) @ weighed.T + np.diag(prior)
            climb = np.linalg.solve(information, weighed @ total.ravel() - prior * at)
            at += climb / max(1.0, np.abs(climb).max())
        root = np.linalg.inv(np.linalg.cholesky(information))
        steps[:, free] = 2.0 * rng.standard_normal((self.rounds, len(free))) @ root
        if self.pooled:
            scales = [
                n_coordinates + n_gaps + g for g, role in enumerate(ROLES) if role in self.members
            ]
            alone = np.eye(steps.shape[1])[rng.choice(scales, self.rounds)]
            one_by_one = rng.random((self.rounds, 1)) < 0.5
            steps = np.where(one_by_one, alone / math.sqrt(1 + 0.2 * self.n_raters), steps)
        return steps

    def _values(self, coordinates: Array, mean: Array, spread: Array, gaps: Array) -> Values:
        """Return values by role."""
        values, groups = {"position_gap": np.log(gaps)}, self._groups()
        for g, role in enumerate(ROLES):
            columns = np.flatnonzero(groups == g)
            at = columns if role == "threshold_gap" else columns[:1].sum()
            natural = np.exp if role in LOGS else np.asarray
            values |= {role: natural(coordinates[:, at]), f"{role}_mean": natural(mean[at])}
            values[f"{role}_spread"] = spread[g]
        return {role: np.asarray(values[role]) for role in self.members}
