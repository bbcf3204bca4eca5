"""Which models are tried for what, without fitting any."""

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse import models
from bayesfuse.answer.candidates import Inputs, candidates, is_rules
from bayesfuse.answer.evidence import Evidence
from bayesfuse.errors import ModelError
from bayesfuse.pymc.model import observed


@pytest.fixture(scope="module")
def responses():
    return bf.datasets.simulate_dawid_skene(24, 5, 3, random_seed=4).responses


def chosen(**given):
    return [each.model for each in candidates(Inputs(**given))]


def test_models_by_what_is_given(responses):
    people = ["ItemTypes"] * 3
    sequences = bf.Sequences.from_lengths([10, 14], items=responses.items)
    graph = bf.Graph.grid((4, 6), items=responses.items)
    assert chosen(responses=responses) == people
    assert chosen(responses=responses, sequences=sequences) == ["HiddenMarkov"] * 2
    assert chosen(responses=responses, graph=graph) == ["MarkovRandomField"] * 6
    clear = {"graph": graph, "evidence": Evidence(0.2, 0.01)}
    assert chosen(responses=responses, **clear) == ["MarkovRandomField"] * 2
    assert chosen(responses=responses, groups=[[0, 1]]) == ["LatentGroup"]
    assert chosen(responses=responses, groups="posterior") == ["LatentGroup", *people]
    assert chosen(responses=responses, ordered=True) == [*people, "DawidSkene"]
    assert chosen(responses=responses, covariates=np.ones((24, 1))) == people


def test_errors_decide(responses):
    groups = {"source 1": responses.raters[:2].tolist()}
    for error, others in ((0.002, []), (0.02, ["ItemTypes"] * 3)):
        found = Evidence(0.001, error, groups)
        assert chosen(responses=responses, groups=groups, evidence=found) == [
            "LatentGroup",
            *others,
        ]
    assert chosen(responses=responses, evidence=Evidence(0.001, 0.002)) == ["DawidSkene"]
    assert chosen(responses=responses, evidence=Evidence(0.001, 0.02)) == ["ItemTypes"] * 3
    two = bf.datasets.simulate_dawid_skene(24, 5, 2, random_seed=4).responses
    assert chosen(responses=two) == ["ItemTypes"] * 2  # two classes are one pair


def test_numbers_are_codes_and_ordered_text_is_grades(responses):
    names = np.array(["low", "high", "mid"])[responses.label]
    frame = responses.to_frame().assign(label=names)
    graded = bf.Responses.from_long(frame, classes=["low", "mid", "high"], ordered=True)
    assert responses.ordered  # numbers, by default
    assert "DawidSkene" not in chosen(responses=responses)
    assert "DawidSkene" in chosen(responses=graded)
    assert "DawidSkene" not in chosen(responses=graded, ordered=False)


def test_raters_have_rows_by_their_last_answer_where_classes_mark_spans():
    said = bf.Responses.from_matrix([list("BB"), list("II"), list("OB"), list("OO")] * 5)
    given = {"sequences": bf.Sequences.from_lengths([10, 10], items=said.items)}
    for letters, tags in (("BIO", True), ("XIO", False)):
        table = bf.Responses.from_long(said.to_frame().replace({"B": letters[0]}))
        found = candidates(inputs := Inputs(table, **given))
        assert len(found) == (1 if tags else 2)
        assert {each.votes for each in found} == {0.4 if tags else 0.2}
        assert ("sequential_confusion" in found[0].build(inputs).named_vars) == tags
    sure = candidates(Inputs(said, **given, evidence=Evidence(0.001, 0.002)))
    assert {each.votes for each in sure} == {0.0}


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


def test_rules_speak_little_and_have_one_label_each():
    rng = np.random.default_rng(1)
    matrix = np.full((100, 4), -1)
    for rule in range(4):
        matrix[rng.random(100) < 0.3, rule] = rule % 2
    rules = bf.Responses.from_matrix(matrix, classes=[0, 1])
    assert is_rules(rules)
    assert chosen(responses=rules) == ["LabellingFunctions"]
    speaks = matrix.copy()
    speaks[:, :2] = [0, 1]  # most cells are filled
    speaks[:60, 2:] = [0, 1]
    assert not is_rules(bf.Responses.from_matrix(speaks, classes=[0, 1]))
    both = matrix.copy()
    both[both == 0] = rng.integers(0, 2, (both == 0).sum())
    assert not is_rules(bf.Responses.from_matrix(both, classes=[0, 1]))
    one = bf.Responses.from_matrix(np.where(matrix >= 0, 1, -1), classes=[0, 1])
    assert not is_rules(one)  # nothing opposes class 1


def test_silence_and_statements_get_models_that_take_them(responses):
    silent = responses.head(20).completed()
    stated = bf.Responses.from_probabilities(np.full((24, 2, 3), 1 / 3))
    sequences = bf.Sequences.from_lengths([10, 14], items=stated.items)
    for table in (silent, stated):
        assert chosen(responses=table) == ["DawidSkene"]
    assert chosen(responses=stated, sequences=sequences) == ["HiddenMarkov"]
    for each in candidates(Inputs(stated, sequences)):
        each.build(Inputs(stated, sequences))  # is not refused


def test_two_structures(responses):
    inputs = Inputs(responses, graph=object(), groups=[[0, 1]])
    with pytest.raises(ModelError, match=r"Got: graph and groups\."):
        candidates(inputs)
    assert candidates(Inputs(responses, groups=[[0, 1]], covariates=np.ones((24, 1))))
