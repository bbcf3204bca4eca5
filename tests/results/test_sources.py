"""The table of sources against counting one by one."""

from __future__ import annotations

import numpy as np
import pytest
from rules import rules

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene, LabellingFunctions

QUIET = {"progressbar": False, "quiet": True}


def counted(responses):
    """Coverage, overlaps and conflicts of every source and label, item by item."""
    frame = responses.to_frame()
    if "count" not in frame:
        frame["count"] = 1
    total = responses.multiplicity.sum()
    found = {}
    for (source, label), votes in frame.groupby(["rater", "label"]):
        n = overlaps = conflicts = 0.0
        for item, copies in votes.drop_duplicates("item")[["item", "count"]].to_numpy():
            others = frame[(frame["item"] == item) & (frame["rater"] != source)]
            n += copies
            overlaps += copies * bool(len(others))
            conflicts += copies * bool((others["label"] != label).any())
        found[source, label] = n / total, overlaps / total, conflicts / total
    return found


def test_counts(small):
    """Missing and repeated responses of three classes, and patterns with counts."""
    patterns = {"0.1": 4, "00.": 6, ".11": 3, "...": 5, "10.": 0}
    for responses in (small, bf.Responses.from_counts(patterns, missing=".")):
        table = bf.sources(responses)
        expected = counted(responses)
        assert list(table.index) == list(expected)
        assert np.allclose(table.to_numpy(), list(expected.values()))


def test_right_and_wrong_votes_are_counted(small):
    frame = small.to_frame()
    classes = np.resize(small.classes, small.n_items - 1)  # the last item is not known
    truth = dict(zip(small.items[:-1].tolist(), classes.tolist(), strict=True))
    table = bf.sources(small, truth=truth)
    for (source, label), row in table.iterrows():
        votes = frame[(frame["rater"] == source) & (frame["label"] == label)].drop_duplicates()
        known = votes["item"].isin(truth)
        right = (votes["item"].map(truth) == label)[known]
        assert (row["correct"], row["incorrect"]) == (right.sum(), (~right).sum())
        assert np.isclose(row["empirical_accuracy"], right.mean(), equal_nan=True)


@pytest.mark.slow
def test_rates_are_consistent():
    """And wider where rules depend on each other; other models have none."""
    responses, _ = rules(2, copies=2)
    model = LabellingFunctions(responses, [0.5, 0.5])
    result = bf.sample(model, draws=40, chains=2, random_seed=1, **QUIET)
    table = bf.sources(model, result)
    assert bf.sources(result).equals(table)
    for rate in ("accuracy", "hit_rate", "false_alarm_rate"):
        assert (table[f"{rate}_lower"] <= table[rate]).all()
        assert (table[rate] <= table[f"{rate}_upper"]).all()
    alone = table.iloc[1:14]
    assert np.allclose(alone["hit_rate"], alone["coverage"] * alone["accuracy"] / 0.5)
    copies = table[table.index.get_level_values("source").isin([0, 14, 15])]
    assert copies["accuracy"].nunique() == 1 and copies["coverage"].nunique() == 3
    wide = LabellingFunctions(responses, [0.5, 0.5], dispersion=6.0)
    other = bf.sources(wide, bf.sample(wide, draws=40, chains=2, random_seed=1, **QUIET))
    width = [(each["accuracy_upper"] - each["accuracy_lower"]).mean() for each in (table, other)]
    assert width[1] > 1.5 * width[0]
    plain = DawidSkene(bf.datasets.anesthesia())
    for given, fit in ((plain, bf.find_map(plain)), (responses, result)):
        with pytest.raises(ModelError, match="labelling functions"):
            bf.sources(given, fit)
