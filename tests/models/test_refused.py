"""Arguments of which no model can be made are refused with the rule and what was given."""

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import (
    DawidSkene,
    HiddenMarkov,
    ItemTypes,
    LabellingFunctions,
    MarkovRandomField,
)

TABLE = bf.Responses.from_matrix(np.arange(72).reshape(12, 6) % 3, classes=range(3))
ONES, EVERY = np.ones((3, 3)), [1, 1, 1]
NORTH = np.repeat(["north", "south", "west"], 4)
X = pd.DataFrame({"height": np.arange(12) % 5 + 170.0, "tall": np.arange(12) % 2})
FIELD, CHAINS = bf.Graph.grid((3, 4)), bf.Sequences.from_lengths([4, 8])

MODELS = {
    "crowd": lambda **given: DawidSkene(TABLE, **given),
    "pooled": lambda **given: DawidSkene(TABLE, **{"pooled": True} | given),
    "pooled field": lambda **given: MarkovRandomField(TABLE, FIELD, pooled=True, **given),
    "graded": lambda **given: DawidSkene(TABLE, **{"raters": "graded"} | given),
    "chains": lambda **given: HiddenMarkov(TABLE, CHAINS, **given),
    "field": lambda **given: MarkovRandomField(TABLE, **{"graph": FIELD} | given),
    "types": lambda **given: ItemTypes(TABLE, **given),
    "rules": lambda **given: LabellingFunctions(TABLE, **given),
}
REFUSED = [
    ("pooled", {"pooled": "yes"}, "pooled must be True or False. Got: 'yes'"),
    ("pooled", {"confusion_prior": {0: ONES}}, "the same for all raters.* Got: dict"),
    ("pooled", {"confusion_prior": bf.priors.robust(3)}, "no mixture.* Got: DirichletMixture"),
    ("pooled", {"confusion_prior": np.ones((6, 3, 3))}, r"no axis of raters. Got: shape \(6, 3, 3"),
    ("pooled", {"confusion_prior": np.ones((3, 2))}, r"must have shape \(3 classes, 3 labels\)"),
    ("pooled", {"confusion_prior": np.ones((6, 2)), "raters": "coin"}, "no axis of raters"),
    ("pooled", {"confusion_prior": [1, 2, 3], "raters": "coin"}, r"have shape \(2 outcomes\)"),
    ("graded", {"confusion_prior": bf.priors.diagonal(3)}, "confusion_prior is for free rows"),
    ("graded", {"raters": "ordered"}, r"must be 'confusion', .*'graded'\. Got: "),
    ("crowd", {"covariates": X.assign(twice=2 * X["height"] + 1)}, r"collinear.*\['twice'\]"),
    ("crowd", {"populations": NORTH, "prevalence_prior": {"east": 1.0}}, "'east'"),
    ("crowd", {"populations": NORTH, "prevalence_prior": np.ones((2, 3))}, "3 populat"),
    ("crowd", {"prevalence_prior": ONES}, "3 classes"),
    ("crowd", {"covariates": X.iloc[1:]}, "missing"),
    ("chains", {"covariates": X}, "because .*populations= of sequences.* Got: covariates=."),
    ("field", {"populations": NORTH}, "because .*without the graph.* Got: populations=."),
    ("chains", {"initial": "anywhere"}, "Got: 'anywhere'"),
    ("chains", {"transition_prior": -ONES}, "Got.*-1.0"),
    ("chains", {"initial": "stationary", "initial_prior": 2.0}, "initial_prior=2.0"),
    ("chains", {"transition_prior": np.ones((2, 3))}, r"shape \(2, 3\)"),
    ("chains", {"initial_prior": [1, 1]}, r"shape \(2,\)"),
    ("chains", {"transition_prior": [EVERY, [0, 0, 0], EVERY]}, "Got.* 1"),
    (
        "chains",
        {"initial_prior": [1, 1, 0], "transition_prior": [[1, 1, 0], [1, 1, 0], EVERY]},
        "rule out 2",
    ),
    (
        "chains",
        {"initial": "stationary", "transition_prior": [EVERY, EVERY, [0, 0, 1]]},
        "separate 2 from 0",
    ),
    *(("field", {"trust": trust}, "trust must be") for trust in (0, "much", True, np.nan)),
    ("field", {"coupling_scale": 0.0}, "coupling_scale must be"),
    ("field", {"approximation": "bethe"}, "approximation must be"),
    ("field", {"edges": "cut"}, "edges must be"),
    ("field", {"edges": "drawn", "approximation": "mean field"}, "edges must be"),
    ("field", {"graph": bf.Graph.grid((5, 5))}, "Items of a graph"),
    ("types", {"types": 2, "own_rows": False}, "no longer infers.* Got: own_rows, types"),
    ("types", {"consensus": "inferred"}, "no longer infers.* Got: consensus='inferred'"),
    ("types", {"consensus": "some"}, "consensus must be .* Got: 'some'"),
    ("types", {"guesses": "no"}, "guesses must be .* Got: 'no'"),
    ("types", {"trust": 0.0}, "trust must be positive.* Got: 0.0"),
    ("types", {"gold": {3: "bottom"}}, "Got: 'bottom' for item 3"),
    ("types", {"gold": {99: 0}}, "Got: 99, which is not"),
    ("rules", {"odds": 1.0}, "odds must be above one"),
    ("rules", {"weight": 0.0}, "weight"),
    ("rules", {"dispersion": 0.5}, "dispersion must be above one"),
    ("rules", {"class_shares": [0.7, 0.7, 0.1]}, "sum"),
    ("rules", {"groups": "posterior"}, "groups"),
    ("rules", {"gold": {"nobody": 0}}, "nobody"),
]


@pytest.mark.parametrize(("model", "given", "match"), REFUSED)
def test_arguments_that_make_no_model(model, given, match):
    with pytest.raises((ModelError, ResponsesError), match=match) as error:
        MODELS[model](**given)
    assert "Got" in str(error.value)


def test_tables_that_have_no_order():
    with pytest.raises(ModelError, match="expand"):
        table = bf.Responses.from_counts({"00": 2, "01": 3})
        HiddenMarkov(table, bf.Sequences.from_lengths([2], items=["00", "01"]))
    words = bf.Responses.from_matrix([["a", "b"], ["c", "b"]])
    with pytest.raises(ModelError, match=r"need ordered classes.*ordered=True.* Got: "):
        DawidSkene(words, raters="graded")
