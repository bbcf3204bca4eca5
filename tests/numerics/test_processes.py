"""Compiled kernels that are kept between processes, and work in parts, on threads or a cluster."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from bayesfuse.numerics import cluster
from bayesfuse.numerics.cluster import Parts
from bayesfuse.numerics.kernels import MAX_FOLDERS, kernel
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

    monkeypatch.setattr(cluster, "_memory", lambda: cluster.BASE_MEMORY + 80.0)
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
    monkeypatch.setattr(Parts, "_n_in_memory", lambda parts, free: min(held, len(parts)))
    options = {"processes": False, "dashboard_address": None, "threads_per_worker": 1}
    with distributed.LocalCluster(n_workers=3, **options) as local, distributed.Client(local):
        for n, parts in cases.items():
            assert parts.add(sum, scaled, (2.0,), list(range(n))) == here[n]
            alone = parts._map_on_threads(scaled, (1.0,), (np.zeros(n),))
            assert parts.map(scaled, (1.0,), np.zeros(n)) == alone
    dask.config.set(scheduler=None)  # which a closed client leaves behind


PACKAGE = Path(__file__).parents[2] / "bayesfuse"

FILES = {
    "factors": "FACTOR = 10.0\n",
    "shapes": "from typing import NamedTuple\nclass Point(NamedTuple):\n    x: float\n",
    "helper": (
        "from bayesfuse.factors import FACTOR\n"
        "from bayesfuse.numerics.kernels import inner\n"
        "@inner\ndef grow(x):\n    return FACTOR * x + 1\n"
    ),
    "caller": (
        "from bayesfuse.helper import grow\n"
        "from bayesfuse.numerics.kernels import kernel\n"
        "@kernel\ndef call(point):\n    return grow(point.x)\n"
    ),
}

SCRIPT = """
import sys, types
package = types.ModuleType("bayesfuse")  # without its __init__, which imports PyMC
package.__path__ = [sys.argv[1]]
sys.modules["bayesfuse"] = package
from bayesfuse.caller import call
from bayesfuse.shapes import Point
print(call(Point(eval(sys.argv[2]))), sum(call.stats.cache_hits.values()))
"""


@pytest.fixture
def home(tmp_path):
    """Return a copy of the package with a kernel, its helper, and the helper's constant."""
    copy = tmp_path / "bayesfuse"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES.items():
        (copy / f"{name}.py").write_text(text)
    return copy


def start(home, value="2.0", script=SCRIPT, **environment):
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-B", "-c", script, str(home), value],
        env={**kept, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """Return what a process printed: the kernel's result and how often its code was kept."""
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    result, hits = printed.split()
    return float(result), int(hits)


def run(home, *arguments, **environment):
    return finish(start(home, *arguments, **environment))


def edit(file, old, new):
    text = file.read_text()
    times = file.stat()
    assert len(old) == len(new) and old in text
    file.write_text(text.replace(old, new))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # as an archive or Git may


def test_only_edits_of_files_that_kernels_draw_on_compile_again(home):
    """And folders of old sources do not pile up."""
    for age in range(9):
        old = home / "__pycache__" / f"bayesfuse-{age}"
        old.mkdir(parents=True)
        os.utime(old, (1e9 - age, 1e9 - age))
    assert run(home) == (21.0, 0)
    folders = {folder.name for folder in (home / "__pycache__").glob("bayesfuse-*")}
    assert {f"bayesfuse-{age}" for age in range(MAX_FOLDERS)} < folders
    assert len(folders) == MAX_FOLDERS + 1
    (home / "plots" / "labels.py").write_text("changed = True\n")
    assert run(home) == (21.0, 1)
    edit(home / "factors.py", "10.0", "30.0")
    assert run(home) == (61.0, 0)


@pytest.mark.slow
def test_a_named_tuple_may_move_to_another_file(home):
    assert run(home) == (21.0, 0)
    shutil.copy(home / "shapes.py", home.parent)
    (home / "elsewhere.py").write_text(FILES["shapes"])
    (home / "shapes.py").write_text("from bayesfuse.elsewhere import Point\n")
    edit(home / "helper.py", "+ 1", "+ 3")
    assert run(home) == (23.0, 0)
    shutil.copy(home.parent / "shapes.py", home / "shapes.py")
    edit(home / "helper.py", "+ 3", "+ 1")
    assert run(home) == (21.0, 1)  # what was compiled before is still there


@pytest.mark.slow
def test_reloaded_modules_are_compiled_as_they_are_now(home):
    script = SCRIPT + (
        "import importlib, pathlib, bayesfuse.caller as caller\n"
        "file = pathlib.Path(caller.__file__)\n"
        "file.write_text(file.read_text().replace('grow(point.x)', '-grow(point.x)'))\n"
        "print(importlib.reload(caller).call(Point(2.0)))\n"
    )
    process = start(home, script=script)
    printed, errors = process.communicate(timeout=300)
    assert printed.split() == ["21.0", "0", "-21.0"], errors
    assert run(home) == (-21.0, 0)


@pytest.mark.parametrize("first", ["nested(20.0, 1)", "total(20.0, 1)"])
def test_kernels_of_any_number_of_arguments_are_loaded_once(home, first):
    """Their arguments are of one type called by kernels, of another that looks alike by Python."""
    (home / "caller.py").write_text(
        "from bayesfuse.numerics.kernels import kernel\n"
        "@kernel\ndef total(*values):\n    x, number = values\n    return x + number\n"
        "@kernel\ndef nested(x, number):\n    return total(x, number)\n"
    )
    script = SCRIPT.partition("from bayesfuse.caller")[0] + (
        "from bayesfuse.caller import nested, total\n"
        "results = [eval(sys.argv[2]) for _ in range(3)]\n"
        "print(results[2], sum(total.stats.cache_hits.values()))\n"
    )
    assert run(home, first, script) == (21.0, 0)
    for code in ("nested(20.0, 1)", "total(20.0, 1)"):
        assert run(home, code, script)[0] == 21.0
        assert run(home, code, script)[1] <= 1


def test_nowhere_to_write_and_full_disks_lose_no_result(home):
    script = f"import os\ndef full(*_): raise OSError(28, 'full')\nos.replace = full\n{SCRIPT}"
    assert run(home, "2.0", script) == (21.0, 0)
    assert not list(home.rglob("*.nbc"))
    for cache in list(home.rglob("__pycache__")):
        shutil.rmtree(cache)
    for folder in [home, *(path for path in home.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("a file, in which no folder can be made")
    names = "HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"
    assert run(home, **dict.fromkeys(names, "/dev/null/nowhere")) == (21.0, 0)


@pytest.mark.slow
def test_damaged_files_are_compiled_again(home):
    assert run(home) == (21.0, 0)
    files = list((home / "__pycache__").glob("bayesfuse-*/*"))
    assert len(files) == 2  # the kernel and its helper
    for end in (0, 100, None):  # empty, cut, changed
        for file in files:
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 255
            file.write_bytes(data[:end])
        assert run(home) == (21.0, 0)
    assert run(home) == (21.0, 1)


@pytest.mark.slow
def test_several_processes_may_start_at_once(home):
    """Each with another signature: none takes the code of another."""
    expected = {"2.0": 21.0, "3": 31.0}
    started = [(start(home, value), result) for value, result in expected.items()]
    for process, result in started:
        assert finish(process) == (result, 0)
    for value, result in expected.items():
        assert run(home, value) == (result, 1)


def test_functions_outside_the_package_are_compiled_but_not_kept():
    @kernel
    def outside(x):
        return x + 1

    assert outside(1) == 2
    assert outside.stats.cache_path is None
