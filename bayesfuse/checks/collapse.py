"""Check whether the labels collapsed."""

from __future__ import annotations

import pymc as pm
import xarray as xr

from bayesfuse.results.collapse import in_words, lost_classes
from bayesfuse.results.compatibility import observation_of
from bayesfuse.results.probabilities import label_probabilities


def collapse(result: xr.DataTree, model: pm.Model) -> xr.Dataset:
    """Check whether the labels collapsed to one class, or lost a class that many responses name.

    A model with all items in one class can explain any response by the confusion matrix of its
    rater. If raters share few items, or each gives only one label, such a solution can have the
    highest posterior density, and replicated data look like the observed ones. This check therefore
    compares the labels with the votes.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.find_map``, which warn of a collapse
        (:class:`bayesfuse.errors.CollapseWarning`).
    model : pymc.Model
        The model of the result.

    Returns
    -------
    Dataset
        By class: ``favoured``, the number of items with a majority for it (tied classes share an
        item); ``expected``, its expected number of items by the label probabilities; ``lost``,
        whether it is favoured for at least 5 % of the items (and 20) but expected to have less
        than one item or 2 % of the favoured. By rater: ``one_label``, whether all responses (ten or
        more) give the same label. Items of known class and items without responses do not count.
        Attributes: ``collapsed``, whether any class is lost; ``verdict``.

    Raises
    ------
    ModelError
        A result without label probabilities, or of other items.

    Notes
    -----
    If raters often name a class by mistake, losing it is right; the responses alone cannot tell. A
    class of a few items in a small table may also be lost.

    On two tables of labelling functions, most of which give only one label (1,956 messages, two
    classes; 5,965 questions, six classes), the accuracy of ``DawidSkene`` was 0.45 and 0.17 after a
    collapse, and 0.91 and 0.60 with ``prevalence_prior`` equal shares times the number of items
    (0.91 and 0.50 at the mode). Neither fifty nor two hundred known labels prevented it (0.54 to
    0.55 and 0.17 to 0.21 on the other items, three random choices of each). Fewer parameters per
    rater did not help. ``ItemTypes`` kept all classes in both, but its labels said next to nothing
    (log-loss 0.70 and 1.80, where equal shares have 0.69 and 1.79). On items with
    a vote ``LabellingFunctions``, made for such sources, has 0.92 and 0.60 with no more known
    (log-loss 0.26 and 1.27).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> print(bf.checks.collapse(bf.find_map(model), model).attrs["verdict"])
    Labels have not collapsed: every class that many responses name has items.
    """
    observation = observation_of(result, model)
    probability = label_probabilities(result, model).transpose("item", "class")
    found = lost_classes(probability.values, observation)
    responses = observation.responses
    return xr.Dataset(
        {
            "favoured": ("class", found.favoured),
            "expected": ("class", found.expected),
            "lost": ("class", found.lost),
            "one_label": ("rater", found.one_label >= 0),
        },
        {"class": responses.classes, "rater": responses.raters},
        {"collapsed": bool(found.lost.any()), "verdict": in_words(found, observation)},
    )
