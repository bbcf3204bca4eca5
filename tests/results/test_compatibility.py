"""A result is used with its own model and responses only, and has what functions need of it."""

import pytest
import xarray as xr
from result_functions import (
    FIT,
    MODELS,
    N_ITEMS,
    N_RATERS,
    OF_LABEL_DRAWS,
    OF_MODEL,
    OF_SOME,
    everything,
    graph_of,
    sequences_of,
    table,
)

import bayesfuse as bf
from bayesfuse import checks, plots
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup, MarkovRandomField


def relabelled(responses):
    """The same items asked of the same raters, one answer another."""
    label = responses.label.copy()
    label[7] = 1 - label[7]
    return responses.relabelled(label)


OTHERS = {
    "answers": (lambda: relabelled(table()), {}, "other responses"),
    "items": (lambda: table(items=range(1, N_ITEMS + 1)), {}, r"item names .* 0 in place"),
    "order of the items": (
        lambda: table(items=[1, 0, *range(2, N_ITEMS)]),
        {},
        "same item names in another order",
    ),
    "raters": (lambda: table(raters=[0, 1, 2, 3, 9]), {}, "rater names .* 4 in place of 9"),
    "number of raters": (lambda: table(n_raters=7), {}, "5 rater names for a model of 7"),
    "classes": (lambda: table(classes=[0, 2]), {}, "class names .* 1 in place of 2"),
    "order of the classes": (lambda: table(classes=[1, 0]), {}, "in another order"),
    "kind of the names": (lambda: table(raters=list("01234")), {}, "rater names .* 0 in place of"),
    "gold": (table, {"gold": {3: 1}}, "other gold labels"),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("what", OTHERS)
def test_models_of_something_else_are_refused(fits, kind, what):
    _, result = fits[kind]
    responses, given, told = OTHERS[what]
    other = MODELS[kind](responses(), **given)
    calls = OF_MODEL | {name: call for (own, name), call in OF_SOME.items() if own == kind}
    # which take no model
    for alone in ("co_assignment", "group_summary", "plot_graph", "rater_drift", "predict_batches"):
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


@pytest.mark.slow
def test_the_same_model_built_again_is_the_same(fits, tmp_path):
    frame = table().to_frame().sample(frac=1, random_state=2)
    names = {"items": range(N_ITEMS), "raters": range(N_RATERS), "classes": [0, 1]}
    again = bf.Responses.from_long(frame, **names)
    for kind, make in (("groups", MODELS["groups"]), ("chain", MODELS["chain"])):
        _, result = fits[kind]
        result.to_netcdf(tmp_path / f"{kind}.nc")
        with xr.open_datatree(tmp_path / f"{kind}.nc") as loaded:
            path = bf.decode(loaded.load(), make(again))
        xr.testing.assert_equal(path, bf.decode(*reversed(fits[kind])))


@pytest.mark.slow
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


def not_results(result):
    posterior = result["posterior"].dataset
    return {"Dataset": posterior, "NoneType": None, "dict": {"posterior": posterior}}


def calls_of(kind):
    known = {"label_scores": checks.label_scores, "calibration": checks.calibration}
    return everything(kind) | {name: lambda r, m, f=f: f(r, {0: 1}) for name, f in known.items()}


@pytest.mark.parametrize("kind", ["independent", "groups", "graph"])
def test_what_is_no_result_is_one_clear_line(fits, kind):
    model, result = fits[kind]
    alone = {"plot_elbo": plots.plot_elbo, "plot_start": plots.plot_start}
    calls = calls_of(kind) | {name: lambda r, m, f=f: f(r) for name, f in alone.items()}
    for given, odd in not_results(result).items():
        for name, use in calls.items():
            with pytest.raises(ModelError, match=f"DataTree .* Got: {given}"):
                use(odd, model)
                pytest.fail(name)


def test_what_a_result_lacks_is_said(fits):
    model, result = fits["independent"]
    empty = xr.DataTree()
    calls = calls_of("independent")
    for use in calls.values():
        with pytest.raises(ModelError, match="Got: "):
            use(empty, model)
    point = bf.find_map(model)
    draws = ("summary", "report", "align_labels", "common_units", "rater_drift", *OF_LABEL_DRAWS)
    for name in draws:
        with pytest.raises(ModelError, match=r"bf\.sample .* Got: "):
            calls[name](point, model)
    for name in set(calls) - set(draws):
        assert calls[name](point, model) is not None
    bare = result.copy()
    del bare["constant_data"]
    for name in ("switching", "plot_confusion", "report"):
        with pytest.raises(ModelError, match="group constant_data"):
            calls[name](bare, model)
