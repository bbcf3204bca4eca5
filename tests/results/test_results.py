"""Whatever takes a result: of these draws, of this model, saved and loaded, or one clear error."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse import checks, decisions, plots
from bayesfuse.command_line.report import report
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup, MarkovRandomField
from bayesfuse.pymc.model import observed

QUIET = {"progressbar": False, "quiet": True}
FIT = {"draws": 12, "tune": 10, "chains": 2, "random_seed": 1} | QUIET
N_ITEMS, N_RATERS = 24, 5
GROUPED = [[0, 1], [2, 3]]


def table(seed=0, n_items=N_ITEMS, n_raters=N_RATERS, **names):
    """Answers of five raters, a little better from one to the next, to two classes in turn."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n_items) // 4 % 2
    right = rng.random((n_items, n_raters)) < np.linspace(0.65, 0.95, n_raters)
    label = np.where(right, truth[:, None], 1 - truth[:, None])
    classes = names.pop("classes", [0, 1])
    item, rater = np.indices(label.shape).reshape(2, -1)
    names = {
        "items": list(names.get("items", range(n_items))),
        "raters": list(names.get("raters", range(n_raters))),
    }
    columns = {
        "item": [names["items"][n] for n in item],
        "rater": [names["raters"][m] for m in rater],
        "label": [classes[k] for k in label.ravel()],
    }
    return bf.Responses.from_long(columns, **names, classes=list(classes))


def graph_of(responses, width=6):
    return bf.Graph.grid((4, width), items=responses.items.tolist())


def sequences_of(responses, length=6):
    return bf.Sequences.from_lengths([length] * (N_ITEMS // length), items=responses.items.tolist())


MODELS = {
    "independent": DawidSkene,
    "groups": lambda responses, **kwargs: LatentGroup(
        responses, [[responses.raters.tolist()[m] for m in group] for group in GROUPED], **kwargs
    ),
    "chain": lambda responses, **kwargs: HiddenMarkov(responses, sequences_of(responses), **kwargs),
    "graph": lambda responses, **kwargs: MarkovRandomField(
        responses, graph_of(responses), **kwargs
    ),
}


@pytest.fixture(scope="module")
def fits():
    models = {name: make(table()) for name, make in MODELS.items()}
    return {name: (model, bf.sample(model, **FIT)) for name, model in models.items()}


def truth_of(result):
    """Half of the items, by the names that users have for them."""
    probability = result["label_posterior"]["probability"]
    index = {dim: probability.get_index(dim).tolist() for dim in ("item", "class")}
    return {name: index["class"][n % 2] for n, name in enumerate(index["item"][::2])}


OF_RESULT = {
    "label_probabilities": bf.label_probabilities,
    "rank_items": decisions.rank_items,
    "expected_errors": decisions.expected_errors,
    "label_scores": lambda r: checks.label_scores(r, truth_of(r)),
    "calibration": lambda r: checks.calibration(r, truth_of(r)),
    "average": lambda r: bf.average({"one": r, "other": r}, {"one": 1, "other": 2}),
    "plot_labels": plots.plot_labels,
}
"""What takes a result with its label probabilities, without a model."""

OF_DRAWS = {
    "summary": bf.summary,
    "common_units": lambda r: bf.common_units({"one": r, "other": r}),
    "rank_raters": decisions.rank_raters,
    "switching": checks.switching,
    "align_labels": bf.align_labels,
    "plot_raters": plots.plot_raters,
    "plot_confusion": plots.plot_confusion,
    "plot_sensitivity_specificity": plots.plot_sensitivity_specificity,
}
"""What takes the draws of a result alone."""

OF_MODEL = {
    "label_probabilities with a model": bf.label_probabilities,
    "decode": bf.decode,
    "draw_labels": lambda r, m: bf.draw_labels(r, m, 4, random_seed=1),
    "expected_errors with a model": lambda r, m: decisions.expected_errors(
        r, m, draws=20, random_seed=1
    ),
    "value_of_response": lambda r, m: decisions.value_of_response(r, m, draws=2, repeats=True),
    "pairwise_agreement": lambda r, m: checks.pairwise_agreement(r, m, draws=5, random_seed=1),
    "conditional_dependence": lambda r, m: checks.conditional_dependence(
        r, m, draws=5, random_seed=1
    ),
    "item_difficulty": lambda r, m: checks.item_difficulty(r, m, draws=5, random_seed=1),
    "runs": lambda r, m: checks.runs(
        r, m, sequences_of(observed(m)[1].responses), draws=5, random_seed=1
    ),
    "neighbour_agreement": lambda r, m: checks.neighbour_agreement(
        r, m, graph_of(observed(m)[1].responses), draws=5, random_seed=1
    ),
    "plot_sequence": lambda r, m: plots.plot_sequence(
        r, m, sequences=sequences_of(observed(m)[1].responses)
    ),
    "report": lambda r, m: report(m, r, checks=False),
}
"""What takes a result and its model, whatever that is."""

OF_SOME = {
    ("groups", "verdict_probabilities"): checks.verdict_probabilities,
    ("groups", "rater_covariance"): lambda r, m: checks.rater_covariance(
        r, observed(m)[1].responses
    ),
    ("graph", "phase_transition"): lambda r, m: checks.phase_transition(
        r, m, draws=5, random_seed=1
    ),
    ("graph", "plot_graph"): lambda r, m: plots.plot_graph(r, graph_of(observed(m)[1].responses)),
    ("groups", "co_assignment"): lambda r, m: checks.co_assignment(r),
    ("groups", "group_summary"): lambda r, m: checks.group_summary(r),
}
"""What takes results of some models only."""

NO_RATES = {"rank_raters", "switching", "align_labels"}
"""What needs a prevalence or a model that has none."""


def everything(kind):
    """All that takes results of one kind of model, as functions of result and model."""
    calls = {name: lambda r, m, f=f: f(r) for name, f in (OF_RESULT | OF_DRAWS).items()} | OF_MODEL
    if kind == "graph":  # labels on a graph have no prevalence
        calls = {name: call for name, call in calls.items() if name not in {"switching"}}
        calls.pop("align_labels")
    return calls | {name: call for (own, name), call in OF_SOME.items() if own == kind}


# ---------------------------------------------------------------- draws that were left out


@pytest.mark.parametrize("kind", MODELS)
def test_label_probabilities_are_those_of_the_draws_that_are_there(fits, kind):
    model, result = fits[kind]
    labels = bf.label_probabilities(result)
    picked = {
        "a chain": result.isel(chain=[1]),
        "a chain alone": result.isel(chain=1),
        "every third draw": result.isel(draw=slice(None, None, 3)),
        "the first draws": result.sel(draw=slice(0, 4)),
        "one draw many times": result.isel(draw=[3] * FIT["draws"]),
    }
    for name, part in picked.items():
        for use in (*OF_RESULT.values(), plots.plot_labels):
            if use is not OF_RESULT["label_scores"] and use is not OF_RESULT["calibration"]:
                with pytest.raises(ModelError, match=r"label_probabilities\(result, model\)"):
                    use(part)
        anew = bf.label_probabilities(part, model)
        assert anew.dims == ("item", "class")
        assert np.abs(anew - labels).max() > 1e-4, name
    chains = [bf.label_probabilities(result.isel(chain=[c]), model) for c in (0, 1)]
    xr.testing.assert_allclose((chains[0] + chains[1]) / 2, labels)
    xr.testing.assert_identical(chains[1], bf.label_probabilities(picked["a chain alone"], model))
    xr.testing.assert_identical(bf.label_probabilities(result, model), labels)
    shuffled = result.isel(draw=slice(None, None, -1), chain=[1, 0])
    xr.testing.assert_identical(bf.label_probabilities(shuffled), labels)


def test_chains_that_mean_other_classes_are_told_apart():
    """Two chains in two modes: what is said of one of them is not said of both."""
    model = DawidSkene(table(), confusion_prior=np.ones((2, 2)))
    result = bf.sample(model, **FIT)
    posterior = result["posterior"].dataset
    swapped = posterior.copy()
    for name in ("prevalence", "confusion"):
        values = posterior[name].copy()
        values[1] = values[1].isel({"class": [1, 0]}).values
        swapped[name] = values
    swapped["draw"] = posterior["draw"]
    mixed = result.copy()
    mixed["posterior"] = xr.DataTree(swapped)
    one, other = (bf.label_probabilities(mixed.isel(chain=[c]), model).values for c in (0, 1))
    whole = bf.label_probabilities(result.isel(chain=[1]), model).values
    np.testing.assert_allclose(other, whole[:, ::-1], rtol=1e-6)
    assert np.abs(one - other).max() > 0.9
    found = decisions.expected_errors(mixed.isel(chain=[0]), model, draws=50, random_seed=1)
    assert float(found["expected"]) == pytest.approx((1 - one.max(axis=1)).sum())


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("pick", [{"chain": 0}, {"chain": [1], "draw": slice(None, None, 2)}])
def test_all_else_works_on_picked_draws(fits, kind, pick):
    model, result = fits[kind]
    part = result.isel(pick)
    for name, use in everything(kind).items():
        if name in OF_RESULT or name in ("plot_graph", "common_units"):
            continue
        assert use(part, model) is not None, name
    assert decisions.rank_items(bf.label_probabilities(part, model)).shape[0] == N_ITEMS


def test_drawn_labels_go_with_the_draws(fits):
    model, result = fits["graph"]
    kept = bf.draw_labels(result.isel(chain=[1]), model, FIT["draws"])
    assert (kept.values == result["label_draws"]["label"].values[1]).all()
    apart = result.copy()
    apart["posterior"] = xr.DataTree(result["posterior"].dataset.isel(chain=[1]))
    with pytest.raises(ModelError, match="2 chains × 12 draws for parameters of 1 chains"):
        bf.draw_labels(apart, model)
    with pytest.raises(ModelError, match="of the same draws"):
        bf.label_probabilities(apart, model)


@pytest.mark.parametrize("kind", MODELS)
def test_as_many_draws_of_something_else_are_other_draws(fits, kind, tmp_path):
    model, result = fits[kind]
    other = bf.sample(model, **FIT | {"random_seed": 9})
    labels, own = bf.label_probabilities(result), result["posterior"].dataset
    for posterior in (other["posterior"].dataset, own.isel(chain=[1, 1]).assign_coords(own.coords)):
        mixed = result.copy()
        mixed["posterior"] = xr.DataTree(posterior)
        mixed.to_netcdf(tmp_path / "mixed.nc")
        for each in (mixed, xr.load_datatree(tmp_path / "mixed.nc")):
            with pytest.raises(ModelError, match=r"label_probabilities\(result, model\)"):
                bf.label_probabilities(each)
            if kind == "graph":
                with pytest.raises(ModelError, match="but of other draws"):
                    bf.label_probabilities(each, model)
                continue
            bare = xr.DataTree(children={"posterior": xr.DataTree(posterior)})
            anew = bf.label_probabilities(bare, model)
            xr.testing.assert_allclose(bf.label_probabilities(each, model), anew)
            assert np.abs(anew - labels).max() > 1e-4
    result.to_netcdf(tmp_path / "same.nc")
    with xr.open_datatree(tmp_path / "same.nc") as back:
        xr.testing.assert_allclose(bf.label_probabilities(back), labels)


def test_drawn_labels_of_other_draws_are_refused(fits):
    model, result = fits["graph"]
    part = result.isel(draw=slice(0, None, 2))
    part["posterior"] = xr.DataTree(result["posterior"].dataset.isel(draw=slice(1, None, 2)))
    with pytest.raises(ModelError, match="but of other draws"):
        bf.draw_labels(part, model)
    old = part.copy()  # made before draws were numbered
    labels = part["label_draws"].dataset.drop_vars("of_draws")
    old["label_draws"] = xr.DataTree(labels)
    with pytest.raises(ModelError, match="but of other draws"):
        bf.draw_labels(old, model)


# ---------------------------------------------------------------- other models, other results


def relabelled(responses):
    """The same items asked of the same raters, one answer another."""
    label = responses.label.copy()
    label[7] = 1 - label[7]
    return responses.relabelled(label)


OTHERS = {
    "answers": (lambda make: make(relabelled(table())), "other responses"),
    "items": (lambda make: make(table(items=range(1, N_ITEMS + 1))), r"item names .* 0 in place"),
    "order of the items": (
        lambda make: make(table(items=[1, 0, *range(2, N_ITEMS)])),
        "same item names in another order",
    ),
    "raters": (lambda make: make(table(raters=[0, 1, 2, 3, 9])), "rater names .* 4 in place of 9"),
    "number of raters": (lambda make: make(table(n_raters=7)), "5 rater names for a model of 7"),
    "classes": (lambda make: make(table(classes=[0, 2])), "class names .* 1 in place of 2"),
    "order of the classes": (lambda make: make(table(classes=[1, 0])), "in another order"),
    "kind of the names": (
        lambda make: make(table(raters=["0", "1", "2", "3", "4"])),
        "rater names .* 0 in place of '0'",
    ),
    "gold": (lambda make: make(table(), gold={3: 1}), "other gold labels"),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("what", OTHERS)
def test_models_of_something_else_are_refused(fits, kind, what):
    _, result = fits[kind]
    make, told = OTHERS[what]
    other = make(MODELS[kind])
    calls = OF_MODEL | {name: call for (own, name), call in OF_SOME.items() if own == kind}
    for alone in ("co_assignment", "group_summary", "plot_graph"):  # which take no model
        calls.pop(alone, None)
    if what == "gold":
        calls.pop("rater_covariance", None)
    for name, use in calls.items():
        with pytest.raises(ModelError, match=told):
            use(result, other)
            pytest.fail(name)


def test_other_structures_and_priors_are_refused(fits):
    responses = table()
    for kind, other, told in (
        ("chain", HiddenMarkov(responses, sequences_of(responses, 12)), "other sequences"),
        ("graph", MarkovRandomField(responses, bf.Graph.grid((2, 12))), "another graph"),
        (
            "graph",
            MarkovRandomField(responses, graph_of(responses), prevalence=[0.3, 0.7]),
            "another graph",
        ),
        ("groups", LatentGroup(responses, [[0, 2], [1, 3]]), "other groups of raters"),
        ("chain", DawidSkene(responses), r"label prior \(MarkovChain, the model Indep"),
        ("independent", DawidSkene(responses, raters="coin"), r"\(Confusion, the model OneCoin\)"),
    ):
        for use in OF_MODEL.values():
            with pytest.raises(ModelError, match=told):
                use(fits[kind][1], other)


def test_the_same_model_built_again_is_the_same(fits, tmp_path):
    frame = table().to_frame().sample(frac=1, random_state=2)
    names = {"items": range(N_ITEMS), "raters": range(N_RATERS), "classes": [0, 1]}
    again = bf.Responses.from_long(frame, **names)
    for kind, make in MODELS.items():
        _, result = fits[kind]
        result.to_netcdf(tmp_path / f"{kind}.nc")
        with xr.open_datatree(tmp_path / f"{kind}.nc") as loaded:
            path = bf.decode(loaded.load(), make(again))
        xr.testing.assert_equal(path, bf.decode(*reversed(fits[kind])))


def test_results_of_other_responses_are_not_averaged(fits):
    result = fits["independent"][1]
    equal = {"one": 1, "other": 1}
    for other, told in (
        (DawidSkene(relabelled(table())), "other responses in 'other' than in 'one'"),
        (DawidSkene(table(), gold={3: 1}), "other gold labels in 'other'"),
        (DawidSkene(table(raters=[0, 1, 2, 3, 9])), "other responses in 'other'"),
        (DawidSkene(table(items=range(1, N_ITEMS + 1))), "the same"),
        (DawidSkene(table(classes=[0, 2])), "same class names"),
    ):
        results = {"one": result, "other": bf.sample(other, **FIT)}
        for use in (lambda r: bf.average(r), lambda r: bf.average(r, equal)):
            with pytest.raises(ModelError, match=told):
                use(results)
    reordered = DawidSkene(table(raters=range(N_RATERS)), raters="coin")
    both = bf.average({"one": result, "other": bf.sample(reordered, **FIT)}, equal)
    assert bf.label_probabilities(both).sizes["item"] == N_ITEMS


def test_references_of_other_raters_or_classes_are_refused(fits):
    result = fits["independent"][1]
    for other, told in (
        (table(raters=[0, 1, 2, 3, 9]), "9 in place of 4"),
        (table(classes=[0, 2]), "2 in place of 1"),
    ):
        reference = bf.find_map(DawidSkene(other))
        for use in (checks.switching, lambda r, ref: bf.align_labels(r, reference=ref)):
            with pytest.raises(ModelError, match=told):
                use(result, reference)


# ---------------------------------------------------------------- names


SLOW = pytest.mark.slow
DAYS = pd.date_range("2024-02-27", periods=N_ITEMS)
NAMES = {
    "times": {"items": DAYS, "raters": DAYS[:N_RATERS] + pd.Timedelta("1h"), "classes": DAYS[:2]},
    "truth values": {"classes": [False, True]},
    "integers": {"items": range(5, 5 + N_ITEMS), "raters": range(-3, 2), "classes": [3, 8]},
    "text": {
        "items": [f"item {n}" for n in range(N_ITEMS)],
        "raters": list("vwxyz"),
        "classes": ["no", "yes"],
    },
}


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        # all models with times, the names that change most in a file, and all names with one model
        pytest.param(kind, names, marks=[] if "times" == names or "chain" == kind else SLOW)
        for kind in MODELS
        for names in NAMES
    ],
)
def test_names_survive_a_file(tmp_path, kind, names):
    model = MODELS[kind](table(**NAMES[names]))
    result = bf.sample(model, **FIT)
    result.to_netcdf(tmp_path / "result.nc")
    with xr.open_datatree(tmp_path / "result.nc") as opened:
        loaded = opened.load()
    for name, use in everything(kind).items():
        then, now = use(result, model), use(loaded, model)
        if isinstance(then, xr.DataArray | xr.Dataset):
            xr.testing.assert_equal(then, now)
        elif isinstance(then, pd.DataFrame):  # times as text say their unit
            then, now = (each.reset_index(drop=True) for each in (then, now))
            pd.testing.assert_frame_equal(then, now, check_dtype=False)
        elif isinstance(then, str | dict) and name not in ("common_units", "report"):
            assert str(then) == str(now), name
    bf.draw_labels(loaded, model, 3, random_seed=1).to_netcdf(tmp_path / "labels.nc")


def test_two_raters_who_are_times_can_be_pictured():
    responses = table(**NAMES["times"])
    point = bf.find_map(DawidSkene(responses))
    (ax,) = plots.plot_confusion(point, [responses.raters[1]])
    assert ax.get_title().startswith("rater 2024… 01:00:00")


@pytest.mark.parametrize(
    "groups",
    [
        {("a", 1): [2, 3]},
        {None: [2, 3]},
        {float("nan"): [2, 3]},
        {"a": [0, 1], 1: [2, 3]},
    ],
)
def test_names_of_groups_that_no_file_holds_are_refused_at_once(groups):
    with pytest.raises(ResponsesError, match="Names of groups must"):
        LatentGroup(table(), groups)


# ---------------------------------------------------------------- names of models


@pytest.mark.parametrize("name", [5, None, True, ("a",), "a/b", "a\nb", "a\0"])
def test_names_that_no_file_holds_are_refused_at_once(name):
    with pytest.raises(ModelError, match=r"name of a model must be text .* Got: "):
        DawidSkene(table(), name=name)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", [pytest.param("a", marks=SLOW), "é ü::5"])
def test_models_with_a_name_are_read_as_those_without(tmp_path, fits, kind, name):
    model = MODELS[kind](table(), name=name)
    result = bf.sample(model, **FIT)
    result.to_netcdf(tmp_path / "result.nc")
    own, other = fits[kind]
    for what, use in everything(kind).items():
        if what in ("summary", "average", "common_units"):
            continue  # say the names
        one, two = use(result, model), use(other, own)
        if isinstance(one, xr.DataArray | xr.Dataset) and what != "value_of_response":
            xr.testing.assert_allclose(one, two)
    assert f"{name}::confusion" in result["posterior"]
    assert bf.summary(result, ["confusion"]).shape == bf.summary(other, ["confusion"]).shape


def test_classes_of_a_model_with_a_name_are_aligned(fits):
    result = fits["independent"][1]
    swapped = result.copy()
    posterior = result["posterior"].dataset
    turned = posterior.assign(
        {
            name: posterior[name].copy(data=posterior[name].isel({"class": [1, 0]}).values)
            for name in ("prevalence", "confusion")
        }
    )
    swapped["posterior"] = xr.DataTree(
        turned.rename({name: f"a::{name}" for name in posterior.data_vars})
    )
    del swapped["label_posterior"]
    aligned = bf.align_labels(swapped, reference=result)
    found = aligned["posterior"].dataset
    assert list(found.data_vars) == [f"a::{name}" for name in posterior.data_vars]
    for name in ("prevalence", "confusion", "sensitivity"):
        apart = np.abs(found[f"a::{name}"].values - posterior[name].values)
        same = apart.max(axis=tuple(range(2, apart.ndim))) < 1e-12
        assert same.sum() == aligned.attrs["aligned"] > 20, name


# ---------------------------------------------------------------- what is no result


class InferenceData:
    """As ArviZ before version 1 had it."""

    def __init__(self, posterior):
        self.posterior = posterior


def not_results(result):
    posterior = result["posterior"].dataset
    return {
        "Dataset": posterior,
        "NoneType": None,
        "dict": {"posterior": posterior},
        "InferenceData": InferenceData(posterior),
    }


@pytest.mark.parametrize("kind", ["independent", "groups", "graph"])
def test_what_is_no_result_is_one_clear_line(fits, kind):
    model, result = fits[kind]
    alone = {"plot_elbo": plots.plot_elbo, "plot_start": plots.plot_start}
    calls = everything(kind) | {name: lambda r, m, f=f: f(r) for name, f in alone.items()}
    calls["label_scores"] = lambda r, m: checks.label_scores(r, {0: 1})
    calls["calibration"] = lambda r, m: checks.calibration(r, {0: 1})
    for given, odd in not_results(result).items():
        for name, use in calls.items():
            with pytest.raises(ModelError, match=f"DataTree .* Got: {given}"):
                use(odd, model)
                pytest.fail(name)


def test_what_a_result_lacks_is_said(fits):
    model, result = fits["independent"]
    empty = xr.DataTree()
    calls = everything("independent")
    calls["label_scores"] = lambda r, m: checks.label_scores(r, {0: 1})
    calls["calibration"] = lambda r, m: checks.calibration(r, {0: 1})
    for use in calls.values():
        with pytest.raises(ModelError, match="Got: "):
            use(empty, model)
    point = bf.find_map(model)
    for name in ("summary", "report", "align_labels", "common_units"):
        with pytest.raises(ModelError, match=r"bf\.sample .* Got: "):
            calls[name](point, model)
    for name in set(calls) - {"summary", "report", "align_labels", "common_units"}:
        assert calls[name](point, model) is not None
    bare = result.copy()
    del bare["constant_data"]
    for name in ("switching", "plot_confusion", "report"):
        with pytest.raises(ModelError, match="group constant_data"):
            calls[name](bare, model)


def test_points_of_groups_know_who_shares_a_source(fits):
    model, _ = fits["groups"]
    point = bf.find_map(model)
    raters = [0, 1]
    assert checks.group_summary(point)["raters"].tolist()[0] in (raters, [2, 3])
    together = checks.rater_covariance(point, table())["together"]
    assert together.values.astype(int).tolist()[0] == [1, 1, 0, 0, 0]
