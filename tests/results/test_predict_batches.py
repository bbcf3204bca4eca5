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
    found = list(bf.predict_batches(result, batches(responses), draws=30))
    assert [each["label_posterior"].sizes["item"] for each in found] == [40, 40, 10]
    together = xr.concat([each["label_posterior"].to_dataset() for each in found], "item")
    whole = bf.predict(result, responses, draws=30)["label_posterior"].to_dataset()
    xr.testing.assert_allclose(together, whole)


def test_batches_are_read_when_their_labels_are_asked_for(result, responses):
    read = []

    def stream():
        for batch in batches(responses):
            read.append(batch.n_items)
            yield batch

    labels = bf.predict_batches(result, stream(), draws=2)
    assert read == []
    next(labels)
    assert read == [40]


def test_labels_of_all_that_a_stream_fit_has_read(responses):
    """The second pass over what ``batches=`` learnt from."""
    days = list(batches(responses))
    result = bf.fit(DawidSkene(days[0]), batches=days, n_items=90, draws=20, random_seed=1)
    found = bf.predict_batches(result, days)
    items = np.concatenate([bf.label_probabilities(each)["item"].values for each in found])
    np.testing.assert_array_equal(items, responses.items)


def test_files_hold_labels_and_probabilities(result, responses, tmp_path):
    pytest.importorskip("pyarrow")
    folder = tmp_path / "new" / "labels"
    paths = bf.write_labels(bf.predict_batches(result, batches(responses), draws=30), folder)
    assert [path.name for path in paths] == [f"part-0000{n}.parquet" for n in range(3)]
    assert sorted(folder.iterdir()) == paths
    table = pd.read_parquet(folder)
    assert table.columns.tolist() == ["item", "label", *(f"probability_{k}" for k in range(3))]
    whole = bf.label_probabilities(bf.predict(result, responses, draws=30))
    assert table["item"].tolist() == responses.items.tolist()
    np.testing.assert_allclose(table.iloc[:, 2:].to_numpy(), whole.values)
    np.testing.assert_array_equal(table["label"], whole.values.argmax(axis=1))
    with pytest.raises(ModelError, match=r"Got: part-00000.parquet in .* \(3 such\)"):
        bf.write_labels([result], folder)


def test_names_keep_their_kind_in_files(tmp_path):
    pytest.importorskip("pyarrow")
    words = bf.Responses.from_matrix([["ja", "ja"], ["nein", "ja"]], items=["ä", "b"])
    days = pd.to_datetime(["2024-02-01", "2024-02-02"])
    times = bf.Responses.from_matrix([[True, True], [False, True]], items=days)
    for number, table in enumerate((words, times)):
        result = bf.fit(DawidSkene(table), draws=5, random_seed=1)
        (path,) = bf.write_labels([result], tmp_path / str(number))
        found = pd.read_parquet(path)
        assert found["item"].tolist() == pd.Series(table.items).tolist()
        assert found["label"].iloc[0] == table.classes[table.label[0]]


def test_a_file_that_is_not_complete_has_another_name(result, responses, tmp_path):
    pytest.importorskip("pyarrow")

    def broken():
        yield responses.head(3)
        raise OSError("the network is down")

    with pytest.raises(OSError, match="the network"):
        bf.write_labels(bf.predict_batches(result, broken(), draws=2), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["part-00000.parquet"]


def test_parquet_without_pyarrow_is_an_error_that_says_so(result, monkeypatch, tmp_path):
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
