"""Which models are tried for what, what responses show of errors, and how many draws fit."""

import sys
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from refusals import refused
from rules import rules

import bayesfuse as bf
from bayesfuse import models
from bayesfuse.ensemble import schedule
from bayesfuse.ensemble.candidates import candidates, sides
from bayesfuse.ensemble.evidence import Evidence, error_correlation, measure_dependence
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.schedule import Progress, Schedule, Size
from bayesfuse.numerics.threads import check
from bayesfuse.observation.model import observed


@pytest.fixture(scope="module")
def responses():
    return bf.datasets.simulate_dawid_skene(24, 5, 3, random_seed=4).responses


def chosen(evidence=None, **arguments):
    return [member.model for member in candidates(Inputs(**arguments), evidence)]


def test_models_by_what_is_given(responses):
    people = ["ItemTypes"] * 4
    sequences = bf.Sequences.from_lengths([10, 14], items=responses.items)
    graph = bf.Graph.grid((4, 6), items=responses.items)
    assert chosen(responses=responses) == people
    assert chosen(responses=responses, sequences=sequences) == ["HiddenMarkov", *people]
    # where errors are clearly dependent, only item types
    for evidence, number in ((Evidence(0.2, 0.01), 2), (Evidence(-0.02, 0.002), 6)):
        models = chosen(responses=responses, graph=graph, evidence=evidence)
        assert models == ["MarkovRandomField"] * number
    assert chosen(responses=responses, groups=[[0, 1]]) == ["LatentGroup"]
    assert chosen(responses=responses, groups="posterior") == ["LatentGroup", *people]
    assert chosen(responses=responses, ordered=True) == [*people, "DawidSkene"]
    assert chosen(responses=responses, covariates=np.ones((24, 1))) == people


def test_sides_have_weights_by_the_correlation_of_errors(responses):
    types, independent = ["ItemTypes"] * 4, ["DawidSkene"] * 3
    groups = {"source 1": responses.raters[:2].tolist()}
    for correlation, expected in ((-0.02, independent), (0.06, types)):
        evidence = Evidence(correlation, 0.002)
        assert chosen(responses=responses, evidence=evidence) == expected
        for grouped in (1.0, 0.6):
            with_groups = Evidence(correlation, 0.002, groups, grouped, Evidence(0.5, 0.002))
            expected_models = {"LatentGroup", *(expected if correlation > 0 else [])}
            if grouped < 1.0:  # without groups, errors are dependent
                expected_models |= {"ItemTypes"}
            models = chosen(responses=responses, groups=groups, evidence=with_groups)
            assert set(models) == expected_models
        of_groups = sides(Inputs(responses, groups=groups), with_groups)
        assert sum(side.weight for side in of_groups) == pytest.approx(1.0, abs=0.02)
    evidence = Evidence(0.004, 0.002)
    between = sides(Inputs(responses), evidence)
    share = evidence.independence
    assert 0.1 < share < 0.9
    assert [side.weight for side in between] == pytest.approx([share, 1.0 - share])
    assert [len(side.candidates) for side in between] == [3, 4]


def test_independence_is_smooth_and_needs_evidence():
    weights = [Evidence(c, 0.01).independence for c in np.linspace(-0.05, 0.1, 50)]
    assert np.all(np.diff(weights) < 0) and np.max(-np.diff(weights)) < 0.15
    assert Evidence(-0.05, 0.01).independence > 0.95 > 0.01 > Evidence(0.1, 0.01).independence
    # the posterior probability of zero, by numerical integration over the other correlations
    grid, usual, informative = np.linspace(0.0, 1.0, 20_001), 0.05, 0.3
    density = np.exp(-0.5 * ((0.02 - grid) / 0.01) ** 2)
    marginal = np.trapezoid(density * np.exp(-grid / usual) / usual, grid)
    ratio = 1.0 / (1.0 + (0.01 / informative) ** 2)
    expected = ratio * density[0] / (density[0] + marginal)
    assert Evidence(0.02, 0.01).independence == pytest.approx(expected, rel=1e-3)
    errors = [Evidence(0.0, error).independence for error in (0.05, 0.3, 1.0, 5.0)]
    assert np.all(np.diff(errors) < 0) and errors[-1] < 0.01
    along = [Evidence(-0.05, 0.01, along=along).independence for along in np.linspace(0.0, 1.0, 20)]
    assert np.all(np.diff(along) < 0) and np.max(-np.diff(along)) < 0.1 and along[-1] == 0.0
    assert Evidence().independence == 0.0 and Evidence(unmeasured=0.5).independence == 0.5


def test_two_classes_are_one_pair(responses):
    two = bf.datasets.simulate_dawid_skene(24, 5, 2, random_seed=4).responses
    assert chosen(responses=two) == ["ItemTypes"] * 3  # two classes are one pair


def test_numbers_are_codes_and_ordered_text_is_grades(responses):
    names = np.array(["low", "high", "mid"])[responses.label]
    frame = responses.to_frame().assign(label=names)
    graded = bf.Responses.from_long(frame, classes=["low", "mid", "high"], ordered=True)
    assert responses.ordered  # numbers, by default
    assert "DawidSkene" not in chosen(responses=responses)
    assert "DawidSkene" in chosen(responses=graded)
    assert "DawidSkene" not in chosen(responses=graded, ordered=False)


def test_raters_have_rows_by_their_last_answer_where_classes_mark_spans():
    said = bf.Responses.from_matrix([list("BB"), list("II"), list("OB"), list("OO")] * 60)
    given = {"sequences": bf.Sequences.from_lengths([120, 120], items=said.items)}
    for letters, tags in (("BIO", True), ("XIO", False)):
        table = bf.Responses.from_long(said.to_frame().replace({"B": letters[0]}))
        found = candidates(inputs := Inputs(table, **given))
        assert [each.model for each in found][1] == ("DawidSkene" if tags else "ItemTypes")
        assert {each.votes for each in found} == {0.4 if tags else 0.05}
        assert ("sequential_confusion" in found[0].build(inputs).named_vars) == tags
    few = bf.models.HiddenMarkov(said.take(range(24)), bf.Sequences.from_lengths([12, 12]))
    assert "sequential_confusion" not in few.named_vars  # 48 responses for 24 rows
    sure = candidates(Inputs(said, **given), Evidence(-0.03, 0.002))
    assert max(each.votes for each in sure) < 0.01


@pytest.mark.slow
def test_code_builds_the_model_it_shows(responses):
    gold = {responses.items[0]: responses.classes[1]}
    sequences = bf.Sequences.from_lengths([10, 14], items=responses.items)
    for given in (
        {},
        {"sequences": sequences},
        {"groups": [responses.raters[:2].tolist()]},
        {"covariates": np.random.default_rng(1).normal(size=(24, 1))},
    ):
        inputs = Inputs(responses, gold=gold, **given)
        space = {name: getattr(models, name) for name in models.__all__} | given
        space |= {"responses": responses, "gold": gold}
        for each in candidates(inputs):
            shown, built = eval(each.code(inputs), space), each.build(inputs)
            assert type(shown) is type(built)
            assert set(shown.named_vars) == set(built.named_vars)
            assert shown.coords == built.coords
            assert observed(shown)[1].fingerprint == observed(built)[1].fingerprint


def test_rules_have_their_model_and_fewer_votes_where_none_is_for_a_class():
    """Rules vote for one class each, and on few items."""
    rng = np.random.default_rng(1)
    votes = np.where(rng.random((100, 4)) < 0.3, [0, 1, 0, 1], -1)
    table = partial(bf.Responses.from_matrix, classes=[0, 1])
    both, one = table(votes), table(np.where(votes >= 0, 1, -1))
    assert chosen(responses=both) == chosen(responses=one) == ["LabellingFunctions"]
    assert candidates(Inputs(responses=one))[0].votes < candidates(Inputs(responses=both))[0].votes
    often, of_two_classes = votes.copy(), votes.copy()
    often[:, :2], often[:60, 2:] = [0, 1], [0, 1]
    of_two_classes[votes == 0] = rng.integers(0, 2, (votes == 0).sum())
    for labels in (often, of_two_classes, np.ones((100, 4), int)):
        assert "LabellingFunctions" not in chosen(responses=table(labels))


def test_silence_and_statements_get_models_that_take_them(responses):
    silent = responses.head(20).completed()
    stated = bf.Responses.from_probabilities(np.full((24, 2, 3), 1 / 3))
    sequences = bf.Sequences.from_lengths([10, 14], items=stated.items)
    for table in (silent, stated):
        assert chosen(responses=table) == ["DawidSkene"]
    assert chosen(responses=stated, sequences=sequences) == ["HiddenMarkov"]
    for each in candidates(Inputs(stated, sequences)):
        each.build(Inputs(stated, sequences))  # is not refused


def test_partial_answers_have_item_types_that_are_sampled(responses):
    frame = responses.to_frame().astype(str)
    frame.loc[::3, "label"] = "0|1"
    table = bf.Responses.from_partial_answers(frame)
    for correlation, expected in ((-0.02, ["DawidSkene"]), (0.06, ["ItemTypes"] * 3)):
        selected = candidates(Inputs(table), Evidence(correlation, 0.002))
        assert [member.model for member in selected] == expected
        assert all(member.settings is None for member in selected)
    shares = {name: [share] for name, share in zip(table.classes, [0.2, 0.3, 0.5], strict=True)}
    stated = bf.Responses.from_probabilities({"item": ["0"], "rater": ["net"], **shares})
    assert chosen(responses=table.joined(stated)) == ["DawidSkene"]


def test_two_structures(responses):
    graph = bf.Graph.grid((4, 6), items=responses.items)
    refused(r"Got: graph and groups\.", bf.fuse, responses, graph=graph, groups=[[0, 1]])
    assert candidates(Inputs(responses, groups=[[0, 1]], covariates=np.ones((24, 1))))


@pytest.fixture
def clock(monkeypatch):
    """A clock that only fits move: seconds at each step, and before the first of a process."""
    now = SimpleNamespace(time=0.0, step=0.0, fixed=0.0, compiles=0.0, fits=0)

    def sample(model, draws, *, tune, chains, **_):
        now.fits += 1
        steps = chains * (draws + tune) * now.step + now.compiles
        now.compiles = 0.0
        now.time += steps + now.fixed
        posterior = xr.Dataset({"x": (("chain", "draw"), [[0.0] * draws])})
        posterior.attrs["sampling_time"] = steps
        return xr.DataTree.from_dict({"posterior": posterior})

    monkeypatch.setattr(schedule, "sample", sample)
    monkeypatch.setattr(
        schedule, "make_plan", lambda model: SimpleNamespace(is_fully_conjugate=True)
    )
    monkeypatch.setattr(schedule, "sweep_cost", lambda plan: 0.01)
    monkeypatch.setattr(schedule, "sweeps_of_draw", lambda plan: 1)
    monkeypatch.setattr(schedule.time, "monotonic", lambda: now.time)
    return now


ENOUGH, FEWEST = Size(250, 200), Size(schedule.MIN_DRAWS, schedule.MIN_DRAWS)


@pytest.mark.parametrize(
    ("step", "compiles", "cost", "minutes", "others", "size", "fits"),
    [
        (0.001, 0.0, 0.01, 1.0, 3, ENOUGH, 1),
        (0.0, 0.0, 1e-3, 1.0, 1, ENOUGH, 0),  # sizes show that there is time
        (0.001, 30.0, 0.01, 1.0, 1, ENOUGH, 2),  # compiling does not count twice
        # 100 steps of four chains take 80 of the 96 seconds of a first fit, with what follows 104
        (0.2, 0.0, 0.01, 2.0, 3, None, 2),
        (0.15, 0.0, 0.01, 2.0, 3, FEWEST, 2),
        (10.0, 0.0, 0.01, 1.0, 1, None, 2),
        (10.0, 0.0, 0.01, 1e-9, 1, None, 0),
        (10.0, 0.0, 10.0, 1.0, 1, None, 0),  # sizes show that there is none
    ],
)
def test_sizes_fit_into_the_time(
    clock, monkeypatch, step, compiles, cost, minutes, others, size, fits
):
    monkeypatch.setattr(schedule, "sweep_cost", lambda plan: cost)
    clock.step, clock.compiles = step, compiles
    assert Schedule(minutes).size(None, ENOUGH, 1, others) == size and clock.fits == fits


def test_less_time_gives_fewer_draws_that_fit(clock, monkeypatch):
    clock.step, clock.fixed = 0.05, 2.0
    left = Schedule(2.0)
    size = left.size(None, ENOUGH, 1, 2)
    assert schedule.MIN_DRAWS <= size.draws < 250
    schedule.sample(None, size.draws, tune=size.tune, chains=schedule.CHAINS)
    assert 60.0 <= left.left() + 30.0 and left.left() > 0.5 * 60.0  # half is for the other fit
    monkeypatch.setattr(
        schedule, "make_plan", lambda model: SimpleNamespace(is_fully_conjugate=False)
    )
    assert Schedule(0.3).size(None, ENOUGH, 1, 1) is None  # no time to compile gradients


def test_optional_work_ends_with_its_share_of_the_time():
    def work():
        while True:
            check()

    left = Schedule(0.001)
    assert left.timed(lambda: "checked") == "checked"
    assert left.timed(work, 2.0) is None and 0.1 < left.used() < 5.0
    assert left.timed(lambda: "checked") is None


def test_an_interrupted_pilot_interrupts(clock, monkeypatch):
    one_draw = {"posterior": xr.Dataset({"x": (("chain", "draw"), [[0.0]])})}
    monkeypatch.setattr(schedule, "sample", lambda *_, **__: xr.DataTree.from_dict(one_draw))
    with pytest.raises(KeyboardInterrupt):
        Schedule(1.0).size(None, ENOUGH, 1, 1)


def crowd(rng, n_items, hard):
    """Return responses to items of which some are hard, and the truth: 12 raters, two classes."""
    truth = rng.integers(0, 2, n_items)
    right = np.where(rng.random(n_items) < hard, 0.45, 0.85)
    matrix = np.where(
        rng.random((n_items, 12)) < right[:, None], truth[:, None], 1 - truth[:, None]
    )
    return matrix, truth


def test_errors_on_hard_items_are_correlated():
    rng = np.random.default_rng(3)
    found = [
        measure_dependence(bf.Responses.from_matrix(crowd(rng, 2000, hard)[0]), None, 1)
        for hard in (0.0, 0.4)
    ]
    assert found[0].independence > 0.8 and found[1].independence < 0.01
    assert found[1].correlation > 0.03 > abs(found[0].correlation)
    assert not any(each.groups for each in found)


def test_correlation_is_that_of_residuals():
    """With certain labels it is the mean correlation of two raters given the class."""
    rng = np.random.default_rng(4)
    n = 40_000
    truth, joint = rng.integers(0, 2, n), rng.random(n) < 0.3
    errors = np.where(joint[:, None], rng.random((n, 1)), rng.random((n, 2))) < 0.2
    table = np.column_stack([*[truth] * 3, np.abs(truth[:, None] - errors)])
    rows = np.tile([[0.999999, 1e-6], [1e-6, 0.999999]], (5, 1, 1))
    rows[3:] = [[0.8, 0.2], [0.2, 0.8]]
    responses = bf.Responses.from_matrix(table)
    value, error = error_correlation(responses, np.array([0.5, 0.5]), rows, rng)
    assert error < 0.05
    assert value == pytest.approx(0.3, abs=4 * max(error, 0.015))


def test_unobserved_errors_may_be_shared():
    """Raters who never differ have no information."""
    same = np.repeat(np.arange(600)[:, None] % 2, 5, axis=1)
    found = measure_dependence(bf.Responses.from_matrix(same), None, 1)
    assert abs(found.correlation) < 0.05 and found.independence < 0.1


def test_copies_are_found():
    rng = np.random.default_rng(5)
    matrix, _ = crowd(rng, 500, 0.0)
    matrix[:, 1] = np.where(rng.random(500) < 0.95, matrix[:, 0], 1 - matrix[:, 0])
    assert measure_dependence(bf.Responses.from_matrix(matrix), None, 1).groups == {
        "source 1": [0, 1]
    }


@pytest.mark.parametrize("matrix", [[[0], [1]], [[0, 1]], [[0, -1, -1], [-1, 1, -1], [-1, -1, 1]]])
def test_too_little_shows_nothing(matrix):
    found = measure_dependence(bf.Responses.from_matrix(matrix, classes=[0, 1]), None, 1)
    assert found.groups == {} and np.isnan(found.correlation) and found.independence == 0.5


@pytest.fixture
def watch(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_line_every_ten_seconds(watch, capsys):
    with Progress(True) as progress:
        progress.say("comparing raters")
        advance = progress.count("fitting: [types]", 100)
        for made in [0] * 10 + [2] * 25:
            watch[0] += 1.0
            advance(made)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "fitting: [types]: 0%",
        "fitting: [types]: 20%, about 80 s left",
        "fitting: [types]: 40%, about 45 s left",
        "done",
    ]


@pytest.mark.parametrize("shown", [True, False])
def test_no_progress_is_printed_unless_asked_or_possible(watch, monkeypatch, capsys, shown):
    if shown:
        monkeypatch.setattr(sys, "stderr", None)
    with Progress(shown) as progress:
        watch[0] += 60.0
        progress.say("comparing raters")
    printed = capsys.readouterr()
    assert printed.out == printed.err == ""


def test_the_model_of_rules_has_the_groups_of_the_user():
    table, _ = rules(1, n_items=400)
    inputs = Inputs(table, groups=[[0, 2]])
    (candidate,) = candidates(inputs)
    assert candidate.model == "LabellingFunctions" and "groups=groups" in candidate.code(inputs)
    # which it does not infer
    assert "groups" not in candidates(Inputs(table, groups="posterior"))[0].inputs_used
