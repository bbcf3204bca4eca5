"""Labels in sequences of items of which a classifier knows something: a hidden Markov chain."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.known import read_classifier
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.labels import forward_backward
from bayesfuse.labels.chain import MarkovChain, draw_in_chain
from bayesfuse.labels.chain import count_in_chain as count_plain
from bayesfuse.labels.item_odds import log_word
from bayesfuse.numerics.kernels import Array, inner, kernel
from bayesfuse.parameters.factor import InChain


@kernel
def marginal(log_initial, log_transition, likelihood, log_scale, place, start, evidence):
    """As :func:`forward_backward.marginal`, of responses and covariates."""
    return forward_backward.marginal(
        log_initial, log_transition, likelihood * evidence, log_scale, place, start
    )


@inner
def draw_informed(tables, likelihood, labels, rng, structure):
    """Draw the labels of all sequences; see :class:`InChain`."""
    place, start, evidence = structure
    return draw_in_chain(tables, likelihood * evidence, labels, rng, (place, start))


@inner
def count_in_chain(tables, labels, counts, structure, n_classes):
    """Count first labels and pairs of neighbours."""
    count_plain(tables, labels, counts, (structure[0], structure[1]), n_classes)


class InformedMarkovChain(MarkovChain):
    r"""Markov chain of labels of items with a classifier's probabilities :math:`\hat p`.

    .. math:: p(y) \propto \rho_{y_1} \prod_t A_{y_{t-1} y_t} \prod_t \hat p_{t y_t} / \bar p_{y_t}

    The ratio is the likelihood of the inputs of the classifier, up to a factor, by Bayes' theorem.
    So the inputs count as observed, like responses, and initial and transition keep their Dirichlet
    conditionals. The log evidence is relative to that of the inputs, and comparable only between
    models with the same classifier.

    Parameters
    ----------
    initial, transition, sequences
        As in :class:`MarkovChain`.
    classifier : array or DataFrame, shape (items, classes)
        Probabilities from a classifier that saw none of the responses to these items.
    shares : array-like, shape (classes,), optional
        Mean probabilities :math:`\bar p` over the items of the fit. Default: of ``classifier``.

    References
    ----------
    Bourlard & Morgan (1994), Connectionist speech recognition, Kluwer, chapter 7 (scaled
    likelihoods).

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> prior = bf.InformedMarkovChain(
    ...     initial=[0.5, 0.5],
    ...     transition=[[0.9, 0.1], [0.2, 0.8]],
    ...     sequences=bf.Sequences.from_lengths([2]),
    ...     classifier=np.array([[0.5, 0.5], [0.2, 0.8]]),
    ... )
    >>> structure = prior.structure(bf.Responses.from_matrix([[0], [1]]))
    >>> log_rows = tuple(np.log(value) for value in prior.parameters.values())
    >>> prior.marginal(log_rows, np.ones((2, 2)), np.zeros(2), structure).probability.round(2)
    array([[0.52, 0.48],
           [0.47, 0.53]])
    """

    needs: tuple[str, ...] = ("sequences", "classifier")
    marginal_kernel = staticmethod(marginal)

    def __init__(
        self,
        initial: Any,
        transition: Any,
        sequences: Sequences,
        classifier: Any,
        shares: ArrayLike | None = None,
    ) -> None:
        super().__init__(initial, transition, sequences)
        self.classifier = classifier
        self.shares = None if shares is None else np.asarray(shares, dtype=float)

    def settings(self):
        return {} if self.shares is None else {"shares": self.shares.tolist()}

    def structure(self, responses: Responses) -> tuple[NDArray[Any], ...]:
        probability = read_classifier(responses, self.classifier)
        shares = probability.mean(axis=0) if self.shares is None else self.shares
        log_ratio = log_word(probability) - log_word(shares)
        evidence: Array = np.exp(log_ratio - log_ratio.max(axis=1, keepdims=True))
        return (*super().structure(responses), evidence)

    def part(self, structure, units):
        items, own = super().part(structure[:2], units)
        return items, (*own, structure[2][items])

    def in_chain(self, *, copies):
        return None if copies else InChain(count_in_chain, draw=draw_informed)

    def draw(self, log_parameters, likelihood, structure, rng, previous=None):
        *chain, evidence = structure
        return super().draw(log_parameters, likelihood * evidence, tuple(chain), rng, previous)

    def tally(self, drawn, structure, n_classes):
        return super().tally(drawn, structure[:2], n_classes)

    def decode(self, log_parameters, likelihood, structure):
        return super().decode(log_parameters, likelihood * structure[2], structure[:2])

    def log_prob(self, log_parameters, labels, structure):
        own = structure[2][np.arange(len(labels)), labels]
        return super().log_prob(log_parameters, labels, structure[:2]) + float(np.log(own).sum())
