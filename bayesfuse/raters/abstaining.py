"""Sources that may say nothing: rows over the labels and silence."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses, from_key
from bayesfuse.data.silence import Silence, first_rows, of_pairs
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import inlined, inner, kernel, rescale
from bayesfuse.numerics.rows import invert
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.simplex import SIMPLEX
from bayesfuse.raters.base import RaterChannel, reveal
from bayesfuse.raters.confusion import count_rows, multiply, weigh_rows

LEAST = np.finfo(float).tiny

ROUNDING = 1e-12  # a difference between sums of weights below this share of them is zero

# In a complete table the likelihood starts from that of an item on which all sources are silent,
# and every source that speaks has its silence divided out, so work is linear in the responses.
#
# The rows of the kernels' table are: labels (rater × label); the same divided by silence, for the
# first response of a source to an item; silence (rater).


@inlined
def fill_rows(log_speech):
    """Return the logarithms (rows, classes), log p(all silent), and how many cannot be silent."""
    n_raters, n_classes, n_said = log_speech.shape
    n_labels = n_said - 1
    n_cells = n_raters * n_labels
    log_table = np.empty((2 * n_cells + n_raters, n_classes))
    mute, never = np.zeros(n_classes), np.zeros(n_classes, dtype=np.int64)
    for m in range(n_raters):
        for k in range(n_classes):
            silence = log_speech[m, k, n_labels]
            log_table[2 * n_cells + m, k] = silence
            if silence == -np.inf:  # counted, because it cannot be divided out
                never[k] += 1
                silence = 0.0
            mute[k] += silence
            for c in range(n_labels):
                log_table[m * n_labels + c, k] = log_speech[m, k, c]
                log_table[n_cells + m * n_labels + c, k] = log_speech[m, k, c] - silence
    return log_table, mute, never


@inner
def rule_out(found, lost, log_speech, never, start, row):
    """Exclude classes under which a silent source would have spoken for certain."""
    n_raters, n_classes, n_said = log_speech.shape
    n_labels = n_said - 1
    n_cells = n_raters * n_labels
    for n in range(start.size - 1):
        for k in range(n_classes):
            left = never[k]
            for r in range(start[n], start[n + 1]):
                cell = np.int64(row[r]) - n_cells
                if 0 <= cell < n_cells and log_speech[cell // n_labels, k, n_labels] == -np.inf:
                    left -= 1
            if left > 0:
                found[n, k] = -np.inf if lost[n] else 0.0


@kernel
def likelihood(log_speech, start, row, complete, gold):
    """Multiply over what every source said or did not say: (items, classes), and the log scale."""
    log_table, mute, never = fill_rows(log_speech)
    for k in range(mute.size):
        mute[k] *= complete[0]
        never[k] *= complete[0]
    log_scale, top = np.empty(gold.size), mute.max()
    found, lost = multiply(np.exp(log_table), log_table, start, row, mute - top)
    if never.max() > 0:
        rule_out(found, lost, log_speech, never, start, row)
    for n in range(gold.size):
        if gold[n] >= 0:
            reveal(found, n, gold[n], -np.inf if lost[n] else 0.0)
        log_scale[n] = top + rescale(found, n) if lost[n] else top
    return found, log_scale


@inner
def by_source(counts, total, n_raters):
    """Turn counts of table rows into (raters, classes, labels and silence)."""
    n_rows, n_classes = counts.shape
    n_cells = (n_rows - n_raters) // 2
    n_labels = n_cells // n_raters
    found = np.empty((n_raters, n_classes, n_labels + 1))
    for m in range(n_raters):
        for k in range(n_classes):
            spoke = 0.0
            for c in range(n_labels):
                again, first = counts[m * n_labels + c, k], counts[n_cells + m * n_labels + c, k]
                found[m, k, c] = again + first
                spoke += first
            silent = total[k] - spoke
            if abs(silent) <= ROUNDING * abs(total[k]):
                silent = 0.0
            found[m, k, n_labels] = counts[2 * n_cells + m, k] + silent
    return found


@inlined
def n_rows_of(log_speech):
    """Return the number of table rows."""
    n_raters, _, n_said = log_speech.shape
    return 2 * n_raters * (n_said - 1) + n_raters


@kernel
def expected(log_speech, weight, start, row, complete, gold):
    """Sum the weights of every item into what its sources said (raters, classes, said)."""
    counts = weigh_rows(n_rows_of(log_speech), weight, start, row)
    total = np.zeros(log_speech.shape[1])
    if complete[0]:
        for n in range(weight.shape[0]):
            for k in range(total.size):
                total[k] += weight[n, k]
    return (by_source(counts, total, log_speech.shape[0]),)


@kernel
def count(log_speech, labels, start, row, complete):
    """Count what sources said by true label (raters, classes, said)."""
    total = np.zeros(log_speech.shape[1])
    counts = count_rows(n_rows_of(log_speech), total.size, labels, start, row)
    if complete[0]:
        for n in range(labels.size):
            total[labels[n]] += 1.0
    return by_source(counts, total, log_speech.shape[0])


class Abstaining(RaterChannel):
    r"""Sources that may abstain: one row per class, over the labels and silence.

    .. math:: p(x_n \mid y_n = k) = \prod_{m\ \mathrm{speaks}} \theta_{m k x_{nm}}
              \prod_{m\ \mathrm{silent}} \theta_{m k 0}

    A source that speaks more often on items of one class also informs the class by its silence. The
    table must hold silence: ``abstain=`` of :meth:`bayesfuse.Responses.from_matrix` and its
    siblings, or :meth:`bayesfuse.Responses.completed`. Time and memory are linear in the responses
    of complete tables.

    Parameters
    ----------
    speech : tensor or array, shape (raters, classes, labels + 1)
        :math:`\theta_{mkc}`, the probability that source m says c if the truth is k; the last
        entry :math:`\theta_{mk0}` is the probability of silence.

    Notes
    -----
    Predictive draws keep the pattern of silence and draw the labels; truths are then drawn given
    the pattern. Repeated responses of a source to an item each count, as in
    :class:`bayesfuse.Confusion`; its silence does not, unless it is in the table as well.

    References
    ----------
    Ratner, De Sa, Wu, Selsam & Ré (2016), Data programming: creating large training sets, quickly,
    NeurIPS, section 3 (sources that abstain; here coverage may depend on the class).

    Examples
    --------
    One rule that finds class 1 in four of ten cases, and one that speaks at random:

    >>> import numpy as np, bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[-1, 0], [1, -1], [-1, -1]], abstain=-1)
    >>> rows = [[[0.0, 0.1, 0.9], [0.0, 0.4, 0.6]], [[0.3, 0.2, 0.5], [0.2, 0.3, 0.5]]]
    >>> channel = bf.Abstaining(rows)
    >>> with np.errstate(divide="ignore"):
    ...     tables = (np.log(rows),)
    >>> structure = channel.structure(responses, gold=np.array([-1, -1, -1]))
    >>> np.exp(channel.log_lik(tables, structure)).round(3)
    array([[0.27, 0.12],
           [0.05, 0.2 ],
           [0.45, 0.3 ]])
    """

    declared = (Parameter("speech", SIMPLEX, ("rater", "class", "said")),)
    likelihood_kernel = staticmethod(likelihood)
    expected_kernel = staticmethod(expected)

    def __init__(self, speech: Any) -> None:
        self.parameters = {"speech": speech}

    @property
    def density(self):
        return "labels and silence, given who was asked about which item"

    def require_silence(self, responses: Responses) -> None:
        known_silence(self, responses)

    def sizes(self, name, shape, responses):
        return super().sizes(name, shape, responses) | {"said": responses.n_classes + 1}

    def structure(self, responses: Responses, gold: NDArray[np.int64]) -> tuple[Any, ...]:
        silent = known_silence(self, responses)
        n_cells = responses.n_raters * responses.n_classes
        complete = np.array([int(silent.complete)])
        if silent.complete:
            first = first_rows(responses).astype(np.uint32)
            first *= np.uint32(n_cells)
            first += responses.cell
            return responses.start, first, complete, gold
        start, rater = silent.pairs
        spoken, mute = responses.per_item, start[1:].astype(np.int64) - start[:-1]
        both = np.concatenate([[0], np.cumsum(spoken + mute)])
        row = np.empty(both[-1], dtype=np.uint32)
        speaks = np.arange(len(row)) < np.repeat(both[:-1] + spoken, spoken + mute)
        row[speaks] = responses.cell
        row[~speaks] = rater + np.uint32(2 * n_cells)
        return both.astype(np.uint32), row, complete, gold

    def tally(self, tables, drawn, structure, rng):
        if drawn.ndim == 2:
            return expected(*tables, drawn, *structure)
        *arranged, _ = structure
        return (count(*tables, drawn, *arranged),)

    def confusion(self, tables: tuple[Any, ...], n_classes: int, xp: Any) -> Any:
        """Return the distribution of what a source says, if it speaks."""
        said = xp.exp(tables[0])[..., :n_classes] + LEAST  # of one that never speaks, no label
        return said / said.sum(axis=-1, keepdims=True)

    def from_truth(self, rows):
        return {"speech": slice(None)}

    def simulate(self, tables, truth, responses, rng):
        given = self.confusion(tables, responses.n_classes, np).cumsum(axis=-1)
        cumulative = given[responses.rater, truth[responses.item]]
        return invert(cumulative, rng.random(len(cumulative)))

    def kept(self, tables, responses):
        """Return the likelihood of the pattern of silence, (items, classes)."""
        (log_speech,) = tables
        speaks = np.logaddexp.reduce(log_speech[..., :-1], axis=-1)
        pattern = np.repeat(speaks[..., None], log_speech.shape[-1], axis=-1)
        pattern[..., -1] = log_speech[..., -1]
        unknown = np.full(responses.n_items, -1)
        found, _ = likelihood(pattern, *self.structure(responses, unknown))
        return found

    def redrawn(self, tables, truth, responses, rng):
        item, rater, _ = known_pairs(responses)
        up_to = np.exp(tables[0]).cumsum(axis=-1)[rater, truth[item]]
        return as_said(responses, item, rater, invert(up_to, rng.random(len(item))))

    def outcomes(self, responses, item):
        items, rater, said = known_pairs(responses)
        own = items == item
        for words in product(range(responses.n_classes + 1), repeat=int(own.sum())):
            said[own] = words
            yield as_said(responses, items, rater, said)


def known_silence(channel: RaterChannel, responses: Responses) -> Silence:
    """Return which sources were silent where, or raise ModelError if a table does not say."""
    if responses.silent is None:
        raise ModelError(
            f"{type(channel).__name__} counts silence, so the table must hold it: give abstain= "
            "where the responses are read, or call responses.completed() if every source was "
            "applied to every item. Got: a table that says nothing of silence."
        )
    return responses.silent


def known_pairs(responses: Responses) -> tuple[NDArray[np.int64], ...]:
    """Return item, source and label (``n_classes``: silence) of all known pairs, written out."""
    silent = responses.silent
    item, rater = np.zeros((2, 0), dtype=np.int64)
    if silent is not None and silent.complete:
        speaks = np.zeros((responses.n_items, responses.n_raters), dtype=bool)
        speaks[responses.item, responses.rater] = True
        item, rater = np.nonzero(~speaks)
    elif silent is not None:
        start, own = silent.pairs
        size = start[1:].astype(np.int64) - start[:-1]
        item = np.repeat(np.arange(responses.n_items), size)
        rater = own.astype(np.int64)
    pairs = zip((responses.item, responses.rater), (item, rater), strict=True)
    label = np.append(responses.label, np.full(len(item), responses.n_classes))
    return *(np.append(spoken, silent) for spoken, silent in pairs), label


def as_said(
    responses: Responses, item: NDArray[Any], rater: NDArray[Any], said: NDArray[Any]
) -> Responses:
    """Return the table in which sources said this of items, as from :func:`known_pairs`."""
    pair, silent = item * responses.n_raters + rater, responses.silent
    speaks = said < responses.n_classes
    if silent is not None and not silent.complete:
        silent = of_pairs(pair[~speaks], responses.n_items, responses.n_raters)
    key = (pair * responses.n_classes + said)[speaks]
    table = from_key(key, responses.items, responses.raters, responses.classes, silent)
    return replace(table, multiplicity=responses.multiplicity)
