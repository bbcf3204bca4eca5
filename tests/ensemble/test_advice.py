"""Every call that an answer names runs on that answer, for tables of many kinds."""

import inspect
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rules import rules

import bayesfuse as bf
from bayesfuse.data.tables import read_table

JUDGES = Path(__file__).resolve().parents[3] / "shared" / "data" / "llmbar" / "raters.csv.gz"

QUIET = {"minutes": 10, "progressbar": False}
N = 60


def noisy(accuracies, n_classes=2, seed=1, shares=None):
    """Return labels (items, raters) of raters who err independently."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(n_classes, N, p=shares)
    right = rng.random((N, len(accuracies))) < np.asarray(accuracies)
    other = (truth[:, None] + rng.integers(1, n_classes, right.shape)) % n_classes
    return np.where(right, truth[:, None], other)


def repeated():
    frame = bf.Responses.from_matrix(noisy([0.8, 0.7, 0.7])).to_frame()
    again = frame[frame["rater"] == 0]
    return pd.concat([frame, again.assign(label=1 - again["label"]), again.head(9)])


def typo():
    labels = np.array(["no", "yes"])[np.tile(noisy([0.9, 0.8, 0.8, 0.7]), (2, 1))].astype(object)
    labels[3, 2] = "yse"
    return labels


def with_silence():
    return bf.Responses.from_matrix(noisy([0.8] * 4), abstain=-1).completed()


def gold_of(labels):
    return dict(enumerate(labels[:20, 0].tolist()))


KINDS = {
    # name: table and arguments of bf.fuse
    "one rater": lambda: (noisy([0.8]), {}),
    "two raters": lambda: (noisy([0.8, 0.7]), {}),
    "three raters": lambda: (noisy([0.8, 0.7, 0.9]), {}),
    "repeats": lambda: (repeated(), {}),
    "copies": lambda: (np.repeat(noisy([0.8, 0.7, 0.9]), [1, 1, 3], axis=1), {}),
    "guessers": lambda: (noisy([0.9, 0.9, 0.8, 0.5, 0.5, 0.1]), {}),
    "rare class": lambda: (noisy([0.9] * 5, shares=[0.95, 0.05]), {}),
    "typo": lambda: (typo(), {}),
    "no difference": lambda: (noisy([1.0, 1.0, 1.0]), {}),
    "codes": lambda: (noisy([0.8] * 4, 3), {}),
    "grades": lambda: (noisy([0.8] * 4, 3), {"ordered": True}),
    "many classes": lambda: (noisy([0.8] * 5, 8), {}),
    "unused class": lambda: (bf.Responses.from_matrix(noisy([0.8] * 4), classes=[0, 1, 2]), {}),
    "parts": lambda: (np.kron(np.eye(2, dtype=int), noisy([0.8, 0.7])[:20] + 1) - 1, {}),
    "known labels": lambda: (noisy([0.8] * 5), {"gold": gold_of(noisy([0.8] * 5))}),
    "silence": lambda: (with_silence(), {}),
    "statements": lambda: (
        bf.Responses.from_probabilities(np.random.default_rng(1).dirichlet([1, 2], (30, 3))),
        {},
    ),
    "counts": lambda: (bf.Responses.from_counts({(0, 0): 40, (0, 1): 3, (1, 1): 57}), {}),
    "sequences": lambda: (noisy([0.8] * 4), {"sequences": bf.Sequences.from_lengths([30, 30])}),
    "tags": lambda: (np.array(["O", "B", "I"])[noisy([0.9] * 4, 3)], {}),
    "graph": lambda: (noisy([0.8] * 4), {"graph": bf.Graph.grid((6, 10))}),
    "groups": lambda: (noisy([0.8] * 5), {"groups": {"one": [0, 1], "two": [2, 3]}}),
    "rules": lambda: (rules(1, n_items=200, n_rules=6)[0], {}),
    "items without responses": lambda: (
        bf.Responses.from_matrix(noisy([0.8] * 4), items=range(N)).completed(),
        {},
    ),
}
QUICK = ["two raters", "guessers"]
TITLES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in KINDS]


@pytest.fixture(scope="module", params=TITLES)
def answer(request, few_draws):
    """An answer, and the names that its calls use."""
    table, arguments = KINDS[request.param]()
    fused = bf.fuse(table, random_seed=1, **QUIET, **arguments)
    return fused, names_of(table, arguments)


def names_of(table, arguments):
    """Return what calls of advice may name: the table, and what only a user can know."""
    responses = read_table(table)[0]
    n_items = responses.n_items
    half = n_items // 2
    return {
        "bf": bf,
        "np": np,
        "responses": responses,
        "gold": {responses.items[0]: responses.classes[0]},
        "sequences": bf.Sequences.from_lengths([half, n_items - half], items=responses.items),
        "graph": bf.Graph.from_edges([responses.items[:2]], items=responses.items),
        "populations": np.arange(n_items) % 2,
        **arguments,
    }


def functions_named(sentence):
    """Return the functions and classes of the package that a sentence names."""
    for name in re.findall(r"\b(?:bf|bayesfuse)((?:\.\w+)+)", sentence):
        thing = bf
        for part in name[1:].split("."):
            thing = getattr(thing, part)  # an error here: a sentence names what does not exist
        yield thing


def parameters_named(sentence, call=""):
    """Return the parameters that a sentence names and no function takes that it names."""
    takers = [bf.fuse, *functions_named(f"{sentence} {call}")]
    known = {"precision"}
    for each in takers:
        if inspect.isclass(each):
            methods = [m for _, m in inspect.getmembers(each, callable) if hasattr(m, "__func__")]
            takers.extend(methods)
        if callable(each):
            known |= set(inspect.signature(each).parameters)
    return set(re.findall(r"(?<![-\w])([a-z_]+)=", sentence)) - known


def test_calls_of_advice_run(answer):
    fused, names = answer
    calls = fused.attrs["advice_calls"].split("\n")
    assert len(calls) == len(fused.advice)
    for sentence, call in zip(fused.advice, calls, strict=True):
        assert not parameters_named(sentence, call), sentence
        if call:
            eval(call, {**names, "fused": fused})


def test_calls_of_problems_run(answer):
    fused, names = answer
    found = bf.checks.identifiability(names["responses"], names.get("known"))
    for problem in found.problems:
        assert not parameters_named(problem, problem.call), problem
        if problem.call:
            eval(problem.call, {**names, "fused": fused})
    if names["responses"].silent is None and names["responses"].stated is None:
        of_result = bf.checks.identifiability(fused)
        assert set(fused.attrs["prior"].splitlines()) <= set(of_result.problems)


@pytest.mark.filterwarnings("ignore:Moments find no raters:bayesfuse.errors.NoGroupsWarning")
def test_sentences_name_what_exists(answer):
    fused, names = answer
    lines = [part for key in ("limits", "known", "checks") for part in fused.attrs[key].split("\n")]
    for line in lines:
        assert not parameters_named(line), line
        for model in re.findall(r"[Tt]ry bayesfuse\.models\.(\w+)", line):
            structure = {"sequences", "graph"} & set(
                inspect.signature(getattr(bf.models, model)).parameters
            )
            getattr(bf.models, model)(names["responses"], **{key: names[key] for key in structure})
    assert "Error" not in fused.overview() and "Traceback" not in fused.overview()


def test_two_raters_have_no_estimate_of_dependence(few_draws):
    fused = bf.fuse(noisy([0.8, 0.7]), random_seed=1, **QUIET)
    text = " ".join(fused.overview().split())
    assert "shares more mistakes than the model expects" not in text
    assert "2 raters cannot show shared mistakes" in text
    assert re.search(r"share of class \d is 0\.\d\d with the default prior of the raters", text)


def test_repeats_that_contradict_each_other_are_a_problem():
    table = repeated()
    found = bf.checks.identifiability(table)
    (problem,) = [line for line in found.problems if line.kind == "repeats"]
    assert "69 responses" in problem and "(with another label: 60)" in problem
    assert "No other problem" not in str(found)


def test_errors_of_checks_are_warnings_and_not_in_the_answer(few_draws, monkeypatch):
    def broken(*_, **__):
        raise ValueError("an index of the check")

    broken.__name__ = "item_difficulty"
    monkeypatch.setattr("bayesfuse.ensemble.diagnostics.item_difficulty", broken)
    with pytest.warns(UserWarning, match=r"bf\.checks\.item_difficulty failed .* report it"):
        fused = bf.fuse(noisy([0.8, 0.7]), random_seed=1, **QUIET)
    assert "an index of the check" not in fused.overview()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["two raters", "copies", "guessers", "known labels"])
def test_other_seeds_give_the_same_advice(kind):
    table, arguments = KINDS[kind]()
    options = {"minutes": 2, "progressbar": False, **arguments}
    first, *others = [bf.fuse(table, random_seed=seed, **options).advice for seed in range(3)]
    assert all(other == first for other in others)


@pytest.mark.slow
def test_other_seeds_give_the_same_advice_on_judges(development_data):
    table, truth = development_data("llmbar")
    judges = pd.read_csv(JUDGES)
    frame = table.to_frame()
    frame = frame[frame["rater"].isin(judges.loc[judges["prompt"] == "Vanilla", "rater"])]
    gold = truth.sample(50, random_state=1).set_index("item")["label"].to_dict()
    options = {"gold": gold, "minutes": 2, "progressbar": False}
    first, second = [bf.fuse(frame, random_seed=seed, **options).advice for seed in (1, 2)]
    # which of two judges near chance are left out depends on the draws
    assert [str(step).split()[:2] for step in first] == [str(step).split()[:2] for step in second]
