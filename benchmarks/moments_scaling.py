"""Cost of spectral moments: relative to EM, for many raters, and for 10⁷ responses.

Claims: an iteration of ``confusion`` takes at most six times as long as a pass of EM over the same
data, whatever the number of classes, and both are linear in the responses; the score matrix of
124 raters takes seconds, and so do the groups of 825 raters of whom few meet; means, covariances,
class imbalance, accuracies and confusion matrices of 10⁷ responses of 300 raters take minutes on
two cores, within 4 GiB.

    python benchmarks/moments_scaling.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import numpy as np
from _shared import Arguments
from scaling import peak

import bayesfuse as bf
from bayesfuse import moments
from bayesfuse.inference import em
from bayesfuse.moments.multiclass import Table, match
from bayesfuse.moments.views import from_votes
from bayesfuse.observation import ResponseModel
from bayesfuse.parameters.dirichlet import Dirichlet

ROUNDS = 5
LIMIT = 4 * 2**30


def simulate(rng, n_items, n_raters, per_item, n_classes):
    """Return responses of different raters, drawn anew for every item."""
    confusion = rng.dirichlet(np.full(n_classes, 0.5), size=(n_raters, n_classes))
    cumulative = (0.6 * np.eye(n_classes) + 0.4 * confusion).cumsum(axis=-1)[..., :-1]
    chance = 1 / (1 + np.arange(n_classes))
    table = {
        "item": np.repeat(np.arange(n_items, dtype=np.int32), per_item),
        "rater": np.empty(n_items * per_item, dtype=np.int16),
        "label": np.empty(n_items * per_item, dtype=np.int8),
    }
    for first in range(0, n_items, 10_000):  # in pieces, which keeps the peak of memory low
        items = min(10_000, n_items - first)
        rows = slice(first * per_item, (first + items) * per_item)
        truth = np.repeat(rng.choice(n_classes, size=items, p=chance / chance.sum()), per_item)
        order = rng.random((items, n_raters), dtype=np.float32)
        rater = np.argpartition(order, per_item - 1, axis=1)[:, :per_item].ravel()
        table["rater"][rows] = rater
        bounds = cumulative[rater, truth]
        table["label"][rows] = (rng.random(len(truth))[:, None] >= bounds).sum(axis=1)
    return bf.Responses.from_long(table, raters=range(n_raters), classes=range(n_classes))


# ---------------------------------------------------------------- relative to EM


class Contest:
    """One iteration of moment matching and one of EM, over the same table from the same start."""

    def __init__(self, responses):
        n_classes = responses.n_classes
        self.responses = responses
        self.point = 0.9 * from_votes(responses) + 0.1 / n_classes
        self.table = Table.build(responses)
        self.requested = ResponseModel.build(
            responses, bf.build.Independent(None), bf.build.Confusion(None)
        )
        prevalence = np.full(n_classes, 1 / n_classes)
        self.rows = self.requested.rows({"prevalence": prevalence, "confusion": self.point})
        self.flat = {name: Dirichlet(np.ones_like(row)) for name, row in self.rows.items()}
        self.subset = np.full(2, np.inf)
        self.turn(), self.turn()

    def turn(self, iterations=20):
        """Keep the smallest seconds per iteration: other processes only add to them.

        Fits take two or three dozen; all but the last few are in single precision.
        """
        begun = time.perf_counter()
        em.fit(self.requested, self.rows, self.flat, iterations=iterations, tolerance=-np.inf)
        between = time.perf_counter()
        match(self.table, self.point, iterations - 1, 0.0)  # and a last look at the objective
        spent = np.diff([begun, between, time.perf_counter()]) / iterations
        self.subset = np.minimum(self.subset, spent)


def beside_em(shapes, classes):
    print("Milliseconds per iteration over the same data; claim: at most 6 times EM")
    head = f"{'K':>3} {'raters':>7} {'per item':>9} {'responses':>11}"
    print(f"{head}{'EM':>9}{'confusion':>11}{'ratio':>8}")
    worst = 0.0
    for n_classes in classes:
        rng = np.random.default_rng(n_classes)
        contests = [Contest(simulate(rng, *shape, n_classes)) for shape in shapes]
        for _ in range(ROUNDS):
            for contest in contests:
                contest.turn()
        for (_, raters, per_item), contest in zip(shapes, contests, strict=True):
            own, other = 1e3 * contest.subset[::-1]
            worst = max(worst, own / other)
            print(
                f"{n_classes:>3} {raters:>7} {per_item:>9} {contest.responses.n_responses:>11,}"
                f"{other:>9.2f}{own:>11.2f}{own / other:>8.2f}"
            )
    print(f"largest ratio: {worst:.2f}")


def linear(sizes):
    print("\nNanoseconds per response and iteration, 4 classes, 300 raters, 10 per item")
    rng = np.random.default_rng(1)
    contests = [Contest(simulate(rng, size // 10, 300, 10, 4)) for size in sizes]
    for _ in range(ROUNDS):
        for contest in contests:
            contest.turn()
    print(f"{'responses':>12}{'EM':>8}{'confusion':>11}")
    for size, contest in zip(sizes, contests, strict=True):
        other, own = 1e9 * contest.subset / size
        print(f"{size:>12,}{other:>8.1f}{own:>11.1f}")


# ---------------------------------------------------------------- many raters


def many_raters(raters):
    print("\nSeconds by number of raters, 8 of them at each of 5,000 items")
    print(f"{'raters':>7}{'score matrix':>14}{'groups':>9}{'found':>7}")
    rng = np.random.default_rng(2)
    for count in raters:
        responses = simulate(rng, 5000, count, 8, 2)
        begun = time.perf_counter()
        moments.score_matrix(responses)
        between = time.perf_counter()
        found = moments.find_groups(responses).attrs["n_groups"]
        spent = np.diff([begun, between, time.perf_counter()])
        print(f"{count:>7}{spent[0]:>14.2f}{spent[1]:>9.2f}{found:>7}")


# ---------------------------------------------------------------- ten million responses


def stages(n_responses):
    """Run all stages in this process; return seconds and peak memory after each."""
    rng = np.random.default_rng(3)
    found = {"imports": (0.0, peak())}
    for n_classes in (2, 4):
        begun = time.perf_counter()
        responses = simulate(rng, n_responses // 10, 300, 10, n_classes)
        found[f"table, {n_classes} classes"] = time.perf_counter() - begun, peak()
        estimators = {"confusion": moments.confusion, "one_vs_rest": moments.one_vs_rest}
        if n_classes == 2:
            names = ("covariance", "class_imbalance", "accuracies", "improved_sml", "confusion")
            estimators = {name: getattr(moments, name) for name in names}
        for name, estimate in estimators.items():
            begun = time.perf_counter()
            estimate(responses)
            found[f"{name}, {n_classes} classes"] = time.perf_counter() - begun, peak()
    return found


def many_responses(n_responses):
    command = [sys.executable, __file__, "--child", str(n_responses)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    print(f"{n_responses:,} responses of 300 raters, 10 to an item, in a process of its own")
    print(f"{'':<30}{'seconds':>9}{'peak memory, GiB':>18}")
    found = json.loads(done.stdout.strip().split("\n")[-1])
    for stage, (seconds, most) in found.items():
        print(f"{stage:<30}{seconds:>9.1f}{most / 2**30:>18.2f}")
    most = max(memory for _, memory in found.values())
    print(f"claim: within {LIMIT / 2**30:.0f} GiB; measured {most / 2**30:.2f}\n")


def main():
    parser = Arguments(__doc__, "small sizes, fewer of them")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(stages(given.child)))
        return
    # First, because a new process counts the memory of the one that started it as its own peak.
    many_responses(10**4 if given.quick else 10**7)
    if given.quick:
        beside_em([(1000, 30, 10)], (2, 4))
        linear([10**4])
        many_raters([30])
    else:
        shapes = [(20_000, 10, 10), (20_000, 30, 10), (50_000, 300, 10), (80_000, 300, 3)]
        beside_em(shapes, (2, 3, 4, 6, 8, 10))
        linear([10**4, 10**5, 10**6, 10**7])
        many_raters([124, 300, 825])


if __name__ == "__main__":
    main()
