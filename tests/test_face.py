"""What a newcomer sees of the package: its names, and the help of its models."""

import inspect
import pydoc
import re
import sys
import types

import pytest

import bayesfuse as bf
from bayesfuse.pymc.numba import _key

SUBMODULES = [name for name in bf.__all__ if isinstance(getattr(bf, name), types.ModuleType)]


def test_names_are_the_public_ones():
    assert set(dir(bf)) == {*bf.__all__, "__version__"}
    assert {"checks", "decisions", "models", "moments", "plots"} < set(SUBMODULES)
    for name in SUBMODULES:
        module = getattr(bf, name)
        assert dir(module) == sorted(module.__all__)
        assert all(hasattr(module, public) for public in module.__all__)


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
    kernel = bf.Confusion.likelihood_kernel
    before = _key("op", kernel)
    assert _key("op", kernel) == before
    monkeypatch.setattr("bayesfuse.pymc.numba.DIGEST", "of other sources")
    assert _key("op", kernel) not in (before, None)


def test_kernels_without_a_file_are_not_kept(monkeypatch):
    """Those of a notebook, whose source is nowhere to read."""
    monkeypatch.setitem(sys.modules, "typed", types.ModuleType("typed"))
    defined = {"__name__": "typed"}
    exec("def likelihood(x): return x", defined)
    assert _key("op", types.SimpleNamespace(py_func=defined["likelihood"])) is None
