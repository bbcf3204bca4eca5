"""Answers beside what is simpler, on tables of which one of the simple rules is right."""

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.models import DawidSkene

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked")]


def answered(rng, truth, accuracy, n_classes=2, silent=0.0):
    """Draw answers that are right with these probabilities, else of any other class."""
    shape = len(truth), len(accuracy)
    wrong = (truth[:, None] + rng.integers(1, n_classes, shape)) % n_classes
    answers = np.where(rng.random(shape) < accuracy, truth[:, None], wrong)
    return np.where(rng.random(shape) < silent, -1, answers)


def of_raters(rng, accuracy, n_items=200, n_classes=2, **options):
    truth = rng.integers(n_classes, size=n_items)
    return truth, answered(rng, truth, accuracy, n_classes, **options)


def with_a_rare_class(rng):
    truth = (rng.random(120) < 0.08).astype(int)
    return truth, answered(rng, truth, [0.85, 0.8, 0.75])


def hard_for_all(rng):
    truth = rng.integers(2, size=200)
    easy, hard = (answered(rng, truth, np.full(8, right)) for right in (0.85, 0.35))
    return truth, np.where(rng.random((200, 1)) < 0.3, hard, easy)


def copied(rng):
    truth, answers = of_raters(rng, rng.uniform(0.6, 0.85, 8))
    repeats = rng.random((200, 3)) < 0.85
    answers[:, 1:4] = np.where(repeats, answers[:, :1], answers[:, 1:4])
    return truth, answers


TABLES = {
    "independent": lambda rng: of_raters(rng, [0.65, 0.7, 0.75, 0.8, 0.85]),
    "three raters": lambda rng: of_raters(rng, rng.uniform(0.65, 0.95, 3)),
    "rare class": with_a_rare_class,
    "adversaries": lambda rng: of_raters(rng, [0.4] * 4 + [0.9] * 3, 80),
    "spammers": lambda rng: of_raters(rng, [0.9] * 3 + [1 / 3] * 7, 150, 3),
    "guessers": lambda rng: of_raters(rng, [0.96] * 2 + [0.25] * 18, 300, 4, silent=0.5),
    "hard items": hard_for_all,
    "copies": copied,
}


@pytest.mark.parametrize("kind", TABLES)
def test_answers_are_as_often_right_as_votes_and_as_one_accuracy_per_rater(kind):
    """By no more wrong labels than chance explains, of all items on which the two differ."""
    right: dict[str, list] = {"fuse": [], "votes": [], "one accuracy": []}
    for seed in range(3):
        truth, answers = TABLES[kind](np.random.default_rng(seed))
        table = bf.Responses.from_matrix(answers, missing=-1, classes=range(truth.max() + 1))
        results = {
            "fuse": bf.fuse(table, random_seed=seed, progressbar=False),
            "votes": bf.vote_shares(table),
            "one accuracy": bf.find_map(DawidSkene(table, raters="coin")),
        }
        for name, result in results.items():
            labels = bf.label_probabilities(result).transpose("item", "class").values
            best = labels.max(axis=1, keepdims=True)
            is_best = labels > best - 1e-9  # ties are shared
            right[name].append(is_best[np.arange(len(truth)), truth] / is_best.sum(axis=1))
    of_fuse, *others = map(np.concatenate, right.values())
    for other in others:
        difference = of_fuse - other
        # three standard errors of a sum that is zero on average, and one item where few differ
        assert difference.sum() > -3.0 * np.sqrt((difference**2).sum()) - 1.0
