"""Confusion matrices from means, pairs and triples of responses, without forming them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy
import xarray as xr

from bayesfuse import errors
from bayesfuse.data.responses import Responses
from bayesfuse.data.silence import first_rows
from bayesfuse.moments.least_squares import RowGroups, simplex_least_squares, symmetric
from bayesfuse.moments.views import STARTS, starting_points
from bayesfuse.numerics.kernels import Array

MAX_PILOT_RESPONSES = 500_000  # responses of the sample of items that chooses a start

# The objective is (17) with its squares expanded, for items n with raters m ∈ n:
#
#   Σ_n w_n { Σ_kl π_k π_l E(G_m[k, l] : m ∈ n)  −  2 Σ_k π_k E(Γ_m[f_m(n), k] : m ∈ n) }
#
# where G_m = Γ_mᵀΓ_m, and E = e₁ + e₂ + e₃ is the sum of the first elementary symmetric polynomials
# over raters, computed in one pass. So every mean, pair and triple is weighted by how often it was
# observed. Given the others, the normal equations of Γ_m have the leave-one-out polynomials
# 1 + e₁ + e₂ of the other raters.


class Moments(NamedTuple):
    """Terms of (17) at given confusion matrices, per item.

    With prevalence π the objective is ``π @ square @ π − 2 π @ cross``; rater m's share of it is
    ``Σ_kl π_k π_l normal[m, k, l] (Γ_mᵀΓ_m)[k, l] − 2 Σ_k π_k (right[m, k] · Γ_m[k])``.
    """

    square: Array
    cross: Array
    normal: Array
    right: Array


@dataclass(frozen=True, eq=False)
class Table:
    """Answers and raters of every item; ``repeated`` (rows, cells) averages repeated answers."""

    shape: tuple[int, int]
    answers: RowGroups
    raters: RowGroups
    repeated: scipy.sparse.csr_array

    @classmethod
    def build(cls, responses: Responses) -> Table:
        """Group responses by item."""
        responses, _ = responses.condensed()
        rater, n_classes = responses.rater, responses.n_classes
        first = first_rows(responses)
        start = np.concatenate([[0], np.cumsum(first)])[responses.start].astype(np.uint32)
        times = np.diff(np.append(np.flatnonzero(first), responses.n_responses))
        cells, again = responses.n_raters * n_classes, times > 1
        row = responses.cell[first].astype(np.uint32)
        row[again] = cells + np.arange(again.sum())  # of repeated answers, the mean of their cells
        begin = np.concatenate([[0], np.cumsum(times[again])])
        column = responses.cell[np.repeat(again, times)].astype(np.int64)
        share = np.repeat(1.0 / times[again], times[again])
        repeated = scipy.sparse.csr_array((share, column, begin), shape=(again.sum(), cells))
        answers = RowGroups(responses.multiplicity.astype(np.float64), start, row)
        # items with the same raters, whatever the answers
        alone = (rater[first] * n_classes).astype(np.uint32)
        panels, _ = replace(responses, start=start, cell=alone).merged()
        raters = panels.cell // np.uint32(n_classes)
        groups = RowGroups(panels.multiplicity.astype(np.float64), panels.start, raters)
        return cls((responses.n_raters, n_classes), answers, groups, repeated)

    def moments(self, confusion: Array) -> Moments:
        """Pass over all responses once: O(responses × classes²)."""
        n_raters, n_classes = self.shape
        values = confusion.transpose(0, 2, 1).reshape(-1, n_classes)
        cross, right = symmetric(np.concatenate([values, self.repeated @ values]), *self.answers)
        right = right[: len(values)] + self.repeated.T @ right[len(values) :]
        k, j = np.triu_indices(n_classes)
        gram = confusion @ confusion.transpose(0, 2, 1)
        upper, others = symmetric(np.ascontiguousarray(gram[:, k, j]), *self.raters)
        square = np.empty((n_classes, n_classes))
        normal = np.empty((n_raters, n_classes, n_classes))
        square[k, j] = square[j, k] = upper
        normal[:, k, j] = normal[:, j, k] = others
        size = self.answers.weight.sum()
        right = right.reshape(n_raters, n_classes, n_classes).transpose(0, 2, 1)
        return Moments(square / size, cross / size, normal / size, right / size)


class Fit(NamedTuple):
    """Result of :func:`match`."""

    prevalence: Array
    confusion: Array
    objective: float
    iterations: int
    converged: bool


def match(table: Table, confusion: Array, iterations: int, tolerance: float) -> Fit:
    """Minimise (17) from given confusion matrices, solving for the prevalence at every step.

    All raters move at once: a sum of squares of products of at most three blocks is bounded by
    three times its part in each block, so block-wise solutions with threefold damping descend
    (exactly so where the residuals vanish), and momentum makes up for the shorter steps.
    """
    ahead = confusion
    prevalence = np.full(table.shape[1], 1.0 / table.shape[1])
    last, momentum, damping, step = np.inf, 1.0, 3.0, 0
    converged = False
    while not converged and step < iterations:
        moments = table.moments(ahead)
        prevalence, objective = best_prevalence(moments, prevalence)
        if objective > last:
            if momentum == 1.0:  # not due to momentum: the residuals do not vanish
                damping *= 2.0
            momentum = 1.0
        last = objective
        system = moments.normal * np.outer(prevalence, prevalence)
        target = prevalence[:, None] * moments.right + (damping - 1.0) * system @ ahead
        parts = zip(damping * system, target, ahead, strict=True)
        new = np.array([simplex_least_squares(*part, True, 8, 0.0) for part in parts])
        converged = bool(np.abs(new - ahead).max() < tolerance)
        moved = new - confusion
        if np.sum((ahead - new) * moved) > 0.0:
            momentum = 1.0
        larger = 0.5 + math.sqrt(0.25 + momentum * momentum)
        ahead = new + (momentum - 1.0) / larger * moved
        confusion, momentum = new, larger
        step += 1
    prevalence, objective = best_prevalence(table.moments(confusion), prevalence)
    return Fit(prevalence, confusion, objective, step, converged)


def best_prevalence(moments: Moments, guess: Array) -> tuple[Array, float]:
    """Minimise over the prevalence: a linear system, unless that gives negative entries."""
    n_classes = len(guess)
    system = np.ones((n_classes + 1, n_classes + 1))
    system[:-1, :-1], system[-1, -1] = moments.square, 0.0
    try:
        best = np.linalg.solve(system, np.append(moments.cross, 1.0))[:-1]
    except np.linalg.LinAlgError:
        best = np.full(n_classes, -1.0)
    if best.min() < 0.0:
        best = simplex_least_squares(
            moments.square, moments.cross[:, None], guess[:, None], False, 5000, 1e-14
        )[:, 0]
    return best, float(best @ moments.square @ best - 2.0 * best @ moments.cross)


def confusion(
    responses: Responses,
    *,
    iterations: int = 1000,
    tolerance: float = 1e-5,
    random_seed: int = 0,
) -> xr.Dataset:
    r"""Estimate prevalence and confusion matrices from means, pairs and triples of responses.

    Minimises over all distributions

    .. math:: \sum_m N_m \|\mu_m - \Gamma_m \pi\|^2
        + \sum_{m<m'} N_{mm'} \|S_{mm'} - \Gamma_m \Pi \Gamma_{m'}^\top\|^2
        + \sum_{m<m'<m''} N_{mm'm''} \|T_{mm'm''} - [[\Gamma_m \Pi, \Gamma_{m'}, \Gamma_{m''}]]\|^2,

    where :math:`\mu`, S and T are observed means, pairs and triples and N their numbers of
    observations, so responses may be missing. A step costs O(responses × classes²) for any number
    of raters. Repeated answers of a rater to an item are averaged. Of several starting points the
    one with the lowest objective (on at most 500,000 responses) wins: the diagonalised moments of
    three teams of raters, for five random divisions ("algebraic"); the majority as the truth
    ("votes"); all raters equally good ("diagonal").

    Parameters
    ----------
    responses : Responses
    iterations : int, default 1000: maximum number of steps
    tolerance : float, default 1e-5: stop when no probability changes by more
    random_seed : int, default 0: for the algebraic start and the sample

    Returns
    -------
    xarray.Dataset
        ``prevalence`` (class) and ``confusion`` (rater, class, answer). Classes are ordered to
        maximise the agreement of the average rater with the truth. A rater without responses has
        the mean confusion matrix. Attributes ``objective`` (per item, without the constant squares
        of the observed moments), ``iterations``, ``start`` and ``converged`` (0 or 1).

    Raises
    ------
    MomentsError : no item was answered by three raters

    References
    ----------
    Traganitis & Giannakis (2020), eq. 17.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.confusion(bf.datasets.anesthesia()).prevalence.round(2).values
    array([0.4 , 0.4 , 0.12, 0.08])
    """
    errors.require_kind("responses", responses, Responses)
    errors.require_count("iterations", iterations)
    tolerance = errors.require_number("tolerance", tolerance)
    rng = errors.require_seed(random_seed)
    table, pilot = Table.build(responses), responses
    together = np.diff(table.raters.start.astype(np.int64))[table.raters.weight > 0]
    if together.max(initial=0) < 3:
        raise errors.MomentsError(
            "Confusion matrices need items with answers of three different raters, because means "
            "and pairs do not determine them. Got: at most "
            f"{together.max(initial=0)} raters of one item, {responses.n_raters} in all."
        )
    if responses.n_responses > MAX_PILOT_RESPONSES:
        n_items = max(1, round(responses.n_items * MAX_PILOT_RESPONSES / responses.n_responses))
        pilot = responses.take(np.sort(rng.choice(responses.n_items, n_items, replace=False)))
    small = table if pilot is responses else Table.build(pilot)
    points = [(name, point) for name in STARTS for point in starting_points(name, pilot, rng)]
    fits = [(match(small, point, iterations, tolerance), name) for name, point in points]
    fit, start = min(fits, key=lambda candidate: candidate[0].objective)
    if small is not table:
        fit = match(table, fit.confusion, iterations, tolerance)
    return _named(fit, responses, start)


def _named(fit: Fit, responses: Responses, start: str) -> xr.Dataset:
    """Order the classes, fill in raters without responses, and add names."""
    from scipy.optimize import linear_sum_assignment  # half a second to import

    answered = responses.per_rater > 0
    mean = fit.confusion[answered].mean(axis=0)
    # rows have standard errors proportional to 1/√prevalence, so rare classes count less
    column, place = linear_sum_assignment(mean * np.sqrt(fit.prevalence)[:, None], maximize=True)
    order = column[np.argsort(place)]
    confusion = np.where(answered[:, None, None], fit.confusion, mean)[:, order]
    return xr.Dataset(
        {
            "prevalence": ("class", fit.prevalence[order]),
            "confusion": (("rater", "class", "answer"), confusion),
        },
        {"rater": responses.raters, "class": responses.classes, "answer": responses.classes},
        {
            "objective": fit.objective,
            "iterations": fit.iterations,
            "start": start,
            "converged": int(fit.converged),
        },
    )
