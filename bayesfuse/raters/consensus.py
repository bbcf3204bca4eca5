"""Item types: raters answer by the consensus row of an item's type, or guess."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_columns, draw_dirichlet
from bayesfuse.parameters.capabilities import Capabilities
from bayesfuse.parameters.consensus_table import ConsensusTable, shares_within_classes
from bayesfuse.parameters.contract import Parameter, Role
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.factor import Integers, Structure, Tables
from bayesfuse.parameters.pool import ConsensusShares
from bayesfuse.parameters.simplex import PROBABILITY, SIMPLEX
from bayesfuse.raters.base import RaterChannel
from bayesfuse.raters.consensus_chain import begin_chain
from bayesfuse.raters.consensus_kernels import (
    cells_of_types,
    count_clean,
    count_types,
    expected,
    expected_of_type,
    likelihood,
    likelihood_of_type,
    look,
)

COMPETENCE_ROUNDS = 5  # draws of looks, competences and guesses in an interpreted sweep
MAX_ENTRIES = 4_000_000  # items × types: compiled chains store a weight for each


def cells_of(responses: Responses) -> Structure:
    """Return the first cell of every item, the cells, and distinct statements (see kernels)."""
    width = 1 + responses.n_classes
    if (stated := responses.stated) is None:
        return responses.start, responses.cell, np.empty((0, width))
    rows = np.column_stack([stated.rater, stated.probability])
    distinct, number = np.unique(rows, axis=0, return_inverse=True)
    first = responses.n_raters * responses.n_classes
    item = np.append(responses.item, stated.item)
    cell = np.append(responses.cell, first + number.ravel())
    start = responses.start + stated.start
    return start, cell[np.argsort(item, kind="stable")].astype(np.uint32), distinct


class Consensus(RaterChannel):
    r"""Items have hidden types with fixed consensus rows; raters look, or guess.

    Many equal answers are little evidence on types whose row is near even. Types and looks are
    summed out (see the papers cited by :class:`bayesfuse.models.ItemTypes`):

    .. math:: p(x_n \mid y_n = k) = \sum_z \omega_{kz} \prod_m
        \left(a_m \mu_{z x_{nm}} + (1 - a_m)\, g_{m x_{nm}}\right)

    For every class there are six rows :math:`\mu_z` from even to unanimous, where the others share
    the rest, and three for each pair: .5 and .4, .65 and .3, .8 and .17. On a clean type, of which
    there is one for each class after these, rater m answers by a row of their own,
    :math:`\theta_{mzx}`, as in :class:`Confusion`.

    Statements of probabilities, and answers of several classes, are averaged over hidden answers,
    as in :class:`Stated`.

    Parameters
    ----------
    share : tensor or array, shape (classes, types)
        :math:`\omega_{kz}`, the probability that an item of class k is of type z.
    competence : tensor or array, shape (raters,)
        :math:`a_m`, the probability that rater m looks.
    guess : tensor or array, shape (raters, answers), optional
        :math:`g_{mc}`, the probability that rater m answers c without looking. Default: even.
    clean_confusion : tensor or array, shape (raters, classes, answers), optional
        :math:`\theta_{mzc}`, the probability that rater m answers c to items of clean type z.
        Default: no clean types.
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
        Parameter("clean_confusion", SIMPLEX, ("rater", "class", "answer")),
    )
    likelihood_kernel = staticmethod(likelihood)
    expected_kernel = staticmethod(expected)
    capabilities = Capabilities(
        takes=("statements",),
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
        clean_confusion: Any = None,
        *,
        pairs: Sequence[Sequence[int]] = (),
        kind: ArrayLike | None = None,
    ) -> None:
        self.parameters = {"share": share, "competence": competence}
        if guess is not None:
            self.parameters["guess"] = guess
        if clean_confusion is not None:
            self.parameters["clean_confusion"] = clean_confusion
        self.pairs = tuple((int(first), int(second)) for first, second in pairs)
        self.kind = None if kind is None else np.asarray(kind, dtype=np.int64)
        self.n_kinds = 0 if self.kind is None else int(self.kind.max(initial=0)) + 1

    def settings(self) -> dict[str, Any]:
        return {"pairs": [list(pair) for pair in self.pairs]}

    def dictionary(self, n_classes: int) -> ConsensusTable:
        """Return the consensus rows of the types."""
        return ConsensusTable(n_classes, self.pairs, "clean_confusion" in self.parameters)

    def structure(self, responses: Responses, gold: Integers) -> Structure:
        kind = self.kind
        if (
            kind is None or len(kind) != responses.n_items
        ):  # kinds are counted for the fitted items only
            kind = np.zeros(responses.n_items if self.n_kinds else 0, dtype=np.int64)
        rows = self.dictionary(responses.n_classes)
        return *cells_of(responses), gold, kind, rows.types, rows.values

    def sizes(self, name, shape, responses):
        n_types = len(self.dictionary(responses.n_classes).rows)
        return super().sizes(name, shape, responses) | {"type": n_types}

    def subset(self, items):
        if self.kind is None:
            return self
        other = copy.copy(self)
        other.kind = self.kind[items]
        return other

    def expand(self, log_rows, n_classes, xp):
        """Give the shares a first axis: items of unknown and of known class count apart."""
        by_name = dict(zip((p.name for p in self.used_parameters), log_rows, strict=True))
        n_raters = by_name["competence"].shape[0]
        guess = by_name.get("guess")
        if guess is None:
            guess = xp.zeros((n_raters, n_classes)) - math.log(n_classes)
        clean = by_name.get("clean_confusion")
        if clean is None:
            clean = xp.zeros((n_raters, 0, n_classes))
        share = xp.stack([by_name["share"], by_name["share"]])
        return share, by_name["competence"], guess, clean

    def collapse(self, counts):
        by_class, looked, guessed, clean, *_ = counts
        names = [parameter.name for parameter in self.declared]
        by_name = dict(zip(names, (by_class.sum(axis=0), looked, guessed, clean), strict=True))
        return tuple(by_name[parameter.name] for parameter in self.used_parameters)

    def sample_assignments(self, rows, tables, drawn, priors, structure, rng, channel_at=None):
        """Draw types, then looks, competences and guesses in turn; return the last counts."""
        by_look = {"competence", "guess"} & set(self.parameters)
        used_priors = {name: priors.get(name) for name in by_look}
        drawn_here = all(type(prior) is Dirichlet for prior in used_priors.values())
        return {}, self.sample_counts(
            tables, drawn, structure, rng, used_priors if drawn_here else None
        )

    def compiled_chain(self, labels, table, structure, pools, priors):
        """Compile chains of types, for independent labels under pools of parameters."""
        share, clean = pools.get("share"), priors.get("clean_confusion")
        pooled = set(self.parameters) - {"clean_confusion"}
        if not isinstance(share, ConsensusShares) or set(pools) != pooled:
            return None
        if pooled != set(self.parameters) and type(clean) is not Dirichlet:
            return None
        if labels.named(Role.CLASS_SHARES) is None and share.known is None:
            return None
        if (table.n_items + self.n_kinds) * len(share.log_consensus) > MAX_ENTRIES:
            return None
        return partial(begin_chain, table, structure, pools, clean)

    def sample_counts(self, tables, drawn, structure, rng, priors=None):
        _, competence, guess, log_clean = tables
        by_kind = np.zeros((2, self.n_kinds, tables[0].shape[2]))
        by_class, cells = count_types(*tables, drawn, by_kind, rng, *structure)
        looked, guessed = self.draw_looks(cells, (competence, guess), structure[-1], rng, priors)
        counts = by_class, looked, guessed, count_clean(cells, log_clean)
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
        log_share, log_competence, log_guess, log_clean = tables
        dictionary, share = self.dictionary(n_classes), xp.exp(log_share[0])
        n_consensus = len(dictionary.rows) - dictionary.n_clean
        consensus = xp.matmul(share[:, :n_consensus], dictionary.rows[:n_consensus])
        looks, guesses = (xp.exp(log_competence)[:, at, None, None] for at in (0, 1))
        on_consensus = share[:, :n_consensus].sum(axis=1)[:, None]
        rows = looks * consensus + guesses * on_consensus * xp.exp(log_guess)[:, None]
        if not dictionary.n_clean:
            return rows
        return rows + xp.matmul(share[:, n_consensus:], xp.exp(log_clean))

    def types(self, tables: Tables, probability: Array, structure: Structure) -> Array:
        """Return the probability of types (items, types) from those of labels, (items, classes)."""
        *cells, gold, _, types, values = structure
        counts_of_types = np.zeros((2, len(gold), tables[0].shape[2]))  # every item is a kind
        alone = np.arange(len(gold))
        of_items = *cells, gold, alone, types, values
        count_types(*tables, probability, counts_of_types, None, *of_items)
        return counts_of_types.sum(axis=0)

    def same_mistake(self, tables: Tables, first: Integers, second: Integers) -> Array:
        """Return the probability that two raters give the same wrong answer, (pairs, classes)."""
        share, competence, guess, clean = np.exp(tables[0][0]), *map(np.exp, tables[1:])
        n_consensus = share.shape[1] - clean.shape[1]
        share, share_of_clean = share[:, :n_consensus], share[:, n_consensus:]
        rows = self.dictionary(len(share)).rows[:n_consensus]
        looks, guesses = competence[:, 0], competence[:, 1, None] * guess
        # of both answers c given type z: products of (look μ + guess) of the two raters
        mean = share @ rows
        both = (looks[first] * looks[second])[:, None, None] * (share @ (rows * rows))
        both += (guesses[first] * guesses[second])[:, None] * share.sum(axis=1)[:, None]
        for one, other in ((first, second), (second, first)):
            both += looks[one][:, None, None] * mean * guesses[other][:, None]
        both += share_of_clean @ (clean[first] * clean[second])
        return both.sum(axis=-1) - np.einsum("pkk->pk", both)

    def simulate(self, tables, truth, responses, rng):
        types = self._simulate_types(tables, truth, rng)
        return self._simulate_answers(tables, types[responses.item], responses.rater, rng)

    @staticmethod
    def _simulate_types(tables: Tables, truth: Integers, rng: Generator) -> Integers:
        return draw_columns(np.exp(tables[0][0]).cumsum(axis=-1)[truth], rng)

    def _simulate_answers(
        self, tables: Tables, types: Integers, rater: Integers, rng: Generator
    ) -> Integers:
        """Draw answers of raters to items of the types, (answers,)."""
        competence, guess, clean = map(np.exp, tables[1:])
        dictionary = self.dictionary(guess.shape[1])
        looks = rng.random(len(types)) < competence[rater, 0]
        rows = np.where(looks[:, None], dictionary.rows[types], guess[rater])
        clean_type = types - (len(dictionary.rows) - clean.shape[1])
        at = np.flatnonzero(clean_type >= 0)
        rows[at] = clean[rater[at], clean_type[at]]
        return draw_columns(rows.cumsum(axis=1), rng)

    def redraw_fixed_features(self, tables, truth, responses, rng):
        types = self._simulate_types(tables, truth, rng)
        label = self._simulate_answers(tables, types[responses.item], responses.rater, rng)
        table = responses.relabelled(label)
        if (stated := responses.stated) is None:
            return table
        hidden = self._simulate_answers(tables, types[stated.item], stated.rater, rng)
        return self.state_about(table, hidden, rng)


class ConsensusOfType(Consensus):
    r"""As :class:`Consensus`, for a label prior over the types: :class:`bayesfuse.build.TypeChain`.

    .. math:: p(x_n \mid z_n = z) = \prod_m
        \left(a_m \mu_{z x_{nm}} + (1 - a_m)\, g_{m x_{nm}}\right)

    Parameters
    ----------
    competence, guess, pairs : as of :class:`Consensus`

    Notes
    -----
    "confusion", "sensitivity" and "specificity" average the rows of types by their shares within
    classes in the long run.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> channel = bf.build.ConsensusOfType(competence=np.array([0.9, 0.5]))
    >>> channel.parameters["competence"]
    array([0.9, 0.5])
    """

    declared = Consensus.declared[1:3]
    likelihood_kernel = staticmethod(likelihood_of_type)
    expected_kernel = staticmethod(expected_of_type)
    capabilities = Capabilities(redraws=True, by_state=True, by_rater=())

    def __init__(
        self,
        competence: Any,
        guess: Any = None,
        *,
        pairs: Sequence[Sequence[int]] = (),
    ) -> None:
        super().__init__(None, competence, guess, pairs=pairs)
        del self.parameters["share"]
        self._chain: Any = None  # shares and persistences of the types

    def of_chain(self, share: Any, persistence: Any) -> Self:
        """Return a copy whose confusion matrices average types by their shares in a chain."""
        other = copy.copy(self)
        other._chain = share, persistence
        return other

    def at(self, rows, structure):
        if "type_share" not in rows:
            return self, structure
        share, persistence = np.exp(rows["type_share"]), np.exp(rows["persistence"])[:, 0]
        return self.of_chain(share, persistence), structure

    def structure(self, responses: Responses, gold: Integers) -> Structure:
        table = self.dictionary(responses.n_classes)
        start, cell = responses.start, responses.cell
        return start, cell, gold, table.class_of_type(), table.types, table.values

    def expand(self, log_rows, n_classes, xp):
        log_competence, *guess = log_rows
        even = xp.zeros((log_competence.shape[0], n_classes)) - math.log(n_classes)
        return log_competence, guess[0] if guess else even

    def collapse(self, counts):
        return counts if "guess" in self.parameters else counts[:1]

    def sample_counts(self, tables, drawn, structure, rng, priors=None):
        cells = cells_of_types(drawn, tables[1].shape, *structure)
        return self.draw_looks(cells, tables, structure[-1], rng, priors)

    def shares_of_types(self, n_classes: int) -> Any:
        """Return shares of types within classes (classes, types), even without a chain."""
        class_of_type = self.dictionary(n_classes).class_of_type()
        share, persistence = self._chain or (np.ones(len(class_of_type)), 0.0)
        return shares_within_classes(share, persistence, class_of_type)

    def confusion(self, tables, n_classes, xp):
        log_share = xp.log(self.shares_of_types(n_classes))
        clean = xp.zeros((tables[0].shape[0], 0, n_classes))
        return super().confusion((log_share[None], *tables, clean), n_classes, xp)

    def same_mistake(self, tables, first, second):
        n_raters, n_classes = tables[1].shape
        log_share, clean = (
            np.log(self.shares_of_types(n_classes)),
            np.zeros((n_raters, 0, n_classes)),
        )
        return super().same_mistake((log_share[None], *tables, clean), first, second)

    def types(self, tables, probability, structure):
        return probability

    def simulate(self, tables, truth, responses, rng):
        competence, guess = map(np.exp, tables)
        all_rows = self.dictionary(responses.n_classes).rows
        rows = all_rows[truth[responses.item] % len(all_rows)]
        looks = rng.random(responses.n_responses) < competence[responses.rater, 0]
        rows = np.where(looks[:, None], rows, guess[responses.rater])
        return draw_columns(rows.cumsum(axis=1), rng)
