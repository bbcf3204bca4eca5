"""Item types: raters answer by the consensus row of an item's type, or guess."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet, invert
from bayesfuse.parameters.capabilities import Capabilities
from bayesfuse.parameters.consensus_table import ConsensusTable
from bayesfuse.parameters.contract import Parameter, Role
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.factor import Integers, Structure, Tables
from bayesfuse.parameters.pool import ConsensusShares
from bayesfuse.parameters.simplex import PROBABILITY, SIMPLEX
from bayesfuse.raters.base import RaterChannel
from bayesfuse.raters.consensus_chain import begin_chain
from bayesfuse.raters.consensus_kernels import (
    cells_of_types,
    count_types,
    expected,
    expected_of_type,
    likelihood,
    likelihood_of_type,
    look,
)

COMPETENCE_ROUNDS = 5  # draws of looks, competences and guesses in an interpreted sweep
MAX_ENTRIES = 4_000_000  # items × types: compiled chains store a weight for each


def even_guesses(log_competence: Any, n_classes: int, xp: Any) -> Any:
    """Return the log probabilities of guesses that prefer no class, (raters, answers)."""
    return xp.zeros((log_competence.shape[0], n_classes)) - math.log(n_classes)


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

    declared: tuple[Parameter, ...] = (
        Parameter("share", SIMPLEX, ("class", "type")),
        Parameter("competence", PROBABILITY, ("rater",)),
        Parameter("guess", SIMPLEX, ("rater", "answer")),
    )
    likelihood_kernel = staticmethod(likelihood)
    expected_kernel = staticmethod(expected)
    capabilities = Capabilities(
        redraws=True,
        own_chain=True,
        min_sweeps=4,  # chains of a thousand draws then agree in all labels
        by_rater=(),
    )

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

    def structure(self, responses: Responses, gold: Integers) -> Structure:
        kind = self.kind
        if (
            kind is None or len(kind) != responses.n_items
        ):  # kinds are counted for the fitted items only
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

    def expand(self, log_rows, n_classes, xp):
        """Give the shares a first axis: items of unknown and of known class count apart."""
        log_share, log_competence, *guess = log_rows
        log_guess = guess[0] if guess else even_guesses(log_competence, n_classes, xp)
        return xp.stack([log_share, log_share]), log_competence, log_guess

    def collapse(self, counts):
        by_class, looked, guessed, *_ = counts
        totals = by_class.sum(axis=0), looked, guessed
        return totals if "guess" in self.parameters else totals[:2]

    def sample_assignments(self, rows, tables, drawn, priors, structure, rng, channel_at=None):
        """Draw types, then looks, competences and guesses in turn; return the last counts."""
        used_priors = {name: priors.get(name) for name in self.parameters if name != "share"}
        drawn_here = all(type(prior) is Dirichlet for prior in used_priors.values())
        return {}, self.sample_counts(
            tables, drawn, structure, rng, used_priors if drawn_here else None
        )

    def compiled_chain(self, labels, table, structure, pools):
        """Compile chains of types, for independent labels under pools of all parameters."""
        share = pools.get("share")
        if not isinstance(share, ConsensusShares) or set(pools) != set(self.parameters):
            return None
        if labels.named(Role.CLASS_SHARES) is None and share.known is None:
            return None
        if (table.n_items + self.n_kinds) * structure[4].shape[1] > MAX_ENTRIES:
            return None
        return partial(begin_chain, table, structure, pools)

    def sample_counts(self, tables, drawn, structure, rng, priors=None):
        by_kind = np.zeros((2, self.n_kinds, tables[0].shape[2]))
        by_class, cells = count_types(*tables, drawn, by_kind, rng, *structure)
        looked, guessed = self.draw_looks(cells, tables[1:], structure[-1], rng, priors)
        counts = by_class, looked, guessed
        return (*counts, by_kind) if self.n_kinds else counts

    @staticmethod
    def draw_looks(
        cells: Array, tables: Tables, values: Array, rng: Generator, priors: Any = None
    ) -> Tables:
        """Draw who looked and who guessed, with competences and guesses in turn under priors."""
        competence, guess = tables
        looked, guessed = look(cells, competence, guess, values, rng)
        for _ in range(COMPETENCE_ROUNDS - 1 if priors else 0):
            competence = draw_dirichlet((priors["competence"] + looked).concentration, rng)
            if "guess" in priors:
                guess = draw_dirichlet((priors["guess"] + guessed).concentration, rng)
            looked, guessed = look(cells, competence, guess, values, rng)
        return looked, guessed

    def confusion(self, tables, n_classes, xp):
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

    def same_mistake(self, tables: Tables, first: Integers, second: Integers) -> Array:
        """Return the probability that two raters give the same wrong answer, (pairs, classes)."""
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
        share = np.exp(tables[0][0])
        types = invert(share.cumsum(axis=-1)[truth], rng.random(len(truth)))
        return self.answers_to(types, tables[1:], responses, rng)

    def answers_to(
        self, types: Integers, tables: Tables, responses: Responses, rng: Generator
    ) -> Integers:
        """Draw a label for every response, given the types (items,)."""
        competence, guess = map(np.exp, tables)
        looks = rng.random(responses.n_responses) < competence[responses.rater, 0]
        rows = self.dictionary(responses.n_classes).rows[types[responses.item]]
        up_to = np.where(looks[:, None], rows, guess[responses.rater]).cumsum(axis=1)
        return invert(up_to, rng.random(len(up_to)))


class ConsensusOfType(Consensus):
    r"""As :class:`Consensus`, for a label prior over the types: :class:`bayesfuse.build.TypeChain`.

    .. math:: p(x_n \mid z_n = z) = \prod_m
        \left(a_m \mu_{z x_{nm}} + (1 - a_m)\, g_{m x_{nm}}\right)

    Parameters
    ----------
    competence, guess, pairs : as of :class:`Consensus`
    shares : array-like, shape (classes, types), optional
        Shares of types within classes, by which "confusion", "sensitivity" and "specificity"
        average the rows of types. Default: those of types that are equally frequent.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> channel = bf.build.ConsensusOfType(competence=np.array([0.9, 0.5]))
    >>> channel.parameters["competence"]
    array([0.9, 0.5])
    """

    declared = Consensus.declared[1:]
    likelihood_kernel = staticmethod(likelihood_of_type)
    expected_kernel = staticmethod(expected_of_type)
    capabilities = Capabilities(redraws=True, by_state=True, by_rater=())

    def __init__(
        self,
        competence: Any,
        guess: Any = None,
        *,
        pairs: Sequence[Sequence[int]] = (),
        shares: ArrayLike | None = None,
    ) -> None:
        super().__init__(None, competence, guess, pairs=pairs)
        del self.parameters["share"]
        self.shares = None if shares is None else np.asarray(shares, dtype=float)

    def settings(self):
        shares = {} if self.shares is None else {"shares": self.shares.tolist()}
        return super().settings() | shares

    def structure(self, responses: Responses, gold: Integers) -> Structure:
        table = self.dictionary(responses.n_classes)
        start, cell = responses.start, responses.cell
        return start, cell, gold, table.class_of_type(), table.types, table.values

    def expand(self, log_rows, n_classes, xp):
        log_competence, *guess = log_rows
        return log_competence, guess[0] if guess else even_guesses(log_competence, n_classes, xp)

    def collapse(self, counts):
        return counts if "guess" in self.parameters else counts[:1]

    def sample_counts(self, tables, drawn, structure, rng, priors=None):
        cells = cells_of_types(drawn, tables[1].shape, *structure)
        return self.draw_looks(cells, tables, structure[-1], rng, priors)

    def shares_of_types(self, n_classes: int) -> Array:
        """Return the shares of types within classes, (classes, types)."""
        if self.shares is not None:
            return self.shares
        by_class = self.dictionary(n_classes).class_of_type().T
        return by_class / by_class.sum(axis=1, keepdims=True)

    def confusion(self, tables, n_classes, xp):
        log_share = np.log(self.shares_of_types(n_classes))
        return super().confusion((log_share[None], *tables), n_classes, xp)

    def same_mistake(self, tables, first, second):
        log_share = np.log(self.shares_of_types(tables[1].shape[1]))
        return super().same_mistake((log_share[None], *tables), first, second)

    def types(self, tables, probability, structure):
        return probability

    def simulate(self, tables, truth, responses, rng):
        n_types = self.dictionary(responses.n_classes).types.shape[1]
        return self.answers_to(truth % n_types, tables, responses, rng)
