"""How does the package handle odd inputs and faults: correctly, by a clear error, or wrongly?

Correct results agree with enumeration, with another route to the same number, or survive a round
trip; a clear error is one of `bayesfuse.errors` that ends with what it got. Anything else is wrong:
another exception, a result where an error is due, a NumPy warning. Odd arguments are generated from
the signatures of all public functions; none may give a result, unless the function declares it.

    python benchmarks/faults.py [--quick] [--only TEXT] [--all]
"""

from __future__ import annotations

import inspect
import time
import types
import warnings
from collections import Counter
from functools import partial

import numpy as np
from _fault_answers import answers
from _fault_arguments import fitted, made, valid
from _fault_cases import lost, mathematics, posteriors
from _fault_tables import class_names, columns_and_headings, known_labels, positive_classes
from _shared import Arguments
from matplotlib import pyplot as plt

import bayesfuse as bf
from bayesfuse.models import (
    DawidSkene,
)

CLEAR = tuple(
    error for name in dir(bf.errors) if issubclass(error := getattr(bf.errors, name), ValueError)
)
ODD = {
    "None": None,
    "a word": "no such word",
    "−1": -1,
    "0.5": 0.5,
    "NaN": float("nan"),
    "∞": float("inf"),
    "[]": [],
}
APART = 60
"""Quick runs take one case in so many."""

FOREIGN = {
    "progressbar",
    "kwargs",
    "settings",
    "ax",
    "axes",
    "figure",
    "self",
}  # PyMC's, matplotlib's and pandas' to judge, or keywords of another function


def main():
    """Run every case, print the outcomes, and fail if one is wrong."""
    arguments = Arguments(__doc__, f"one case in {APART} of each kind")
    arguments.add_argument("--only", default="", help="cases whose kind and name have this text")
    arguments.add_argument("--all", action="store_true", help="also print the cases handled well")
    given = arguments.parse_args()
    begun, counted = time.perf_counter(), Counter()
    for kind in KINDS:
        cases = [case for case in kind() if given.only in f"{kind.__name__}: {case[0]}"]
        for name, run, expected in cases[:: APART if given.quick else 1]:
            said = answer(run, expected)
            counted[kind.__name__, said.partition(":")[0]] += 1
            if given.all or said.startswith("WRONG"):
                print(f"{name}: {said}", flush=True)
    for (kind, said), number in sorted(counted.items()):
        print(f"{kind:20} {said:12} {number}")
    print(f"{counted.total()} cases in {time.perf_counter() - begun:.0f} s")
    if wrong := sum(number for (_, said), number in counted.items() if said == "WRONG"):
        raise SystemExit(f"{wrong} cases went wrong.")


def answer(run, expected):
    """Return the outcome of a case: right, clear error, or WRONG and why."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            run()
        except CLEAR as error:
            if "Got:" not in str(error):
                return f"WRONG: an error that does not say what it got: {short(error)}"
            return f"WRONG: {short(error)}" if expected == "right" else "clear error"
        except AssertionError as error:
            return f"WRONG: {short(error)}"
        except Exception as error:  # whatever it is, it is to be listed
            return f"WRONG: {type(error).__name__}: {short(error)}"
        finally:
            plt.close("all")
    for warning in caught:
        if issubclass(warning.category, RuntimeWarning):
            return f"WRONG: warned: {short(warning.message)}"
    return "WRONG: no error" if expected == "error" else "right"


def short(message):
    """Return the first line of a message."""
    return (str(message).splitlines() or [""])[0][:150]


def columns():
    """Yield tables of every dtype: the unambiguous must be read, the others refused."""
    plain = np.array([[0, 1], [1, 1], [0, 0]])
    expected = bf.Responses.from_matrix(plain)
    for dtype in ("int8", "uint8", "uint64", "float16", "float32", "float64", "longdouble", ">i4"):
        yield f"matrix of {dtype}", partial(same, plain.astype(dtype), expected), "right"
    for dtype in ("complex128", "S1", "M8[D]", "V8"):
        run = partial(bf.Responses.from_matrix, plain.astype("int64").astype(dtype))
        yield f"matrix of {dtype}", run, "either"
    for title, matrix in {
        "ragged": [[0, 1], [1]],
        "no columns": np.empty((3, 0)),
        "no rows": np.empty((0, 3)),
        "three axes": np.zeros((2, 2, 2)),
        "one class": np.zeros((2, 2)),
        "infinite": np.array([[0, np.inf], [1, 0]]),
        "nested": np.array([[[0], 1], [1, 0]], dtype=object),
        "fractions": np.array([[0.5, 1], [1, 0.25]]),
        "a number": 5,
        "text": "0110",
    }.items():
        yield f"matrix: {title}", partial(bf.Responses.from_matrix, matrix), "either"
    for title, counts in {
        "negative": {"01": -1, "10": 2},
        "fractions": {"01": 0.5, "10": 2},
        "beyond 2⁶³": {"01": 2**63, "10": 2},
        "zero": {"01": 0, "10": 0},
        "unequal": {"01": 1, "1": 2},
        "NaN": {"01": float("nan"), "10": 2},
    }.items():
        yield f"counts: {title}", partial(bf.Responses.from_counts, counts), "error"


def same(matrix, expected):
    """Check that a matrix is read as its integers."""
    found = bf.Responses.from_matrix(matrix)
    assert found.n_classes == expected.n_classes, f"{found.n_classes} classes"
    assert found.cell.tolist() == expected.cell.tolist(), "other labels"


def call(home, name, /, **odd):
    """Call a public function with valid arguments, but for odd ones."""
    return getattr(home, name)(**{**valid(home, name), **odd})


LEFT_OUT = {  # need what a signature does not say: an open model, or the table of a check
    "build.observe",
    "build.dirichlet",
    *(f"io.{of}" for of in ("read_conll", "write_conll", "read_verdicts", "label_partitions")),
    *(f"io.{of}" for of in ("read_spans", "token_features")),
    "bayesfuse.load",
    "moments.transition",
    "priors.mixture",
    *(
        f"plots.plot_{of}"
        for of in (
            "check",
            "dependence",
            "ranks",
            "grid",
            "class_shares",
            "panel",
            "known_labels",
            "differences",
        )
    ),
}


def odd_arguments():
    """Yield every public function with one invalid argument, and one valid call."""
    homes = "build checks decisions io moments plots datasets priors".split()
    for home in (bf, *(getattr(bf, name) for name in homes)):
        for function in dir(home):
            name = f"{home.__name__.removeprefix('bayesfuse.')}.{function}"
            if name in LEFT_OUT or not isinstance(getattr(home, function), types.FunctionType):
                continue
            yield f"{name}()", partial(call, home, function), "right"
            for key, parameter in inspect.signature(getattr(home, function)).parameters.items():
                for odd, value in ODD.items() if key not in FOREIGN else ():
                    run = partial(call, home, function, **{key: value})
                    expected = "either" if makes_sense(parameter, value) else "error"
                    yield f"{name}({key}={odd})", run, expected


def makes_sense(parameter, value):
    """Tell whether a function declares that it takes such a value."""
    if parameter.name == "outside":  # the name of a class that need not be there
        return True
    declared = str(parameter.annotation)
    if value is None:
        return parameter.default is None or "None" in declared or parameter.name == "random_seed"
    if value == [] and parameter.name in ("batches", "groups", "chosen"):  # there may be none
        return True
    if parameter.name == "random_seed":  # NumPy's generators take a list of numbers, even of none
        return value == []
    number = isinstance(value, int | float)
    return number and 0 < value < 1 and "float" in declared


def use(function, broken, other):
    """Call a function with something in place of a result, and the model of other responses."""
    model, result = fitted("DawidSkene")
    function(broken(result), DawidSkene(other(model.responses)))


def strangers():
    """Yield results with models of other data: other items, raters, classes or labels."""
    others = {
        "other labels": lambda own: own.relabelled((own.label + 1) % 3),
        "other items": lambda own: made(29, 5, 3),
        "other raters": lambda own: made(30, 4, 3),
        "other classes": lambda own: made(30, 5, 2),
    }
    results = {
        "a dataset": lambda result: result["posterior"].dataset,
        "without a posterior": lambda result: result.filter(lambda node: "probability" in node),
        "nothing": lambda result: None,
    }
    few = {"draws": 5, "random_seed": 1}
    uses = {
        "decode": bf.decode,
        "draw_labels": partial(bf.draw_labels, **few),
        "expected_errors": partial(bf.decisions.expected_errors, **few),
        "value_of_response": partial(bf.decisions.value_of_response, repeats=True),
        "item_difficulty": partial(bf.checks.item_difficulty, **few),
        "pairwise_agreement": partial(bf.checks.pairwise_agreement, **few),
        "conditional_dependence": partial(bf.checks.conditional_dependence, **few),
        "align_labels": bf.checks.align_labels,
    }
    for name, function in uses.items():
        for title, other in others.items():
            run = partial(use, function, lambda result: result, other)
            yield f"{name}: a model of {title}", run, "error"
        for title, broken in results.items():
            run = partial(use, function, broken, lambda own: own)
            yield f"{name}: {title} as a result", run, "error"


KINDS = (
    *(mathematics, posteriors, lost, columns, columns_and_headings, class_names),
    *(positive_classes, known_labels, answers, strangers, odd_arguments),
)


if __name__ == "__main__":
    main()
