"""Arguments that make no sense are refused by one rule each, in all functions that take them."""

import inspect
import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from refusals import refused

import bayesfuse as bf
from bayesfuse import errors
from bayesfuse.errors import ModelError
from bayesfuse.models import (
    DawidSkene,
    HiddenMarkov,
    ItemTypes,
    LabellingFunctions,
    LatentGroup,
    MarkovRandomField,
)

QUICK = {"draws": 20, "tune": 5, "chains": 2, "random_seed": 1, "progressbar": False, "quiet": True}
WORD = "no such word"
NO_COUNT = -1, 0, 0.5, math.nan, math.inf, WORD, [], True
NO_NUMBER = -1, math.nan, math.inf, WORD, [], None
NO_SEED = -1, 0.5, math.nan, WORD
NO_FLAG = -1, math.nan, WORD, []
NO_NAMES = -1, math.nan, []
NO_MAPPING = -1, math.nan, WORD, []
NO_KIND = -1, math.nan, WORD, []

BINARY = bf.datasets.simulate_dawid_skene(200, 6, 2, random_seed=1).responses
THREE = bf.datasets.simulate_dawid_skene(30, 6, 3, random_seed=1).responses
GRAPH, SEQUENCES = bf.Graph.grid((5, 6)), bf.Sequences.from_lengths([10, 20])
TRUTH = {n: n % 3 for n in range(20)}
TRAIT = pd.DataFrame({"item": range(30), "length": [1.0, 2.0, 4.0] * 10})
TWO = bf.Responses.from_matrix([[0, 1, 1], [1, 1, 0]])

MODELS = {
    "plain": lambda: DawidSkene(THREE),
    "sequences": lambda: HiddenMarkov(THREE, SEQUENCES, raters="confusion"),
    "graph": lambda: MarkovRandomField(THREE, GRAPH),
    "groups": lambda: LatentGroup(THREE, [[0, 1, 2], [3, 4, 5]]),
    "types": lambda: ItemTypes(THREE),
    "grades": lambda: DawidSkene(THREE, raters="graded"),
    "votes": lambda: LabellingFunctions(THREE),
    "two": lambda: DawidSkene(BINARY),
}


@pytest.fixture(scope="module")
def fitted():
    models = {name: build() for name, build in MODELS.items()}
    return {name: (bf.sample(model, **QUICK), model) for name, model in models.items()}


@pytest.mark.parametrize(
    ("rule", "wrong", "right"),
    [
        (errors.require_count, NO_COUNT, (1, np.int8(3))),
        (errors.require_number, NO_NUMBER, (0, 0.5, np.float32(2))),
        (partial(errors.require_number, most=1), (*NO_NUMBER, 1.5), (0, 1)),
        (errors.require_flag, (*NO_FLAG, None, 1), (True, np.bool_(0))),
        (errors.require_names, (*NO_NAMES, WORD, None), (["a"], ("a", 1), np.arange(2))),
        (errors.require_mapping, (*NO_MAPPING, None), ({}, {"a": 1})),
        (errors.require_numbers, (WORD, ["a"], [[1], [1, 2]]), (1, [[0.5]], [])),
        (lambda _, given: errors.require_seed(given), NO_SEED, (0, None, np.random.default_rng())),
    ],
)
def test_rules(rule, wrong, right):
    for each in wrong:
        refused(r"must (be|hold) .* Got: ", rule, "that", each)
    for each in right:
        rule("that", each)


def seeded():
    """Every public function that takes a seed."""
    homes = bf, bf.checks, bf.decisions, bf.moments, bf.datasets
    functions = {getattr(home, name) for home in homes for name in dir(home)}
    found = [f for f in functions if inspect.isfunction(f)]
    found = [f for f in found if "random_seed" in inspect.signature(f).parameters]
    return sorted(found, key=lambda f: f.__qualname__)


@pytest.mark.slow
def test_seeds(fitted):
    first = {
        "neighbour_agreement": fitted["graph"],
        "phase_transition": fitted["graph"],
        "runs": fitted["sequences"],
        "error_runs": fitted["sequences"],
        "next_items": fitted["plain"][:1],
        "error_traits": (fitted["plain"][0], TRAIT),
        "sample": (MODELS["plain"](),),
        "fit": (MODELS["plain"](),),
        "fuse": (THREE,),
        "agreement": (THREE,),
        "collapse_repeats": (THREE,),
        "prior_dependence": (THREE,),
        "update": (fitted["plain"][0], THREE),
        "simulate_dawid_skene": (20, 4, 3),
        "simulate_responses": ([0, 1], 4, 2),
    }
    functions = seeded()
    assert len(functions) >= 14, functions
    for function in functions:
        name = function.__name__
        given = (BINARY,) if ".moments." in function.__module__ else fitted["plain"]
        if name == "labels_needed":
            function, given = partial(function, width=0.1), given[:1]
        call = partial(function, *first.get(name, given))
        for seed in NO_SEED:
            refused(r"random_seed must be .* Got: ", call, random_seed=seed)


def calls(fitted):
    """Every call with the arguments that a rule is about, and what they cannot be."""
    plain, groups = fitted["plain"], fitted["groups"]
    result, model = plain
    size = partial(bf.datasets.simulate_dawid_skene, n_items=9, n_raters=4, n_classes=3)
    labels = bf.draw_labels(*fitted["sequences"], 3, random_seed=1)
    yield bf.fuse, {"responses": NO_KIND}
    yield partial(bf.fuse, THREE), {"minutes": NO_NUMBER, "progressbar": NO_FLAG}
    yield bf.vote_shares, {"responses": NO_KIND}
    yield partial(bf.find_map, model), {"iterations": NO_COUNT, "tolerance": NO_NUMBER}
    yield partial(bf.fit, model), {"tolerance": NO_NUMBER[:-1], "log_likelihood": NO_FLAG}
    yield partial(bf.update, result, THREE), {"forgetting": (*NO_NUMBER, 1.5), "draws": NO_COUNT}
    yield partial(bf.sample, model), {"log_likelihood": NO_FLAG}
    yield partial(bf.moments.confusion, THREE), {"iterations": NO_COUNT, "tolerance": NO_NUMBER}
    yield bf.moments.confusion, {"responses": NO_KIND}
    for home in (bf.moments.covariance, bf.moments.sml, bf.moments.one_vs_rest):
        yield home, {"responses": NO_KIND}
    yield partial(bf.moments.find_groups, BINARY), {"min_groups": NO_COUNT}
    yield partial(bf.moments.select_raters, BINARY), {"size": NO_COUNT}
    yield partial(bf.moments.spectrum, BINARY), {"draws": NO_COUNT}
    yield partial(bf.moments.accuracies, BINARY), {"prevalence": (*NO_NUMBER[:-1], 0, 1)}
    yield partial(bf.moments.improved_sml, BINARY), {"prior": NO_FLAG}
    yield bf.moments.rank_one, {"covariance": NO_KIND}
    yield partial(bf.checks.phase_transition, *fitted["graph"]), {"draws": NO_COUNT}
    yield partial(bf.checks.runs, *plain, SEQUENCES), {"longest": NO_COUNT}
    yield partial(bf.checks.group_summary, groups[0]), {"margin": NO_NUMBER, "least": NO_NUMBER}
    yield partial(bf.checks.rater_covariance, result), {"responses": NO_KIND}
    yield partial(bf.checks.label_scores, result, TRUTH), {"bins": NO_COUNT, "floor": NO_NUMBER}
    yield partial(bf.checks.prior_dependence, THREE), {"draws": NO_COUNT}
    yield partial(bf.decisions.expected_errors, result), {"draws": NO_COUNT}
    yield partial(bf.decisions.select_panel, result), {"cost": NO_MAPPING, "draws": NO_COUNT}
    yield partial(bf.decisions.select_panel, result), {"tolerance": NO_NUMBER}
    yield partial(bf.class_shares, result), {"contrasts": NO_FLAG}
    yield partial(bf.agreement, responses=THREE), {"responses": NO_KIND, "draws": NO_COUNT}
    yield partial(bf.decisions.value_of_response, *plain), {"repeats": NO_FLAG, "raters": NO_NAMES}
    yield partial(bf.checks.align_labels, result), {"model": NO_KIND}
    yield partial(bf.checks.common_units, {"one": result}), {"models": NO_MAPPING}
    yield bf.checks.common_units, {"results": NO_MAPPING}
    yield bf.average, {"results": NO_MAPPING}
    yield partial(bf.average, {"one": result}), {"weights": (-1, math.nan, None)}
    yield partial(bf.summary, result), {"var_names": NO_NAMES}
    yield partial(bf.spans, sequences=SEQUENCES, scheme="runs"), {"labels": NO_KIND}
    yield partial(bf.spans, labels, scheme="runs"), {"sequences": NO_KIND}
    yield size, {name: (*NO_COUNT, None) for name in ("n_items", "n_raters", "n_classes")}
    yield size, {"prevalence": (-1, [], WORD, [0.5, 0.5]), "confusion": (-1, [], WORD, [[1.0]])}
    yield partial(bf.datasets.simulate_responses, n_raters=3, n_classes=2), {"truth": ([], WORD)}
    yield bf.priors.bio_transitions, {"classes": NO_NAMES}
    yield partial(bf.plots.plot_labels, result), {"most": NO_COUNT}
    yield bf.plots.plot_leaderboard, {"board": NO_KIND}
    yield partial(bf.plots.plot_graph, result, GRAPH), {"layout": (WORD, [])}
    yield partial(bf.plots.plot_sequence, *plain), {"sequences": NO_KIND}
    yield partial(bf.plots.plot_sequence, *fitted["sequences"]), {"sequence": ([], WORD)}


def test_arguments_of_public_functions(fitted):
    for call, arguments in calls(fitted):
        for name, wrong in arguments.items():
            for value in wrong:
                with pytest.raises(ModelError, match="Got: "):
                    call(**{name: value})
                    pytest.fail(f"{call} took {name}={value!r}")


def test_labels_are_aligned_by_their_own_model_only(fitted):
    result, model = fitted["plain"]
    assert bf.checks.align_labels(result, model).attrs["aligned"] >= 0
    for other in (BINARY, THREE.relabelled((THREE.label + 1) % 3)):
        refused("must be of the same responses", bf.checks.align_labels, result, DawidSkene(other))


def of_intervals():
    """Every public function that takes the probability of an interval, by its name."""
    found = {}
    for module in (bf, bf.checks, bf.decisions, bf.plots):
        for name in dir(module):
            function = getattr(module, name)
            if inspect.isfunction(function) and "ci_prob" in inspect.signature(function).parameters:
                found[name] = function
    return found


OF_MODEL = {
    "difficulty": "types",
    "plot_hard_items": "types",
    "item_grades": "grades",
    "plot_graders": "grades",
    "rater_table": "grades",
    "plot_sensitivity_specificity": "two",
    "position_bias": "two",
    "leaderboard": "two",
}


@pytest.mark.slow
def test_probabilities_of_intervals(fitted):
    functions = of_intervals()
    assert {"runs", "group_summary", "calibration", "rank_raters", "plot_raters"} <= set(functions)
    for name, function in functions.items():
        result, model = fitted[OF_MODEL.get(name, "groups")]
        ready = {
            "result": result,
            "results": {"one": result},
            "labels": result,
            "truth": TRUTH,
            "model": model,
            "given": model,
            "sequences": SEQUENCES,
            "graph": GRAPH,
            "draws": 5,
            "width": 0.1,
            "traits": TRAIT,
            "scheme": "runs",
            "responses": THREE,
            "responses_or_model": model,
            "costs": 1.0 - np.eye(result["label_posterior"].sizes["class"]),
            "pairs_of_raters": [result["constant_data"]["rater"].values[:2].tolist()],
        }
        wanted = inspect.signature(function).parameters
        if name == "leaderboard":
            pairs = pd.DataFrame({"item": result["label_posterior"]["item"].values})
            is_first = np.arange(len(pairs)) % 2 == 0
            systems = {"first": np.where(is_first, "one", "other")}
            systems["second"] = np.where(is_first, "other", "one")
            ready["pairs"] = pairs.assign(**systems)
        if "responses" in wanted:  # whose items stand alone here
            del ready["sequences"]
        given = {argument: ready[argument] for argument in wanted if argument in ready}
        for wrong in (90, 1, 0, -0.5, math.nan, math.inf, "0.9", True, [0.5]):
            with pytest.raises(ModelError, match="ci_prob must be a probability strictly between"):
                function(**given, ci_prob=wrong)
        function(**given, ci_prob=np.float32(0.5))
        plt.close("all")  # matplotlib warns of many open figures
        assert wanted["ci_prob"].default is None


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, "2"])
def test_numbers_of_priors(wrong):
    for call, said in (
        (lambda: bf.priors.diagonal(3, weight=wrong), "weight must be a positive, finite number"),
        (lambda: bf.priors.robust(3, accuracy=wrong), "accuracy must be a probability"),
        (lambda: bf.priors.robust(3, share=wrong), "share must be a probability"),
        (lambda: LatentGroup(TWO, "posterior", share_prior=wrong), "share_prior must be a prob"),
    ):
        refused(said, call)
    if wrong != "2":
        for name in ("prevalence_prior", "confusion_prior"):
            value = wrong if name == "prevalence_prior" else np.full((2, 2), float(wrong))
            refused(f"{name} must be positive and finite", DawidSkene, TWO, **{name: value})


def test_simulated_tables():
    refused("must hold", bf.datasets.simulate_dawid_skene, 10, 3, 2, accuracy=(0.5, 1.5))
    refused("from 0 to 1", bf.datasets.simulate_responses, [0, 2], 2, 2)


def test_settings_of_nuts_are_taken_where_it_draws_some_variables():
    conjugate, mixed = DawidSkene(TWO), DawidSkene(TWO, covariates=np.eye(2)[:, :1])
    of_nuts = {"target_accept": 0.9, "nuts": {"max_treedepth": 3}}
    refused(r"belong in nuts=.* Got: \['max_treedepth'\]", bf.sample, mixed, max_treedepth=3)
    refused(r"no effect .* Got: \['nuts', 'target_accept'\]", bf.sample, conjugate, **of_nuts)
