"""Where chains end on 200 hard problems, started from moments, majority vote or PyMC's default.

2 to 6 classes, 40 problems each. 15 to 30 raters, a third of them worse than random in every class
and, as spammers do, answering e times as often as the others; 500 to 500 K items with 4 to 8
answers each; the rarest class has 35 to 4 % of the items. The posterior of such a problem has many
modes, and a chain stays in the first one it finds. Four chains start from each of

* "moments", the default of ``bf.sample``: spectral moments in competition with majority vote,
* "majority": majority vote alone,
* "PyMC": the prior mean, and uniform noise on (−1, 1) in unconstrained coordinates, which is what
  ``pm.sample`` does by default.

All run the same Gibbs sampler, so only the start differs (NUTS would move between modes even less,
and half a minute of compilation per problem would limit the benchmark to a dozen of them).

A chain has found the right mode if, over its last KEPT sweeps,

1. the mean of its confusion matrices is closer to the true ones (squared distance, weighted by the
   expected numbers of responses) than with its classes permuted in any other way, and
2. its mean log evidence is not lower than that of four chains started at the mode nearest to the
   truth by more than twice their standard deviation within a chain.

Problems that cannot be decided are replaced, and counted: those in which even a chain started at
the truth violates the first rule, or in which swapping two classes at the mode nearest to the truth
lowers its posterior density by a factor of less than exp(MARGIN), so that the data do not say which
is right.

    python benchmarks/hard_starts.py [--quick] [--problems 40]
"""

from __future__ import annotations

import time
from collections import defaultdict
from itertools import combinations

import numpy as np
from _shared import Arguments
from scipy.optimize import linear_sum_assignment

import bayesfuse as bf
from bayesfuse.inference import em
from bayesfuse.inference.gibbs import Sweep, step
from bayesfuse.inference.start import find_start
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import ResponseModel
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.simplex import CentredLogs

CLASSES = (2, 3, 4, 5, 6)
STARTS = ("moments", "majority", "PyMC")
CHAINS, SWEEPS, KEPT = 4, 300, 100
MARGIN = 3.0


def simulate(rng, n_classes):
    """Return responses, prevalence and confusion matrices of a hard problem."""
    n_raters = rng.integers(15, 31)
    n_items = rng.integers(500, 500 * n_classes + 1)
    per_item = rng.integers(4, 9)
    prevalence = rng.uniform(0.35, 0.55) ** np.arange(n_classes)
    prevalence = rng.permutation(prevalence / prevalence.sum())
    chance = 1 / n_classes
    right = chance + (1 - chance) * rng.uniform(0.15, 0.5, (n_raters, n_classes))
    worse = round(n_raters / 3)
    right[:worse] = chance * rng.random((worse, n_classes))
    confusion = np.empty((n_raters, n_classes, n_classes))
    wrong = rng.dirichlet(np.full(n_classes - 1, 0.3), size=(n_raters, n_classes))
    for k in range(n_classes):
        others = (1 - right[:, [k]]) * wrong[:, k]
        confusion[:, k] = np.insert(others, k, right[:, k], axis=1)
    busy = rng.normal(size=n_raters)  # log of how often somebody answers
    busy[:worse] += 1.0
    rater = np.argsort(-busy - rng.gumbel(size=(n_items, n_raters)), axis=1)[:, :per_item].ravel()
    item = np.repeat(np.arange(n_items), per_item)
    truth = rng.choice(n_classes, n_items, p=prevalence)
    cumulative = confusion.cumsum(axis=-1)[rater, truth[item]]
    label = (rng.random(len(item))[:, None] >= cumulative[:, :-1]).sum(axis=1)
    responses = bf.Responses.from_long(
        {"item": item, "rater": rater, "label": label},
        items=range(n_items),
        raters=range(n_raters),
        classes=range(n_classes),
    )
    return responses, truth, {"prevalence": prevalence, "confusion": confusion}


class Problem:
    """Hard data, the default priors of DawidSkene, and the mode nearest to the truth."""

    def __init__(self, rng, n_classes):
        self.responses, self.truth, self.values = simulate(rng, n_classes)
        self.response_model = ResponseModel.build(
            self.responses,
            bf.build.Independent(self.values["prevalence"]),
            bf.build.Confusion(self.values["confusion"]),
        )
        self.prior = {
            "prevalence": Dirichlet(bf.priors.prevalence(None, self.responses)),
            "confusion": Dirichlet(bf.priors.confusion(None, self.responses)),
        }
        self.mode = self.climb(self.response_model.rows(self.values))

    def climb(self, rows):
        return em.fit(self.response_model, rows, self.prior, iterations=3000, tolerance=1e-10)

    def decidable(self, rng):
        """Tell whether the problem can be decided, and store the reference."""
        n_classes = len(self.values["prevalence"])
        for one, other in combinations(range(n_classes), 2):
            order = np.arange(n_classes)
            order[[one, other]] = other, one
            swapped = {
                "prevalence": self.mode.rows["prevalence"][order],
                "confusion": self.mode.rows["confusion"][:, order],
            }
            if self.climb(swapped).trace[-1] > self.mode.trace[-1] - MARGIN:
                return False
        ends = [self.end(self.dispersed(self.mode.rows, rng), rng) for _ in range(CHAINS)]
        self.least = np.mean([e.mean() - 2 * e.std() for _, e in ends])
        return all(self.in_place(confusion) for confusion, _ in ends)

    def dispersed(self, rows, rng):
        """Return parameters after one sweep."""
        sweep = Sweep(self.response_model, self.prior, tuple(self.prior))
        return step(sweep, sweep.begin(rows), rng).rows

    def begin(self, start, rng):
        if start != "PyMC":
            rows = find_start(self.response_model, self.prior, start).rows
            return [self.dispersed(rows, rng) for _ in range(CHAINS)]
        centre = {name: CentredLogs().write(x) for name, x in em.centre(self.prior).items()}
        return [
            {
                name: CentredLogs().read(x + rng.uniform(-1, 1, x.shape))
                for name, x in centre.items()
            }
            for _ in range(CHAINS)
        ]

    def end(self, rows, rng):
        """Run a chain; return its mean confusion matrices and its log evidences at the end."""
        confusion, evidence = 0.0, []
        for sweep in range(SWEEPS):
            drawn = self.response_model.draw(rows, rng)
            counts = self.response_model.sample_counts(rows, drawn, rng)
            rows = {
                name: draw_dirichlet((self.prior[name] + counts[name]).concentration, rng)
                for name in rows
            }
            if sweep >= SWEEPS - KEPT:
                confusion = confusion + np.exp(rows["confusion"]) / KEPT
                evidence.append(self.response_model.marginal(rows).total)
        return confusion, np.array(evidence)

    def in_place(self, confusion):
        """Tell whether no permutation of the classes is closer to the truth."""
        expected = np.outer(self.responses.per_rater, self.values["prevalence"])
        apart = ((confusion[:, :, None] - self.values["confusion"][:, None]) ** 2).sum(axis=-1)
        place = linear_sum_assignment(np.einsum("mjk,mk->jk", apart, expected))[1]
        return bool((place == np.arange(len(place))).all())

    def found(self, rows, rng):
        """Run a chain and tell whether it ends in the right mode."""
        confusion, evidence = self.end(rows, rng)
        return self.in_place(confusion) and evidence.mean() >= self.least


def study(n_classes, problems):
    """Return the share of chains in the right mode by start, one number per problem."""
    shares, taken, notes = defaultdict(list), defaultdict(float), defaultdict(list)
    number = 0
    for stream in np.random.default_rng([2026, n_classes]).spawn(100 * problems):
        problem = Problem(stream, n_classes)
        if not problem.decidable(stream):
            notes["undecidable"].append(1)
            continue
        number += 1
        probability = problem.response_model.by_item(
            problem.response_model.marginal(problem.mode.rows).probability
        )
        notes["at the truth"].append((probability.argmax(axis=1) == problem.truth).mean())
        votes = problem.responses.votes()
        notes["majority"].append((votes.argmax(axis=1) == problem.truth).mean())
        for start in STARTS:
            begun = time.perf_counter()
            points = problem.begin(start, stream)
            taken[start] += time.perf_counter() - begun
            shares[start].append(np.mean([problem.found(rows, stream) for rows in points]))
        if number == problems:
            break
    return shares, taken, notes


def main():
    parser = Arguments(__doc__, "one problem each of two and three classes")
    parser.add_argument("--problems", type=int, default=40, help="per number of classes")
    given = parser.parse_args()
    problems, classes = (1, CLASSES[:2]) if given.quick else (given.problems, CLASSES)
    begun = time.perf_counter()
    found = {k: study(k, problems) for k in classes}
    shares = {start: [np.array(found[k][0][start]) for k in classes] for start in STARTS}
    print(
        f"Share of chains in the right mode, % ± standard error; {problems} problems per column, "
        f"{CHAINS} chains each"
    )
    print(f"{'classes':<14}" + "".join(f"{k:>14}" for k in (*classes, "all")))
    for start, columns in shares.items():
        cells = [f"{100 * x.mean():.1f} ± {error(x):.1f}" for x in columns]
        # every number of classes weighs the same
        spread = np.sqrt(sum(error(x) ** 2 for x in columns)) / len(columns)
        cells.append(f"{100 * np.mean([x.mean() for x in columns]):.1f} ± {spread:.1f}")
        print(f"{start:<14}" + "".join(f"{cell:>14}" for cell in cells))
    for other in STARTS[1:]:
        gaps = [a - b for a, b in zip(shares["moments"], shares[other], strict=True)]
        cells = [f"{100 * x.mean():+.1f} ± {error(x):.1f}" for x in gaps]
        print(f"{'− ' + other:<14}" + "".join(f"{cell:>14}" for cell in cells))
    for title, name in (
        ("labels right at the true mode, %", "at the truth"),
        ("labels right by majority vote, %", "majority"),
    ):
        print(f"{title}: " + ", ".join(f"{100 * np.mean(found[k][2][name]):.0f}" for k in classes))
    print("replaced: " + ", ".join(str(len(found[k][2]["undecidable"])) for k in classes))
    ms = {s: 1000 * np.mean([found[k][1][s] for k in classes]) / problems for s in STARTS}
    print("milliseconds per start: " + ", ".join(f"{s} {x:.0f}" for s, x in ms.items()))
    print(f"{time.perf_counter() - begun:.0f} s in all")


def error(shares):
    """Return the standard error of a mean share in per cent, over problems."""
    return 100 * shares.std(ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else np.nan


if __name__ == "__main__":
    main()
