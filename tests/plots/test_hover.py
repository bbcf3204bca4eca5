"""Interactive plots show the numbers they are given, and names that are no markup."""

import sys

import numpy as np
import pytest
import xarray as xr
from new_items import named
from refusals import refused

import bayesfuse as bf
from bayesfuse.models import DawidSkene, LabellingFunctions
from bayesfuse.plots import hover_items, hover_raters

QUIET = {"progressbar": False, "quiet": True, "random_seed": 1}
pytest.importorskip("plotly")


@pytest.fixture(scope="module", params=[8, 60])
def fit(request):
    made = bf.datasets.simulate_dawid_skene(60, request.param, 3, per_item=5, random_seed=1)
    items, raters = [f"item & {n}" for n in range(60)], [f"<b>{m}" for m in range(request.param)]
    responses = named(made.responses.to_frame(), items, raters, [0, 1, 2])
    return bf.sample(DawidSkene(responses), 20, chains=1, **QUIET), responses


def test_raters(fit):
    result, responses = fit
    (points,) = hover_raters(result, ci_prob=0.5).data
    accuracy = result["posterior"]["sensitivity"].mean("class")
    mean = accuracy.mean(("chain", "draw")).values
    np.testing.assert_allclose(points.y, mean)
    ends = np.asarray(points.customdata, dtype=float)
    np.testing.assert_allclose(ends[:, :2].T, accuracy.quantile([0.25, 0.75], ("chain", "draw")))
    assert ends[:, 2].tolist() == responses.per_rater.tolist()
    assert list(points.text) == [f"&lt;b&gt;{name[3:]}" for name in responses.raters]
    if responses.n_raters <= 30:  # side by side, the best first
        assert points.x.tolist() == np.argsort(np.argsort(-mean)).tolist()
        np.testing.assert_allclose(points.error_y.array, ends[:, 1] - mean)
    else:
        assert points.error_y.array is None
        assert np.abs(points.x - responses.per_rater).max() <= 0.3


def test_items(fit):
    result, responses = fit
    figure = hover_items(result)
    labels = bf.label_probabilities(result)
    values = dict(zip(labels["item"].values.tolist(), labels.values, strict=True))
    number = dict(zip(responses.items.tolist(), responses.per_item.tolist(), strict=True))
    shown = 0
    for k, points in enumerate(figure.data):
        assert points.name == str(responses.classes[k])
        for x, y, text, (other, second, count) in zip(
            points.x, points.y, points.text, points.customdata, strict=True
        ):
            name = text.replace("&amp;", "&")
            best = np.sort(values[name])[::-1]
            assert best.argmax() == 0 and y == best[0] == values[name][k]
            assert second == best[1] == values[name][responses.classes.tolist().index(int(other))]
            assert count == number[name] and abs(x - count) <= 0.3
            shown += 1
    assert shown == labels.sizes["item"]


def test_votes():
    said = [[0, 1, -1], [0, -1, 1], [-1, 1, 1], [0, 1, -1]]
    model = LabellingFunctions(bf.Responses.from_matrix(said, raters=["a", "b", "c"]))
    point = bf.find_map(model)
    (points,) = hover_raters(point, model).data
    assert list(points.text) == ["a: 0", "b: 1", "c: 1"]
    assert [row[2] for row in points.customdata] == [3, 3, 2]
    refused("need model=", hover_raters, point)


def test_what_is_missing(fit, monkeypatch):
    refused(r"Got: groups \[\]", hover_raters, xr.DataTree())
    with pytest.raises(ValueError, match="most must be"):
        hover_items(fit[0], most=0)
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(ImportError, match=r"bayesfuse\[interactive\]"):
        hover_raters(fit[0])
