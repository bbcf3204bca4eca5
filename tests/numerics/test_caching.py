"""Compiled kernels are kept between processes, and never after their sources have changed."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bayesfuse.numerics.caching import FOLDERS_KEPT
from bayesfuse.numerics.kernels import kernel

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
    assert {f"bayesfuse-{age}" for age in range(FOLDERS_KEPT)} < folders
    assert len(folders) == FOLDERS_KEPT + 1
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


@pytest.mark.slow
def test_a_package_in_an_archive_is_kept_too(home, tmp_path):
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}

    def pack():
        archive = tmp_path / "site.zip"
        with zipfile.ZipFile(archive, "w") as packed:
            for file in home.rglob("*.py"):
                packed.write(file, f"lib/bayesfuse/{file.relative_to(home).as_posix()}")
        return archive / "lib" / "bayesfuse"

    assert run(pack(), **cache) == (21.0, 0)
    assert run(pack(), **cache) == (21.0, 1)
    edit(home / "helper.py", "+ 1", "+ 5")
    assert run(pack(), **cache) == (25.0, 0)


def test_functions_outside_the_package_are_compiled_but_not_kept():
    @kernel
    def outside(x):
        return x + 1

    assert outside(1) == 2
    assert outside.stats.cache_path is None
