"""Sources that may abstain: rows over the labels and silence."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesfuse.data.responses import Responses
from bayesfuse.data.silence import first_rows, of_pairs
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import inlined, inner, kernel
from bayesfuse.numerics.rows import draw_columns
from bayesfuse.parameters.capabilities import Capabilities
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.factor import Integers, Structure
from bayesfuse.parameters.simplex import SIMPLEX
from bayesfuse.raters.confusion import Confusion, multiply, scaled, weigh_rows

SMALLEST_FLOAT = np.finfo(float).tiny

ROUNDING = 1e-12  # a difference between sums of weights below this share of them is zero

# In a complete table the likelihood starts from that of an item on which all sources are silent,
# and every source that speaks has its silence divided out, so work is linear in the responses.
#
# The rows of the kernels' table are: labels (rater × label); the same divided by silence, for the
# first response of a source to an item; silence (rater).


@inlined
def fill_rows(log_speech, complete):
    """Return the logarithms (rows, classes), log p(all silent), and how many cannot be silent."""
    n_raters, n_classes, n_outcomes = log_speech.shape
    n_labels = n_outcomes - 1
    n_cells = n_raters * n_labels
    log_table = np.empty((2 * n_cells + n_raters, n_classes))
    mute, never = np.zeros(n_classes), np.zeros(n_classes, dtype=np.int64)
    for m in range(n_raters):
        for k in range(n_classes):
            silence = log_speech[m, k, n_labels]
            log_table[2 * n_cells + m, k] = silence
            if silence == -np.inf:  # counted, because it cannot be divided out
                never[k] += complete
                silence = 0.0
            mute[k] += silence * complete
            for c in range(n_labels):
                log_table[m * n_labels + c, k] = log_speech[m, k, c]
                log_table[n_cells + m * n_labels + c, k] = log_speech[m, k, c] - silence
    return log_table, mute, never


@inner
def rule_out(product, lost, log_speech, never, start, row):
    """Exclude classes under which a silent source would have spoken for certain."""
    n_raters, n_classes, n_outcomes = log_speech.shape
    n_labels = n_outcomes - 1
    n_cells = n_raters * n_labels
    for n in range(start.size - 1):
        for k in range(n_classes):
            left = never[k]
            for r in range(start[n], start[n + 1]):
                cell = np.int64(row[r]) - n_cells
                if 0 <= cell < n_cells and log_speech[cell // n_labels, k, n_labels] == -np.inf:
                    left -= 1
            if left > 0:
                product[n, k] = -np.inf if lost[n] else 0.0


@kernel
def likelihood(log_speech, start, row, complete, gold):
    """Multiply over labels and silence: (items, classes), and the rows' log scale."""
    log_table, mute, never = fill_rows(log_speech, complete[0])
    top = mute.max()
    product, lost = multiply(np.exp(log_table), log_table, start, row, mute - top)
    if never.max() > 0:
        rule_out(product, lost, log_speech, never, start, row)
    return scaled(product, lost, gold, top)


@kernel
def expected(log_speech, labels, start, row, complete, gold):
    """Count outcomes (raters, classes, outcomes); ``labels`` as for :func:`weigh_rows`."""
    n_raters, n_classes, n_outcomes = log_speech.shape
    n_labels = n_outcomes - 1
    n_cells = n_raters * n_labels
    counts = weigh_rows(2 * n_cells + n_raters, n_classes, labels, start, row)
    total = np.zeros(n_classes)
    for n in range(gold.size if complete[0] else 0):
        if labels.ndim == 1:
            total[labels[n]] += 1.0
        else:
            for k in range(n_classes):
                total[k] += labels[n, k]
    outcome_counts = np.empty(log_speech.shape)
    for m in range(n_raters):
        for k in range(n_classes):
            spoke = 0.0
            for c in range(n_labels):
                again, first = counts[m * n_labels + c, k], counts[n_cells + m * n_labels + c, k]
                outcome_counts[m, k, c] = again + first
                spoke += first
            silent = total[k] - spoke
            if abs(silent) <= ROUNDING * abs(total[k]):
                silent = 0.0
            outcome_counts[m, k, n_labels] = counts[2 * n_cells + m, k] + silent
    return (outcome_counts,)


class Abstaining(Confusion):
    r"""Sources that may abstain: one row per class, over the labels and silence.

    .. math:: p(x_n \mid y_n = k) = \prod_{m\ \mathrm{speaks}} \theta_{m k x_{nm}}
              \prod_{m\ \mathrm{silent}} \theta_{m k 0}

    So silence is evidence, too, and the table must hold it: ``abstain=`` of
    :meth:`bayesfuse.Responses.from_matrix` and its siblings, or
    :meth:`bayesfuse.Responses.completed`. Work is linear in the responses of complete tables.

    Parameters
    ----------
    speech : tensor or array, shape (raters, classes, labels + 1)
        :math:`\theta_{mkc}`, the probability that source m answers c if the truth is k; the last
        entry :math:`\theta_{mk0}` is the probability of silence.

    Notes
    -----
    Predictive draws keep the pattern of silence; truths are drawn given it. Repeated responses of
    a source to an item each count, its silence does not, unless it is in the table as well. Ratner
    et al. (2016), Data programming, NeurIPS, section 3, have a coverage without the class.

    Examples
    --------
    A rule with a sensitivity of .4 for class 1 votes for it, then abstains:

    >>> import numpy as np, bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[1], [-1]], abstain=-1, classes=[0, 1])
    >>> channel = bf.build.Abstaining([[[0.01, 0.1, 0.89], [0.01, 0.4, 0.59]]])
    >>> structure = channel.structure(responses, gold=np.array([-1, -1]))
    >>> np.exp(channel.log_lik((np.log(channel.parameters["speech"]),), structure)).round(2)
    array([[0.1 , 0.4 ],
           [0.89, 0.59]])
    """

    declared = (Parameter("speech", SIMPLEX, ("rater", "class", "said")),)
    likelihood_kernel = staticmethod(likelihood)
    expected_kernel = staticmethod(expected)
    capabilities = Capabilities(takes=("silence",), free_rows=True)

    def __init__(self, speech: Any) -> None:
        self.parameters = {"speech": speech}

    @property
    def density(self):
        return "labels and silence, given who was asked about which item"

    def require_table(self, responses: Responses) -> None:
        super().require_table(responses)
        if responses.silent is None:
            raise ModelError(
                f"{type(self).__name__} counts silence, so the table must hold it: give abstain= "
                "where the responses are read, or call responses.completed() if every source was "
                "applied to every item. Got: a table without silence."
            )

    def sizes(self, name, shape, responses):
        return super().sizes(name, shape, responses) | {"said": responses.n_classes + 1}

    def structure(self, responses: Responses, gold: Integers) -> Structure:
        silent: Any = responses.silent
        n_cells = responses.n_raters * responses.n_classes
        complete = np.array([int(silent.complete)])
        if silent.complete:
            first = first_rows(responses).astype(np.uint32)
            first *= np.uint32(n_cells)
            first += responses.cell
            return responses.start, first, complete, gold
        item, rater, outcome = known_pairs(responses)
        order = np.argsort(item, kind="stable")
        cell = rater * responses.n_classes + outcome
        row = np.where(outcome < responses.n_classes, cell, 2 * n_cells + rater)[order]
        start = np.searchsorted(item[order], np.arange(responses.n_items + 1))
        return start.astype(np.uint32), row.astype(np.uint32), complete, gold

    def confusion(self, tables, n_classes, xp):
        """Return the distribution of the label of a source, given that it responds."""
        spoken = (
            xp.exp(tables[0])[..., :n_classes] + SMALLEST_FLOAT
        )  # uniform for a source that never speaks
        return spoken / spoken.sum(axis=-1, keepdims=True)

    def fixed_feature_likelihood(self, tables, responses):
        """Return the likelihood of the pattern of silence, (items, classes)."""
        (log_speech,) = tables
        speaks = np.logaddexp.reduce(log_speech[..., :-1], axis=-1)
        pattern = np.repeat(speaks[..., None], log_speech.shape[-1], axis=-1)
        pattern[..., -1] = log_speech[..., -1]
        unknown = np.full(responses.n_items, -1)
        product, _ = likelihood(pattern, *self.structure(responses, unknown))
        return product

    def redraw_fixed_features(self, tables, truth, responses, rng):
        item, rater, _ = known_pairs(responses)
        up_to = np.exp(tables[0]).cumsum(axis=-1)[rater, truth[item]]
        return self.from_response_codes(responses, draw_columns(up_to, rng))

    def response_codes(self, responses):
        item, _, outcome = known_pairs(responses)
        return item, outcome, responses.n_classes + 1

    def from_response_codes(self, responses, codes):
        item, rater, _ = known_pairs(responses)
        silent: Any = responses.silent
        pair = item * responses.n_raters + rater
        speaks = codes < responses.n_classes
        if not silent.complete:
            silent = of_pairs(pair[~speaks], responses.n_items, responses.n_raters)
        rows = (code[speaks] for code in (item, rater, codes))
        return responses.with_rows(*rows, silent=silent)


def known_pairs(responses: Responses) -> tuple[Integers, ...]:
    """Return item, source and label (``n_classes``: silence) of all known pairs, written out."""
    silent: Any = responses.silent
    if silent.complete:
        speaks = np.zeros((responses.n_items, responses.n_raters), dtype=bool)
        speaks[responses.item, responses.rater] = True
        item, rater = np.nonzero(~speaks)
    else:
        start, rater = silent.pairs
        item = np.repeat(np.arange(responses.n_items), np.diff(start))
    label = np.append(responses.label, np.full(len(item), responses.n_classes))
    return np.append(responses.item, item), np.append(responses.rater, rater), label
