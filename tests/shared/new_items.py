"""Tables of new items for predictions, and Bayes' rule for them in plain NumPy."""

from itertools import product

import numpy as np

import bayesfuse as bf

CLASSES = ["high", "low", "mid"]
NAMES = {"items": [f"old {n}" for n in range(24)], "classes": CLASSES}
NAMES["raters"] = ["ann", "bob", "cyd", "dan", "eve"]


def fitted_table():
    """Three classes of unequal shares, five raters of whom three answer an item."""
    settings = {"per_item": 3, "prevalence": [0.5, 0.2, 0.3], "random_seed": 5}
    made = bf.datasets.simulate_dawid_skene(24, 5, 3, **settings)
    return named(made.responses.to_frame(), **NAMES)


def named(frame, items, raters, classes):
    """Return a table of numbers by names."""
    names = {"item": items, "rater": raters, "label": classes}
    table = {column: [own[n] for n in frame[column]] for column, own in names.items()}
    return bf.Responses.from_long(table, items=items, raters=raters, classes=classes)


SAID = "a ann low, a dan low, b dan high, b bob mid, b bob mid, d ann mid, d bob low, d dan high"
NEW_ROWS = [tuple(row.split()) for row in SAID.split(", ")]
"""Responses to four items, of which "c" has none; the order of raters and classes is another."""
NEW_NAMES = {"raters": ["dan", "bob", "ann"], "classes": ["mid", "high", "low"]}
NEW_NAMES["items"] = list("abcd")


def new_table(rows=NEW_ROWS, **names):
    table = dict(zip(("item", "rater", "label"), zip(*rows, strict=True), strict=True))
    return bf.Responses.from_long(table, **(NEW_NAMES | names))


def likelihood(rows, confusion, items=("a", "b", "c", "d"), classes=NAMES["classes"]):
    """Return p(responses | class or type), (items, …), from the rows of raters by name."""
    n_rows = len(next(iter(confusion.values())))  # classes, or types
    found = np.ones((len(items), n_rows))
    for item, rater, label in rows:
        found[items.index(item)] *= confusion[rater][:, classes.index(label)]
    return found


def by_rater(values):
    """Return rows by the names of the fitted raters."""
    return dict(zip(NAMES["raters"], np.asarray(values), strict=True))


def coin(accuracy):
    """Return the confusion rows of accuracies, one or one for each class."""
    rows = np.broadcast_to(accuracy, (3,))[:, None]
    return np.where(np.eye(3), rows, (1 - rows) / 2)


def bayes(prevalence, given):
    joint = prevalence * given
    return joint / joint.sum(axis=1, keepdims=True)


def by_enumeration(weight, n_items, n_classes=3):
    """Return label probabilities from the unnormalised probability of every labelling."""
    found = np.zeros((n_items, n_classes))
    for labels in product(range(n_classes), repeat=n_items):
        found[np.arange(n_items), labels] += weight(labels)
    return found / found.sum(axis=1, keepdims=True)
