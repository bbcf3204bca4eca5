"""What several test files share: the development data, and posteriors fitted once."""

import os
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pandas as pd
import pytest
from few_draws import few_draws

FLAGS = os.environ.get("PYTENSOR_FLAGS", "")
if "base_compiledir" not in FLAGS:  # PyTensor makes it in HOME at import, so HOME must be writable
    own = Path.home() / ".pytensor"
    try:
        tempfile.TemporaryFile(dir=own if own.exists() else own.parent).close()
    except OSError:
        cache = tempfile.TemporaryDirectory(prefix="pytensor-", ignore_cleanup_errors=True)
        os.environ["PYTENSOR_FLAGS"] = f"{FLAGS},base_compiledir={cache.name}".lstrip(",")

import bayesfuse as bf
from bayesfuse.models import DawidSkene
from bayesfuse.parameters.compiled import without_compilation

os.environ["MPLBACKEND"] = "Agg"  # a test opens no windows

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Run PyTensor's functions in Python, since compiling each takes seconds.

    Tests marked compiled or slow compile them as users do.
    """
    as_users_do = item.get_closest_marker("compiled") or item.get_closest_marker("slow")
    with nullcontext() if as_users_do else without_compilation():
        return (yield)


@pytest.fixture(scope="module", name="few_draws")
def answers_of_few_draws():
    with few_draws():
        yield


@pytest.fixture(autouse=True)
def close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def development_data():
    """A function from the name of a development set to its responses and truth."""

    def load(name: str) -> tuple[bf.Responses, pd.DataFrame | None]:
        folder = DATA / name
        if not folder.exists():
            pytest.skip(f"the development data {name!r} are not on this machine")
        responses = bf.Responses.from_long(pd.read_csv(folder / "responses.csv.gz"))
        truth = folder / "truth.csv.gz"
        return responses, pd.read_csv(truth) if truth.exists() else None

    return load


@pytest.fixture(scope="session")
def small():
    """An asymmetric table of three classes with missing and repeated responses, and gold."""
    made = bf.datasets.simulate_dawid_skene(60, 5, 3, per_item=3, random_seed=5)
    frame = made.responses.to_frame()
    frame = pd.concat([frame, frame.iloc[::7]])
    return bf.Responses.from_long(frame, items=range(62), raters=range(6), classes=range(3))


@pytest.fixture(scope="session")
def small_model(small):
    return DawidSkene(small, prevalence_prior=[1.0, 2.0, 3.0], gold={0: 1, 61: 2})


@pytest.fixture(scope="session")
def small_gibbs(small_model):
    return bf.sample(small_model, 4000, random_seed=2, progressbar=False, quiet=True)
