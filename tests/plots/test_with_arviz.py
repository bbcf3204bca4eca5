"""ArviZ's trace plots and summaries of results with many entries."""

from itertools import product

import arviz as az
import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.models import DawidSkene, LatentGroup

TABLE = bf.datasets.simulate_dawid_skene(30, 6, 3, random_seed=1).responses
QUIET = {"draws": 20, "tune": 10, "chains": 2, "random_seed": 1, "progressbar": False}


@pytest.fixture(
    scope="module",
    params=[
        lambda: LatentGroup(TABLE, {"ward": [0, 1], "lab": [2, 3]}),
        lambda: DawidSkene(TABLE, populations=[0] * 15 + [1] * 15),
    ],
)
def result(request):
    return bf.sample(request.param(), quiet=True, **QUIET)


def test_rows_of_a_summary_have_their_own_names(result):
    """Groups and populations beside raters of three classes were mislabelled by ArviZ."""
    table = az.summary(result, round_to="none")["mean"]
    for name, values in result["posterior"].data_vars.items():
        dims = values.dims[2:]
        for place in product(*(range(values.sizes[dim]) for dim in dims)):
            entry = values.isel(dict(zip(dims, place, strict=True)))
            names = ", ".join(str(entry[dim].values) for dim in dims)
            mean = float(entry.mean())
            assert np.isclose(table[f"{name}[{names}]" if dims else name], mean, atol=1e-6)


def test_the_smallest_variables_fit_into_a_trace_plot(result):
    names = bf.plots.var_names(result)
    assert "prevalence" in names and "confusion" not in names
    az.plot_trace(result, var_names=names)
    assert bf.plots.var_names(result, 3) == ["prevalence"]
