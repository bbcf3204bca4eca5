"""The map of the house is true, imports run one way, and names are the public ones."""

import ast
import inspect
import pydoc
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from pytensor.graph.traversal import ancestors
from pytensor.link.numba.dispatch.basic import numba_funcify_and_cache_key

import bayesfuse as bf

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
    ["results"],
    ["inference"],
    ["testing", "checks", "decisions"],
    ["plots"],
    ["models"],
    ["ensemble"],
    ["command_line"],
    ["__main__"],
]
FACE = {None, "build", "io"}  # the package itself, and modules that only re-export public names
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
        if own in FACE:
            continue
        for other in map(room, imports(path)):
            if other in FACE - {None}:
                broken.append(f"{name} imports from {other}")
            if other in LEVEL and other != own and LEVEL[other] >= LEVEL[own]:
                broken.append(f"{name} imports from {other}")
    assert not broken, broken


def test_every_room_has_its_place_and_stands_on_the_map():
    rooms = {room(name) for _, name in modules()} - {None}
    assert rooms - set(LEVEL) == FACE - {None}
    assert set(bf._ROOMS) <= rooms
    text = (ROOT / "CONTRIBUTING.md").read_text()
    written = set(re.findall(r"[`/]([a-z_]+)(?:\.py|/)`", text))
    assert rooms <= written, rooms - written


BARE = (
    "import sys, types, pathlib\n"
    f"package = types.ModuleType('bayesfuse'); package.__path__ = [{str(PACKAGE)!r}]\n"
    "sys.modules['bayesfuse'] = package\n"  # without its __init__, which imports the models
    "import bayesfuse.moments, bayesfuse.observation\n"
    "import bayesfuse.inference.em, bayesfuse.inference.start, bayesfuse.inference.cavi\n"
    "slow = {'pymc', 'pytensor', 'sklearn'}\n"
)
LAZY = (
    "import numba.core.compiler as compiler\n"
    "def refuse(*args, **kwargs): raise AssertionError('compiled at import')\n"
    "compiler.compile_extra = refuse\n"
    "import sys, bayesfuse\n"
    "bayesfuse.sample, bayesfuse.models.DawidSkene\n"
    "slow = {'scipy.special', 'scipy.sparse', 'bayesfuse.datasets', 'bayesfuse.plots'}\n"
    "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
    "import bayesfuse.moments, bayesfuse.models, bayesfuse.testing\n"
    "slow = set()\n"
)
PARSED = "import sys, bayesfuse.__main__\nslow = {'numpy', 'pandas', 'numba', 'pymc', 'xarray'}\n"


@pytest.mark.parametrize("code", [BARE, LAZY, PARSED], ids=["numbers", "the package", "arguments"])
def test_what_is_slow_is_imported_and_compiled_only_when_needed(code):
    code += "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_tests_mirror_the_package():
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert folders - {"docs"} <= set(LEVEL), folders - set(LEVEL)  # docs/ is no room


MAX_PRIVATE_MODULES = 40
"""Modules that are not public and that tests import: factors, kernels and fits, mostly."""


IMPORT = re.compile(r"^ *from (bayesfuse[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


def modules_used(path, known):
    """Yield the modules of the package that a file imports, or takes names from."""
    for module, names in IMPORT.findall(path.read_text()):
        for name in names.strip("()").split(","):
            full = f"{module}.{name.strip().partition(' ')[0]}"
            yield full if full in known else module


def test_tests_go_through_the_public_face():
    """What only factors and kernels show is tested there; all else as users meet it."""
    known = {name for _, name in modules()}
    used = {name for path in (ROOT / "tests").rglob("*.py") for name in modules_used(path, known)}
    public = {"bayesfuse", "bayesfuse.__main__", *(f"bayesfuse.{name}" for name in SUBMODULES)}
    assert len(used & known - public) <= MAX_PRIVATE_MODULES, sorted(used & known - public)


SUBMODULES = [name for name in bf.__all__ if isinstance(getattr(bf, name), types.ModuleType)]


def test_names_are_the_public_ones():
    assert set(dir(bf)) == {*bf.__all__, "__version__"}
    assert len(bf.__all__) <= 32 and set(bf.build.__all__).isdisjoint(bf.__all__)
    assert {"build", "checks", "decisions", "io", "models", "moments", "plots"} < set(SUBMODULES)
    for name in SUBMODULES:
        module = getattr(bf, name)
        assert dir(module) == sorted(module.__all__)
        assert all(hasattr(module, public) for public in module.__all__)


@pytest.mark.parametrize("place", ["build", "models", "io", "checks", "decisions", "priors"])
def test_errors_name_the_module_of_a_name(place):
    module = getattr(bf, place)
    for name in set(module.__all__).difference(bf.__all__):
        words = rf"it is bf\.{place}\.{name}$"
        if place in ("build", "io") or name in bf._MOVED:
            with pytest.warns(FutureWarning, match=words):
                assert getattr(bf, name) is getattr(module, name)
        else:
            with pytest.raises(AttributeError, match=words):
                getattr(bf, name)


@pytest.mark.parametrize("name", bf.models.__all__)
def test_help_of_a_model_begins_with_its_own_arguments(name):
    model = getattr(bf.models, name)
    lines = pydoc.plain(pydoc.render_doc(model)).splitlines()
    begun = re.sub(r"\s*\|?\s+", " ", " ".join(lines[3:6]))  # Python 3.13 breaks long lines
    assert re.search(r"\( ?responses: ", begun) and "*args" not in begun
    parameters = inspect.signature(model).parameters
    assert "self" not in parameters
    explained = pydoc.getdoc(model).partition("Parameters\n")[2].partition("\nRaises\n")[0]
    for parameter in parameters:
        assert re.search(rf"^(\w+, )*{parameter}(, \w+)* : ", explained, re.MULTILINE), parameter


def test_graphs_are_compiled_anew_when_kernels_are(monkeypatch):
    """PyTensor keeps compiled graphs by a key, in which the kernels' helpers must be."""
    density = bf.models.DawidSkene(bf.datasets.anesthesia()).logp()
    nodes = [variable.owner for variable in ancestors([density]) if variable.owner is not None]
    (node,) = {node for node in nodes if type(node.op).__name__ == "Evidence"}

    def key():
        return numba_funcify_and_cache_key(node.op, node=node)[1]

    monkeypatch.setattr("bayesfuse.observation.numba.DIGEST", "of other sources")
    other = key()
    monkeypatch.undo()
    assert key() == key() != other and None not in (key(), other)
