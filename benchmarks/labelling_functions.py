"""Labelling functions: bayesfuse beside Snorkel, FlyingSquid, crowd-kit and the vote.

Two tables: rules of the WRENCH benchmark with their truth, and simulated rules (independent given
the class, with copies, with rare classes). Of every method accuracy (ties shared for the vote) and
log-loss (probabilities clipped at 1e-4), with class shares given and without; of the real sets over
the items with a vote and over all. Peers that are not installed are left out:
``pip install snorkel flyingsquid pgmpy crowd-kit``.

The data are read from ../shared/data, next to the checkout.

    python benchmarks/labelling_functions.py [--quick] [--repeats 10]
"""

from __future__ import annotations

import contextlib
import importlib
import io
import time
import warnings

import numpy as np
import pandas as pd
from _shared import DATA, QUIET, Arguments

import bayesfuse as bf
from bayesfuse.models import LabellingFunctions

SETS = ["wrench_youtube", "wrench_trec"]

CELLS = {
    "2 classes": {},
    "4 classes": {"shares": [0.25] * 4, "n_rules": 20},
    "rare .02": {"shares": [0.98, 0.02]},
    "rare .1": {"shares": [0.9, 0.1]},
    "4, rare .02": {"shares": [0.6, 0.3, 0.08, 0.02], "n_rules": 20},
    "8 copied": {"n_rules": 8, "copies": 8},
    "1 copied 8x": {"n_rules": 8, "copies": 8, "of": 1},
    "4, 12 copied": {"shares": [0.25] * 4, "n_rules": 12, "copies": 12},
    "dense": {"coverage": (0.3, 0.6), "right": (0.55, 0.8)},
}


def simulated(rng, n_items=3000, shares=(0.5, 0.5), n_rules=15, copies=0, of=None,
              coverage=(0.03, 0.25), right=(0.55, 0.95)):  # fmt: skip
    """Return a matrix of votes (-1 for none) and the truth."""
    n_classes = len(shares)
    truth = rng.choice(n_classes, n_items, p=shares)
    label = np.arange(n_rules) % n_classes
    fires = np.zeros((n_items, n_rules), dtype=bool)
    for rule in range(n_rules):
        accuracy = rng.uniform(*right)
        hit = min(rng.uniform(*coverage) * n_classes * accuracy, 0.9)
        alarm = hit * (1 - accuracy) / accuracy / (n_classes - 1)
        fires[:, rule] = rng.random(n_items) < np.where(truth == label[rule], hit, alarm)
    for _ in range(copies):
        source = rng.integers(n_rules) if of is None else 0
        kept, added = rng.random(n_items) < 0.85, rng.random(n_items) < 0.01
        fires = np.column_stack([fires, np.where(fires[:, source], kept, added)])
        label = np.append(label, label[source])
    return np.where(fires, label, -1), truth


def votes(matrix, n_classes, shares):
    found = np.stack([(matrix == k).sum(axis=1) for k in range(n_classes)], axis=1) + 1 / n_classes
    return found / found.sum(axis=1, keepdims=True)


def ours(matrix, n_classes, shares):
    spoke = (matrix >= 0).any(axis=0)
    table = bf.Responses.from_matrix(matrix[:, spoke], classes=range(n_classes))
    model = LabellingFunctions(table, shares)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bf.errors.CollapseWarning)  # the scores tell
        result = bf.sample(model, draws=250, random_seed=1, **QUIET)
    return bf.label_probabilities(result).values


def snorkel(matrix, n_classes, shares):
    label_model = importlib.import_module("snorkel.labeling.model").LabelModel
    model = label_model(cardinality=n_classes, verbose=False)
    balance = None if shares is None else list(shares)
    model.fit(matrix, n_epochs=500, seed=1, progress_bar=False, class_balance=balance)
    return model.predict_proba(matrix)


def flying_squid(matrix, n_classes, shares):
    """One model for each class against the rest, as its authors do."""
    pgmpy = importlib.import_module("pgmpy.models")
    if not hasattr(pgmpy, "MarkovModel"):  # its name when FlyingSquid was written
        pgmpy.MarkovModel = pgmpy.DiscreteMarkovNetwork
    label_model = importlib.import_module("flyingsquid.label_model").LabelModel
    shares = np.full(n_classes, 1 / n_classes) if shares is None else np.asarray(shares)
    found = np.zeros((len(matrix), n_classes))
    classes = [1] if n_classes == 2 else range(n_classes)
    for k in classes:
        model = label_model(matrix.shape[1], triplet_seed=0)
        signs = np.where(matrix < 0, 0, np.where(matrix == k, 1, -1))
        model.fit(signs, class_balance=np.array([1 - shares[k], shares[k]]))
        found[:, k] = np.nan_to_num(model.predict_proba(signs)[:, 1], nan=shares[k])
    if n_classes == 2:
        found[:, 0] = 1 - found[:, 1]
    found = np.clip(found, 1e-6, 1)
    return found / found.sum(axis=1, keepdims=True)


def crowd_kit(matrix, n_classes, shares):
    aggregation = importlib.import_module("crowdkit.aggregation")
    item, rule = np.nonzero(matrix >= 0)
    frame = pd.DataFrame({"task": item, "worker": rule, "label": matrix[item, rule]})
    found = np.full((len(matrix), n_classes), 1 / n_classes)
    said = aggregation.DawidSkene(n_iter=100).fit_predict_proba(frame)
    found[np.ix_(said.index, said.columns)] = said.to_numpy()
    return found


METHODS = {"vote shares": votes, "bayesfuse": ours, "Snorkel": snorkel,
           "FlyingSquid": flying_squid, "crowd-kit DS": crowd_kit}  # fmt: skip
IGNORES_SHARES = {"vote shares", "crowd-kit DS"}


def scores(probability, truth, matrix, chosen):
    """Return accuracy and log-loss; of equal probabilities each is right as often as the others."""
    best = probability >= probability.max(axis=1, keepdims=True) - 1e-12
    right = best[np.arange(len(truth)), truth] / best.sum(axis=1)
    clipped = np.clip(probability, 1e-4, 1)
    clipped /= clipped.sum(axis=1, keepdims=True)
    loss = -np.log(clipped[np.arange(len(truth)), truth])
    return np.array([right[chosen].mean(), loss[chosen].mean()])


def fitted(method, matrix, n_classes, shares):
    """Return probabilities and seconds, or why there are none."""
    begun = time.perf_counter()
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            if method != "bayesfuse":
                warnings.simplefilter("ignore")  # peers' own
            found = METHODS[method](matrix, n_classes, shares)
    except ImportError:
        return None, "not installed"
    except (ValueError, RuntimeError, ZeroDivisionError, KeyError) as error:
        return None, type(error).__name__
    return found, time.perf_counter() - begun


def real_sets(names):
    for name in names:
        folder = DATA / name
        if not folder.exists():
            print(f"{name}: not on this machine")
            continue
        frame = pd.read_csv(folder / "responses.csv.gz")
        truth = pd.read_csv(folder / "truth.csv.gz")
        n_classes = len((folder / "labels.txt").read_text().split())
        rules, rule = np.unique(frame["rater"], return_inverse=True)
        place = pd.Series(range(len(truth)), index=truth["item"])
        matrix = np.full((len(truth), len(rules)), -1)
        matrix[place[frame["item"]].to_numpy(), rule] = frame["label"]
        labels = truth["label"].to_numpy()
        covered = (matrix >= 0).any(axis=1)
        print(f"\n{name}: {len(truth)} items, {covered.mean():.2f} with a vote, "
              f"{len(rules)} rules, {n_classes} classes")  # fmt: skip
        print(f"{'method':<14}{'shares':<9}{'with a vote':>15}{'all':>15}{'seconds':>9}")
        for shares in (None, np.bincount(labels) / len(labels)):
            for method in METHODS:
                if shares is not None and method in IGNORES_SHARES:
                    continue
                found, seconds = fitted(method, matrix, n_classes, shares)
                said = "none" if shares is None else "given"
                if found is None:
                    print(f"{method:<14}{said:<9}{seconds:>15}")
                    continue
                one = scores(found, labels, matrix, covered)
                other = scores(found, labels, matrix, np.ones(len(labels), dtype=bool))
                print(f"{method:<14}{said:<9}{one[0]:>8.3f} {one[1]:>6.3f}"
                      f"{other[0]:>8.3f} {other[1]:>6.3f}{seconds:>9.1f}")  # fmt: skip


def simulations(cells, repeats):
    for given in (False, True):
        print(f"\nSimulated rules, class shares {'given' if given else 'not given'}, items with a "
              f"vote, means of {repeats}: accuracy and log-loss")  # fmt: skip
        print(f"{'rules':<14}" + "".join(f"{method:>15}" for method in METHODS))
        for name, settings in cells.items():
            found = {method: [] for method in METHODS}
            for seed in range(repeats):
                matrix, truth = simulated(np.random.default_rng(seed), **settings)
                shares = settings.get("shares", [0.5, 0.5])
                covered = (matrix >= 0).any(axis=1)
                for method, rows in found.items():
                    each, _ = fitted(method, matrix, len(shares), shares if given else None)
                    if each is not None:
                        rows.append(scores(each, truth, matrix, covered))
            row = []
            for rows in found.values():
                mean = np.mean(rows, axis=0) if rows else [np.nan, np.nan]
                row.append(f"{mean[0]:>8.3f} {mean[1]:>6.3f}")
            print(f"{name:<14}" + "".join(row), flush=True)


def main():
    parser = Arguments(__doc__, "one real set, one simulated table")
    parser.add_argument("--repeats", type=int, default=10, help="simulated tables per row")
    options = parser.parse_args()
    real_sets(SETS[:1] if options.quick else SETS)
    simulations(*(({"2 classes": {}}, 1) if options.quick else (CELLS, options.repeats)))


if __name__ == "__main__":
    main()
