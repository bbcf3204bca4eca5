"""Plots of shares by group and of panels."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from pictures import tick_names

import bayesfuse as bf
from bayesfuse.errors import ModelError


@pytest.fixture(scope="module")
def result():
    made = bf.datasets.simulate_dawid_skene(60, 4, 3, random_seed=1)
    model = bf.models.DawidSkene(made.responses, gold={0: made.truth[0]})
    return bf.sample(model, 20, tune=20, random_seed=1, progressbar=False, quiet=True)


def test_shares_of_all_groups_and_classes(result):
    found = bf.class_shares(result, by=["$a$", "b\n"] * 30, random_seed=1).shares
    axes = bf.plots.plot_class_shares(found)
    assert len(axes) == 3
    names = ["b  (30 items)", r"\$a\$ (30 items, 1 known)", "all items (60 items, 1 known)"]
    assert tick_names(axes[0]) == names
    shown = axes[1].lines[0].get_xdata()
    np.testing.assert_allclose(shown, found[found["class"] == 1]["share"].to_numpy()[::-1])
    axes[0].figure.canvas.draw()
    plt.close("all")
    with pytest.raises(ModelError, match="the first table of"):
        bf.plots.plot_class_shares(bf.class_shares(result))


def test_a_panel(result):
    found = bf.decisions.panel(result, random_seed=1)
    axes = bf.plots.plot_panel(found)
    assert tick_names(axes[0]) == ["0", "1", "2", "3"]
    np.testing.assert_allclose(axes[1].lines[0].get_ydata(), found["wrong"])
    assert axes[0].get_title().startswith("4 raters are worth ")
    plt.close("all")
