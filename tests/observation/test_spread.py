"""Responses in partitions: the results are those of one table, wherever the work is done."""

import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from conjugate_models import typical
from refusals import refused, refused_table

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError, ModelError, ResponsesError
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import (
    DawidSkene,
    HiddenMarkov,
    ItemTypes,
    LabellingFunctions,
    LatentGroup,
    MarkovRandomField,
)
from bayesfuse.numerics import cluster
from bayesfuse.observation import ChunkedResponseModel

pytest.importorskip("pyarrow", reason="parquet files need pyarrow")

QUIET = {"progressbar": False, "quiet": True, "cores": 1}
N_PARTS = 4


def frame_of(responses, n_items=60):
    """The rows, with a sequence of three or four items for each partition's share."""
    frame = responses.to_frame()
    frame["film"] = frame["item"] // 4
    frame["word"] = frame["item"] % 4
    return frame


@pytest.fixture
def parted(small, tmp_path):
    """The table in files, and in one piece."""
    frame = frame_of(small)
    cut = (frame["film"] * N_PARTS // (frame["film"].max() + 1)).to_numpy()
    for number in range(N_PARTS):
        frame[cut == number].to_parquet(tmp_path / f"{number}.parquet")
    read = {"raters": small.raters, "classes": small.classes}
    table = bf.Responses.from_parquet(tmp_path, sequence="film", position="word", **read)
    whole = bf.Responses.from_long(frame, **read)
    return table, whole, frame


def sequences_of(frame):
    rows = frame.drop_duplicates("item")
    return bf.Sequences.from_table(rows, sequence="film", position="word")


def quiet(responses):
    return DawidSkene(responses, confusion_prior=bf.priors.diagonal(3, weight=9))


PAIRS = {
    "confusion": lambda t, f: DawidSkene(t, gold={3: 1, 50: 2}),
    "coin": lambda t, f: DawidSkene(t, raters="coin"),
    "pooled": lambda t, f: DawidSkene(t, pooled=True),
    "groups": lambda t, f: LatentGroup(t, groups=[[0, 1, 2]]),
    "types": lambda t, f: ItemTypes(t),
    "chain": lambda t, f: HiddenMarkov(t, f(t), raters="confusion"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_sums_over_partitions_are_those_of_one_table(parted, name):
    table, whole, frame = parted
    build = PAIRS[name]
    spread = make_plan(build(table, lambda t: t.sequences))
    one = make_plan(build(whole, lambda t: sequences_of(frame)))
    assert isinstance(spread.observation, ChunkedResponseModel)
    rows, rng = typical(build(whole, lambda t: sequences_of(frame))), np.random.default_rng(3)
    total, counts = one.observation.expected(rows)
    again, added = spread.observation.expected(rows)
    assert again == pytest.approx(total, rel=1e-10)
    for key in counts:
        np.testing.assert_allclose(added[key], counts[key], rtol=1e-9, atol=1e-9)
    drawn = spread.observation.draw_counts(rows, rng)
    for key, value in one.observation.draw_counts(rows, rng).items():
        if key not in ("competence", "guess") or name != "types":  # guesses are random
            assert drawn[key].sum() == pytest.approx(value.sum())


def test_modes_are_those_of_one_table(parted):
    table, whole, _ = parted
    points = [bf.find_map(quiet(t), tolerance=1e-10) for t in (table, whole)]
    one, other = (point["point"]["confusion"] for point in points)
    np.testing.assert_allclose(one, other, atol=1e-4)
    assert points[0].attrs["log_evidence"] == pytest.approx(points[1].attrs["log_evidence"])
    labels = [point["label_posterior"]["probability"] for point in points]
    np.testing.assert_allclose(labels[0].sel(item=labels[1]["item"]), labels[1], atol=1e-4)


def test_results_have_the_groups_of_one_table(parted):
    """But for the rows of the table."""
    table, whole, _ = parted
    fits = [bf.sample(quiet(t), 5, tune=5, random_seed=2, **QUIET) for t in (table, whole)]
    assert set(fits[1].children) - set(fits[0].children) == {"observed_data", "label_draws"}
    seen, expected = (fit["log_likelihood"]["responses"].sizes for fit in fits)
    assert dict(seen) == dict(expected)
    assert set(fits[0]["label_posterior"]["item"].values) == set(whole.items.tolist())


def test_labels_are_written_back_by_partition(parted, tmp_path):
    table, whole, _ = parted
    model = quiet(table)
    point = bf.find_map(model)
    files = bf.io.label_partitions(point, model, tmp_path / "labels")
    assert len(files) == N_PARTS
    written = pd.concat(map(pd.read_parquet, files)).set_index("item")
    labels = bf.label_probabilities(point).to_pandas()
    assert written.columns.tolist() == ["label", *(f"probability_{k}" for k in range(3))]
    np.testing.assert_allclose(written.loc[labels.index].iloc[:, 1:], labels)
    other = quiet(whole)
    with pytest.raises(ModelError, match="label_partitions writes labels of responses in partit"):
        bf.io.label_partitions(point, other, tmp_path / "other")
    with pytest.raises(ModelError, match=r"Got: part-00000.parquet in .* \(4 such\)"):
        bf.io.label_partitions(point, model, tmp_path / "labels")
    with pytest.raises(ModelError, match="of the same responses"):
        bf.io.label_partitions(bf.find_map(other), model, tmp_path / "other")


def test_too_many_labels_are_left_to_be_written(parted, monkeypatch):
    monkeypatch.setattr("bayesfuse.results.draws.MAX_VALUES", 10)
    point = bf.find_map(quiet(parted[0]))
    assert "label_posterior" not in point.children
    assert "label_partitions" in point.attrs["labels"]


def test_known_labels_and_impossible_ones(parted):
    table, _, frame = parted
    point = bf.find_map(DawidSkene(table, gold={3: 1, 50: 2}))
    known = point["label_posterior"]["probability"].sel(item=[3, 50]).values
    np.testing.assert_allclose(known, np.eye(3)[[1, 2]])
    rows = np.array([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]])
    last = frame[(frame["label"] == 2) & (frame["item"] > 50)]["item"].iloc[0]
    with pm.Model() as model:
        bf.build.observe(
            table,
            labels=bf.build.Independent(pm.Dirichlet("prevalence", np.ones(3))),
            raters=bf.build.Confusion(np.tile(rows, (len(table.raters), 1, 1))),
            gold={int(last): 0},
        )
    with pytest.raises(ImpossibleDataError, match=f"probability zero for item {last}"):
        bf.find_map(model, start="prior")


def test_gold_of_an_item_in_no_partition_is_an_error(parted):
    table, _, _ = parted
    with pytest.raises(ResponsesError, match=r"in the table; leave out .* Got: 7000"):
        DawidSkene(table, gold={3: 1, 7000: 2, 50: 2})
    with pytest.raises(ResponsesError, match="among the classes"):
        DawidSkene(table, gold={3: 1, 50: 9})  # which is in the last partition
    refused_table(r"gold=.* are a mapping", DawidSkene, table, gold=[3])


def test_sources_that_abstain(small, tmp_path):
    frame = frame_of(small)
    frame["label"] = np.where(np.arange(len(frame)) % 5 == 0, -1, frame["label"])
    for number, part in frame.groupby(frame["item"] // 20):
        part.to_parquet(tmp_path / f"{number}.parquet")
    read = {"abstain": -1, "raters": range(5), "classes": small.classes}
    spread = make_plan(DawidSkene(bf.Responses.from_parquet(tmp_path, **read)))
    one = make_plan(DawidSkene(bf.Responses.from_long(frame, **read)))
    rows = {key: prior.centre() for key, prior in one.priors().items()}
    total, counts = one.observation.expected(rows)
    again, added = spread.observation.expected(rows)
    assert again == pytest.approx(total, rel=1e-10)
    np.testing.assert_allclose(added["speech"], counts["speech"], atol=1e-9)


def test_unsupported_models_of_partitions_are_refused(parted):
    table, whole, _frame = parted
    graph = bf.Graph.grid((2, whole.n_items // 2), items=whole.items)
    for build, why in (
        (lambda: MarkovRandomField(table, graph), "depend on each other across partitions"),
        (lambda: LatentGroup(table), "groups are found from all responses at once"),
        (lambda: LabellingFunctions(table), "measured on all of their votes at once"),
        (lambda: HiddenMarkov(table, table.sequences, initial="stationary"), "more than counts"),
    ):
        refused(why, build)
    model = quiet(table)
    point = bf.find_map(model)
    refused("needs all items at hand", bf.checks.conditional_dependence, point, model)
    refused("needs all items at hand", bf.fit, model, batch_size=10)


def test_the_density_goes_through_all_partitions(parted):
    table, whole, _ = parted
    one, other = quiet(table), quiet(whole)
    at = other.initial_point()
    assert one.compile_logp()(at) == pytest.approx(other.compile_logp()(at), rel=1e-10)
    np.testing.assert_allclose(one.compile_dlogp()(at), other.compile_dlogp()(at), rtol=1e-9)


@pytest.mark.slow
def test_partitions_beyond_memory_are_reread(parted, monkeypatch):
    table, _, _ = parted
    kept = bf.sample(quiet(table), 5, tune=5, chains=1, random_seed=3, **QUIET)
    monkeypatch.setattr(cluster, "MEMORY_SHARE", 0.0)
    model = quiet(table)
    read = bf.sample(model, 5, tune=5, chains=1, random_seed=3, **QUIET)
    assert not make_plan(model).observation.parts._prepared
    assert (kept["posterior"]["confusion"] == read["posterior"]["confusion"]).all()


def same(one, other):
    return all(
        (one[group][name].values == other[group][name].values).all()
        for group in ("posterior", "label_posterior")
        for name in one[group].data_vars
    )


@pytest.fixture
def distributed():
    module = pytest.importorskip("dask.distributed", reason="Dask is not installed")
    import dask

    before = dask.config.get("scheduler", None)
    yield module
    # a client that ends makes the scheduler of others the default only if all ended in order
    dask.config.set(scheduler=before)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Dask's own
def test_the_same_draws_on_a_cluster_as_here(parted, distributed):
    """In this process, so that it is quick; processes and lost workers are in a long test."""
    table, _, _frame = parted
    settings = {"chains": 1, "tune": 5, "random_seed": 5, **QUIET}
    here = bf.sample(quiet(table), 5, **settings)
    options = {"processes": False, "dashboard_address": None, "n_workers": 2}
    with distributed.LocalCluster(**options) as local, distributed.Client(local) as client:
        model = quiet(table)
        assert same(here, bf.sample(model, 5, **settings))
        import dask.dataframe as dd

        frames = dd.read_parquet([each.origin for each in table.sources])
        read = {"raters": table.raters, "classes": table.classes}
        given = bf.Responses.from_dask(frames, sequence="film", position="word", **read)
        assert same(here, bf.sample(quiet(given), 5, **settings))
        client.close()
    assert same(here, bf.sample(model, 5, **settings))  # without a client the work is done here


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Dask's own, of workers that die
def test_workers_may_die(parted, distributed):
    table, _, _ = parted
    settings = {"chains": 1, "tune": 20, "random_seed": 5, **QUIET}
    here = bf.sample(quiet(table), 60, **settings)
    options = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as local, distributed.Client(local) as client:
        killed = []

        def kill():
            time.sleep(1.5)
            worker = next(iter(local.workers.values()))
            os.kill(worker.pid, signal.SIGKILL)
            killed.append(worker.pid)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        there = bf.sample(quiet(table), 60, **settings)
        killer.join(60)
        assert killed and same(here, there)
        client.close()
