"""Work side by side: who works, how many, and what is left behind."""

import os
import subprocess
import sys
import threading
import time

import pytest

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
