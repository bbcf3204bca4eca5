"""Labelling functions on the command line: the model's option, its report and its picture."""

from __future__ import annotations

import numpy as np
import pytest
from rules import rules
from shell import SETTINGS, SHORT, fails, fit, tables

import bayesfuse as bf
from bayesfuse.models import LabellingFunctions

MODEL = ["--model", "labelling-functions"]


def test_labels_are_those_of_python_and_the_report_has_the_sources(folder, pictures, capsys):
    responses, _ = rules(1)
    responses.to_frame().to_csv("votes.csv", index=False)
    given = {"table": "votes.csv", "columns": [], "settings": SHORT}
    assert fit(*MODEL, "--class-shares", "0.4,0.6", **given) == 0
    said = capsys.readouterr().out
    header = "source label coverage conflicts accuracy".split()
    assert header in [line.split() for line in said.splitlines()]
    assert "The dispersion of the votes is" in said
    assert (folder / "result.png").stat().st_size > 1000
    covered = bf.Responses.from_long(responses.to_frame())
    own = bf.sample(LabellingFunctions(covered, [0.4, 0.6]), **SETTINGS)
    np.testing.assert_allclose(bf.label_probabilities(tables()), bf.label_probabilities(own))


@pytest.mark.parametrize(("arguments", "words"), [
    (["--class-shares", "0.4,0.6"], "--class-shares belongs to --model labelling-functions"),
    ([*MODEL, "--class-shares", "0.4,x"], "invalid number: 'x'"),
    ([*MODEL, "--class-shares", "0.4,0.7"], "sum to one"),
    ([*MODEL, "--robust"], "labelling functions have none"),
    ([*MODEL, "--pooled"], "--pooled belongs to"),
])  # fmt: skip
def test_wrong_options(folder, no_sampling, capsys, arguments, words):
    fails(capsys, fit(*arguments), words)
