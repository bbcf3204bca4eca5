"""The package is whole however it is installed, its examples run, and its versions agree."""

import doctest
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

import bayesfuse
import bayesfuse.models
from bayesfuse.ensemble import schedule

ROOT = Path(__file__).parents[1]


def package_files(pattern):
    """Map each matching file of the packages to its place in a wheel."""
    homes = {ROOT / "bayesfuse": "bayesfuse", ROOT / "models": "bayesfuse/models"}
    return {
        f"{name}/{file.relative_to(home).as_posix()}"
        for home, name in homes.items()
        for file in home.rglob(pattern)
        if file.is_file() and "__pycache__" not in file.parts
    }


def modules():
    """Name every module of the package."""
    homes = {"bayesfuse": bayesfuse, "bayesfuse.models": bayesfuse.models}
    names = {
        module.name
        for name, home in homes.items()
        for module in pkgutil.walk_packages(home.__path__[:1], f"{name}.")
    }
    return sorted(names.union(homes) - {"bayesfuse.__main__"})


def test_every_package_folder_is_listed():
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {str(Path(file).parent).replace(os.sep, ".") for file in package_files("*.py")}
    assert folders == set(setuptools["packages"])
    assert {f"{folder.replace('.', '/')}/__init__.py" for folder in folders} <= package_files("*")


def test_a_checkout_is_whole_without_an_installation():
    says = (
        "import sys\n"
        "sys.meta_path = [each for each in sys.meta_path if 'Editable' not in repr(each)]\n"
        "import bayesfuse as bf; print(bf.models.__file__); bf.nothing"
    )
    told = {"capture_output": True, "text": True, "timeout": 300}
    run = subprocess.run([sys.executable, "-c", says], cwd=ROOT, **told)
    assert run.stdout.strip() == str(ROOT / "models/__init__.py")
    assert "module 'bayesfuse' has no attribute 'nothing'" in run.stderr


def test_models_have_one_name(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    with pytest.raises(ImportError, match=r"as bayesfuse\.models .* Got: import of 'models'"):
        importlib.import_module("models")


@pytest.fixture
def few_draws(monkeypatch):
    """So that ``bf.fuse`` ends soon, and does the same on any machine."""
    size = schedule.Size(20, 20)
    monkeypatch.setattr(
        schedule.Schedule, "size", lambda own, *_: size if own.seconds > 1 else None
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", modules())
def test_examples(name, few_draws):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed = doctest.testmod(importlib.import_module(name), optionflags=flags).failed
    plt.close("all")  # matplotlib warns of many open figures
    assert failed == 0


ROOMS = (
    "build checks datasets decisions errors io labels models moments parameters.contract plots "
    "priors raters testing"
)
PUBLIC = ["bayesfuse", *(f"bayesfuse.{name}" for name in ROOMS.split())]


def public():
    """Map the full names of everything that is public, but for modules, to the things."""
    found = {}
    for room in map(importlib.import_module, PUBLIC):
        for name in room.__all__:
            if not inspect.ismodule(thing := getattr(room, name)):
                found[f"{room.__name__}.{name}"] = thing
    return found


def test_every_public_room_is_asked_for_its_names():
    rooms = {name for name in modules() if name.count(".") < 2}
    with_names = {name for name in rooms if hasattr(importlib.import_module(name), "__all__")}
    assert with_names - set(PUBLIC) == {"bayesfuse.observation"}  # between the kernels and PyMC


def test_every_public_name_has_an_example():
    assert [name for name, thing in public().items() if ">>> " not in (thing.__doc__ or "")] == []


def test_every_public_name_is_in_the_reference():
    written = set()
    for page in (ROOT / "docs" / "reference").glob("*.rst"):
        for part in page.read_text().split(".. currentmodule:: ")[1:]:
            room, _, names = part.partition("\n")
            written.update(f"{room}.{name}" for name in re.findall(r"^   (\w+)$", names, re.M))
    named = public()
    missing = [name for name in written if name not in named]
    assert not missing, f"in the reference, but not public: {missing}"
    shown = {id(named[name]) for name in written}  # some names lead to one thing
    assert [name for name, thing in named.items() if id(thing) not in shown] == []


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # few draws mix badly, of which ArviZ warns
def test_readme_runs_from_the_first_line_to_the_last(tmp_path, monkeypatch, capsys, few_draws):
    monkeypatch.chdir(tmp_path)
    bayesfuse.datasets.anesthesia().to_frame().to_csv("table.csv", index=False)
    space = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        exec(block, space)
    said = capsys.readouterr().out
    assert "Suggested next steps" in said and "results = {}" in said
    assert Path("report.html").stat().st_size > 10_000
    assert bayesfuse.label_probabilities(space["result"]).sizes["item"] == 45
    plt.close("all")


@pytest.mark.slow
def test_sdist_and_wheel_are_whole(tmp_path):
    """The wheel is built from the sdist, so what it holds the sdist holds too."""
    tree = shutil.copytree(
        ROOT,
        tmp_path / "tree",
        ignore=shutil.ignore_patterns(
            ".git", ".venv", ".*_cache", "build", "dist", "*.egg-info", "__pycache__"
        ),
    )
    command = [sys.executable, "-m", "build", "--no-isolation", tree]
    subprocess.run(command, check=True, timeout=600)
    (wheel,) = (tree / "dist").glob("*.whl")
    (sdist,) = (tree / "dist").glob("*.tar.gz")

    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"Makefile", "LICENSE", "README.md", "CITATION.cff", "pyproject.toml", "docs/scale.md"}
    wanted |= {f".ci/{file.name}" for file in (tree / ".ci").iterdir()}
    assert wanted | {f"tests/{file.name}" for file in (tree / "tests").glob("*.py")} <= inside

    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert inside == package_files("*")
        assert "bayesfuse/py.typed" in inside
        archive.extractall(tmp_path / "site")
    where = "import bayesfuse.models as m; print(m.__file__)"
    run = subprocess.run(
        [sys.executable, "-c", where],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert Path(run.stdout.strip()) == tmp_path / "site/bayesfuse/models/__init__.py"


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci/release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path):
    """Make a copy of the files that state the version, with a date of release."""
    for name in ("bayesfuse/__init__.py", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changelog, citation = tmp_path / "CHANGELOG.md", tmp_path / "CITATION.cff"
    replace(changelog, changelog_date(changelog), "2031-02-03")
    lines = [line for line in citation.read_text().splitlines() if "date-released" not in line]
    citation.write_text("\n".join([*lines, "date-released: 2031-02-03", ""]))
    return tmp_path


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def changelog_date(path):
    heading = next(line for line in path.read_text().splitlines() if line.startswith("## "))
    return heading.partition("(")[2].rstrip(")")


def test_package_changelog_and_citation_state_one_version(release):
    assert release.check_versions(released=False) == bayesfuse.__version__
    assert all((ROOT / "tests" / name).exists() for name in release.OLDEST_TESTS)
    is_dated = changelog_date(ROOT / "CHANGELOG.md") != "unreleased"
    assert ("date-released:" in (ROOT / "CITATION.cff").read_text()) == is_dated


def test_a_dated_version_that_agrees_can_be_released(release, tree):
    assert release.check_versions(tree) == bayesfuse.__version__


VERSION = bayesfuse.__version__


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("CITATION.cff", f"version: {VERSION}", "version: 9.9.9", r"same version.*9\.9\.9"),
        ("CHANGELOG.md", f"## {VERSION}", "## 9.9.9", r"same version.*9\.9\.9"),
        ("CHANGELOG.md", "2031-02-03", "unreleased", r"has its date.*unreleased"),
        ("CITATION.cff", "2031-02-03", "2031-02-04", r"same date.*2031-02-04 and 2031-02-03"),
        ("CITATION.cff", "date-released", "released", r"CITATION\.cff has no line.*date-released"),
    ],
)
def test_versions_and_dates_that_disagree_are_refused(release, tree, file, old, new, message):
    replace(tree / file, old, new)
    with pytest.raises(release.ReleaseError, match=message):
        release.check_versions(tree)


def test_every_dependency_has_a_lower_bound(release, tree):
    pins = release.oldest_dependencies()
    assert len(pins) == len(release.project()["dependencies"])
    assert all(re.fullmatch(r"[a-z0-9]+==\d+(\.\d+)*", pin) for pin in pins), pins
    replace(tree / "pyproject.toml", "numpy>=2", "numpy")
    with pytest.raises(release.ReleaseError, match=r"written as name>=1\.2.*'numpy'"):
        release.oldest_dependencies(tree)


def test_the_oldest_python_declared_is_the_oldest_allowed(release):
    assert release.project()["requires-python"] == f">={release.declared_pythons()[0]}"


@pytest.mark.slow
def test_public_functions_have_types(tmp_path):
    """A user's script passes a strict type checker, which knows what functions return."""
    pytest.importorskip("mypy", reason="types are checked by mypy")
    (tmp_path / "bayesfuse").mkdir()
    for file in (ROOT / "bayesfuse").iterdir():
        (tmp_path / "bayesfuse" / file.name).symlink_to(file)
    (tmp_path / "bayesfuse" / "models").symlink_to(ROOT / "models")
    script = ROOT / "tests" / "shared" / "typed_script.py"
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--config-file=",
    ]
    command += [
        "--disable-error-code=import-untyped",
        "--cache-dir",
        str(ROOT / ".mypy_cache" / "strict"),
    ]
    run = subprocess.run([*command, script], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
