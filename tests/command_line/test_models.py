"""Models on the command line are those of Python, with what their reports add."""

import numpy as np
import pandas as pd
import pytest
from rules import rules
from shell import COLUMNS, SETTINGS, SHORT, fit, tables

import bayesfuse as bf
from bayesfuse import models

TYPES = ["--model", "item-types"]


def films():
    names = dict(zip(("item", "rater", "label"), COLUMNS[1::2], strict=True))
    return bf.Responses.from_long(pd.read_csv("films.csv"), **names)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        ([*TYPES, "--guesses", "even", "--trust", "1.5"],
         lambda table: models.ItemTypes(table, guesses="even", trust=1.5)),
        (["--pooled", "--raters", "coin"],
         lambda table: models.DawidSkene(table, raters="coin", pooled=True)),
    ],
    ids=["types", "pooled coins"],
)  # fmt: skip
def test_fits_are_those_of_python(folder, arguments, model):
    assert fit(*arguments, "--quiet") == 0
    own = bf.sample(model(films()), **SETTINGS)
    found = tables()
    np.testing.assert_allclose(bf.label_probabilities(found), bf.label_probabilities(own))
    assert set(found["posterior"].data_vars) == set(own["posterior"].data_vars)


@pytest.mark.slow
def test_labelling_functions_are_those_of_python_and_the_report_has_them(folder, pictures, capsys):
    responses, _ = rules(1)
    responses.to_frame().to_csv("votes.csv", index=False)
    given = {"table": "votes.csv", "columns": [], "settings": SHORT}
    model = ["--model", "labelling-functions"]
    assert fit(*model, "--class-shares", "0.4,0.6", **given) == 0
    said = capsys.readouterr().out
    header = "source label coverage conflicts accuracy".split()
    assert header in [line.split() for line in said.splitlines()]
    assert "The dispersion of the votes is" in said
    assert (folder / "result.png").stat().st_size > 1000
    covered = bf.Responses.from_long(responses.to_frame())
    own = bf.sample(models.LabellingFunctions(covered, [0.4, 0.6]), **SETTINGS)
    np.testing.assert_allclose(bf.label_probabilities(tables()), bf.label_probabilities(own))
