"""Tasks on parts: the same results, to the last bit, wherever they are done."""

import numpy as np
import pytest

from bayesfuse.numerics import cluster
from bayesfuse.numerics.cluster import Parts
from bayesfuse.numerics.threads import threads


def prepare(recipe, source):
    return recipe * source


def scaled(part, factor, own):
    return part * factor + own


def values(n):
    return [0.1 * 1.7**k for k in range(n)]  # whose sum depends on the order


@pytest.mark.parametrize("n", [1, 5, 16, 17, 40, 300])
def test_sums_are_those_of_groups_in_order(n):
    parts = Parts(prepare, 3.0, values(n), [8] * n)
    own = list(range(n))
    each = parts.map(scaled, (2.0,), own)
    assert each == [prepare(3.0, v) * 2.0 + k for k, v in enumerate(values(n))]
    total = parts.add(sum, scaled, (2.0,), own)
    with threads(3):
        assert parts.add(sum, scaled, (2.0,), own) == total
    assert total == pytest.approx(sum(each), rel=1e-12)


def test_parts_are_prepared_once_if_memory_holds_them(monkeypatch):
    made = []

    def noted(recipe, source):
        made.append(source)
        return source

    monkeypatch.setattr(cluster, "_memory", lambda: 100.0)
    parts = Parts(noted, None, [1, 2, 3], [15, 20, 10])
    for _ in range(2):
        assert parts.map(scaled, (1,), [0, 0, 0]) == [1, 2, 3]
    assert made == [1, 2, 3, 3]  # 35 of 40 bytes hold two


@pytest.mark.slow
@pytest.mark.parametrize("held", [0, 7])
@pytest.mark.filterwarnings("ignore")  # of Dask's own
def test_sums_on_a_cluster_are_those_here(monkeypatch, held):
    distributed = pytest.importorskip("dask.distributed", reason="Dask is not installed")
    import dask

    cases = {n: Parts(prepare, 3.0, values(n), [8] * n) for n in (1, 17, 40)}
    here = {n: parts.add(sum, scaled, (2.0,), list(range(n))) for n, parts in cases.items()}
    monkeypatch.setattr(Parts, "_kept", lambda parts, memory: set(range(min(held, len(parts)))))
    options = {"processes": False, "dashboard_address": None, "threads_per_worker": 1}
    with distributed.LocalCluster(n_workers=3, **options) as local, distributed.Client(local):
        for n, parts in cases.items():
            assert parts.add(sum, scaled, (2.0,), list(range(n))) == here[n]
            alone = parts._map_here(scaled, (1.0,), (np.zeros(n),))
            assert parts.map(scaled, (1.0,), np.zeros(n)) == alone
    dask.config.set(scheduler=None)  # which a closed client leaves behind
