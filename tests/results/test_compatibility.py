"""Names in results and files, groups as users say them, and results of something else."""

import warnings

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from grouped_crowds import crowd
from refusals import refused, refused_table
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
from slowly import with_slow

import bayesfuse as bf
from bayesfuse import checks
from bayesfuse.errors import ModelError, NoGroupsWarning
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
    for alone in ("co_assignment", "group_summary", "plot_graph"):
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
        (
            "chain",
            HiddenMarkov(responses, sequences_of(responses, 12), raters="confusion"),
            "other sequences",
        ),
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
            refused(told, use, fits[kind][1], other)


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
            refused(told, use, results)
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
        for use in (checks.switching, lambda r, ref: bf.checks.align_labels(r, reference=ref)):
            refused(told, use, result, reference)


def not_results(result):
    posterior = result["posterior"].dataset
    return {"Dataset": posterior, "NoneType": None, "dict": {"posterior": posterior}}


def calls_of(kind):
    known = {"label_scores": checks.label_scores, "calibration": checks.calibration}
    return everything(kind) | {name: lambda r, m, f=f: f(r, {0: 1}) for name, f in known.items()}


@pytest.mark.parametrize("kind", ["independent", "groups", "graph"])
def test_what_is_no_result_is_one_clear_line(fits, kind):
    model, result = fits[kind]
    calls = calls_of(kind)
    for given, odd in not_results(result).items():
        for name, use in calls.items():
            with pytest.raises(ModelError, match=f"DataTree .* Got: {given}"):
                use(odd, model)
                pytest.fail(name)


def test_errors_name_the_missing_group(fits):
    model, result = fits["independent"]
    empty = xr.DataTree()
    calls = calls_of("independent")
    for use in calls.values():
        refused("Got: ", use, empty, model)
    point = bf.find_map(model)
    draws = ("summary", "align_labels", "common_units", *OF_LABEL_DRAWS)
    for name in draws:
        refused(r"bf\.sample .* Got: ", calls[name], point, model)
    for name in set(calls) - set(draws):
        assert calls[name](point, model) is not None
    bare = result.copy()
    del bare["constant_data"]
    for name in ("switching", "plot_confusion"):
        refused("groups? constant_data", calls[name], bare, model)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "names"),
    # all models with times, the names that change most in a file, and all names with one model
    [(kind, "times") for kind in MODELS] + [("independent", names) for names in NAMES][1:],
)
def test_names_survive_a_file(tmp_path, kind, names):
    model = MODELS[kind](table(**NAMES[names]))
    result = bf.sample(model, **FIT)
    result.to_netcdf(tmp_path / "result.nc")
    loaded = xr.load_datatree(tmp_path / "result.nc")
    for name, use in everything(kind).items():
        if name.startswith("plot") or (name == "summary" and kind != "independent"):
            continue
        then, now = use(result, model), use(loaded, model)
        if isinstance(then, xr.DataArray | xr.Dataset):
            xr.testing.assert_equal(then, now)
        elif isinstance(then, pd.DataFrame):  # times as text say their unit
            then, now = (each.reset_index(drop=True) for each in (then, now))
            pd.testing.assert_frame_equal(then, now, check_dtype=False)
        elif isinstance(then, str | dict) and name not in ("common_units", "report"):
            assert str(then) == str(now), name
    bf.draw_labels(loaded, model, 3, random_seed=1).to_netcdf(tmp_path / "labels.nc")


@pytest.mark.parametrize("groups", [{("a", 1): [2, 3]}, {None: [2, 3]}, {"a": [0, 1], 1: [2, 3]}])
def test_names_of_groups_that_no_file_holds_are_refused_at_once(groups):
    refused_table("Names of groups must", LatentGroup, table(), groups)


@pytest.mark.parametrize("name", [5, None, ("a",), "a/b", "a\nb", "a\0"])
def test_names_that_no_file_holds_are_refused_at_once(name):
    refused(r"name of a model must be text .* Got: ", DawidSkene, table(), name=name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["groups", "graph"])
def test_models_with_a_name_are_read_as_those_without(tmp_path, fits, kind):
    model = MODELS[kind](table(), name="é ü::5")
    result = bf.sample(model, **FIT)
    result.to_netcdf(tmp_path / "result.nc")
    own, other = fits[kind]
    for what, use in everything(kind).items():
        if what in ("summary", "average", "common_units") or what.startswith("plot"):
            continue  # say the names
        one, two = use(result, model), use(other, own)
        if isinstance(one, xr.DataArray | xr.Dataset) and what != "value_of_response":
            xr.testing.assert_allclose(one, two)
    assert "é ü::5::confusion" in result["posterior"]
    assert bf.summary(result, ["confusion"]).shape == bf.summary(other, ["confusion"]).shape


SUMMARY = {"round_to": "none", "kind": "stats"}
PARTLY = {"some in groups": [[0, 1], [2, 3]], "inferred": "posterior"}
CASES = [*with_slow(MODELS), *with_slow(PARTLY, "inferred")]


@pytest.fixture(scope="module", params=CASES)
def fitted(request, fits):
    """Results of two classes, and two of three with groups of raters."""
    if request.param in MODELS:
        return fits[request.param][1]
    responses = bf.datasets.simulate_dawid_skene(24, 5, 3, random_seed=2).responses
    # Variables (rater, class, answer), (group, class, verdict) and (rater, verdict, answer) have an
    # order that ArviZ reads right only with one of the raters alone in front.
    return bf.sample(LatentGroup(responses, PARTLY[request.param]), **FIT)


def misnamed(table, posterior):
    """Rows of a summary whose mean is not that of the entry they are named after."""
    wrong = []
    for row, mean in table["mean"].astype(float).items():
        name, _, entry = row.partition("[")
        names = entry.rstrip("]").split(", ") if entry else []
        values = posterior[name]
        at = {
            dim: [str(own) for own in values[dim].values].index(wanted)
            for dim, wanted in zip(values.dims[2:], names, strict=True)
        }
        if not np.isclose(mean, float(values.isel(at).mean()), atol=1e-9):
            wrong.append(row)
    return wrong


def test_rows_of_summaries_are_what_they_are_named(fitted, tmp_path):
    """And ArviZ's diagnostics take the result, from a file too."""
    result, posterior = fitted, fitted["posterior"].dataset
    result.to_netcdf(tmp_path / "result.nc")
    loaded = xr.load_datatree(tmp_path / "result.nc")
    own, plain = (summary(loaded, **SUMMARY) for summary in (bf.summary, az.summary))
    assert len(own) == sum(values[0, 0].size for values in posterior.data_vars.values())
    assert misnamed(own, posterior) == []
    assert misnamed(plain, posterior) == []
    with np.errstate(invalid="ignore", divide="ignore"):  # groups that never change have no R-hat
        found = az.rhat(result)
    for name, values in posterior.data_vars.items():
        assert found[name].shape == values.shape[2:]


@pytest.mark.parametrize(
    "groups",
    [
        {"wire": ["a", "c"], "radio": ["b", "e"]},
        {"a": "wire", "c": "wire", "b": "radio", "e": "radio", "d": None},
        {"a": "wire", "c": "wire", "b": "radio", "e": "radio", "d": np.nan},
        pd.Series(["wire", "radio", "wire", None, "radio"], index=list("abcde")),
        [["a", "c"], ["b", "e"], ["d"]],
        [["a", "c"], np.array(["b", "e"])],
    ],
)
def test_groups_may_be_mappings_or_lists(groups):
    responses = bf.Responses.from_matrix(np.eye(5, dtype=int), raters=list("abcde"))
    found = LatentGroup(responses, groups).groups
    assert found.assignment.tolist() == [0, 1, 0, -1, 1]
    assert list(found.members.values()) == [["a", "c"], ["b", "e"]]


def test_groups_from_moments_are_the_default():
    responses, _, assignment = crowd(
        np.random.default_rng(3), 4000, groups=(4,), n_alone=6, missing=0.0
    )
    found = LatentGroup(responses).groups
    assert found.origin == "moments" and (found.assignment == assignment).all()
    given = LatentGroup(responses, bf.moments.find_groups(responses)).groups
    assert given.origin == "given" and (given.assignment == assignment).all()


def test_without_groups_from_moments_the_reason_is_stored():
    responses = bf.Responses.from_matrix([[0, 1], [1, 1], [0, 0]])
    with pytest.warns(NoGroupsWarning, match=r"moments failed.*Dawid and Skene's model"):
        model = LatentGroup(responses)
    assert model.groups.members == {}
    said = bf.find_map(model).attrs["groups"]
    assert "moments failed" in said and "Got" in said
    responses, _, _ = crowd(np.random.default_rng(3), 2000, groups=(), n_alone=6, missing=0.0)
    with pytest.warns(NoGroupsWarning, match="find no raters who share a source, so"):
        assert LatentGroup(responses).groups.members == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LatentGroup(responses, [])
        LatentGroup(responses, "posterior")


BAD = {
    "unknown rater": ([[0, "nobody"]], {}, "'nobody'"),
    "rater in two groups": ({"x": [0, 1], "y": [1, 2]}, {}, "1 in group 'x' and again in 'y'"),
    "rater twice in one": ([[0, 0]], {}, "again in 0"),
    "empty group": ({"x": [0, 1], "y": []}, {}, "an empty group 'y'"),
    "another word": ("families", {}, "'families'"),
    "both ways": ({0: "x", 1: [2, 3]}, {}, "[2, 3]"),
    "shape of the prior": ([[0, 1]], {"group_prior": np.ones((3, 3))}, "shape (3, 3)"),
    "negative prior": ([[0, 1]], {"group_prior": -np.ones((2, 2))}, "-1.0"),
    "share of known groups": ([[0, 1]], {"share_prior": 0.2}, "needs groups='posterior'"),
    "rows of two groups": ("posterior", {"group_prior": np.ones((2, 2, 2))}, "shape (2, 2, 2)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_groups_are_refused_with_the_offender(case):
    groups, settings, told = BAD[case]
    responses = bf.Responses.from_matrix(np.eye(9, dtype=int))
    refused(told, LatentGroup, responses, groups, **settings)
