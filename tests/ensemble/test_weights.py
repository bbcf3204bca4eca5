"""What an answer says of the weights of its models follows from these weights."""

import re

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.ensemble.schedule import Schedule, Size

pytestmark = pytest.mark.usefixtures("few_draws", "unchecked")
QUIET = {"random_seed": 5, "minutes": 10, "progressbar": False}


@pytest.fixture
def drawn(crowd, fitted, monkeypatch):
    """Let fits of independent errors give one result, beside those of item types."""
    fitted()
    model = bf.models.DawidSkene(crowd.responses)
    result = bf.sample(model, 20, tune=5, chains=4, random_seed=1, progressbar=False, quiet=True)
    monkeypatch.setattr("bayesfuse.ensemble.fits.sample", lambda *_, **__: result)
    monkeypatch.setattr(Schedule, "size", lambda *_: Size(20, 5))


def test_a_model_predicts_worse_than_one_of_more_weight_that_is_named(crowd, drawn, monkeypatch):
    """Models of another kind have less weight by the evidence, however well they predict."""
    monkeypatch.setattr("bayesfuse.ensemble.evidence.Evidence.independence", 0.3)
    behind = {"even guesses": 0.2, "independent errors": 0.2}

    def elpd(results):
        noise = np.random.default_rng(1).normal(0.0, 0.01, (len(results), 40))
        return noise - 5 * np.array([[behind.get(name, 0.0)] for name in results])

    monkeypatch.setattr("bayesfuse.ensemble.weights._loo", elpd)
    table = bf.fuse(crowd.responses, **QUIET)["comparison"].to_dataset().to_dataframe()
    assert len(table) == 8 and table["weight"]["even guesses"] == 0.0
    found = table["why"].str.extract("worse than “(.*)”, so its weight is lower")[0].dropna()
    assert {*behind} <= {*found.index} and "clean items" not in found
    for name, better in found.items():
        assert table["weight"][name] < table["weight"][better], name
    others = table["why"][~table.index.isin(found.index)]
    assert not [why for why in others if re.search("weight is|worse", why)]


def test_models_that_lost_spans_leave_their_weight_to_others(crowd, drawn, monkeypatch):
    """Also to others that predict so much worse that they would have none."""
    monkeypatch.setattr("bayesfuse.ensemble.evidence.Evidence.independence", 0.3)
    lost = []

    def elpd(results):  # the first of every side predicts best, and has lost spans
        lost[:] = [(0.0, 1.0), *[None] * (len(results) - 1)]
        noise = np.random.default_rng(1).normal(0.0, 0.01, (len(results), 40))
        return noise - 100.0 * (np.arange(len(results)) > 0)[:, None]

    monkeypatch.setattr("bayesfuse.ensemble.weights._loo", elpd)
    monkeypatch.setattr("bayesfuse.ensemble.weights.lost_spans", lambda *_: lost.pop(0))
    # the results are not those of the models that checks would read them with
    monkeypatch.setattr("bayesfuse.ensemble.fuse.check", lambda *_: {})
    weight = bf.fuse(crowd.responses, **QUIET)["comparison"]["weight"].to_series()
    assert weight.sum() == pytest.approx(1.0) and weight["consensus"] == 0.0
    assert (weight[["even guesses", "clean items", "competing classes"]] > 0.1).all()
