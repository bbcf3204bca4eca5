"""Try everything that must work before a release, step by step; ``make release`` runs this.

``--rehearsal`` allows uncommitted changes and a version that has no date yet. Steps that are named
run alone, after a build: ``.ci/release.py oldest docs``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PACKAGES = {"bayesfuse/": "bayesfuse/", "models/": "bayesfuse/models/"}
"""Folders of the checkout, and their places in the wheel."""

OLDEST_TESTS = ["data", "observation", "results", "plots", "ensemble", "command_line"]
"""Tests that the oldest dependencies must pass: those that use most of other libraries."""

IMPORTS = """
from importlib.metadata import version
import bayesfuse as bf, bayesfuse.testing
print(bf.models.DawidSkene(bf.datasets.anesthesia()), bf.plots.__all__, bf.decisions.__all__)
assert version("bayesfuse") == bf.__version__, version("bayesfuse")
print("bayesfuse", bf.__version__, "from", bf.__file__)
"""


class ReleaseError(Exception):
    """What keeps this version from being released."""


def project(root: Path = ROOT) -> dict:
    """Return the table [project] of pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


def found(pattern: str, path: Path) -> re.Match[str]:
    """Return the first match of a pattern in a file."""
    if match := re.search(pattern, path.read_text(), re.MULTILINE):
        return match
    raise ReleaseError(f"{path.name} has no line that matches {pattern!r}.")


def check_versions(root: Path = ROOT, *, released: bool = True) -> str:
    """Return the version if package, changelog and citation agree on it, and on the date."""
    package = found(r'^__version__ = "(.+)"$', root / "bayesfuse/__init__.py")[1]
    changelog = found(r"^## (\S+) \((.+)\)$", root / "CHANGELOG.md")
    citation = root / "CITATION.cff"
    versions = {
        "bayesfuse/__init__.py": package,
        "CHANGELOG.md": changelog[1],
        "CITATION.cff": found(r"^version: (\S+)$", citation)[1],
    }
    if len(set(versions.values())) > 1:
        raise ReleaseError(f"The files must state the same version. Got: {versions}.")
    if not re.fullmatch(r"\d+\.\d+\.\d+", package):
        raise ReleaseError(f"A version has three numbers, as 1.2.3. Got: {package!r}.")
    if not released:
        return package
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", changelog[2]):
        raise ReleaseError(
            f"A released version has its date in CHANGELOG.md. Got: {changelog[0]!r}."
        )
    date = found(r"^date-released: (\S+)$", citation)[1]
    if date != changelog[2]:
        raise ReleaseError(
            "CITATION.cff and CHANGELOG.md must state the same date. "
            f"Got: {date} and {changelog[2]}."
        )
    return package


def oldest_dependencies(root: Path = ROOT) -> list[str]:
    """Pin every dependency to its lower bound in pyproject.toml."""
    pins = []
    for requirement in project(root)["dependencies"]:
        bound = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement)
        if not bound:
            raise ReleaseError(f"Dependencies are written as name>=1.2. Got: {requirement!r}.")
        pins.append(f"{bound[1]}=={bound[2]}")
    return pins


def declared_pythons(root: Path = ROOT) -> list[str]:
    """Return the versions of Python that the classifiers name, the oldest first."""
    prefix = "Programming Language :: Python :: 3."
    minors = [
        int(classifier.removeprefix(prefix))
        for classifier in project(root)["classifiers"]
        if classifier.startswith(prefix)
    ]
    return [f"3.{minor}" for minor in sorted(minors)]


def check_contents(files: set[str], sdist: Path, wheel: Path) -> None:
    """Raise unless the sdist has all files of the checkout, and the wheel the packages alone."""
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    if missing := {file for file in files if not file.startswith(".git")} - inside:
        raise ReleaseError(f"The sdist must hold every file, see MANIFEST.in. Missing: {missing}.")
    wanted = {
        place + file.removeprefix(folder)
        for folder, place in PACKAGES.items()
        for file in files
        if file.startswith(folder)
    }
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    if inside != wanted:
        raise ReleaseError(
            "The wheel must hold the packages and nothing else. "
            f"Missing: {wanted - inside}; not wanted: {inside - wanted}."
        )


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Show and run a command, in which no checkout is in Python's path."""
    words = list(map(str, command))
    print("$", *words, flush=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    status = subprocess.run(words, cwd=cwd, env=environment | {"PYTHONSAFEPATH": "1"}).returncode
    if status:
        raise ReleaseError(f"This command must succeed. Got: status {status} of {' '.join(words)}.")


def said(*command: str | Path) -> str:
    """Return what a command prints."""
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def make_environment(folder: Path, python: str | Path, *packages: str | Path) -> Path:
    """Make a virtual environment with packages that need no compiler, and return its Python."""
    run(python, "-m", "venv", folder)
    new = folder / "bin/python"
    pip = (new, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, "--upgrade", "pip")
    run(*pip, "--only-binary", ":all:", *packages)
    return new


def built(pattern: str) -> Path:
    """Return the one file in dist/ of that name."""
    files = sorted(DIST.glob(pattern))
    if len(files) != 1:
        raise ReleaseError(f"dist/ must hold one {pattern}, made by the step build. Got: {files}.")
    return files[0]


def pythons() -> dict[str, str]:
    """Return an interpreter of every version of Python found on this machine."""
    print_version = "import sys; print('%d.%d' % sys.version_info[:2])"
    interpreters: dict[str, str] = {}
    for path in said("sh", ".ci/find-python", "--all").splitlines():
        interpreters.setdefault(said(path, "-c", print_version).strip(), path)
    if missing := set(declared_pythons()) - set(interpreters):
        raise ReleaseError(
            "Every Python that pyproject.toml declares must be tried. "
            f"Missing: {sorted(missing)}; found: {interpreters}."
        )
    return interpreters


def step_tree(_: Path, rehearsal: bool) -> None:
    """Nothing is uncommitted, so that the tag names what is released."""
    changes = said("git", "status", "--porcelain")
    if changes and not rehearsal:
        raise ReleaseError(f"Commit or remove all changes first. Got:\n{changes}")


def step_versions(_: Path, rehearsal: bool) -> None:
    """Package, changelog and citation agree on version and date."""
    print(check_versions(released=not rehearsal))


def step_statistics(_: Path, __: bool) -> None:
    """Calibration, alarm rates and coverage are measured whole; their tables are kept."""
    alone = ("env", "-u", "PYTHONSAFEPATH", sys.executable)  # benchmarks import their neighbours
    run(*alone, "benchmarks/run.py", "--write", "calibration", "alarms", "interval_coverage")


def step_build(folder: Path, _: bool) -> None:
    """Sdist and wheel are built from the files that Git knows, and are whole."""
    listed = said("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    files = {file for file in listed.split("\0") if file and (ROOT / file).is_file()}
    for file in files:
        (folder / "tree" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, folder / "tree" / file)
    tools = make_environment(folder / "tools", sys.executable, "build", "twine")
    shutil.rmtree(DIST, ignore_errors=True)
    run(tools, "-m", "build", "--outdir", DIST, folder / "tree")
    check_contents(files, built("*.tar.gz"), built("*.whl"))
    run(tools, "-m", "twine", "check", "--strict", built("*.tar.gz"), built("*.whl"))


def step_install(folder: Path, _: bool) -> None:
    """The wheel works outside the checkout, with the newest dependencies, in every Python found."""
    for version, python in pythons().items():
        print(f"-- Python {version}")
        new = make_environment(folder / version, python, built("*.whl"))
        run(new, "-c", IMPORTS, cwd=folder)
        run(new, "-m", "bayesfuse", "demo", cwd=folder)


def step_oldest(folder: Path, _: bool) -> None:
    """The tests pass with the oldest dependencies, in the oldest Python."""
    python = pythons()[declared_pythons()[0]]
    pins = oldest_dependencies()
    new = make_environment(folder / "oldest", python, built("*.whl"), "pytest", *pins)
    with tarfile.open(built("*.tar.gz")) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.glob("bayesfuse-*")
    # Old versions call what newer versions of their own dependencies deprecate.
    quiet = ("-W", "ignore::DeprecationWarning", "-W", "ignore::FutureWarning")
    tests = [Path("tests") / name for name in OLDEST_TESTS]
    run(new, "-m", "pytest", "-q", "-m", "not slow", *quiet, *tests, cwd=tree)


def step_docs(_: Path, __: bool) -> None:
    """The documentation is built without warnings."""
    run("make", "docs")


STEPS: dict[str, Callable[[Path, bool], None]] = {
    "tree": step_tree,
    "versions": step_versions,
    "statistics": step_statistics,  # before the build: an sdist holds the tables
    "build": step_build,
    "install": step_install,
    "oldest": step_oldest,
    "docs": step_docs,
}


def main() -> int:
    """Run the steps and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "steps", nargs="*", metavar="step", help=f"of {', '.join(STEPS)}; default all"
    )
    parser.add_argument(
        "--rehearsal", action="store_true", help="before all is committed and dated"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.steps) - set(STEPS):
        parser.error(f"steps are {', '.join(STEPS)}. Got: {', '.join(sorted(unknown))}.")
    for name in arguments.steps or STEPS:
        print(f"\n== {name}: {STEPS[name].__doc__}", flush=True)
        try:
            with tempfile.TemporaryDirectory() as folder:
                STEPS[name](Path(folder), arguments.rehearsal)
        except ReleaseError as error:
            print(f"\nNot ready, step {name}: {error}", file=sys.stderr)
            return 1
    if arguments.steps or arguments.rehearsal:
        print("\nThese steps passed. Before a release all of them must, without --rehearsal.")
    else:
        print("\nReady: commit benchmarks/results, tag that, and upload what is in dist/.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
