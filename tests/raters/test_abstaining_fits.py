"""Fits of sources that abstain: names, priors, predictions."""

import numpy as np
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError, ModelError
from bayesfuse.models import DawidSkene
from bayesfuse.pymc.model import observed
from bayesfuse.results.fitted import FITTED, PRIOR
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True}
OFTEN = np.column_stack([bf.priors.diagonal(2), [3.5, 3.5]])
RULES = ["a", "b", "c", "d", "e", "f"]


def labelled(n_items, seed):
    """Rules whose silence tells the classes apart: two never speak on items of class "ham"."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n_items) < 0.3).astype(int)
    coverage = np.array([[0.02, 0.7], [0.02, 0.5], [0.6, 0.1], [0.5, 0.4], [0.3, 0.3], [0.8, 0.6]])
    right = rng.random((n_items, 6)) < np.array([0.9, 0.85, 0.8, 0.7, 0.75, 0.8])
    said = np.where(right, truth[:, None], 1 - truth[:, None])
    said = np.where(rng.random(said.shape) < coverage.T[truth], said, 2)
    said = np.array(["ham", "spam", "-"])[said]
    names = {"raters": RULES, "classes": ["ham", "spam"]}
    return truth, bf.Responses.from_matrix(said, abstain="-", **names)


@pytest.fixture(scope="module")
def fitted():
    truth, responses = labelled(150, 3)
    gold = {n: responses.classes[truth[n]] for n in range(10)}
    model = DawidSkene(responses, gold=gold, confusion_prior=OFTEN)
    return model, bf.sample(model, 250, chains=2, random_seed=1, **QUIET)


def test_speech_and_confusion_have_names(fitted):
    model, gibbs = fitted
    posterior = gibbs["posterior"].dataset
    assert posterior["speech"].dims == ("chain", "draw", "rater", "class", "said")
    assert posterior["said"].values.tolist() == ["ham", "spam", "nothing"]
    speaks = posterior["speech"].isel(said=slice(2)).sum("said")
    given = posterior["speech"].sel(said="spam") / speaks
    assert_close(posterior["confusion"].sel(answer="spam"), given, "confusion")
    assert_close(posterior["sensitivity"], given.sel({"class": "spam"}), "sensitivity", rtol=1e-9)
    assert "speech[a, ham, nothing]" in bf.summary(gibbs, "speech").index
    assert model.coords["said"] == ("ham", "spam", "nothing")


def test_a_file_predicts_new_items(fitted, tmp_path):
    """Silence of new items counts, of all rules that the table names."""
    model, gibbs = fitted
    gibbs.to_netcdf(tmp_path / "fit.nc")
    with xr.open_datatree(tmp_path / "fit.nc") as kept:
        kept = kept.load()
    whole = observed(model)[1].responses
    prediction = bf.predict(kept, whole, draws=400)
    free = np.arange(10, whole.n_items)
    found, known = (bf.label_probabilities(each).values[free] for each in (prediction, gibbs))
    assert np.abs(found - known).max() < 0.1 and np.abs(found - known).mean() < 0.005

    votes = {"item": ["new"], "rater": ["c"], "label": ["ham"]}
    names = {"items": ["new", "mute"], "classes": ["spam", "ham"]}
    full = bf.Responses.from_long(votes, raters=RULES, **names).completed()
    alone = bf.Responses.from_long(votes, **names).completed()
    both = [
        bf.label_probabilities(bf.predict(kept, each, draws=500)).sel({"class": "spam"})
        for each in (full, alone)
    ]
    assert float(both[0].sel(item="new")) < float(both[1].sel(item="new"))
    posterior = gibbs["posterior"].dataset
    share = posterior["prevalence"] * posterior["speech"].sel(said="nothing").prod("rater")
    share = share.sum(("chain", "draw"))
    share = (share / share.sum()).sel({"class": "spam"})
    assert float(both[0].sel(item="mute")) == pytest.approx(float(share), rel=1e-6)
    with pytest.raises(ModelError, match=r"responses\.completed\(\)"):
        bf.predict(kept, bf.Responses.from_long(votes, **names))
    other = bf.Responses.from_long(votes | {"rater": ["z"]}, **names).completed()
    assert bf.predict(kept, other)["raters"]["source"].values.tolist() == [PRIOR]
    assert bf.predict(kept, alone)["raters"]["source"].values.tolist() == [FITTED]
    with pytest.raises(ModelError, match="One more response"):
        bf.decisions.value_of_response(gibbs, model)


def test_default_prior_says_nothing_of_the_class():
    """Silence has the same prior under every class, and votes are right more often than wrong."""
    _, responses = labelled(30, 1)
    model = DawidSkene(responses)
    alpha = model["speech"].owner.op.dist_params(model["speech"].owner)[0].eval()
    own = np.column_stack([bf.priors.diagonal(2), [31.5, 31.5]])
    assert_close(alpha, np.tile(own, (6, 1, 1)), "concentrations")


def test_names_of_silence_differ_from_classes():
    frame = {"item": [0, 0, 1], "rater": list("aba"), "label": ["nothing", "x", "x"]}
    model = DawidSkene(bf.Responses.from_long(frame).completed())
    assert model.coords["said"] == ("nothing", "x", "nothing_")


def test_rules_of_one_label():
    """A prior of zero for labels that a rule never gives; other rules keep the default."""
    truth, responses = labelled(300, 4)
    frame = responses.to_frame()
    keep = (frame["rater"] != "a") | (frame["label"] == "spam")
    names = {"items": range(300), "raters": RULES}
    responses = bf.Responses.from_long(frame[keep], **names).completed()
    mode = bf.find_map(DawidSkene(responses, confusion_prior={"a": [[0, 1, 3], [0, 3, 3]]}))
    speech = mode["point"]["speech"].sel(rater="a")
    assert (speech.sel(said="ham") == 0).all() and (speech.sel(said="spam") > 0).all()
    assert (bf.label_probabilities(mode).values.argmax(axis=1) == truth).mean() > 0.75
    for table, prior, told in (
        (responses, {"a": [[0, 0, 0], [0, 3, 3]]}, "positive concentration"),
        (responses.without_silence(), {"a": [[0, 1], [1, 1]]}, "must be positive"),
        (responses, bf.priors.diagonal(2), r"\(2 classes, 3 labels\)"),
    ):
        with pytest.raises(ModelError, match=told):
            DawidSkene(table, confusion_prior=prior)
    with pytest.raises(ImpossibleDataError):
        bf.find_map(DawidSkene(responses, confusion_prior={"a": [[1, 0, 3], [3, 0, 3]]}))
