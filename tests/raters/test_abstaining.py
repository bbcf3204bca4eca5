"""Sources that abstain: kernels against enumeration and confusion matrices, and fits."""

import numpy as np
import pytest
import xarray as xr
from refusals import refused
from typed_crowds import unknown

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError, ModelError
from bayesfuse.models import DawidSkene
from bayesfuse.observation import ResponseModel
from bayesfuse.observation.model import observed
from bayesfuse.testing import assert_close, assert_frequencies, check_rater_channel

CHANNEL = bf.build.Abstaining(None)


def rows(n_raters, n_classes, seed=0, concentration=1.0):
    """Random log rows (raters, classes, labels and silence)."""
    rng = np.random.default_rng(seed)
    alpha = np.full(n_classes + 1, concentration)
    return np.log(rng.dirichlet(alpha, (n_raters, n_classes)))


def table(n_items, n_raters, n_classes, seed=0, missing=0.0, spoken=0.4):
    """Every rater speaks of a share of the items; of some pairs nothing is known."""
    rng = np.random.default_rng(seed)
    said = rng.integers(0, n_classes, (n_items, n_raters)).astype(float)
    said[rng.random(said.shape) > spoken] = -1
    said[rng.random(said.shape) < missing] = np.nan
    names = {"raters": range(n_raters), "classes": range(n_classes)}
    return bf.Responses.from_matrix(said, abstain=-1, **names)


def repeated(n_raters=4, n_classes=3):
    """A complete table in which sources speak of an item more than once."""
    rng = np.random.default_rng(5)
    votes = {
        "item": rng.integers(0, 6, 40),
        "rater": rng.integers(0, n_raters, 40),
        "label": rng.integers(0, n_classes, 40),
    }
    names = {"items": range(7), "raters": range(n_raters + 1), "classes": range(n_classes)}
    return bf.Responses.from_long(votes, **names).completed()


def outcomes(responses):
    """Yield item, rater and label of every response, and of silence by the number of classes."""
    yield from zip(responses.item, responses.rater, responses.label, strict=True)
    n_items, n_raters = responses.n_items, responses.n_raters
    if responses.silent.complete:
        spoke = set(zip(responses.item.tolist(), responses.rater.tolist(), strict=True))
        silent = (pair for pair in np.ndindex(n_items, n_raters) if pair not in spoke)
    else:
        start, rater = responses.silent.pairs
        silent = zip(np.repeat(np.arange(n_items), np.diff(start)), rater, strict=True)
    yield from ((n, m, responses.n_classes) for n, m in silent)


def written_out(log_speech, responses):
    """Log-likelihood (items, classes), all silent pairs one by one."""
    found = np.zeros((responses.n_items, responses.n_classes))
    for n, m, said in outcomes(responses):
        found[n] += log_speech[m, :, said]
    return found


def log_lik(log_speech, responses, channel=CHANNEL):
    return channel.log_lik((log_speech,), channel.structure(responses, unknown(responses)))


def test_contract_where_sources_are_asked_again():
    frame = {"item": [0, 0, 0, 1, 1], "rater": list("aaaab"), "label": [1, -1, 2, 0, 1]}
    responses = bf.Responses.from_long(frame, abstain=-1, classes=[0, 1, 2])
    assert not responses.silent.complete
    check_rater_channel(CHANNEL, (rows(2, 3),), responses)


TABLES = {
    "complete": lambda k: table(40, 9, k),
    "some missing": lambda k: table(40, 9, k, missing=0.2),
    "repeats": lambda k: repeated(8, k),
    "all speak": lambda k: table(20, 9, k, spoken=1.0),
    "nobody speaks": lambda k: table(3, 9, k, spoken=0.0),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 7])
def test_likelihood_is_that_of_all_pairs(name, n_classes):
    responses = TABLES[name](n_classes)
    log_speech = rows(9, n_classes, 1)
    assert_close(log_lik(log_speech, responses), written_out(log_speech, responses), "log_lik")


@pytest.mark.parametrize("name", TABLES)
def test_structural_zeros_give_finite_counts(name):
    """Sources that cannot be silent, that are never heard, and that never give some label."""
    responses = TABLES[name](3)
    speech = np.exp(rows(9, 3, 2))
    speech[0, 1, 3] = speech[1, :, 3] = speech[2, 0, :3] = speech[3, 1, 0] = speech[4, 2, 2] = 0.0
    speech[5, 0, 3] = 1e-300  # divided out, it overflows
    speech[5, 0, 0] = 0.0
    speech /= speech.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        log_speech = np.log(speech)
    expected = written_out(log_speech, responses)
    assert np.isneginf(expected).any()
    # finite likelihoods stay positive, relative to the largest of the item
    top = expected.max(axis=1, keepdims=True)
    lowest = np.where(np.isneginf(top) | np.isneginf(expected), -np.inf, top - 660.0)
    found = np.maximum(log_lik(log_speech, responses), lowest)
    assert_close(found, np.maximum(expected, lowest), "log_lik", rtol=1e-9)
    weight = np.where(np.isneginf(expected), 0.0, np.random.default_rng(0).random(expected.shape))
    structure = CHANNEL.structure(responses, unknown(responses))
    (counts,) = CHANNEL.expected_kernel(log_speech, weight, *structure)
    assert (counts[np.isneginf(log_speech)] == 0).all() and np.isfinite(counts).all()


@pytest.mark.parametrize("name", TABLES)
def test_counts_are_those_of_all_pairs(name):
    responses = TABLES[name](3)
    rng, log_speech = np.random.default_rng(1), rows(9, 3)
    structure = CHANNEL.structure(responses, unknown(responses))
    labels = rng.integers(0, 3, responses.n_items)
    weights = rng.random((responses.n_items, 3))
    copies = np.eye(3)[labels] * rng.integers(0, 5, responses.n_items)[:, None]
    hard, soft, several = np.zeros((3, 9, 3, 4))
    for n, m, said in outcomes(responses):
        hard[m, labels[n], said] += 1
        soft[m, :, said] += weights[n]
        several[m, :, said] += copies[n]
    for drawn, expected in ((labels, hard), (copies, several)):
        found = CHANNEL.sample_counts((log_speech,), drawn, structure, rng)[0]
        assert_close(found, expected, "drawn labels")
    for sign in (1.0, -1.0):  # gradients of minus the density have negative weights
        (counts,) = CHANNEL.expected_kernel(log_speech, sign * weights, *structure)
        assert_close(counts, sign * soft, "expected counts", rtol=1e-9)
    if name == "all speak":
        assert (counts[..., -1] == 0).all()


def test_without_silence_it_is_confusion():
    responses = table(50, 6, 3, spoken=1.0)
    confusion = np.exp(rows(6, 2, 3)).reshape(6, 2, 3)[:, [0, 1, 1]]
    confusion[:, 2] = confusion[:, 2, ::-1]
    plain = np.log(confusion)
    with np.errstate(divide="ignore"):
        mute = np.log(np.concatenate([confusion, np.zeros((6, 3, 1))], axis=-1))
    other = responses.without_silence()
    assert_close(
        log_lik(mute, responses), log_lik(plain, other, bf.build.Confusion(None)), "log_lik"
    )


def test_ten_thousand_sources():
    """Nearly all are silent; products of their silence would underflow, and their ratios."""
    n_raters, rng = 10_000, np.random.default_rng(3)
    said = np.full((12, n_raters), -1)
    for n in range(12):
        who = rng.choice(n_raters, 30 if n < 10 else 9000, replace=False)
        said[n, who] = rng.integers(0, 2, len(who))
    responses = bf.Responses.from_matrix(said, abstain=-1, raters=range(n_raters), classes=[0, 1])
    log_speech = rows(n_raters, 2, 3)
    spoke = np.log(rng.uniform(0.001, 0.9, (n_raters, 2)))
    log_speech[:, :, -1] = np.log1p(-np.exp(spoke))
    log_speech[:, :, :2] += (spoke - np.logaddexp(*log_speech[:, :, :2].T).T)[..., None]
    dense = written_out(log_speech, responses)
    assert dense.max() < -500
    likelihood, log_scale = CHANNEL.likelihood_kernel(
        log_speech, *CHANNEL.structure(responses, unknown(responses))
    )
    assert (likelihood.max(axis=1) > 1e-280).all() and np.isfinite(likelihood).all()
    assert_close(np.log(likelihood.max(axis=1)) + log_scale, dense.max(axis=1), "scale", rtol=1e-9)
    ratio = np.clip(dense[:, 0] - dense[:, 1], -600, 600)
    found = np.clip(np.log(likelihood[:, 0]) - np.log(likelihood[:, 1]), -600, 600)
    assert_close(found, ratio, "log odds", rtol=1e-8, atol=1e-7)


def test_rows_are_linear_in_the_responses():
    responses = table(500, 80, 2, spoken=0.05)
    start, row, complete, _ = CHANNEL.structure(responses, unknown(responses))
    assert start is responses.start and row.shape == responses.cell.shape
    assert row.dtype == np.uint32 and complete.tolist() == [1]


def test_confusion_is_conditional_on_a_response():
    speech = np.exp(rows(3, 3))
    speech[1, 2] = [0, 0, 0, 1]
    with np.errstate(divide="ignore"):
        found = CHANNEL.confusion((np.log(speech),), 3, np)
    said = speech[0, :, :3]
    assert_close(found[0], said / said.sum(axis=-1, keepdims=True), "confusion")
    assert_close(found[1, 2], np.ones(3) / 3, "of who never speaks")


def test_predictive_draws_keep_the_pattern_of_silence():
    """Truths follow from who spoke, labels from truths: the frequencies of all answers."""
    responses = bf.Responses.from_matrix([[0, -1], [0, 1]], abstain=-1)
    speech = np.array([[[0.5, 0.1, 0.4], [0.1, 0.2, 0.7]], [[0.3, 0.6, 0.1], [0.1, 0.1, 0.8]]])
    observation = ResponseModel.build(responses, bf.build.Independent(None), CHANNEL)
    point = {"prevalence": np.log([0.4, 0.6]), "speech": np.log(speech)}
    rng = np.random.default_rng(1)
    seen, rounds = np.zeros((2, 2, 2)), 4000
    for _ in range(rounds):
        _, (first, second, third) = observation.simulate(point, rng)
        seen[first, second, third] += 1
    share = np.array([0.4, 0.6])
    one = np.einsum("k,kc->c", share * speech[1, :, 2], speech[0, :, :2])
    two = np.einsum("k,kc,kd->cd", share, speech[0, :, :2], speech[1, :, :2])
    expected = (one / one.sum())[:, None, None] * two / two.sum()
    assert_frequencies(seen.ravel(), expected.ravel(), "predictive draws")


def test_tables_without_silence_are_refused():
    plain = table(5, 3, 2).without_silence()
    with pytest.raises(ModelError, match=r"abstain=.*responses\.completed\(\).*Got: a table"):
        ResponseModel.build(plain, bf.build.Independent(None), CHANNEL)
    for channel in (bf.build.Confusion(None), bf.build.OneCoin(np.full(3, 0.7))):
        with pytest.raises(ModelError, match=r"bf\.build\.Abstaining.*without_silence.*Got: "):
            ResponseModel.build(plain.completed(), bf.build.Independent(None), channel)


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
    kept = xr.load_datatree(tmp_path / "fit.nc")
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
    refused(r"responses\.completed\(\)", bf.predict, kept, bf.Responses.from_long(votes, **names))
    other = bf.Responses.from_long(votes | {"rater": ["z"]}, **names).completed()
    with pytest.warns(bf.errors.NewRatersWarning):
        assert bf.predict(kept, other)["raters"]["source"].values.tolist() == ["prior"]
    assert bf.predict(kept, alone)["raters"]["source"].values.tolist() == ["fitted"]
    refused("One more response", bf.decisions.value_of_response, gibbs, model)


def test_default_prior_of_silence_is_the_same_for_all_classes():
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
        refused(told, DawidSkene, table, confusion_prior=prior)
    with pytest.raises(ImpossibleDataError):
        bf.find_map(DawidSkene(responses, confusion_prior={"a": [[1, 0, 3], [3, 0, 3]]}))
