"""What cannot be learnt from, or not without a word."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from days_of_responses import SIZES, fit, of_raters, parts, simulated, update

import bayesfuse as bf
from bayesfuse.errors import ModelError, PoorFitWarning
from bayesfuse.inference import cavi
from bayesfuse.models import DawidSkene, HiddenMarkov, MarkovRandomField

# Small tables: what is asked here is not how near a fit is to the posterior.
pytestmark = pytest.mark.filterwarnings("ignore::bayesfuse.errors.PoorFitWarning")


@pytest.fixture(scope="module")
def days():
    return parts(simulated().responses, SIZES)


def test_what_cannot_be_learnt_is_refused(days):
    model, nobody = DawidSkene(days[0]), days[1].take(np.arange(0))
    result, point = fit(model), bf.find_map(model)
    sampled = bf.sample(model, 5, tune=5, chains=1, random_seed=1, quiet=True, progressbar=False)
    lasting = bf.Sequences.from_lengths([35], items=days[1].items)
    graph = bf.Graph.grid((6, 10), items=days[0].items.tolist())
    chain = bf.Sequences.from_lengths([60], items=days[0].items)
    for fitted, batch, given, told in (
        (result, days[0], {}, r"again\.$"),
        (update(result, days[1]), days[1], {"forgetting": 0.5}, "of batch 1"),
        (result, nobody, {}, "A batch must have responses"),
        (result, bf.Responses.from_matrix([[0, 9]]), {}, r"classes of the result.* Got: 9"),
        (result, pd.DataFrame({"item": [1]}), {}, r"bf.Responses. Got: DataFrame"),
        (result, days[1], {"forgetting": 1.5}, "forgetting must be a finite number from 0 to 1"),
        (result, days[1], {"sequences": lasting}, "sequences= is for labels"),
        (fit(HiddenMarkov(days[0], chain)), days[1], {}, "give sequences="),
        (point, days[1], {}, r"bf.fit\(model, method='cavi'\)"),
        (sampled, days[1], {}, r"bf.fit\(model, method='cavi'\)"),
        (fit(MarkovRandomField(days[0], graph)), days[1], {}, "labels on a graph depend"),
    ):
        with pytest.raises(ModelError, match=told):
            update(fitted, batch, **given)


def test_an_update_that_does_not_settle_says_so(days, monkeypatch):
    result = fit(DawidSkene(days[0]))
    monkeypatch.setattr(cavi, "fit", partial(cavi.fit, iterations=1))
    with pytest.warns(PoorFitWarning, match="labels of the new items have not settled"):
        assert update(result, days[1]).attrs["converged"] == 0


def test_new_raters_need_a_common_prior(days):
    prior = {0: bf.priors.diagonal(3, weight=20)}
    result = fit(DawidSkene(of_raters(days[0], 5), confusion_prior=prior))
    with pytest.raises(ModelError, match="the priors of the fitted raters differ"):
        update(result, days[1])
    update(result, of_raters(days[1], 5))


def test_tables_with_silence_must_have_the_fitted_sources():
    votes = {"item": [0, 0, 1, 3], "rater": list("abaa"), "label": [1, 1, 1, 0]}
    result = fit(DawidSkene(bf.Responses.from_long(votes, items=range(4)).completed()))
    said = {"item": [5, 6, 6], "rater": list("aca"), "label": [1, 0, 1]}
    more = bf.Responses.from_long(said, items=range(5, 9))
    with pytest.raises(ModelError, match="declare them with raters="):
        update(result, more.completed())
    declared = bf.Responses.from_long(said, items=range(5, 9), raters=list("abc")).completed()
    assert update(result, declared)["posterior"]["rater"].values.tolist() == list("abc")
