"""Work in parts, on threads and on a cluster: who works, in what order, what is left behind."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from bayesfuse.numerics import cluster
from bayesfuse.numerics.cluster import Parts
from bayesfuse.numerics.threads import available, side_by_side, threads


def workers(_):
    time.sleep(0.02)
    return threading.current_thread().name


def test_values_are_in_order_whoever_finishes_first():
    def slow_first(number):
        time.sleep(0.02 if number == 0 else 0.0)
        return number * number

    with threads(3):
        assert side_by_side(slow_first, range(7)) == [n * n for n in range(7)]


def test_the_innermost_number_counts_and_threads_end():
    before = threading.active_count()
    with threads(2):
        assert len(set(side_by_side(workers, range(6)))) == 2
        with threads(1):
            assert set(side_by_side(workers, range(3))) == {threading.current_thread().name}
        assert len(set(side_by_side(workers, range(6)))) == 2
    assert threading.active_count() == before
    assert set(side_by_side(workers, range(2))) == {threading.current_thread().name}


def test_threads_do_not_make_more_threads():
    """Work within a thread is done there: no more threads than were asked for."""
    with threads(2):
        inner = side_by_side(lambda _: set(side_by_side(workers, range(2))), range(4))
    assert all(len(names) == 1 for names in inner)


def test_errors_come_out():
    def broken(number):
        raise KeyError(number)

    with threads(2), pytest.raises(KeyError):
        side_by_side(broken, range(4))


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "NUMBA_NUM_THREADS"])
def test_environment_variables_are_limits(monkeypatch, name):
    for other in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(other, raising=False)
    cores = available()
    assert 1 <= cores <= (os.cpu_count() or 1)
    monkeypatch.setenv(name, "1")
    assert available() == 1
    for said in ("1000", "", "many", "0"):
        monkeypatch.setenv(name, said)
        assert available() == cores


FORK = """
import os, signal
from bayesfuse.numerics.threads import side_by_side, threads
with threads(2):
    side_by_side(abs, range(4))
    child = os.fork()
    if not child:
        signal.alarm(60)
        os._exit(side_by_side(abs, [-1, -2]) != [1, 2])
    os._exit(os.waitpid(child, 0)[1] != 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_works_alone():
    """Threads do not survive a fork, so a child that waited for them would wait for ever."""
    assert subprocess.run([sys.executable, "-c", FORK], timeout=300).returncode == 0


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
