"""The map of the house in CONTRIBUTING is true, and imports run one way."""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bayesfuse"

# Every room may import from the rooms before it.
ORDER = [
    ["errors"],
    ["numerics"],
    ["data"],
    ["parameters", "moments"],
    ["priors", "labels", "raters"],
    ["datasets", "observation"],
    ["pymc"],
    ["results"],
    ["inference"],
    ["testing", "checks", "decisions"],
    ["plots"],
    ["models"],
    ["answer"],
    ["command_line"],
    ["__main__"],
]
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}


def modules():
    for folder, prefix in ((PACKAGE, "bayesfuse"), (ROOT / "models", "bayesfuse.models")):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield path, ".".join((prefix, *parts)).removesuffix(".__init__")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def room(name):
    parts = name.split(".")
    return parts[1] if parts[0] == "bayesfuse" and len(parts) > 1 else None


def test_imports_run_one_way():
    broken = []
    for path, name in modules():
        own = room(name)
        if own is None:  # the package itself re-exports everything
            continue
        for other in map(room, imports(path)):
            if other in LEVEL and other != own and LEVEL[other] >= LEVEL[own]:
                broken.append(f"{name} imports from {other}")
    assert not broken, broken


def test_every_room_has_its_place_and_stands_on_the_map():
    rooms = {room(name) for _, name in modules()} - {None}
    assert rooms == set(LEVEL) & rooms, rooms - set(LEVEL)
    text = (ROOT / "CONTRIBUTING.md").read_text()
    written = set(re.findall(r"[`/]([a-z_]+)(?:\.py|/)`", text))
    assert rooms <= written, rooms - written


def test_moments_kernels_em_and_start_need_no_pymc():
    code = (
        "import sys, types, pathlib\n"
        f"package = types.ModuleType('bayesfuse'); package.__path__ = [{str(PACKAGE)!r}]\n"
        "sys.modules['bayesfuse'] = package\n"  # without its __init__, which imports the models
        "import bayesfuse.moments, bayesfuse.observation\n"
        "import bayesfuse.inference.em, bayesfuse.inference.start, bayesfuse.inference.cavi\n"
        "assert not {'pymc', 'pytensor', 'sklearn'} & set(sys.modules), 'heavy import'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_nothing_is_compiled_at_import_and_what_is_slow_comes_later():
    code = (
        "import numba.core.compiler as compiler\n"
        "def refuse(*args, **kwargs): raise AssertionError('compiled at import')\n"
        "compiler.compile_extra = refuse\n"
        "import sys, bayesfuse\n"
        "bayesfuse.sample, bayesfuse.models.DawidSkene\n"
        "later = {'scipy.special', 'scipy.sparse', 'bayesfuse.datasets', 'bayesfuse.plots'}\n"
        "assert not later & set(sys.modules), later & set(sys.modules)\n"
        "import bayesfuse.moments, bayesfuse.models, bayesfuse.testing\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_arguments_are_parsed_before_slow_imports():
    code = (
        "import sys, bayesfuse.__main__\n"
        "slow = {'numpy', 'pandas', 'numba', 'pymc', 'xarray'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_tests_mirror_the_package():
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert folders - {"docs"} <= set(LEVEL), folders - set(LEVEL)  # docs/ is no room
