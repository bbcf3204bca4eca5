"""Raters who look at an item say what its consensus row says; others guess."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet, invert
from bayesfuse.parameters.contract import Parameter, Role
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.pool import ConsensusShares
from bayesfuse.parameters.simplex import PROBABILITY, SIMPLEX
from bayesfuse.raters.base import Labels, RaterChannel, Structure, Tables
from bayesfuse.raters.consensus_chain import begin_chain
from bayesfuse.raters.consensus_kernels import count_types, expected, likelihood, look

LEVELS = 0.02, 0.2, 0.4, 0.6, 0.8, 0.95  # of the consensus on a class, even (0) to unanimous (1)
PAIRS = (0.5, 0.4), (0.65, 0.3), (0.8, 0.17)  # of two that compete; all others share the rest
OF_LOOKS = 5  # rounds of looks, competences and guesses in a sweep
MANY = (
    4_000_000  # entries (items × types) from which chains of types, which keep them, are not used
)


class ConsensusTable:
    """Consensus rows: by class one per level, by ordered pair of some three; see the kernels."""

    def __init__(self, n_classes: int, pairs: Sequence[Sequence[int]]) -> None:
        both = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        k, level, pair = np.arange(n_classes), np.arange(len(LEVELS)), np.arange(len(PAIRS))
        single = [np.repeat(k, len(level)), np.full(n_classes * len(level), -1)]
        double = np.repeat(both, len(pair), axis=0).T
        setting = np.tile(level, n_classes), len(level) + np.tile(pair, len(both))
        self.n_classes = n_classes
        self.types = np.vstack([np.hstack([single, double]), np.hstack(setting)])
        p = 1 / n_classes + (1 - 1 / n_classes) * np.asarray(LEVELS)
        others = (1 - p) / max(n_classes - 1, 1)
        rows = list(zip(p, others, others, strict=True))
        if len(both):
            rows += [(one, two, (1 - one - two) / (n_classes - 2)) for one, two in PAIRS]
        self.values = np.log(rows)

    @cached_property
    def rows(self) -> Array:
        """The consensus rows, (types, answers)."""
        first, second, setting = self.types
        p = np.exp(self.values[setting])
        rows = np.repeat(p[:, 2:], self.n_classes, axis=1)
        z, paired = np.arange(len(first)), second >= 0
        rows[z[paired], second[paired]] = p[paired, 1]
        rows[z, first] = p[:, 0]
        return rows

    def names(self, classes: NDArray[Any]) -> list[str]:
        """Return the names of the types: answers and their probability."""
        text = [str(name) for name in classes.tolist()]
        share = np.exp(self.values[self.types[2], 0])
        return [
            f"{text[first]}{f'|{text[second]}' if second >= 0 else ''} ({p:.2f})"
            for (first, second, _), p in zip(self.types.T, share, strict=True)
        ]


class Consensus(RaterChannel):
    r"""Items have hidden types with fixed consensus rows; raters look, or guess.

    Many equal answers are little evidence on types whose row is near even. Types and looks are
    summed out (see the papers cited by :class:`bayesfuse.models.ItemTypes`):

    .. math:: p(x_n \mid y_n = k) = \sum_z \omega_{kz} \prod_m
        \left(a_m \mu_{z x_{nm}} + (1 - a_m)\, g_{m x_{nm}}\right)

    For every class there are six rows :math:`\mu_z` from even to unanimous, where the others share
    the rest, and three for each pair: .5 and .4, .65 and .3, .8 and .17.

    Parameters
    ----------
    share : tensor or array, shape (classes, types)
        :math:`\omega_{kz}`, the probability that an item of class k is of type z.
    competence : tensor or array, shape (raters,)
        :math:`a_m`, the probability that rater m looks.
    guess : tensor or array, shape (raters, answers), optional
        :math:`g_{mc}`, the probability that rater m answers c without looking. Default: even.
    pairs : sequence of (int, int), optional
        Ordered pairs of classes that compete on some types.
    kind : array of int, shape (items,), optional
        Equal for items with the same prior of their class. Draws count types by kind.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> channel = bf.build.Consensus(np.full((2, 12), 1 / 12), competence=np.array([0.9, 0.5]))
    >>> channel.dictionary(n_classes=2).rows[:6, 0].round(2)  # of class 0, even to unanimous
    array([0.51, 0.6 , 0.7 , 0.8 , 0.9 , 0.98])
    """

    by_rater = ()
    declared = (
        Parameter("share", SIMPLEX, ("class", "type")),
        Parameter("competence", PROBABILITY, ("rater",)),
        Parameter("guess", SIMPLEX, ("rater", "answer")),
    )
    likelihood_kernel = staticmethod(likelihood)
    expected_kernel = staticmethod(expected)

    redraws = True
    least_sweeps = 4  # chains of a thousand draws then agree in all labels

    def __init__(
        self,
        share: Any,
        competence: Any,
        guess: Any = None,
        *,
        pairs: Sequence[Sequence[int]] = (),
        kind: ArrayLike | None = None,
    ) -> None:
        self.parameters = {"share": share, "competence": competence}
        if guess is not None:
            self.parameters["guess"] = guess
        self.pairs = tuple((int(first), int(second)) for first, second in pairs)
        self.kind = None if kind is None else np.asarray(kind, dtype=np.int64)
        self.n_kinds = 0 if self.kind is None else int(self.kind.max(initial=0)) + 1

    def settings(self) -> dict[str, Any]:
        return {"pairs": [list(pair) for pair in self.pairs]}

    def dictionary(self, n_classes: int) -> ConsensusTable:
        """Return the consensus rows of the types."""
        return ConsensusTable(n_classes, self.pairs)

    def structure(self, responses: Responses, gold: NDArray[np.int64]) -> tuple[Any, ...]:
        kind = self.kind
        if kind is None or len(kind) != responses.n_items:  # of other items nothing is counted
            kind = np.zeros(responses.n_items if self.n_kinds else 0, dtype=np.int64)
        rows = self.dictionary(responses.n_classes)
        return responses.start, responses.cell, gold, kind, rows.types, rows.values

    def sizes(self, name, shape, responses):
        n_types = self.dictionary(responses.n_classes).types.shape[1]
        return super().sizes(name, shape, responses) | {"type": n_types}

    def subset(self, items):
        if self.kind is None:
            return self
        other = copy.copy(self)
        other.kind = self.kind[items]
        return other

    def expand(self, log_rows: tuple[Any, ...], n_classes: int, xp: Any) -> tuple[Any, ...]:
        """Give the shares a first axis: items of unknown and of known class count apart."""
        log_share, log_competence, *guess = log_rows
        if not guess:
            guess = [xp.zeros((log_competence.shape[0], n_classes)) - math.log(n_classes)]
        return xp.stack([log_share, log_share]), log_competence, guess[0]

    def collapse(self, counts):
        by_class, looked, guessed, *_ = counts
        totals = by_class.sum(axis=0), looked, guessed
        return totals if "guess" in self.parameters else totals[:2]

    def sample_assignments(self, rows, tables, drawn, priors, structure, rng):
        """Draw types, then looks in turn with competences and guesses: only the last are kept."""
        used_priors = {name: priors.get(name) for name in self.parameters if name != "share"}
        drawn_here = all(type(prior) is Dirichlet for prior in used_priors.values())
        return {}, self.sample_counts(
            tables, drawn, structure, rng, used_priors if drawn_here else None
        )

    def compiled_chain(self, labels, table, structure, pools):
        """Draw types of independent labels, and what is known of these, under these pools."""
        share = pools.get("share")
        suits = (
            isinstance(share, ConsensusShares)
            and set(pools) == set(self.parameters)
            and (labels.named(Role.CLASS_SHARES) is not None or share.known is not None)
            and (table.n_items + self.n_kinds) * structure[4].shape[1] <= MANY
        )
        return partial(begin_chain, table, structure, pools) if suits else None

    def sample_counts(self, tables, drawn, structure, rng, priors=None):
        _, competence, guess = tables
        by_kind = np.zeros((2, self.n_kinds, tables[0].shape[2]))
        by_class, cells = count_types(*tables, drawn, by_kind, rng, *structure)
        looked, guessed = look(cells, competence, guess, structure[-1], rng)
        for _ in range(OF_LOOKS - 1 if priors else 0):
            competence = draw_dirichlet((priors["competence"] + looked).concentration, rng)
            if "guess" in priors:
                guess = draw_dirichlet((priors["guess"] + guessed).concentration, rng)
            looked, guessed = look(cells, competence, guess, structure[-1], rng)
        counts = by_class, looked, guessed
        return (*counts, by_kind) if self.n_kinds else counts

    def confusion(self, tables: tuple[Any, ...], n_classes: int, xp: Any) -> Any:
        """Return the mean of the types' rows within every class."""
        log_share, log_competence, log_guess = tables
        consensus = xp.matmul(xp.exp(log_share[0]), self.dictionary(n_classes).rows)
        looks, guesses = (xp.exp(log_competence)[:, at, None, None] for at in (0, 1))
        return looks * consensus + guesses * xp.exp(log_guess)[:, None]

    def types(self, tables: Tables, probability: Array, structure: Structure) -> Array:
        """Return the probability of types (items, types) from those of labels, (items, classes)."""
        start, cell, gold, _, *rows = structure
        counts_of_types = np.zeros((2, len(gold), tables[0].shape[2]))  # every item is a kind
        alone = np.arange(len(gold))
        count_types(*tables, probability, counts_of_types, None, start, cell, gold, alone, *rows)
        return counts_of_types.sum(axis=0)

    def same_mistake(self, tables: Tables, first: Labels, second: Labels) -> Array:
        """Return how probably two raters give one wrong answer to an item, (pairs, classes)."""
        share, competence, guess = np.exp(tables[0][0]), *map(np.exp, tables[1:])
        rows = self.dictionary(share.shape[0]).rows
        looks, guesses = competence[:, 0], competence[:, 1, None] * guess
        # of both answers c given type z: products of (look μ + guess) of the two raters
        mean = share @ rows
        both = (looks[first] * looks[second])[:, None, None] * (share @ (rows * rows))
        both += (guesses[first] * guesses[second])[:, None]
        for one, other in ((first, second), (second, first)):
            both += looks[one][:, None, None] * mean * guesses[other][:, None]
        return both.sum(axis=-1) - np.einsum("pkk->pk", both)

    def simulate(self, tables, truth, responses, rng):
        share, competence, guess = np.exp(tables[0][0]), *map(np.exp, tables[1:])
        types = invert(share.cumsum(axis=-1)[truth], rng.random(len(truth)))
        looks = rng.random(responses.n_responses) < competence[responses.rater, 0]
        rows = self.dictionary(share.shape[0]).rows[types[responses.item]]
        up_to = np.where(looks[:, None], rows, guess[responses.rater]).cumsum(axis=1)
        return invert(up_to, rng.random(len(up_to)))
