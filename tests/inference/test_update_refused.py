"""What cannot be learnt from, or not without a word."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from days_of_responses import SIZES, fit, parts, simulated, update

import bayesfuse as bf
from bayesfuse.errors import ModelError, PoorFitWarning
from bayesfuse.inference import cavi
from bayesfuse.models import DawidSkene, MarkovRandomField

# Small tables: what is asked here is not how near a fit is to the posterior.
pytestmark = pytest.mark.filterwarnings("ignore::bayesfuse.errors.PoorFitWarning")


@pytest.fixture(scope="module")
def days():
    return parts(simulated().responses, SIZES)


def test_what_cannot_be_learnt_is_refused(days, small):
    result = fit(DawidSkene(days[0]))
    with pytest.raises(ModelError, match=r"again\.$"):
        update(result, days[0])
    with pytest.raises(ModelError, match="of batch 1"):
        update(update(result, days[1]), days[1], forgetting=0.5)
    with pytest.raises(ModelError, match="A batch must have responses"):
        update(result, days[1].take(np.arange(0)))
    other = bf.Responses.from_matrix([[0, 9]])
    with pytest.raises(ModelError, match=r"classes of the result.* Got: 9"):
        update(result, other)
    with pytest.raises(ModelError, match=r"bf.Responses.*Got: DataFrame"):
        update(result, pd.DataFrame({"item": [1]}))
    with pytest.raises(ModelError, match="forgetting must be a finite number from 0 to 1"):
        update(result, days[1], forgetting=1.5)
    with pytest.raises(ModelError, match="sequences= is for labels"):
        update(result, days[1], sequences=bf.Sequences.from_lengths([35], items=days[1].items))


def test_an_update_that_does_not_settle_says_so(days, monkeypatch):
    result = fit(DawidSkene(days[0]))
    monkeypatch.setattr(cavi, "fit", partial(cavi.fit, iterations=1))
    with pytest.warns(PoorFitWarning, match="labels of the new items have not settled"):
        assert update(result, days[1]).attrs["converged"] == 0


def test_results_without_distributions_are_refused(days):
    model = DawidSkene(days[0])
    point = bf.find_map(model)
    sampled = bf.sample(model, 5, tune=5, chains=1, random_seed=1, quiet=True, progressbar=False)
    for result in (point, sampled):
        with pytest.raises(ModelError, match=r"bf.fit\(model, method='cavi'\)"):
            update(result, days[1])


def test_labels_on_a_graph_are_refused(days):
    graph = bf.Graph.grid((6, 10), items=days[0].items.tolist())
    result = fit(MarkovRandomField(days[0], graph))
    with pytest.raises(ModelError, match="labels on a graph depend"):
        update(result, days[1])


def test_new_raters_need_a_common_prior(days):
    few = days[0].to_frame().query("rater < 5")
    table = bf.Responses.from_long(few, raters=range(5), classes=range(3))
    prior = {0: bf.priors.diagonal(3, weight=20)}
    result = fit(DawidSkene(table, confusion_prior=prior))
    with pytest.raises(ModelError, match="the priors of the fitted raters differ"):
        update(result, days[1])
    known = bf.Responses.from_long(
        days[1].to_frame().query("rater < 5"), raters=range(5), classes=range(3)
    )
    update(result, known)


def test_tables_with_silence_must_have_the_fitted_sources():
    votes = {"item": [0, 0, 1, 3], "rater": list("abaa"), "label": [1, 1, 1, 0]}
    result = fit(DawidSkene(bf.Responses.from_long(votes, items=range(4)).completed()))
    said = {"item": [5, 6, 6], "rater": list("aca"), "label": [1, 0, 1]}
    more = bf.Responses.from_long(said, items=range(5, 9))
    with pytest.raises(ModelError, match="declare them with raters="):
        update(result, more.completed())
    declared = bf.Responses.from_long(said, items=range(5, 9), raters=list("abc")).completed()
    assert update(result, declared)["posterior"]["rater"].values.tolist() == list("abc")
