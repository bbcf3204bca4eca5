"""Version, dates and dependencies are stated once or agree, and what disagrees is refused."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

import bayesfuse

ROOT = Path(__file__).parents[1]


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
