"""``bf.fuse`` where fits end early: by Ctrl-C, or because the data rule a model out."""

import signal
from contextlib import suppress
from importlib import import_module

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.ensemble.schedule import Schedule, Size
from bayesfuse.errors import ImpossibleDataError, ModelError, QuickAnswerWarning
from bayesfuse.models import DawidSkene

pytestmark = pytest.mark.usefixtures("few_draws", "shared_errors")
QUIET = {"random_seed": 5, "minutes": 10, "progressbar": False}
INDEPENDENCE = "bayesfuse.ensemble.evidence.Evidence.independence"


def raises(error):
    raise error


def test_interrupting_keeps_what_is_complete(crowd, fitted):
    fitted(**{"even guesses": lambda: raises(KeyboardInterrupt)})
    told = bf.fuse(crowd.responses, **QUIET)
    assert told.attrs["interrupted"] == 1
    assert told.attrs["models"] == ["consensus", "vote shares"]
    outcomes = told["comparison"]["outcome"].to_series()
    assert outcomes["even guesses"] == "interrupted"
    assert outcomes["competing classes"] == "not tried"


def test_raters_are_judged_by_fewer_draws_in_haste(crowd, fitted, monkeypatch):
    """Counting responses for every draw takes long in large tables."""
    table = crowd.responses
    of_draw = table.n_responses + 30.0 * table.n_raters * table.n_classes
    monkeypatch.setattr("bayesfuse.results.abilities.MOST", 8.0 * 60.5 * of_draw)
    sizes = []
    for others in ({}, {"even guesses": lambda: raises(KeyboardInterrupt)}):
        fitted(**others)
        sizes.append(bf.fuse(table, **QUIET)["posterior"].sizes)
    calm, hasty = (size["chain"] * size["draw"] for size in sizes)
    assert hasty == 60 < calm


@pytest.mark.parametrize(("independence", "planned"), [(0.8, "20%"), (1.0, "0%")])
def test_interrupting_the_first_model_keeps_the_draft_before_it(
    crowd, fitted, monkeypatch, independence, planned
):
    """The draft is a model of the answer, too, and is in it once."""
    fitted()
    monkeypatch.setattr(Schedule, "is_plenty", lambda *_: False)
    monkeypatch.setattr(INDEPENDENCE, independence)
    monkeypatch.setattr(
        "bayesfuse.ensemble.fits.sample", lambda *_, **__: raises(KeyboardInterrupt)
    )
    told = bf.fuse(crowd.responses, **QUIET)
    assert told.attrs["interrupted"] == 1
    assert told.attrs["models"] == ["consensus", "vote shares"]
    assert told["comparison"].to_dataset()["model"].to_index().is_unique
    against = "the table speaks against the models fitted, which would have a weight of"
    note = f"Interrupted, so incomplete: {against} {planned} if all fits had finished. "
    assert note in told.headline and note in told._repr_html_()


def test_interrupted_chains_with_enough_draws_are_kept(crowd, unchecked, monkeypatch):
    model = DawidSkene(crowd.responses)
    result = bf.sample(model, 20, tune=5, random_seed=1, progressbar=False, quiet=True)
    monkeypatch.setattr(INDEPENDENCE, 1.0)
    monkeypatch.setattr("bayesfuse.ensemble.fits.sample", lambda *_, **__: result)
    monkeypatch.setattr(Schedule, "size", lambda *_: Size(999, 9))
    monkeypatch.setattr("bayesfuse.ensemble.fits.MIN_DRAWS", 5)
    told = bf.fuse(crowd.responses, **QUIET)
    assert told.attrs["interrupted"] == 1
    assert told.attrs["models"] == ["independent errors, unpooled", "vote shares"]
    assert told.overview().startswith("Interrupted, ")


def test_an_answer_says_that_time_ended_before_models_with_weight(crowd, fitted, monkeypatch):
    """And the weight of independent errors is that of the models that were fitted."""
    fitted()
    monkeypatch.setattr(INDEPENDENCE, 0.8)
    monkeypatch.setattr(Schedule, "size", lambda *_: None)  # no time to sample
    answer = bf.fuse(crowd.responses, **QUIET)
    assert answer.overview().startswith("Time ended before 3 of 7 models: the table ")
    assert answer.attrs["interrupted"] == 0
    notes = answer.attrs["notes"]
    assert "independent errors have a weight of 0%" in notes
    assert "If all fits had finished, models of independent errors would have 80%" in notes


@pytest.fixture
def press():
    """Press Ctrl-C, which background jobs of a shell ignore, and go on if it is only noted."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_a_press_that_a_complete_fit_does_not_notice_ends_the_others(crowd, fused, fitted, press):
    def complete():
        with suppress(KeyboardInterrupt):
            press()
        return fused["models/consensus"]

    fitted(consensus=complete)
    told = bf.fuse(crowd.responses, **QUIET)
    assert told.attrs["interrupted"] == 1
    assert told.attrs["models"] == ["consensus", "vote shares"]


@pytest.mark.parametrize("step", ["weigh", "average_items", "check_model"])
def test_a_press_after_the_fits_loses_nothing(crowd, fitted, press, monkeypatch, step):
    fitted()
    if step != "check_model":  # these are completed
        module = import_module(f"bayesfuse.ensemble.{'fuse' if step == 'weigh' else 'combine'}")
        last = getattr(module, step)
        monkeypatch.setattr(module, step, lambda *args: (press(), last(*args))[1])
    else:  # and in a kernel of a check it is another error

        def check(*_):
            try:
                press()
            except KeyboardInterrupt as error:
                raise SystemError("a kernel returned a result with an exception set") from error

        monkeypatch.setattr("bayesfuse.ensemble.diagnostics.check_model", check)
    told = bf.fuse(crowd.responses, **QUIET)
    assert told.attrs["interrupted"] == 1
    assert len(told.attrs["models"]) == 5
    assert ("checks were interrupted" in "".join(told.checks)) == (step != "average_items")


@pytest.mark.slow
def test_interrupting_the_first_fit_gives_vote_shares(crowd, fitted):
    fitted(**{"consensus": lambda: raises(KeyboardInterrupt)})
    with pytest.warns(QuickAnswerWarning, match=r"interrupted, .* Got: an interruption"):
        told = bf.fuse(crowd.responses, **QUIET)
    assert told.attrs["interrupted"] == 1 and "let one model be fitted" in told.advice[0]


def test_an_answer_of_a_large_table_without_a_model_is_of_vote_shares(crowd, monkeypatch):
    """Models are fitted to a part of a large table; vote shares are of all its items."""
    monkeypatch.setattr("bayesfuse.ensemble.candidates.MIN_PART", 100)
    with pytest.warns(QuickAnswerWarning, match="longer than this"):
        told = bf.fuse(crowd.responses, minutes=1e-9, random_seed=1, progressbar=False)
    votes = bf.label_probabilities(bf.vote_shares(crowd.responses))
    np.testing.assert_array_equal(bf.label_probabilities(told), votes)
    assert "fitted to" not in told.attrs["limits"]


def test_a_model_that_rules_the_data_out_is_left_out(crowd, fitted):
    error = ImpossibleDataError("No class is possible. Got: item 3.")
    fitted(**{"competing classes": lambda: raises(error)})
    told = bf.fuse(crowd.responses, **QUIET)
    assert "No class is possible" in str(told["comparison"]["outcome"].values)
    assert told.attrs["models"] == ["consensus", "even guesses", "clean items", "vote shares"]


def test_a_sampled_model_that_does_not_allow_the_data_is_left_out(crowd, fitted, monkeypatch):
    """As one that is approximated is, whichever error of a model it is."""
    fitted()
    monkeypatch.setattr(INDEPENDENCE, 0.8)
    error = ModelError("No such rows. Got: rater 3.")
    monkeypatch.setattr("bayesfuse.ensemble.fits.sample", lambda *_, **__: raises(error))
    answer = bf.fuse(crowd.responses, **QUIET)
    assert "No such rows" in str(answer["comparison"]["outcome"].values)
    assert "consensus" in answer.attrs["models"]
