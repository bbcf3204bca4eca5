"""Crowds of raters in groups, for several test files."""

import numpy as np

import bayesfuse as bf

GROUPS = {"wire": [0, 1, 2], "radio": [3, 4]}


def crowd(
    rng, n_items=400, n_classes=2, groups=(3, 2), n_alone=4, missing=0.2, outer=0.7, inner=0.85
):
    """Return responses and the truth: groups of the given sizes, then raters alone."""
    assignment = np.append(np.repeat(np.arange(len(groups)), groups), np.full(n_alone, -1))

    def rows(number, accuracy):
        wrong = rng.dirichlet(np.ones(n_classes - 1), (number, n_classes)) * (1 - accuracy)
        table = np.empty((number, n_classes, n_classes))
        for k in range(n_classes):
            table[:, k] = np.insert(wrong[:, k], k, accuracy, axis=1)
        with np.errstate(divide="ignore"):
            return np.log(table)

    channel = bf.build.LatentGroups(None, None, assignment)
    asked = rng.random((n_items, len(assignment))) >= missing
    blank = bf.Responses.from_matrix(np.where(asked, 0, -1), classes=range(n_classes))
    truth = rng.choice(n_classes, n_items, p=rng.dirichlet(np.full(n_classes, 9.0)))
    both = rows(len(groups), outer), rows(len(assignment), inner)
    return blank.relabelled(channel.simulate(both, truth, blank, rng)), truth, assignment
