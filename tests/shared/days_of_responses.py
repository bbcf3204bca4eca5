"""Responses of three days, and fits that learn from one after the other."""

from __future__ import annotations

import numpy as np

import bayesfuse as bf

SIZES = [60, 35, 25]


def simulated():
    """Asymmetric: three classes of different size, three of six raters answer each item."""
    return bf.datasets.simulate_dawid_skene(
        sum(SIZES), 6, 3, per_item=3, prevalence=[0.5, 0.3, 0.2], random_seed=4
    )


def parts(responses, sizes):
    ends = np.cumsum(sizes)
    return [
        responses.take(np.arange(end - size, end)) for end, size in zip(ends, sizes, strict=True)
    ]


def of_raters(responses, few, declared=None):
    """Return the responses of the first raters."""
    frame = responses.to_frame().query(f"rater < {few}")
    return bf.Responses.from_long(frame, raters=range(declared or few), classes=range(3))


def fit(model, **kwargs):
    return bf.fit(model, draws=20, random_seed=1, **kwargs)


def update(result, batch, **kwargs):
    return bf.update(result, batch, draws=20, random_seed=1, **kwargs)
