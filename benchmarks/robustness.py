"""Simulated tables of many kinds: is ``bf.fuse`` near the best model of every kind?

A kind is how raters err: independently, with a rare class, as adversaries, spammers or guessers, on
hard items, on items of which some are clean, as copies, in grades, with few raters, or with many
classes. Methods are ``bf.fuse``, models that it averages, vote shares (with one vote more, spread
over all classes), and aggregators of crowd-kit. A cell has means over the tables: accuracy (ties
shared), log-loss (nats, probabilities clipped at 1e-4), and expected over real errors, summed. For
``bf.fuse`` follow the share of tables whose stated 90 % interval has the real number of errors, the
stated and the true share of the last class, and the CPU seconds of a call.

    python benchmarks/robustness.py [--quick] [--only rare "hard items"] [--tables 20] [--write]
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from _crowd_methods import MISSING, PEERS, Settings, fitted, sampled, vote_shares
from _shared import Arguments

import bayesfuse as bf
from bayesfuse.models import DawidSkene, ItemTypes

CLIP = 1e-4


def responses_to(truth, accuracy, n_classes, rng):
    """Draw responses that are right with these probabilities, else of any other class."""
    shift = rng.integers(1, n_classes, size=accuracy.shape) if n_classes > 2 else 1
    wrong = (truth[:, None] + shift) % n_classes
    return np.where(rng.random(accuracy.shape) < accuracy, truth[:, None], wrong)


def independent(rng, n_items=500, accuracy=(0.65, 0.7, 0.75, 0.8, 0.85)):
    truth = rng.integers(2, size=n_items)
    return responses_to(truth, np.tile(accuracy, (n_items, 1)), 2, rng), truth


def small(rng):
    return independent(rng, 80, rng.uniform(0.6, 0.9, 5))


def rare(rng):
    truth = (rng.random(120) < 0.08).astype(int)
    return responses_to(truth, np.tile([0.85, 0.8, 0.75], (120, 1)), 2, rng), truth


def few(rng):
    return independent(rng, 150, rng.uniform(0.65, 0.95, 3))


def adversaries(rng):
    return independent(rng, 80, [0.4] * 4 + [0.9] * 3)


def spammers(rng):
    truth = rng.integers(3, size=150)
    accuracy = np.tile([0.9] * 3 + [1 / 3] * 7, (150, 1))
    return responses_to(truth, accuracy, 3, rng), truth


def guessers(rng):
    truth = rng.integers(4, size=300)
    table = responses_to(truth, np.tile([0.96] * 2 + [0.25] * 18, (300, 1)), 4, rng)
    return np.where(rng.random(table.shape) < 0.5, -1, table), truth


def hard(rng):
    """Nearly a third of the items are hard for everyone."""
    truth = rng.integers(2, size=200)
    is_hard = rng.random(200) < 0.3
    accuracy = np.where(is_hard[:, None], 0.35, rng.uniform(0.65, 0.95, 8))
    return responses_to(truth, accuracy, 2, rng), truth


def clean(rng):
    """On half of the items raters err in their own ways, on the others all prefer one class."""
    truth = rng.integers(3, size=300)
    rows = rng.dirichlet([1.0, 1.0, 1.0], size=(12, 3)) * 0.45 + 0.55 * np.eye(3)  # by rater
    common = rng.dirichlet([0.7, 0.7, 0.7], size=300) * 0.8 + 0.2 * np.eye(3)[truth]
    is_clean = rng.random(300) < 0.5
    chances = np.where(is_clean[:, None, None], rows[:, truth].transpose(1, 0, 2), common[:, None])
    drawn = (chances.cumsum(axis=2) < rng.random((300, 12, 1))).sum(axis=2).clip(max=2)
    return np.where(rng.random(drawn.shape) < 0.5, -1, drawn), truth


def copies(rng):
    """Three of eight raters mostly repeat the first."""
    table, truth = independent(rng, 200, rng.uniform(0.6, 0.85, 8))
    for rater in (1, 2, 3):
        table[:, rater] = np.where(rng.random(200) < 0.85, table[:, 0], table[:, rater])
    return table, truth


def many_classes(rng):
    truth = rng.integers(10, size=300)
    table = responses_to(truth, np.tile(rng.uniform(0.4, 0.8, 15), (300, 1)), 10, rng)
    return np.where(rng.random(table.shape) < 0.6, -1, table), truth


def graded(rng):
    """Five grades, seen with noise whose spread is the rater's."""
    truth = rng.integers(5, size=200)
    noisy = truth[:, None] + rng.uniform(0.5, 1.5, 6) * rng.standard_normal((200, 6))
    return np.clip(np.rint(noisy), 0, 4).astype(int), truth


KINDS = {
    "independent, 500 x 5": independent,
    "independent, 80 x 5": small,
    "rare": rare,
    "few raters": few,
    "adversaries": adversaries,
    "spammers": spammers,
    "guessers": guessers,
    "hard items": hard,
    "clean items": clean,
    "copies": copies,
    "many classes": many_classes,
    "graded": graded,
}

MODELS = {
    "Dawid-Skene": sampled(DawidSkene),
    "pooled": sampled(DawidSkene, pooled=True),
    "coin": sampled(DawidSkene, raters="coin"),
    "levels": fitted(ItemTypes, consensus="levels"),
    "even": fitted(ItemTypes, consensus="levels", guesses="even"),
    "competing": fitted(ItemTypes),
}


def score(probability, truth):
    """Return accuracy, log-loss, and expected and real errors of label probabilities."""
    top = probability.max(axis=1)
    is_best = probability >= top[:, None] - 1e-9
    right = (is_best / is_best.sum(axis=1, keepdims=True))[np.arange(len(truth)), truth]
    loss = -np.log(np.maximum(probability[np.arange(len(truth)), truth], CLIP)).mean()
    return right.mean(), loss, (1 - top).sum(), (1 - right).sum()


def fuse(responses, truth, seed):
    """Return the labels of ``bf.fuse``, and what it states beside the truth."""
    began = time.process_time()
    fused = bf.fuse(responses, random_seed=seed, progressbar=False)
    seconds = time.process_time() - began
    labels = bf.label_probabilities(fused).transpose("item", "class").values
    stated = bf.decisions.expected_errors(fused, ci_prob=0.9, random_seed=seed)
    wrong = (labels.argmax(axis=1) != truth).sum()
    holds = float(stated["low"]) <= wrong <= float(stated["high"])
    last = labels.shape[1] - 1
    return labels, (holds, labels[:, last].mean(), (truth == last).mean(), seconds)


def main() -> None:
    parser = Arguments(__doc__, "three tables of two kinds")
    parser.add_argument("--only", nargs="+", metavar="KIND")
    parser.add_argument("--tables", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore", bf.errors.PoorFitWarning)
    warnings.simplefilter("ignore", bf.errors.CollapseWarning)
    kinds = {n: k for n, k in KINDS.items() if not options.only or n in options.only}
    if options.quick:
        kinds, options.tables = dict(list(kinds.items())[1:3]), 3
    methods = dict(MODELS) | {"vote shares": vote_shares}
    if MISSING is None:
        methods |= {
            f"crowd-kit {n}": PEERS[f"crowd-kit {m}"].fit
            for n, m in (("DS", "Dawid–Skene"), ("MACE", "MACE"))
        }
    else:
        print(MISSING)
    settings = Settings(draws=250)
    for kind, simulate in kinds.items():
        scores: dict[str, list] = {name: [] for name in ["bf.fuse", *methods]}
        stated = []
        for seed in range(options.tables):
            table, truth = simulate(np.random.default_rng(seed))
            classes = range(int(truth.max()) + 1 if kind != "rare" else 2)
            responses = bf.Responses.from_matrix(table, missing=-1, classes=classes)
            labels, extra = fuse(responses, truth, seed)
            scores["bf.fuse"].append(score(labels, truth))
            stated.append(extra)
            for name, method in methods.items():
                labels = method(responses, seed, None, settings).values
                scores[name].append(score(labels, truth))
        print(f"\n{kind}: {options.tables} tables")
        print(f"  {'':24}accuracy  log-loss  expected / real errors")
        best = min(np.mean(scores[name], axis=0)[1] for name in MODELS)
        for name, rows in scores.items():
            accuracy, loss, expected, real = np.mean(rows, axis=0)
            print(f"  {name:24}{accuracy:8.3f}{loss:10.3f}{expected:10.1f} / {real:.1f}")
        holds, share, true_share, seconds = np.mean(stated, axis=0)
        behind = np.mean(scores["bf.fuse"], axis=0)[1] - best
        print(
            f"  bf.fuse: {behind:+.3f} in log-loss against the best model; interval of errors "
            f"holds {holds:.2f};\n  last class {share:.3f} (truth {true_share:.3f}); "
            f"{seconds:.1f} CPU s"
        )


if __name__ == "__main__":
    main()
