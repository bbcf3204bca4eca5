"""Simulated labelling functions: independent ones, copies, and votes drawn as modelled."""

import numpy as np

import bayesfuse as bf


def rules(seed, *, n_items=2000, shares=(0.5, 0.5), n_rules=14, copies=0):
    """Rules for one label each that fire independently given the class, and copies of the first.

    Returns the table and the truth.
    """
    rng = np.random.default_rng(seed)
    n_classes = len(shares)
    truth = rng.choice(n_classes, n_items, p=shares)
    label = np.arange(n_rules) % n_classes
    coverage, right = rng.uniform(0.05, 0.2, n_rules), rng.uniform(0.6, 0.95, n_rules)
    hit = np.minimum(coverage * n_classes * right, 0.9)
    alarm = hit * (1 - right) / right / (n_classes - 1)
    fires = rng.random((n_items, n_rules)) < np.where(truth[:, None] == label, hit, alarm)
    for _ in range(copies):
        kept = rng.random(n_items) < 0.85
        fires = np.column_stack([fires, fires[:, 0] & kept])
        label = np.append(label, label[0])
    matrix = np.where(fires, label, -1)
    return bf.Responses.from_matrix(matrix, classes=range(n_classes)), truth


def drawn_votes(prevalence, share, column, per_item, rng):
    """Draw a table of votes as modelled: so many different votes per item, of its class's shares.

    A source gives one label only, so votes of one item are drawn without repeats.
    """
    truth = rng.choice(len(prevalence), len(per_item), p=prevalence)
    n_raters, n_classes = column.shape
    matrix = np.full((len(per_item), n_raters), -1)
    where = {column[m, c]: (m, c) for m, c in np.argwhere(column >= 0)}
    for n, k in enumerate(truth):
        for v in rng.choice(share.shape[1], per_item[n], p=share[k], replace=False):
            m, c = where[v]
            matrix[n, m] = c
    return bf.Responses.from_matrix(matrix, classes=range(n_classes)), truth
