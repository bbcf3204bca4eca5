"""Whether labels have lost a class that responses favour."""

from __future__ import annotations

import pymc as pm
import xarray as xr

from bayesfuse.results.access import observation_of
from bayesfuse.results.collapse import in_words, lost_classes
from bayesfuse.results.probabilities import label_probabilities


def collapse(result: xr.DataTree, model: pm.Model) -> xr.Dataset:
    """Check whether labels are all of one class, or have lost a class, against the votes.

    A model that takes every item for one class can explain any response by the habits of its rater.
    Where raters have few items in common, or each only ever gives one label, such a labelling has
    the highest posterior density though it says nothing, and replicated data look like the observed
    ones. So this check compares the labels with the votes themselves.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.find_map``; these warn of a collapse by themselves
        (:class:`bayesfuse.errors.CollapseWarning`).
    model : pymc.Model
        The model it is of.

    Returns
    -------
    Dataset
        By class: ``favoured``, the number of items for which more responses name it than any other
        class (tied classes share an item), ``expected``, how many items have it by the label
        probabilities, and whether it is ``lost``: favoured for a twentieth of the items or more (at
        least 20), but expected to have less than one item or 2 % of the favoured. By rater:
        ``one_label``, whether only ever one label is given (ten times or more). Items of known
        class and items nobody answered do not count. Attributes: ``collapsed``, whether any class
        is lost; ``verdict``.

    Raises
    ------
    ModelError
        A result without label probabilities, or of other items.

    Notes
    -----
    A class that no item has is lost rightly, if raters name it by mistake that often: the check
    cannot tell, and neither can the responses. A class of a few items in a small table may be lost
    as well.

    Two tables of labelling functions, most of which only ever give one label (1,956 messages, two
    classes; 5,965 questions, six classes): accuracy of ``DawidSkene`` 0.45 and 0.17 after a
    collapse, 0.91 and 0.50 with ``prevalence_prior`` equal shares times the number of items. Fifty
    known labels did not undo it in either (0.54 and 0.21), two hundred did in the first (0.91).
    Fewer parameters per rater did not help.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> model = DawidSkene(bf.datasets.anesthesia())
    >>> print(bf.checks.collapse(bf.find_map(model), model).attrs["verdict"])
    Every class that many responses favour has items: labels have not collapsed.
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
