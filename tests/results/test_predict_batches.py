"""Labels of batches: as those of all items at once, one batch in memory, and in Parquet files."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene, HiddenMarkov

# Small tables: what is asked here is not how near a fit is to the posterior.
pytestmark = pytest.mark.filterwarnings("ignore::bayesfuse.errors.PoorFitWarning")


@pytest.fixture(scope="module")
def responses():
    return bf.datasets.simulate_dawid_skene(
        90, 5, 3, per_item=3, prevalence=[0.5, 0.3, 0.2], random_seed=3
    ).responses


@pytest.fixture(scope="module")
def result(responses):
    return bf.fit(DawidSkene(responses.head(40)), draws=50, random_seed=1)


def batches(responses, size=40):
    for first in range(0, responses.n_items, size):
        yield responses.take(np.arange(first, min(first + size, responses.n_items)))


def test_labels_in_batches_are_those_of_all_at_once(result, responses):
    """And each is read when its labels are asked for."""
    read = []

    def stream():
        for batch in batches(responses):
            read.append(batch.n_items)
            yield batch

    labels = bf.predict_batches(result, stream(), draws=30)
    assert read == []
    found = [next(labels)]
    assert read == [40]
    found += labels
    assert [each["label_posterior"].sizes["item"] for each in found] == [40, 40, 10]
    together = xr.concat([each["label_posterior"].to_dataset() for each in found], "item")
    whole = bf.predict(result, responses, draws=30)["label_posterior"].to_dataset()
    xr.testing.assert_allclose(together, whole)


@pytest.mark.parametrize("days", [False, True])
def test_files_hold_labels_and_probabilities(responses, days, tmp_path):
    """With names of their kind: items that are times, classes that are numbers or words."""
    pytest.importorskip("pyarrow")
    if days:
        frame = responses.to_frame()
        frame["item"] = pd.date_range("2024-02-01", periods=90)[frame["item"]]
        frame["label"] = np.array(["ja", "né", "ü"])[frame["label"]]
        responses = bf.Responses.from_long(frame)
    result = bf.fit(DawidSkene(responses.head(40)), draws=50, random_seed=1)
    folder = tmp_path / "new" / "labels"
    paths = bf.write_labels(bf.predict_batches(result, batches(responses), draws=30), folder)
    assert [path.name for path in paths] == [f"part-0000{n}.parquet" for n in range(3)]
    assert sorted(folder.iterdir()) == paths
    table, names = pd.read_parquet(folder), responses.classes.tolist()
    assert table.columns.tolist() == ["item", "label", *(f"probability_{k}" for k in names)]
    whole = bf.label_probabilities(bf.predict(result, responses, draws=30)).values
    assert table["item"].tolist() == pd.Series(responses.items).tolist()
    np.testing.assert_allclose(table.iloc[:, 2:].to_numpy(), whole)
    assert table["label"].tolist() == [names[k] for k in whole.argmax(axis=1)]
    with pytest.raises(ModelError, match=r"Got: part-00000.parquet in .* \(3 such\)"):
        bf.write_labels([result], folder)


def test_files_that_cannot_be_written(result, responses, monkeypatch, tmp_path):
    pytest.importorskip("pyarrow")

    def broken():
        yield responses.head(3)
        raise OSError("the network is down")

    with pytest.raises(OSError, match="the network"):
        bf.write_labels(bf.predict_batches(result, broken(), draws=2), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["part-00000.parquet"]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "bayesfuse\[parquet\]"'):
        bf.write_labels([result], tmp_path / "labels")
    assert not (tmp_path / "labels").exists()


def test_requests_that_make_no_sense_are_refused(result, responses, tmp_path):
    with pytest.raises(ModelError, match=r"iterable of bf.Responses.* Got: Responses"):
        bf.predict_batches(result, responses)
    with pytest.raises(ModelError, match=r"Every one of batches= must be a bf.Responses"):
        list(bf.predict_batches(result, [responses.to_frame()]))
    with pytest.raises(ModelError, match="draws must be a whole number"):
        bf.predict_batches(result, [responses], draws=0)
    chain = HiddenMarkov(responses, bf.Sequences.from_lengths([45, 45]))
    with pytest.raises(ModelError, match=r"bf.predict\(result, batch, …\).* need sequences"):
        bf.predict_batches(bf.fit(chain, draws=5, random_seed=1), [responses])
    pytest.importorskip("pyarrow")
    with pytest.raises(ModelError, match=r"\[result\] for a single one. Got: DataTree"):
        bf.write_labels(result, tmp_path)
    with pytest.raises(ModelError, match="folder must be the path"):
        bf.write_labels([result], None)
