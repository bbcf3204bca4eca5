"""Results that several test files share."""

import pytest
from result_functions import FIT, MODELS, table

import bayesfuse as bf


@pytest.fixture(scope="session")
def fits():
    models = {name: make(table()) for name, make in MODELS.items()}
    return {name: (model, bf.sample(model, **FIT)) for name, model in models.items()}
