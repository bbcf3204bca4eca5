"""Fits that learn on: against one fit of everything, saved in between, with forgetting, refused."""

from functools import partial

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from conjugate_models import MODELS
from refusals import refused

import bayesfuse as bf
from bayesfuse.errors import ModelError, PoorFitWarning
from bayesfuse.inference import cavi
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup, MarkovRandomField
from bayesfuse.parameters.dirichlet import Dirichlet, DirichletMixture

# Small tables: what most tests here ask is not how near a fit is to the posterior.
pytestmark = pytest.mark.filterwarnings("ignore::bayesfuse.errors.PoorFitWarning")


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


def rows_of(result, which=""):
    """Return Dirichlet posteriors that a fit holds by parameter, or with "prior_" the priors."""
    held, found = result["fit"].dataset, {}
    for name in ("prevalence", "population_prevalence", "initial", "transition", "confusion"):
        if f"{name}_concentration" in held:
            concentration = held[f"{name}_{which}concentration"].values
            shares = held.get(f"{name}_{which}log_share")
            mixed = shares is not None
            found[name] = (
                DirichletMixture(shares.values, concentration)
                if mixed
                else Dirichlet(concentration)
            )
    assert found
    return found


def same(one, other, rtol=1e-9):
    for name, rows in rows_of(one).items():
        for of in ("concentration", "shares"):  # shares: of mixtures
            if hasattr(rows, of):
                wanted = getattr(rows_of(other)[name], of)
                np.testing.assert_allclose(getattr(rows, of), wanted, rtol=rtol)


STOPPED = 1e-3
"""Fits stop where a step gains less than 10⁻⁸ for each of 105 responses.

A step dα of a concentration α gains α (dα / α)² / 2 of the bound, so where α is near one the last
step may be 10⁻³ of it, and rounding decides which step is the last.
"""


def known_of(made, responses):
    return {item: int(made.truth[item]) for item in responses.items.tolist()}


def town_of(responses):
    return {item: "ab"[item % 3 == 0] for item in responses.items.tolist()}


LENGTHS = {120: [20, 40, 35, 25], 60: [20, 40], 35: [35], 25: [25]}


def sequences_of(responses):
    return bf.Sequences.from_lengths(LENGTHS[responses.n_items], items=responses.items)


@pytest.fixture(scope="module")
def made():
    return simulated()


@pytest.fixture(scope="module")
def days(made):
    return parts(made.responses, SIZES)


KNOWN = {
    "confusion": (MODELS["confusion"], {}),
    "coin": (MODELS["coin"], {}),
    "mixture": (lambda r, **kw: DawidSkene(r, confusion_prior=bf.priors.robust(3), **kw), {}),
    "all alone": (MODELS["all alone"], {}),
    "chain": (partial(HiddenMarkov, raters="confusion"), {"sequences": sequences_of}),
    "populations": (DawidSkene, {"populations": town_of}),
    "silence": (DawidSkene, {}),
}


@pytest.mark.parametrize("name", KNOWN)
def test_gold_in_partitions_matches_gold_in_one_table(made, days, name):
    make, places = KNOWN[name]

    def arguments(responses):
        places_of = {key: of(responses) for key, of in places.items()}
        return {"gold": known_of(made, responses)} | places_of

    together, first, *others = [made.responses, *days]
    if name == "silence":
        together, first, *others = (each.completed() for each in (made.responses, *days))
    whole = fit(make(together, **arguments(together)))
    found = fit(make(first, **arguments(first)))
    for day in others:
        found = update(found, day, **arguments(day))
    same(found, whole)
    assert found.attrs["batches"] == 3 and found.attrs["converged"] == 1


def test_batches_of_a_fit_are_updates(days):
    first, *others = days
    settings = {"draws": 20, "random_seed": 1}
    streamed = bf.fit(DawidSkene(first), batches=iter(others), **settings)
    found = bf.fit(DawidSkene(first), **settings)
    for day in others:
        found = update(found, day)
    same(streamed, found)
    assert streamed.attrs["batches"] == 1 + len(others)


def test_every_statement_counts_once():
    """Which answer is behind a probability stays hidden, so only totals are the same."""
    probability = np.random.default_rng(1).dirichlet([2, 1], size=(8, 2))
    stated = bf.Responses.from_probabilities(probability, raters=["a", "b"])
    one, two = parts(stated, [5, 3])
    found = update(fit(DawidSkene(one)), two)
    prior, posterior = (rows_of(found, which)["confusion"] for which in ("prior_", ""))
    counts = (posterior - prior).sum(axis=(1, 2))
    np.testing.assert_allclose(counts, [8, 8], rtol=1e-9)


@pytest.mark.parametrize("names", [[3, 1, 2], ["x", "née", "zoë"]])
def test_a_saved_fit_continues_as_if_it_had_not_been_saved(names, tmp_path):
    made = bf.datasets.simulate_dawid_skene(90, 3, 2, random_seed=4).responses
    frame = made.to_frame()
    frame["rater"] = np.array(names)[frame["rater"]]
    days = [bf.Responses.from_long(frame[frame["item"] // 30 == day]) for day in range(3)]
    prior = bf.priors.robust(2)
    straight = saved = fit(DawidSkene(days[0], confusion_prior=prior))
    for number, day in enumerate(days[1:]):
        saved.to_netcdf(tmp_path / f"{number}.nc")
        with xr.open_datatree(tmp_path / f"{number}.nc") as loaded:
            saved = update(loaded, day, forgetting=0.1)
        straight = update(straight, day, forgetting=0.1)
    xr.testing.assert_equal(saved, straight)
    np.testing.assert_equal(saved.attrs, straight.attrs)


def test_an_update_is_a_result(days, tmp_path):
    result = fit(DawidSkene(days[0]))
    before = result.copy(deep=True)
    found = update(result, days[1])
    xr.testing.assert_identical(result, before)
    for group in ("posterior", "label_posterior"):
        one, other = found[group].dataset, result[group].dataset
        assert set(one.data_vars) == set(other.data_vars)
        assert all(one[name].dims == other[name].dims for name in one.data_vars)
    assert bf.label_probabilities(found)["item"].values.tolist() == days[1].items.tolist()
    assert len(bf.summary(found, ["sensitivity"])) == 6 * 3
    bf.decisions.rank_raters(found)
    bf.decisions.rank_items(found)
    xr.testing.assert_allclose(
        bf.predict(found, days[1], draws=20)["label_posterior"]["probability"],
        bf.label_probabilities(found),
    )
    point = found["posterior"].dataset.isel(chain=0, draw=3)
    diagonal = np.diagonal(point["confusion"].values, axis1=1, axis2=2)
    np.testing.assert_array_equal(point["sensitivity"].values, diagonal)


def test_a_named_model_and_constants_are_kept(days):
    with pm.Model(name="mine") as model:
        shares = pm.Data("shares", [0.5, 0.3, 0.2])
        rows = bf.build.dirichlet("rows", bf.priors.confusion(None, days[0]))
        bf.build.observe(
            days[0], labels=bf.build.Independent(shares), raters=bf.build.Confusion(rows)
        )
    found = update(update(fit(model), days[1]), days[2])
    assert list(found["posterior"].data_vars) == ["mine::rows"]
    assert found["constant_data"]["mine::shares"].values.tolist() == [0.5, 0.3, 0.2]
    assert "mine::responses" in found["observed_data"]


def test_a_fit_of_partitions_continues(days, tmp_path):
    pytest.importorskip("pyarrow")
    days[0].to_frame().to_parquet(tmp_path / "all.parquet")
    table = bf.Responses.from_parquet(tmp_path / "all.parquet")
    found = update(fit(DawidSkene(table)), days[1])
    same(found, update(fit(DawidSkene(days[0])), days[1]), STOPPED)
    assert "responses" in found["observed_data"]


@pytest.mark.parametrize("name", ["confusion", "mixture", "chain", "populations"])
def test_forgetting_discounts_all_that_was_counted(name, made, days):
    build, needs = KNOWN[name]
    own = [known_of(made, day) for day in days]
    given = [{key: make(day) for key, make in needs.items()} for day in days]
    alone = [
        fit(build(day, gold=known, **more))
        for day, known, more in zip(days, own, given, strict=True)
    ]
    for forgetting in (0.5, 0.9):
        left, found = 1 - forgetting, alone[0]
        for day, known, more in zip(days[1:], own[1:], given[1:], strict=True):
            found = update(found, day, gold=known, forgetting=forgetting, **more)
        for parameter, rows in rows_of(found).items():
            prior = rows_of(alone[0], "prior_")[parameter]
            one, two, three = (rows_of(each)[parameter] - prior for each in alone)
            wanted = prior.plus(left**2 * one + left * two + three)
            np.testing.assert_allclose(rows.concentration, wanted.concentration, rtol=1e-9)
            if hasattr(rows, "log_shares"):
                np.testing.assert_allclose(rows.log_shares, wanted.log_shares, atol=1e-9)
    anew = update(alone[0], days[1], gold=own[1], forgetting=1.0, **given[1])
    same(anew, alone[1])


@pytest.mark.parametrize("forgetting", [0.5, 0.9])
def test_what_is_left_is_the_prior_of_the_next_responses(days, forgetting, monkeypatch):
    """A fit of these alone under a power prior, whose counts are those of the fit so far."""
    monkeypatch.setattr(cavi, "fit", partial(cavi.fit, tolerance=1e-13))
    first = fit(DawidSkene(days[0]))
    before = rows_of(first, "prior_")
    priors = {
        f"{name}_prior": forgetting * before[name].concentration
        + (1 - forgetting) * rows.concentration
        for name, rows in rows_of(first).items()
    }
    found = update(first, days[1], forgetting=forgetting)
    same(found, fit(DawidSkene(days[1], **priors)), 1e-4)


@pytest.mark.slow
def test_new_raters_are_as_if_they_had_been_declared(made, days):
    table, declared = of_raters(days[0], 4), of_raters(days[0], 4, 6)
    for prior in (None, bf.priors.robust(3)):
        grown = update(fit(DawidSkene(table, confusion_prior=prior)), days[1])
        same(grown, update(fit(DawidSkene(declared, confusion_prior=prior)), days[1]), STOPPED)
        assert grown["posterior"]["rater"].values.tolist() == list(range(6))
        again = update(grown, days[2])
        assert bf.predict(again, days[0])["raters"]["source"].values.tolist() == ["fitted"] * 6


def test_new_raters_join_groups_of_none(days):
    responses, groups = of_raters(days[0], 5), [[0, 1, 2]]
    with pytest.raises(ModelError, match="priors of the fitted raters differ"):
        update(fit(LatentGroup(responses, groups)), days[1])
    one_prior = bf.priors.diagonal(responses.n_classes)
    fitted = fit(LatentGroup(responses, groups, confusion_prior=one_prior))
    grown = update(update(fitted, days[1]), days[2])
    assert grown["posterior"]["rater_confusion"].sizes["rater"] == 6
    assert bf.predict(grown, days[0])["raters"]["source"].values.tolist() == ["fitted"] * 6


def test_inferred_groups_stay_where_the_fit_holds_them(days):
    known = of_raters(days[2], 5)
    result = fit(LatentGroup(of_raters(days[0], 5), groups="posterior"))
    found = update(result, known)
    held = [each["posterior"]["assignment"].values for each in (result, found)]
    np.testing.assert_array_equal(*held)
    vary = result.copy(deep=True)
    vary["posterior"]["assignment"][0, 3, 0] += 1
    refused("Got: draws of assignment that vary", update, vary, known)
    refused("for assignment, the model has no rows", update, result, days[1])


def test_classes_and_raters_may_come_in_another_order(days):
    frame = days[1].to_frame()
    other = bf.Responses.from_long(frame, raters=[5, 3, 1, 0, 2, 4], classes=[2, 0, 1])
    result = fit(DawidSkene(days[0]))
    for table in (other, frame):
        same(update(result, table), update(result, days[1]), STOPPED)


@pytest.mark.slow
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
        (result, "day.csv", {}, "Got: 'day.csv'"),
        (result, days[1], {"sequences": lasting}, "no inputs.* Got: sequences="),
        (
            fit(HiddenMarkov(days[0], chain, raters="confusion")),
            days[1],
            {},
            "needs sequences=",
        ),
        (point, days[1], {}, r"bf.fit\(model, method='cavi'\)"),
        (sampled, days[1], {}, r"bf.fit\(model, method='cavi'\)"),
        (fit(MarkovRandomField(days[0], graph)), days[1], {}, "labels on a graph depend"),
    ):
        refused(told, update, fitted, batch, **given)


def test_an_update_that_does_not_converge_warns(days, monkeypatch):
    result = fit(DawidSkene(days[0]))
    monkeypatch.setattr(cavi, "fit", partial(cavi.fit, iterations=1))
    with pytest.warns(PoorFitWarning, match="labels of the new items have not settled"):
        assert update(result, days[1]).attrs["converged"] == 0


def test_new_raters_need_a_common_prior(days):
    prior = {0: bf.priors.diagonal(3, weight=20)}
    result = fit(DawidSkene(of_raters(days[0], 5), confusion_prior=prior))
    refused("the priors of the fitted raters differ", update, result, days[1])
    update(result, of_raters(days[1], 5))


def test_tables_with_silence_must_have_the_fitted_sources():
    votes = {"item": [0, 0, 1, 3], "rater": list("abaa"), "label": [1, 1, 1, 0]}
    result = fit(DawidSkene(bf.Responses.from_long(votes, items=range(4)).completed()))
    said = {"item": [5, 6, 6], "rater": list("aca"), "label": [1, 0, 1]}
    more = bf.Responses.from_long(said, items=range(5, 9))
    refused("declare them with raters=", update, result, more.completed())
    declared = bf.Responses.from_long(said, items=range(5, 9), raters=list("abc")).completed()
    assert update(result, declared)["posterior"]["rater"].values.tolist() == list("abc")
