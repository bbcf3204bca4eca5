"""Items of types on the command line: the model's options, and what its report adds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from shell import SETTINGS, SHORT, fails, fit, tables

import bayesfuse as bf
from bayesfuse.command_line.report import report
from bayesfuse.models import ItemTypes

TYPES = ["--model", "item-types"]


def test_item_types_are_those_of_python(folder):
    assert fit(*TYPES, "--types", "3", "--trust", "1.5") == 0
    result = tables()
    assert result["posterior"].sizes["type"] == 3 and "trust" not in result["posterior"]
    frame = pd.read_csv("films.csv")
    responses = bf.Responses.from_long(frame, item="film", rater="critic", label="verdict")
    own = bf.sample(ItemTypes(responses, types=3, trust=1.5), **SETTINGS)
    np.testing.assert_allclose(bf.label_probabilities(result), bf.label_probabilities(own))


def test_report_has_the_hardest_items(folder, capsys):
    assert fit(*TYPES, settings=SHORT) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("hardest"))
    assert lines[at].split() == "hardest raters disagree what those who look say".split()
    worst = [float(line.split()[1]) for line in lines[at + 1 : at + 6]]
    assert worst == sorted(worst, reverse=True) and 0 < worst[0] <= 0.5
    assert lines[at + 6].startswith("Of 20 items, ")
    assert any("ItemTypes: 2 chains of 40 draws" in line for line in lines)
    assert "type" not in lines[-3]  # types have other numbers in every chain
    result = tables()
    model = ItemTypes(bf.Responses.from_long(
        pd.read_csv("films.csv"), item="film", rater="critic", label="verdict"
    ))  # fmt: skip
    assert "Largest R-hat" in report(model, result, checks=False)


def test_gold_teaches_trust(folder):
    pd.DataFrame({"item": range(1, 9), "label": "good"}).to_csv("gold.csv", index=False)
    assert fit(*TYPES, "--gold", "gold.csv") == 0
    result = tables()
    assert (bf.label_probabilities(result).sel({"item": 3, "class": "good"}) == 1).all()
    assert result["posterior"]["trust"].std() > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--types", "4"], ["--types belongs to --model item-types"]),
        (["--trust", "1"], ["--trust belongs to --model item-types"]),
        ([*TYPES, "--groups", "moments"], ["--groups belongs to --model latent-group"]),
        ([*TYPES, "--raters", "coin"], ["--raters belongs to"]),
        ([*TYPES, "--robust"], ["--robust is a prior of confusion matrices"]),
        ([*TYPES, "--types", "1"], ["types must be", "Got: 1"]),
        ([*TYPES, "--types", "x"], ["--types"]),
        ([*TYPES, "--trust", "0"], ["trust must be positive", "Got: 0.0"]),
        ([*TYPES, "--trust", "nan"], ["trust", "Got: nan"]),
        ([*TYPES, "--trust", "much"], ["--trust: invalid number: 'much'"]),
    ],
)
def test_options_that_do_not_fit(folder, capsys, no_sampling, arguments, words):
    fails(capsys, fit(*arguments), *words)
