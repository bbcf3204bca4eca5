"""Answers of few draws, which most tests share."""

import pytest
from few_draws import few_draws

import bayesfuse as bf
from bayesfuse.parameters.compiled import without_compilation


@pytest.fixture(scope="session")
def crowd():
    """Three classes, six raters, of whom some answer each item; and the truth."""
    return bf.datasets.simulate_dawid_skene(40, 6, 3, per_item=5, random_seed=2)


INDEPENDENCE = "bayesfuse.ensemble.evidence.Evidence.independence"


@pytest.fixture
def shared_errors(monkeypatch):
    """Weigh models of shared errors alone, as evidence does on most tables of people."""
    monkeypatch.setattr(INDEPENDENCE, 0.0)


@pytest.fixture(scope="session")
def fused(crowd):
    with few_draws() as patch, without_compilation():
        patch.setattr(INDEPENDENCE, 0.0)
        return bf.fuse(crowd.responses, random_seed=5, minutes=10, progressbar=False)


@pytest.fixture
def unchecked(monkeypatch):
    """Leave out the checks, which take most of the time of a small answer."""
    monkeypatch.setattr("bayesfuse.ensemble.schedule.CHECKS", 0.0)


@pytest.fixture
def fitted(fused, unchecked, monkeypatch):
    """A function that lets fits give the results of ``fused``, or do what it is given."""

    def let(**others):
        each = iter(fused["models"].children.items())

        def fit(*_, **__):
            name, result = next(each)
            return others[name]() if name in others else result

        monkeypatch.setattr("bayesfuse.ensemble.fits.variational.fit", fit)

    return let
