"""ArviZ on results as they are: tables whose rows are named rightly, pictures, comparisons."""

from __future__ import annotations

from itertools import permutations

import arviz as az
import numpy as np
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup, MarkovRandomField
from bayesfuse.results.posterior import order_variables

pytestmark = pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # of few draws

FIT = {"tune": 20, "chains": 2, "random_seed": 1, "progressbar": False, "quiet": True}
SUMMARY = {"round_to": "none", "kind": "stats"}
MODELS = {
    "independent": DawidSkene,
    "groups": lambda responses: LatentGroup(responses, {"x": [0, 1], "y": [2, 3]}),
    "inferred": lambda responses: LatentGroup(responses, "posterior"),
    "chain": lambda responses: HiddenMarkov(responses, bf.Sequences.from_lengths([6] * 4)),
    "graph": lambda responses: MarkovRandomField(responses, bf.Graph.grid((4, 6))),
}
DISORDERED = {(3, "groups")}
"""Where no order of the variables is right: (rater, class, answer), (group, class, verdict)
and (rater, verdict, answer), no variable of the raters alone."""


KINDS = [*((2, name) for name in MODELS), (3, "independent"), (3, "groups")]


@pytest.fixture(scope="module", params=KINDS, ids=str)
def fitted(request):
    n_classes, name = request.param
    responses = bf.datasets.simulate_dawid_skene(24, 5, n_classes, random_seed=2).responses
    return request.param, bf.sample(MODELS[name](responses), 20, **FIT)


def misnamed(table, posterior):
    """Rows of a summary whose mean is not that of the entry they are named after."""
    wrong = []
    for row, mean in table["mean"].astype(float).items():
        name, _, entry = row.partition("[")
        names = entry.rstrip("]").split(", ") if entry else []
        values = posterior[name]
        at = {
            dim: [str(own) for own in values[dim].values].index(wanted)
            for dim, wanted in zip(values.dims[2:], names, strict=True)
        }
        if not np.isclose(mean, float(values.isel(at).mean()), atol=1e-9):
            wrong.append(row)
    return wrong


def test_rows_of_summaries_are_what_they_are_named(fitted, tmp_path):
    """And ArviZ's diagnostics take the result, from a file and thinned too."""
    kind, result = fitted
    posterior = result["posterior"].dataset
    n_rows = sum(values[0, 0].size for values in posterior.data_vars.values())
    result.to_netcdf(tmp_path / "result.nc")
    loaded = xr.load_datatree(tmp_path / "result.nc")
    for each in (loaded, loaded.isel(draw=slice(None, None, 2))):
        own = bf.summary(each, **SUMMARY)
        assert len(own) == n_rows and misnamed(own, each["posterior"].dataset) == []
    wrong = misnamed(az.summary(loaded, **SUMMARY), posterior)
    assert bool(wrong) == (kind in DISORDERED), wrong[:5]
    with np.errstate(invalid="ignore", divide="ignore"):  # groups that never change have no R-hat
        shapes = {own: values.shape[2:] for own, values in posterior.data_vars.items()}
        for found in (az.ess(result), az.rhat(result)):
            assert {own: found[own].shape for own in posterior} == shapes
    assert np.isfinite(az.loo(result).elpd)
    if kind == (2, "chain"):
        for plot in (az.plot_trace, az.plot_forest):
            assert plot(result, var_names=["initial", "sensitivity"]) is not None


def test_an_order_that_is_right_is_found_wherever_there_is_one():
    """Of variables in any order; the order they come in is kept as far as it is right."""
    dims = {"p": "c", "q": "rc", "s": "r", "t": "rcv", "u": "", "w": "gcv"}
    for names in permutations(dims):
        values = {n: (list(dims[n]), np.zeros((2,) * len(dims[n]))) for n in names}
        result = xr.DataTree(children={"posterior": xr.DataTree(xr.Dataset(values))})
        order_variables(result)
        first = dict.fromkeys("".join(dims[name] for name in result["posterior"].data_vars))
        place = {dim: at for at, dim in enumerate(first)}
        for own in dims.values():
            assert sorted(own, key=place.get) == list(own), (names, own)
