"""Where fits begin: the right mode on hard problems, and something sensible on degenerate ones."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from conjugate_models import log_multinomial

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError, ModelError
from bayesfuse.inference import em, spectral
from bayesfuse.inference.plan import make_plan
from bayesfuse.inference.start import disperse, find_start, majority
from bayesfuse.models import DawidSkene, HiddenMarkov
from bayesfuse.parameters.dirichlet import Dirichlet

CHANNELS = ["confusion", "class", "coin"]
STOPPED = 1e-4
"""EM stops where a step gains less than 10⁻⁸ per response, whose density is quadratic there."""


def start_of(responses, method="moments", **kwargs):
    plan = make_plan(DawidSkene(responses, **kwargs))
    return find_start(plan.observation, plan.continuous_priors(), method)


def hard(n_classes, seed):
    """Simulate unbalanced classes, and a third of the raters worse than random but busiest."""
    rng = np.random.default_rng([n_classes, seed])
    n_items, n_raters = 400 * n_classes, 18
    prevalence = 0.5 ** np.arange(n_classes)
    right = rng.uniform(1.3, 2.2, (n_raters, n_classes)) / (n_classes + 0.5)
    right[:6] = rng.uniform(0.0, 1.0, (6, n_classes)) / n_classes
    confusion = np.empty((n_raters, n_classes, n_classes))
    for m in range(n_raters):
        for k in range(n_classes):
            wrong = rng.dirichlet(np.full(n_classes - 1, 0.3)) * (1 - right[m, k])
            confusion[m, k] = np.insert(wrong, k, right[m, k])
    made = bf.datasets.simulate_dawid_skene(
        n_items,
        n_raters,
        n_classes,
        prevalence=prevalence / prevalence.sum(),
        confusion=confusion,
        random_seed=rng,
    )
    frame = made.responses.to_frame()
    frame = frame[rng.random(len(frame)) < np.where(frame.rater < 6, 0.7, 0.25)]
    names = {"items": range(n_items), "raters": range(n_raters), "classes": range(n_classes)}
    return bf.Responses.from_long(frame, **names), made


# ---------------------------------------------------------------- what it is for


@pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (3, 1), (4, 0)])
def test_moments_find_the_mode_that_majority_vote_misses(n_classes, seed):
    responses, made = hard(n_classes, seed)
    plan = make_plan(DawidSkene(responses))
    seen, prior = plan.observation, plan.continuous_priors()
    true = seen.rows({"prevalence": made.prevalence, "confusion": made.confusion})

    def climb(rows):
        return em.fit(seen, rows, prior, tolerance=1e-10).trace[-1]

    best = climb(true)
    begun = find_start(seen, prior)
    assert begun.method == "moments"
    assert climb(begun.rows) > best - 1
    assert climb(find_start(seen, prior, "majority").rows) < best - 3


def test_classes_are_named_by_the_prior():
    """All raters swap the classes: the default prior cannot know, a user's prior can."""
    made = bf.datasets.simulate_dawid_skene(
        500, 6, 3, prevalence=[0.5, 0.3, 0.2], accuracy=(0.7, 0.9), random_seed=1
    )
    swapped = made.responses.relabelled(np.array([2, 0, 1])[made.responses.label])
    cyclic = 1 + 8 * np.eye(3)[[2, 0, 1]]
    rows = start_of(swapped, confusion_prior=cyclic).rows
    assert np.abs(np.exp(rows["prevalence"]) - made.prevalence).max() < 0.1
    assert (np.exp(rows["confusion"]).argmax(axis=2) == [2, 0, 1]).all()
    lazy = start_of(swapped).rows
    assert (np.exp(lazy["confusion"]).argmax(axis=2) == [0, 1, 2]).all()


@pytest.mark.parametrize("raters", CHANNELS)
def test_a_few_known_labels_name_the_classes(raters):
    """Two classes, all raters mistaken: known labels say so, whatever the diagonal prior."""
    made = bf.datasets.simulate_dawid_skene(
        400, 7, 2, prevalence=[0.5, 0.5], accuracy=(0.15, 0.35), random_seed=3
    )
    gold = dict(enumerate(made.truth[:40].tolist()))
    begun = start_of(
        made.responses,
        gold=gold,
        raters=raters,
        confusion_prior=np.ones((2, 2)) if raters == "confusion" else np.ones(2),
    )
    accuracy = np.exp(begun.rows["confusion" if raters == "confusion" else "accuracy"])
    right = accuracy[:, [0, 1], [0, 1]] if raters == "confusion" else accuracy[..., 0]
    assert (right < 0.5).all()


# ---------------------------------------------------------------- what it says


@pytest.mark.parametrize("raters", CHANNELS)
def test_the_choice_and_every_candidate_are_recorded(small, raters):
    model = DawidSkene(small, raters=raters)
    said = bf.find_map(model).attrs
    densities = {name: said[f"start_log_posterior_{name}"] for name in ("moments", "majority")}
    assert said["start"] == max(densities, key=densities.get)
    for name in densities:
        assert np.isfinite(said[f"start_log_evidence_{name}"])
    assert "start_without_moments" not in said
    alone = bf.find_map(model, start="majority").attrs
    assert alone["start"] == "majority" and "start_log_posterior_moments" not in alone
    assert bf.find_map(model, start="prior").attrs["start"] == "prior"
    drawn = bf.sample(model, 3, tune=0, chains=1, progressbar=False, quiet=True).attrs
    begun = start_of(small, raters=raters).record()
    assert begun.items() <= drawn.items()
    assert all(isinstance(value, str | float) for value in begun.values())


def test_a_start_says_why_there_were_no_moments(small, monkeypatch):
    said = start_of(bf.Responses.from_matrix([[0, 1], [1, 1], [0, 0]])).record()
    assert said["start"] == "majority"
    assert said["start_without_moments"].endswith("divisions of 2 raters with responses.")
    with pytest.raises(ModelError, match=r"\['moments', 'majority', 'prior'\].*Got: 'spectral'"):
        start_of(small, "spectral")

    def refuse(*args, **kwargs):
        raise ImpossibleDataError("as it were")

    monkeypatch.setattr(spectral, "label_probabilities", refuse)
    begun = start_of(small)
    assert (begun.method, begun.left_out) == ("majority", "as it were")
    monkeypatch.setattr(em, "fit", refuse)
    with pytest.raises(ImpossibleDataError):
        start_of(small)


# ---------------------------------------------------------------- degenerate tables


def matrix(rows, n_classes, **kwargs):
    return bf.Responses.from_matrix(rows, classes=range(n_classes), **kwargs)


def degenerate(n_classes):
    """Return tables by what is wrong with them."""
    rng = np.random.default_rng(n_classes)
    last = n_classes - 1
    truth = rng.integers(n_classes, size=(40, 1))
    answers = np.where(rng.random((40, 6)) < 0.7, truth, rng.integers(n_classes, size=(40, 6)))
    stubborn = answers.copy()
    stubborn[:, 0] = last
    blocks = answers.copy()
    blocks[:20, 3:] = blocks[20:, :3] = -1
    pairs = np.full((30, 20), -1)
    for n in range(30):
        pairs[n, rng.permutation(20)[:2]] = rng.integers(n_classes, size=2)
    singles = np.full((9, 9), -1)
    np.fill_diagonal(singles, np.arange(9) % n_classes)
    singles[0] = np.arange(9) % n_classes  # everybody answers one item, and most only that
    silent = {"items": range(45), "raters": range(9)}
    padded = np.full((45, 9), -1)
    padded[:40, :6] = answers
    return {
        "one item": matrix(answers[:1], n_classes),
        "one response": matrix([[last]], n_classes),
        "two items": matrix(answers[:2], n_classes),
        "one rater": matrix(answers[:, :1], n_classes),
        "two raters": matrix(answers[:, :2], n_classes),
        "raters with one response": matrix(singles, n_classes),
        "all equal": matrix(np.full((30, 5), last), n_classes),
        "all raters agree": matrix(np.tile(truth, (1, 5)), n_classes),
        "one class whatever the item": matrix(stubborn, n_classes),
        "every rater a constant": matrix(np.tile(np.arange(6) % n_classes, (20, 1)), n_classes),
        "a class that nobody uses": matrix(np.minimum(answers, last - 1), n_classes),
        "disconnected blocks": matrix(blocks, n_classes),
        "two answers per item": matrix(pairs, n_classes),
        "silent items and raters": matrix(padded, n_classes, **silent),
        "noise": matrix(rng.integers(n_classes, size=(40, 6)), n_classes),
        "counts": bf.Responses.from_counts(
            answers[:8], [5, 0, 3, 1, 1, 7, 2, 4], classes=range(n_classes)
        ),
        "repeats": bf.Responses.from_long(
            pd.concat([matrix(answers, n_classes).to_frame()] * 3), classes=range(n_classes)
        ),
    }


@pytest.mark.parametrize(("n_classes", "raters"), [(2, "class"), (2, "coin"), (4, "confusion")])
@pytest.mark.parametrize("name", degenerate(4))
def test_degenerate_tables_have_a_start(n_classes, name, raters):
    responses = degenerate(n_classes)[name]
    plan = make_plan(DawidSkene(responses, raters=raters))
    seen, prior = plan.observation, plan.continuous_priors()
    begun = find_start(seen, prior)
    for key, rows in begun.rows.items():
        assert rows.shape == prior[key].shape and np.isfinite(rows).all()
        assert np.allclose(np.exp(rows).sum(axis=-1), 1)
    alone = find_start(seen, prior, "majority").polished["majority"].trace[-1]
    assert begun.polished[begun.method].trace[-1] >= alone
    drawn = disperse(seen, begun.rows, prior, np.random.default_rng(1))
    assert all(np.isfinite(rows).all() for rows in drawn.values())
    assert ("moments" in begun.polished) != bool(begun.left_out)


# ---------------------------------------------------------------- what must not matter


def same(one, other, atol=1e-12):
    assert one.method == other.method
    for name, rows in one.rows.items():
        assert np.allclose(np.exp(rows), np.exp(other.rows[name]), atol=atol)


def test_starts_are_reproducible_and_blind_to_the_order_of_rows(small):
    frame = small.to_frame()
    names = {"items": range(62), "raters": range(6), "classes": range(3)}
    other = bf.Responses.from_long(frame.sample(frac=1.0, random_state=1), **names)
    same(start_of(small), start_of(small), atol=0)
    same(start_of(small), start_of(other), atol=0)


@pytest.mark.parametrize("raters", CHANNELS)
def test_an_item_that_stands_for_several_is_as_good_as_they(raters):
    counts = bf.datasets.caries()
    same(start_of(counts, raters=raters), start_of(counts.expand(), raters=raters), atol=STOPPED)


def test_majority_vote_shares_ties_and_knows_what_is_known(small):
    plan = make_plan(DawidSkene(small, gold={0: 1, 61: 2}))
    seen = plan.observation
    share = seen.by_item(majority(seen))
    assert share[0].tolist() == [0, 1, 0] and share[61].tolist() == [0, 0, 1]
    assert np.allclose(share[60], 1 / 3)
    votes = small.votes()
    assert np.allclose(share[1:60], votes[1:60] / votes[1:60].sum(axis=1, keepdims=True))


def test_a_sample_of_many_responses_is_as_good_as_all(monkeypatch):
    made = bf.datasets.simulate_dawid_skene(3000, 8, 3, prevalence=[0.5, 0.3, 0.2], random_seed=2)
    all_of_them = start_of(made.responses)
    monkeypatch.setattr(spectral, "PILOT", 2000)
    part = start_of(made.responses)
    for begun in (all_of_them, part):
        assert np.abs(np.exp(begun.rows["confusion"]) - made.confusion).max() < 0.12


def test_a_prior_that_cannot_name_the_classes_leaves_it_to_the_raters():
    """All permutations of the classes are then equally probable, as they are."""
    made = bf.datasets.simulate_dawid_skene(600, 9, 4, random_seed=1)
    flat = np.ones((4, 4))
    found = start_of(made.responses, confusion_prior=flat).polished["moments"]
    right = np.exp(found.rows["confusion"]).mean(axis=0)
    assert (right.argmax(axis=1) == np.arange(4)).all()


def test_names_are_the_most_probable_permutation():
    """Against all permutations, by the probability of the labels with the rows integrated out."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        alpha = {"prevalence": rng.uniform(0.3, 4, 4), "confusion": rng.uniform(0.3, 4, (3, 4, 4))}
        counts = {"prevalence": rng.uniform(0, 9, 4), "confusion": rng.uniform(0, 9, (3, 4, 4))}
        height = {}
        for order in permutations(range(4)):
            own = {"prevalence": counts["prevalence"][list(order)]}
            own["confusion"] = counts["confusion"][:, order]
            height[order] = sum(log_multinomial(alpha[n], own[n]).sum() for n in alpha)
        prior = {name: Dirichlet(each) for name, each in alpha.items()}
        assert tuple(spectral._names(counts, prior)) == max(height, key=height.get)


def test_merged_items_lead_to_the_same_labels(monkeypatch):
    """The table of a sequence has every item; the moments see those with equal responses once."""
    rng = np.random.default_rng(5)
    truth = np.repeat(rng.integers(0, 2, 100), 4)
    matrix = np.where(rng.random((400, 6)) < 0.8, truth[:, None], 1 - truth[:, None])
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    sequences = bf.Sequences.from_lengths([40] * 10)
    plan = make_plan(HiddenMarkov(responses, sequences, gold={3: int(truth[3])}))
    given = plan.observation, plan.continuous_priors(), em.centre(plan.continuous_priors())
    assert spectral._independent(responses, plan.observation.gold).table.n_items < 100
    merged = spectral.label_probabilities(*given)
    monkeypatch.setattr(bf.Responses, "condensed", lambda self, key=None: (self, np.arange(400)))
    np.testing.assert_allclose(spectral.label_probabilities(*given), merged, atol=STOPPED)
    assert np.mean(merged.argmax(axis=1) == truth) > 0.9
