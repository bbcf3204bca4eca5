"""Starts: the right mode of hard problems, finite for degenerate ones, equal in PyMC."""

from itertools import permutations

import numpy as np
import pytest
from conjugate_models import log_multinomial
from slowly import with_slow

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError, ModelError
from bayesfuse.inference import em, start
from bayesfuse.inference.plan import make_plan
from bayesfuse.inference.start import find_start, majority
from bayesfuse.models import DawidSkene
from bayesfuse.parameters.dirichlet import Dirichlet

CHANNELS = ["confusion", "class", "coin"]
STOPPED = 1e-3
"""EM stops where a step of size d gains d² / 2 < 10⁻⁸ per response; rounding decides where."""


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
    for m, k in np.ndindex(right.shape):
        wrong = rng.dirichlet(np.full(n_classes - 1, 0.3)) * (1 - right[m, k])
        confusion[m, k] = np.insert(wrong, k, right[m, k])
    known = {"prevalence": prevalence / prevalence.sum(), "confusion": confusion}
    made = bf.datasets.simulate_dawid_skene(n_items, n_raters, n_classes, random_seed=rng, **known)
    frame = made.responses.to_frame()
    frame = frame[rng.random(len(frame)) < np.where(frame.rater < 6, 0.7, 0.25)]
    names = {"items": range(n_items), "raters": range(n_raters), "classes": range(n_classes)}
    return bf.Responses.from_long(frame, **names), made


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


@pytest.mark.parametrize("raters", with_slow(CHANNELS, "class"))
def test_start_and_candidates_are_recorded(small, raters):
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


def test_starts_record_why_there_are_no_moments(small, monkeypatch):
    said = start_of(bf.Responses.from_matrix([[0, 1], [1, 1], [0, 0]])).record()
    assert said["start"] == "majority"
    assert said["start_without_moments"].endswith("divisions of 2 raters with responses.")
    with pytest.raises(ModelError, match=r"'moments', 'majority' or 'prior'. Got: 'spectral'"):
        start_of(small, "spectral")

    def refuse(*args, **kwargs):
        raise ImpossibleDataError("as it were")

    monkeypatch.setattr("bayesfuse.inference.start.by_moments", refuse)
    begun = start_of(small)
    assert (begun.method, begun.left_out) == ("majority", "as it were")
    monkeypatch.setattr("bayesfuse.inference.em.fit", refuse)
    with pytest.raises(ImpossibleDataError):
        start_of(small)


def degenerate(n_classes):
    """Return tables by what is wrong with them."""
    rng = np.random.default_rng(n_classes)
    last = n_classes - 1
    truth = rng.integers(n_classes, size=(40, 1))
    answers = np.where(rng.random((40, 6)) < 0.7, truth, rng.integers(n_classes, size=(40, 6)))
    stubborn, blocks = answers.copy(), answers.copy()
    stubborn[:, 0] = last
    blocks[:20, 3:] = blocks[20:, :3] = -1
    pairs, singles = np.full((30, 20), -1), np.full((9, 9), -1)
    for n in range(30):
        pairs[n, rng.permutation(20)[:2]] = rng.integers(n_classes, size=2)
    np.fill_diagonal(singles, np.arange(9) % n_classes)
    singles[0] = np.arange(9) % n_classes  # everybody answers one item, and most only that
    return {
        "one item": answers[:1],
        "one response": [[last]],
        "one rater": answers[:, :1],
        "two raters": answers[:, :2],
        "raters with one response": singles,
        "all equal": np.full((30, 5), last),
        "all raters agree": np.tile(truth, (1, 5)),
        "one class whatever the item": stubborn,
        "every rater a constant": np.tile(np.arange(6) % n_classes, (20, 1)),
        "a class that nobody uses": np.minimum(answers, last - 1),
        "disconnected blocks": blocks,
        "two answers per item": pairs,
        "silent items and raters": np.pad(answers, ((0, 5), (0, 3)), constant_values=-1),
        "noise": rng.integers(n_classes, size=(40, 6)),
    }


@pytest.mark.parametrize(("n_classes", "raters"), [(2, "class"), (2, "coin"), (4, "confusion")])
@pytest.mark.parametrize("name", degenerate(4))
def test_degenerate_tables_have_a_start(n_classes, name, raters):
    responses = bf.Responses.from_matrix(degenerate(n_classes)[name], classes=range(n_classes))
    plan = make_plan(DawidSkene(responses, raters=raters))
    seen, prior = plan.observation, plan.continuous_priors()
    begun = find_start(seen, prior)
    for key, rows in begun.rows.items():
        assert rows.shape == prior[key].shape and np.isfinite(rows).all()
        assert np.allclose(np.exp(rows).sum(axis=-1), 1)
    alone = find_start(seen, prior, "majority").polished["majority"].trace[-1]
    assert begun.polished[begun.method].trace[-1] >= alone
    assert ("moments" in begun.polished) != bool(begun.left_out)


def same(one, other, atol=1e-12):
    assert one.method == other.method
    for name, rows in one.rows.items():
        assert np.allclose(np.exp(rows), np.exp(other.rows[name]), atol=atol)


@pytest.mark.parametrize("raters", CHANNELS)
def test_a_table_of_counts_has_the_start_of_its_items(raters):
    counts = bf.datasets.caries()
    same(start_of(counts, raters=raters), start_of(counts.expand(), raters=raters), atol=STOPPED)


def test_majority_vote_shares_ties_and_uses_gold(small):
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
    monkeypatch.setattr("bayesfuse.inference.start.FIRST_CHUNK", 2000)
    part = start_of(made.responses)
    for begun in (all_of_them, part):
        assert np.abs(np.exp(begun.rows["confusion"]) - made.confusion).max() < 0.12


def test_classes_are_named_by_the_most_probable_permutation():
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
        assert tuple(start.order_of_classes(counts, prior)) == max(height, key=height.get)


def test_pooled_chains_begin_at_the_labels_of_the_start():
    """Three good raters among nine, who are alike in the prior: its rows would mix up labels."""
    good = np.array([[0.97, 0.03], [0.05, 0.95]])
    rows = np.stack([good] * 3 + [np.full((2, 2), 0.5)] * 6)
    made = bf.datasets.simulate_dawid_skene(1500, 9, 2, confusion=rows, random_seed=3)
    model = DawidSkene(made.responses, pooled=True)
    drawn = bf.sample(model, 1, tune=0, chains=1, random_seed=1, progressbar=False, quiet=True)
    found = np.diagonal(drawn["posterior"]["confusion"].values[0, 0], axis1=1, axis2=2)[:3]
    size = np.bincount(made.truth).min()
    error = np.sqrt(2 * 0.05 * 0.95 / size)  # that of the table, and of a draw
    assert (np.abs(found - [0.97, 0.95]) < 5 * error).all()


@pytest.mark.parametrize("raters", CHANNELS)
def test_fits_start_at_the_labels_of_another(raters):
    """EM goes on to the mode that fits from moments reach; items are matched by name."""
    made = bf.datasets.simulate_dawid_skene(60, 5, 3, per_item=4, random_seed=3).responses
    table = bf.Responses.from_long(
        made.to_frame().sample(frac=1.0, random_state=1), items=range(60)
    )
    other = bf.fit(bf.models.ItemTypes(table), "cavi", draws=50, random_seed=1)
    model = DawidSkene(made, raters=raters)
    fits = [bf.find_map(model, start=begin) for begin in (other, "moments")]
    assert fits[0].attrs["start"] == "result"
    assert fits[0].attrs["log_evidence"] == pytest.approx(fits[1].attrs["log_evidence"], abs=0.05)


def test_a_start_has_the_items_and_classes_of_the_model():
    made = bf.datasets.simulate_dawid_skene(30, 4, 3, random_seed=3).responses
    part = bf.find_map(DawidSkene(made.take(np.arange(20))))
    with pytest.raises(ModelError, match=r"same items and classes\. Got: 10 items that it lacks"):
        bf.sample(DawidSkene(made), 5, start=part, progressbar=False)
    with pytest.raises(ModelError, match="label_posterior"):
        bf.find_map(DawidSkene(made), start=part["point"])
