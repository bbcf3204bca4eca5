"""ArviZ on results as they are: tables whose rows are named rightly, pictures, comparisons."""

from __future__ import annotations

import warnings
from itertools import permutations

import arviz as az
import numpy as np
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup, MarkovRandomField
from bayesfuse.results.posterior import order_variables

FIT = {"tune": 20, "chains": 2, "random_seed": 1, "progressbar": False, "quiet": True}
SUMMARY = {"round_to": "none", "kind": "stats"}
MODELS = {
    "independent": DawidSkene,
    "groups": lambda responses: LatentGroup(responses, {"x": [0, 1], "y": [2, 3]}),
    "inferred": lambda responses: LatentGroup(responses, "posterior"),
    "chain": lambda responses: HiddenMarkov(responses, bf.Sequences.from_lengths([6] * 4)),
    "graph": lambda responses: MarkovRandomField(responses, bf.Graph.grid((4, 6))),
}
DISORDERED = {("groups", 3)}
"""Where no order of the variables is right: (rater, class, answer), (group, class, verdict)
and (rater, verdict, answer), no variable of the raters alone."""


@pytest.fixture(scope="module", params=[2, 3])
def fits(request):
    responses = bf.datasets.simulate_dawid_skene(24, 5, request.param, random_seed=2).responses
    return {name: bf.sample(make(responses), 40, **FIT) for name, make in MODELS.items()}


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


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_summaries_are_what_they_are_named(fits, name, tmp_path):
    result = fits[name]
    posterior = result["posterior"].dataset
    n_rows = sum(values[0, 0].size for values in posterior.data_vars.values())
    disordered = (name, posterior.sizes["class"]) in DISORDERED
    result.to_netcdf(tmp_path / "result.nc")
    with xr.open_datatree(tmp_path / "result.nc") as opened:
        loaded = opened.load()
    for each in (result, loaded, result.isel(draw=slice(None, None, 2))):
        own, plain = (f(each, **SUMMARY) for f in (bf.summary, az.summary))
        assert len(own) == len(plain) == n_rows
        assert misnamed(own, each["posterior"].dataset) == []
        wrong = misnamed(plain, each["posterior"].dataset)
        assert bool(wrong) == disordered, wrong[:5]


def test_an_order_that_is_right_is_found_wherever_there_is_one():
    """Of variables in any order; the order they come in is kept as far as it is right."""
    dims = {"p": "c", "q": "rc", "s": "r", "t": "rcv", "u": "", "w": "gcv"}
    for names in permutations(dims):
        result = xr.DataTree(
            children={
                "posterior": xr.DataTree(
                    xr.Dataset({n: (list(dims[n]), np.zeros((2,) * len(dims[n]))) for n in names})
                )
            }
        )
        order_variables(result)
        first = dict.fromkeys("".join(dims[name] for name in result["posterior"].data_vars))
        place = {dim: at for at, dim in enumerate(first)}
        for own in dims.values():
            assert sorted(own, key=place.get) == list(own), (names, own)


@pytest.mark.parametrize("name", MODELS)
def test_pictures_and_diagnostics_of_arviz_take_results(fits, name):
    result = fits[name]
    posterior = result["posterior"].dataset
    with np.errstate(invalid="ignore", divide="ignore"):  # groups that never change have no R-hat
        for found in (az.ess(result), az.rhat(result)):
            assert {own: found[own].shape for own in posterior} == {
                own: values.shape[2:] for own, values in posterior.data_vars.items()
            }
    few = ["coupling"] if name == "graph" else ["prevalence"]
    for plot in (az.plot_trace, az.plot_forest):
        assert plot(result, var_names=[*few, "sensitivity"]) is not None


def test_leaving_out_and_comparison_take_results(fits):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimated shape parameter")  # of so few draws
        elpd = {name: az.loo(fits[name]).elpd for name in ("independent", "groups", "graph")}
        found = az.compare(bf.common_units({name: fits[name] for name in elpd}))
        assert np.isfinite(az.loo(fits["chain"]).elpd)
    assert set(found.index) == set(elpd)
    assert found.index[0] == max(elpd, key=elpd.get)
