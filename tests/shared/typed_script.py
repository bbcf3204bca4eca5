"""What an analysis calls, for a strict type checker: public names have their types."""

from typing import assert_type

import numpy as np
import pandas as pd
import xarray as xr

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup

frame = pd.DataFrame({"item": [1, 1], "rater": ["a", "b"], "label": ["x", "y"]})
responses = bf.Responses.from_long(frame)
assert_type(responses.n_items, int)
assert_type(bf.datasets.judges().responses, bf.Responses)

fused = bf.fuse(frame, gold={1: "x"}, minutes=1.0, random_seed=np.random.default_rng(1))
assert_type(fused, bf.Fused)
assert_type(fused.overview(), str)
bf.fuse(bf.datasets.judges().responses).report("report.html")

model = DawidSkene(responses, pooled=True)
assert_type(bf.sample(model, 100, chains=2, random_seed=1), xr.DataTree)
assert_type(bf.fit(ItemTypes(responses), "cavi"), xr.DataTree)
point = bf.find_map(HiddenMarkov(responses, bf.Sequences.from_lengths([1])))
assert_type(point, xr.DataTree)
assert_type(bf.update(point, responses), xr.DataTree)

assert_type(bf.label_probabilities(fused), xr.DataArray)
assert_type(bf.decisions.expected_errors(fused), xr.Dataset)
assert_type(bf.checks.label_scores(fused, {1: "x"}), dict[str, float])
bf.plots.plot_raters(bf.sample(LatentGroup(responses)))
shares, contrasts = bf.class_shares(fused, by={1: "first"})
