"""Functions of a result and its model give the same from the result alone."""

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup

MADE = bf.datasets.simulate_dawid_skene(30, 5, 3, random_seed=1)
ORDER = np.random.default_rng(0).permutation(30)
PLACES = {"item": ORDER, "sequence": np.repeat(list("abc"), 10), "position": np.arange(30)}
MODELS = {
    "confusion": lambda: DawidSkene(MADE.responses, gold={0: 1, 3: 2}),
    "coin": lambda: DawidSkene(MADE.responses, raters="coin", pooled=True),
    "graded": lambda: DawidSkene(MADE.responses, raters="graded"),
    "types": lambda: ItemTypes(MADE.responses),
    "groups": lambda: LatentGroup(MADE.responses, [[0, 1]]),
    "inferred groups": lambda: LatentGroup(MADE.responses, "posterior"),
    "sequences": lambda: HiddenMarkov(MADE.responses, bf.Sequences.from_table(PLACES)),
    "populations": lambda: DawidSkene(MADE.responses, populations=["p"] * 12 + ["q"] * 18),
    "counts": lambda: DawidSkene(bf.datasets.caries()),
}
QUIET = {"draws": 10, "tune": 10, "chains": 1, "random_seed": 1, "progressbar": False}


@pytest.mark.parametrize("kind", MODELS)
def test_the_result_alone_is_enough(kind):
    model = MODELS[kind]()
    result = bf.sample(model, quiet=True, **QUIET)
    assert bf.decode(result).equals(bf.decode(result, model))
    checks = [bf.checks.collapse, bf.decisions.value_of_response]
    if kind == "groups":
        found = bf.checks.verdict_probabilities(result)
        assert found.equals(bf.checks.verdict_probabilities(result, model))
    for check in checks:
        pd.testing.assert_frame_equal(
            check(result).to_dataframe(), check(result, model).to_dataframe()
        )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: DawidSkene(MADE.responses, covariates=np.eye(30, 2)), "the covariates"),
        (lambda: bf.models.MarkovRandomField(MADE.responses, bf.Graph.grid((5, 6))), "the graph"),
        (lambda: DawidSkene(MADE.responses.completed()), "neither silence"),
    ],
)
def test_what_a_result_does_not_store_is_asked_for(build, message):
    point = bf.find_map(build(), tolerance=0.01)
    with pytest.raises(ModelError, match=f"{message}.*give the model, too"):
        bf.decode(point)
