"""Labels in sequences of item types: the type of an item stays that of the item before, or not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesfuse.data.sequences import Sequences
from bayesfuse.labels.base import Words
from bayesfuse.labels.chain import MarkovChain
from bayesfuse.numerics.kernels import Array, inner, kernel
from bayesfuse.numerics.rows import pick
from bayesfuse.parameters.capabilities import Capabilities
from bayesfuse.parameters.consensus_table import ConsensusTable
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.simplex import PROBABILITY, SIMPLEX

TINY = 1e-300  # added to the likelihood of every type, so that no product is zero


@inner
def filter_types(share, stay, leave, likelihood, item, filtered):
    """Write p(type t | responses up to t); return the log evidence of the sequence.

    The cost is linear in the types: a type stays, or is drawn from the shares.
    """
    n_types, log_evidence = share.size, 0.0
    for t in range(item.size):
        arriving, total, n = 1.0, 0.0, item[t]
        if t > 0:
            arriving = 0.0
            for z in range(n_types):
                arriving += filtered[t - 1, z] * leave[z]
        for z in range(n_types):
            predicted = arriving * share[z]
            if t > 0:
                predicted += filtered[t - 1, z] * stay[z]
            filtered[t, z] = predicted * (likelihood[n, z] + TINY)
            total += filtered[t, z]
        if total == 0.0:
            return -np.inf
        for z in range(n_types):
            filtered[t, z] /= total
        log_evidence += math.log(total)
    return log_evidence


@inner
def smooth_types(share, stay, leave, likelihood, item, filtered, probability, arrivals, stays):
    """Write p(type t | all responses); add expected arrivals (types,) and stays (types, 2)."""
    n_types, last = share.size, item.size - 1
    after = np.ones(n_types)  # p(responses after t | type t), up to a factor
    for t in range(last, -1, -1):
        n, total = item[t], 0.0
        for z in range(n_types):
            probability[n, z] = filtered[t, z] * after[z]
            total += probability[n, z]
        for z in range(n_types):
            probability[n, z] /= total
        if t == 0:
            for z in range(n_types):
                arrivals[z] += probability[n, z]
            return
        drawn, leaving, total = 0.0, 0.0, 0.0
        for z in range(n_types):
            after[z] *= likelihood[n, z] + TINY
            drawn += share[z] * after[z]
            leaving += filtered[t - 1, z] * leave[z]
        for z in range(n_types):
            total += filtered[t - 1, z] * (stay[z] * after[z] + leave[z] * drawn)
        for z in range(n_types):
            before = filtered[t - 1, z] / total
            stays[z, 0] += before * stay[z] * after[z]
            stays[z, 1] += before * leave[z] * drawn
            arrivals[z] += leaving * share[z] * after[z] / total
        top = 0.0
        for z in range(n_types):
            after[z] = stay[z] * after[z] + leave[z] * drawn
            top = max(top, after[z])
        for z in range(n_types):
            after[z] /= top


@kernel
def marginal(log_share, log_persistence, likelihood, log_scale, place, start):
    """Sum the types out: see :class:`bayesfuse.build.Marginal`, with types as classes."""
    share, both = np.exp(log_share), np.exp(log_persistence)
    stay, leave = both[:, 0].copy(), both[:, 1].copy()
    n_items, n_types = likelihood.shape
    probability, filtered = np.zeros((n_items, n_types)), np.empty((n_items, n_types))
    arrivals, stays = np.zeros(n_types), np.zeros((n_types, 2))
    log_evidence, total = np.empty(start.size - 1), 0.0
    for s in range(start.size - 1):
        item = place[start[s] : start[s + 1]]
        log_evidence[s] = filter_types(share, stay, leave, likelihood, item, filtered)
        if log_evidence[s] > -np.inf:
            smooth_types(
                share, stay, leave, likelihood, item, filtered, probability, arrivals, stays
            )
            for n in item:
                log_evidence[s] += log_scale[n]
        total += log_evidence[s]
    return total, log_evidence, probability, arrivals, stays


@kernel
def draw_types(log_share, log_persistence, likelihood, uniform, place, start):
    """Draw all types jointly: z where a type is drawn anew, z + types where it stays."""
    share, both = np.exp(log_share), np.exp(log_persistence)
    stay, leave = both[:, 0].copy(), both[:, 1].copy()
    n_items, n_types = likelihood.shape
    filtered, weight = np.empty((n_items, n_types)), np.empty(n_types)
    drawn = np.full(n_items, -1)
    for s in range(start.size - 1):
        item = place[start[s] : start[s + 1]]
        if filter_types(share, stay, leave, likelihood, item, filtered) == -np.inf:
            continue
        following = -1
        for t in range(item.size - 1, -1, -1):
            total = 0.0
            for z in range(n_types):
                weight[z] = filtered[t, z]
                if following >= 0:
                    arriving = leave[z] * share[following]
                    weight[z] *= arriving + (stay[z] if z == following else 0.0)
                total += weight[z]
            z = pick(weight, uniform[item[t], 0] * total)
            if z == following:
                anew = leave[z] * share[z]
                if uniform[item[t + 1], 1] * (anew + stay[z]) >= anew:
                    drawn[item[t + 1]] += n_types
            drawn[item[t]] = following = z
    return drawn


@kernel
def count_types(drawn, arrivals, stays, place, start):
    """Count drawn types as :func:`draw_types` returns them: arrivals, and stays and leaves."""
    n_types = arrivals.size
    for s in range(start.size - 1):
        for t in range(start[s], start[s + 1]):
            now = drawn[place[t]]
            if now < n_types:
                arrivals[now] += 1.0
            if t > start[s]:
                stays[drawn[place[t - 1]] % n_types, 0 if now >= n_types else 1] += 1.0


@kernel
def decode_types(log_share, log_persistence, likelihood, place, start):
    """Find the most probable types of every sequence (Viterbi)."""
    share, both = np.exp(log_share), np.exp(log_persistence)
    stay, leave = both[:, 0].copy(), both[:, 1].copy()
    n_items, n_types = likelihood.shape
    came_from, best = np.empty((n_items, n_types), dtype=np.int64), np.empty(n_types)
    types = np.empty(n_items, dtype=np.int64)
    for s in range(start.size - 1):
        item = place[start[s] : start[s + 1]]
        for t in range(item.size):
            leader, top = 0, -np.inf
            for z in range(n_types):
                if t > 0 and best[z] + math.log(leave[z] + TINY) > top:
                    leader, top = z, best[z] + math.log(leave[z] + TINY)
            for z in range(n_types):
                arriving = math.log(share[z] + TINY)
                came_from[t, z] = z
                if t > 0:
                    # the stay of a type is one of two ways to the same type
                    staying = math.log(stay[z] + leave[z] * share[z] + TINY)
                    came_from[t, z] = z if best[z] + staying >= top + arriving else leader
                    arriving = max(best[z] + staying, top + arriving)
                best[z] = arriving + math.log(likelihood[item[t], z] + TINY)
        last = np.argmax(best)
        for t in range(item.size - 1, -1, -1):
            types[item[t]] = last
            last = came_from[t, last]
    return types


class TypeChain(MarkovChain):
    r"""Types of items in sequence; the class of an item is drawn given its type alone.

    The type of an item is that of the item before with probability :math:`\lambda_z`, else it is
    drawn from the shares:

    .. math:: p(z_t \mid z_{t-1}) = \lambda_{z_{t-1}} 1[z_t = z_{t-1}]
        + (1 - \lambda_{z_{t-1}}) w_{z_t}, \qquad y_t \sim \rho_{z_t}

    So what a panel answers on neighbouring items smooths its consensus, but is no further evidence
    on the class: raters who go on in an error agree with themselves. The hidden states of kernels
    are types, and ``class_of_state`` holds the class probabilities :math:`\rho` of these.

    Parameters
    ----------
    type_share : tensor or array, shape (types,)
        :math:`w`, for the types of :class:`bayesfuse.build.Consensus`.
    persistence : tensor or array, shape (types,)
        :math:`\lambda`, the probability that the next item is of the same type.
    sequences : Sequences
        The order of the items.
    n_classes : int
    pairs : sequence of (int, int), optional
        Ordered pairs of classes that compete on some types.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> share, persistence = np.full(12, 1 / 12), np.full(12, 0.9)
    >>> path = bf.Sequences.from_lengths([3])
    >>> prior = bf.build.TypeChain(share, persistence, path, n_classes=2)
    >>> prior.class_of_state.shape
    (12, 2)
    """

    declared = (
        Parameter("type_share", SIMPLEX, ("type",)),
        Parameter("persistence", PROBABILITY, ("type",)),
    )
    words = Words("forward–backward over types", "classes of the most probable types")
    capabilities = Capabilities(linear=False, decodes_exactly=False)
    marginal_kernel = staticmethod(marginal)
    class_of_state: Array

    def __init__(
        self,
        type_share: Any,
        persistence: Any,
        sequences: Sequences,
        *,
        n_classes: int,
        pairs: Sequence[Sequence[int]] = (),
    ) -> None:
        self.parameters = {"type_share": type_share, "persistence": persistence}
        self.sequences = sequences
        self.n_classes, self.pairs = n_classes, [[int(k) for k in pair] for pair in pairs]
        self.class_of_state = ConsensusTable(n_classes, self.pairs).class_of_type()

    def settings(self):
        return {"n_classes": self.n_classes, "pairs": self.pairs}

    def sizes(self, name, shape, responses):
        return super().sizes(name, shape, responses) | {"type": len(self.class_of_state)}

    def draw(self, log_parameters, likelihood, structure, rng, previous=None):
        uniform = rng.random((len(likelihood), 2))
        return draw_types(*log_parameters, likelihood, uniform, *structure)

    def sample_counts(self, drawn, structure, n_classes):
        n_types = len(self.class_of_state)
        arrivals, stays = np.zeros(n_types), np.zeros((n_types, 2))
        if drawn.ndim == 1:
            count_types(drawn, arrivals, stays, *structure)
            return arrivals, stays
        place, start = structure
        path = drawn[place]
        follows = np.delete(np.arange(len(path)), start[:-1])
        stays[:, 0] = (path[follows] * path[follows - 1]).sum(axis=0)
        stays[:, 1] = path[follows - 1].sum(axis=0) - stays[:, 0]
        return path.sum(axis=0) - stays[:, 0], stays

    def uncounted(self, log_parameters, drawn, structure):
        return 0.0

    def decode(self, log_parameters, likelihood, structure):
        return self.class_of_state.argmax(axis=1)[
            decode_types(*log_parameters, likelihood, *structure)
        ]

    def prevalence(self, parameters, n_classes, structure, xp):
        """Return the share of every class in the long run, (classes,)."""
        share, persistence = parameters
        long_run = share / (1.0 - persistence)
        return (long_run / long_run.sum()) @ self.class_of_state
