"""Ctrl-C and deadlines: what is left of a fit, and how soon."""

import importlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.numerics import threads
from bayesfuse.numerics.threads import Interruption, TimeIsUp, check, deadline, extension

QUIET = {"progressbar": False, "quiet": True}

TRIALS = r"""
import json, os, signal, sys, threading, time, warnings
import numpy as np
import bayesfuse as bf

warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
crowd = bf.datasets.simulate_dawid_skene(3000, 20, 3, per_item=5, random_seed=1)
model = bf.models.DawidSkene(crowd.responses)
typed = bf.models.ItemTypes(crowd.responses)
fitted = bf.sample(model, 50, random_seed=1, progressbar=False)
groups = {name: "ab"[number % 2] for number, name in enumerate(crowd.responses.items)}
quiet = {"progressbar": False, "random_seed": 1}


def again(function):
    def work():
        while True:
            function()
    return work


calls = {
    "sample": lambda: bf.sample(model, 10**5, **quiet),
    "sample types": lambda: bf.sample(typed, 10**5, **quiet),
    "fit": again(lambda: bf.fit(model, draws=100, **quiet)),
    "find_map": again(lambda: bf.find_map(model)),
    "fuse": lambda: bf.fuse(crowd.responses, minutes=5, **quiet),
    "predict": again(lambda: bf.predict(fitted, crowd.responses)),
    "class_shares": again(lambda: bf.class_shares(fitted, groups)),
    "draw_labels": again(lambda: bf.draw_labels(fitted, model, 200, random_seed=1)),
}
rng = np.random.default_rng(int(sys.argv[1]))
for name, call in calls.items():
    for wait in rng.uniform(0.1, 2.5, 3):
        pressed = []
        def press():
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        timer = threading.Timer(wait, press)
        try:
            timer.start()
            result = call()
            whole = result.attrs["interrupted"] == 1 and "label_posterior" in result.children
            said = "result" if whole else f"incomplete {result.attrs}"
        except BaseException as error:
            said = type(error).__name__
        print(json.dumps([name, wait, time.monotonic() - pressed[0], said]), flush=True)
"""


@pytest.mark.slow
def test_ctrl_c_at_any_time_leaves_a_result_or_nothing_within_seconds():
    """Within two seconds on an idle machine; others may run beside this one."""
    command = [sys.executable, "-c", TRIALS, str(time.time_ns() % 10**6)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    trials = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(trials) == 24, done.stderr
    assert {said for *_, said in trials} <= {"result", "KeyboardInterrupt"}, trials
    busy = max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0)
    assert np.median([seconds for _, _, seconds, _ in trials]) < 2.0 * busy, trials


@pytest.fixture
def handled():
    """Handle Ctrl-C as in a terminal: background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("module", ["namedtuple_interface", "threading"])
def test_delicate_code_is_not_disturbed(handled, module):
    """Numba reads a named tuple of NumPy's random numbers, and ignores exceptions there."""
    Pair = namedtuple("Pair", "one other")
    source = {"__name__": module, "press": press}
    exec("def read():\n    press()", source)
    reached = []
    with pytest.raises(KeyboardInterrupt), Interruption() as interruption:
        source["read"]()
        reached.append(Pair(interruption.presses, interruption.requested))
        check()
    assert reached == [(1, True)]


def test_modules_are_imported_whole(handled, tmp_path, monkeypatch):
    """Some packages cannot be imported again after an interrupted import."""
    lines = "import signal", "signal.raise_signal(signal.SIGINT)", "last = 1"
    (tmp_path / "pressed_while_imported.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    reached = []
    with pytest.raises(KeyboardInterrupt), Interruption():
        reached.append(importlib.import_module("pressed_while_imported").last)
        check()
    assert reached == [1]


def test_a_press_that_nothing_noticed_is_not_lost(handled):
    source = {"__name__": "numba.core.typing", "press": press}
    exec("def read():\n    press()", source)
    with pytest.raises(KeyboardInterrupt), Interruption():
        source["read"]()


def test_what_fails_after_a_press_is_an_interruption(handled):
    """As where PyMC has no draws, or numba returns with an exception set."""
    with pytest.raises(KeyboardInterrupt), Interruption():
        try:
            press()
        except KeyboardInterrupt as error:
            raise SystemError("a kernel returned a result with an exception set") from error


def test_presses_end_work_in_all_threads(handled):
    started = threading.Barrier(3)

    def work(_):
        started.wait()
        while True:
            check()

    with pytest.raises(KeyboardInterrupt), Interruption(), threads.threads(2):
        threading.Thread(target=lambda: (started.wait(), press_main())).start()
        threads.side_by_side(work, range(2))


def press_main():
    os.kill(os.getpid(), signal.SIGINT)


def test_a_handler_of_the_user_decides():
    noted = []
    before = signal.signal(signal.SIGINT, lambda *_: noted.append(1))
    try:
        with Interruption() as interruption:
            press()
            check()
        assert noted == [1] and not interruption.requested
    finally:
        signal.signal(signal.SIGINT, before)


def test_deadlines_hold_within_others_and_end_after_an_extension():
    with deadline(math.inf), deadline(-1.0):
        with pytest.raises(TimeIsUp):
            check()
        with extension(9.0):
            assert check() and 8.0 < threads.seconds_left() <= 9.0
    assert check()


@pytest.fixture(scope="module")
def model():
    return bf.models.DawidSkene(bf.datasets.anesthesia())


def test_draws_until_a_deadline_have_labels(model):
    """In any thread, where no signal arrives."""

    def draw():
        options = {"chains": 2, "sweeps": 100, "tune": 0, "start": "prior", "random_seed": 1}
        for seconds in (1.0, 4.0, 16.0):  # a busy machine has no draws in the first
            with suppress(TimeIsUp), deadline(seconds):
                return bf.sample(model, 10**5, **options, **QUIET)

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(draw).result()
    sizes = result["posterior"].sizes
    assert 0 < sizes["draw"] < 10**5 and result.attrs["interrupted"] == 1
    assert np.allclose(result["label_posterior"]["probability"].sum("class"), 1.0)
    assert {"sensitivity"} <= set(result["posterior"].data_vars)


def test_a_press_after_sampling_thins_what_follows(model, handled, monkeypatch):
    """Label probabilities are those of some draws, and log likelihoods are left out."""
    monkeypatch.setattr("bayesfuse.inference.mcmc.adds_labels", lambda *_: False)
    summary = sys.modules["bayesfuse.results.label_summary"].LabelSummary
    compute, calls = summary.compute, []

    def pressed(*arguments, seconds, **others):
        calls.append(seconds)
        if len(calls) == 1:
            press()
        return compute(*arguments, seconds=1e-9, **others)

    monkeypatch.setattr(summary, "compute", pressed)
    result = bf.sample(model, 400, chains=2, random_seed=1, **QUIET)
    assert len(calls) == 2 and calls[0] == math.inf > calls[1]
    assert result.attrs["interrupted"] == 1 and result.attrs["missing"] == "log_likelihood"
    assert result["posterior"].sizes["draw"] == 400
    whole = bf.sample(model, 400, chains=2, random_seed=1, **QUIET)
    assert whole["posterior"]["confusion"].equals(result["posterior"]["confusion"])
    probability = result["label_posterior"]["probability"]
    assert np.allclose(probability.sum("class"), 1.0)
    assert (probability - whole["label_posterior"]["probability"]).mean() < 0.1
    assert bf.label_probabilities(result, model).shape == (45, 4)
