"""The picture of hard items shows the numbers it is given."""

import numpy as np
import pytest
from pictures import tick_names

import bayesfuse as bf
from bayesfuse import plots
from bayesfuse.models import ItemTypes

QUIET = {"progressbar": False, "quiet": True, "log_likelihood": False, "random_seed": 1}


@pytest.fixture(scope="module")
def fit():
    made = bf.datasets.simulate_dawid_skene(60, 6, 3, accuracy=(0.5, 0.8), random_seed=1)
    frame = made.responses.to_frame()
    frame["item"] = [f"n{n}" for n in frame["item"]]
    frame["label"] = [["cat", "dog", "fox"][k] for k in frame["label"]]
    model = ItemTypes(bf.Responses.from_long(frame))
    return bf.sample(model, 30, chains=1, **QUIET), model


@pytest.mark.slow
def test_hardest_items_are_on_top_with_their_classes(fit):
    found = bf.difficulty(*fit)
    items, mistakes = plots.plot_hard_items(*fit, most=10)
    order = np.argsort(found["disagreement"].values, kind="stable")
    some = found.isel(item=order[-10:])
    names = [
        f"{item}: {one} or {other}"
        for item, one, other in zip(
            *(some[name].values for name in ("item", "label", "confused_with")), strict=True
        )
    ]
    assert tick_names(items) == names
    dots, crosses = items.collections[-2:]
    np.testing.assert_allclose(dots.get_offsets()[:, 0], some["disagreement"])
    np.testing.assert_allclose(crosses.get_offsets()[:, 0], some["error"])
    ends = np.array([line[:, 0] for line in items.collections[-3].get_segments()])
    np.testing.assert_allclose(ends, np.stack([some["low"], some["high"]], axis=1))
    image = np.ma.filled(mistakes.images[0].get_array(), np.nan)
    expected = found["mistakes"].transpose("class", "labelled").values
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(image[off], expected[off])
