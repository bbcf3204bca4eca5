"""EM of this package against crowd-kit's DawidSkene: time per iteration and log-likelihood.

Both maximise the likelihood (flat priors here), start from the shares of the votes and make the
same number of iterations. They reach the same log-likelihood (computed for both by summing over the
class of every item), except where crowd-kit's floor of 1e-10 under every count leads it along
another path. The third log-likelihood is what the same number of our iterations reach from this
package's default start.

Two times are given for crowd-kit: per iteration of ``fit``, which also evaluates a bound of the
likelihood, as our iterations do the likelihood, and for its E and M steps alone. Neither counts
reading the table or the start. Times are CPU seconds, because other processes may run; contenders
take turns and the ratio is that of their medians. Claim: at least 20 times as fast per iteration.

    python benchmarks/em_vs_crowdkit.py [--quick] [--rounds 5]
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
from _shared import DATA, Arguments, extras, load

import bayesfuse as bf
from bayesfuse.inference import em
from bayesfuse.inference.start import find_start, majority
from bayesfuse.observation import ResponseModel
from bayesfuse.parameters.dirichlet import Dirichlet

with extras():
    from crowdkit.aggregation import DawidSkene, MajorityVote

REAL = "rte", "labelme", "face", "adult2"
ITERATIONS = 20
CLAIM = 20
SMALLEST = 1e-10
"""Counts below this are raised to it, as in crowd-kit."""


def tables(largest, real=REAL):
    """Yield the title and the responses of every available data set."""
    for name in real:
        if (DATA / name).exists():
            yield name, load(name)[0]
        else:
            print(f"{name}: left out, its data were not found")
    for n_items, n_raters, n_classes, per_item in (
        (2_000, 10, 4, 10),
        (10_000, 100, 8, 5),
        (largest // 10, 300, 4, 10),
    ):
        made = bf.datasets.simulate_dawid_skene(
            n_items, n_raters, n_classes, per_item=per_item, random_seed=1
        )
        yield f"{n_items} × {per_item} of {n_raters}", made.responses


class Ours:
    def __init__(self, responses):
        sizes = responses.n_raters, responses.n_classes, responses.n_classes
        self.flat = {
            "prevalence": Dirichlet(np.ones(sizes[1])),
            "confusion": Dirichlet(np.ones(sizes)),
        }
        self.requested = ResponseModel.build(
            responses,
            bf.build.Independent(None),
            bf.build.Confusion(None),
        )
        weight = majority(self.requested) * self.requested.table.multiplicity[:, None]
        counts = self.requested.sample_counts(
            em.centre(self.flat), weight, np.random.default_rng(0)
        )
        # crowd-kit begins without zeros too, which EM would never leave; a rater without any
        # response keeps uniform rows
        self.begin = em.centre(
            {name: Dirichlet(np.maximum(x, SMALLEST)) for name, x in counts.items()}
        )

    def run(self, iterations, begin=None):
        begin = self.begin if begin is None else begin
        return em.fit(self.requested, begin, self.flat, iterations=iterations, tolerance=-np.inf)

    def log_likelihood(self, rows):
        return self.requested.marginal(rows).total


class CrowdKit:
    def __init__(self, responses):
        self.frame = pd.DataFrame(
            {"task": responses.item, "worker": responses.rater, "label": responses.label}
        )
        self.shape = responses.n_raters, responses.n_classes, responses.n_classes

    def run(self, iterations):
        return DawidSkene(n_iter=iterations, tol=-np.inf).fit(self.frame)

    def steps(self, iterations):
        """Return the CPU seconds of E and M steps alone."""
        probability = MajorityVote().fit_predict_proba(self.frame)
        prior, errors = probability.mean(), DawidSkene._m_step(self.frame, probability)
        begun = time.process_time()
        for _ in range(iterations):
            probability = DawidSkene._e_step(self.frame, prior, errors)
            prior, errors = probability.mean(), DawidSkene._m_step(self.frame, probability)
        return time.process_time() - begun

    def parameters(self, fitted):
        classes = range(self.shape[1])
        errors = fitted.errors_.reindex(
            pd.MultiIndex.from_product([range(self.shape[0]), classes]), columns=classes
        )
        table = errors.fillna(0.0).to_numpy().reshape(self.shape).transpose(0, 2, 1)
        total = table.sum(axis=-1, keepdims=True)
        confusion = np.divide(
            table, total, out=np.full(self.shape, 1 / len(classes)), where=total > 0
        )
        return fitted.priors_.reindex(classes).fillna(0.0).to_numpy(), confusion


def timed(run, iterations):
    begun = time.process_time()
    found = run(iterations)
    return time.process_time() - begun, found


def compare(responses, rounds):
    """Return seconds per iteration (ours, crowd-kit's fit, its steps) and the log-likelihoods."""
    ours, theirs = Ours(responses), CrowdKit(responses)
    ours.run(2)  # compiles
    taken = []
    for _ in range(rounds):
        one, fit = timed(ours.run, ITERATIONS)
        short, _ = timed(theirs.run, 1)
        long, _ = timed(theirs.run, ITERATIONS + 1)
        taken.append([one, long - short, theirs.steps(ITERATIONS)])
    default = ours.run(ITERATIONS, find_start(ours.requested, ours.flat).rows)
    prevalence, confusion = theirs.parameters(theirs.run(ITERATIONS))
    other = ours.requested.rows({"prevalence": prevalence, "confusion": confusion})
    log_likelihood = [ours.log_likelihood(rows) for rows in (fit.rows, other, default.rows)]
    return np.median(taken, axis=0) / ITERATIONS, log_likelihood


def main():
    parser = Arguments(__doc__, "one real table, one round, 10⁴ responses at most")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(
        f"CPU milliseconds per EM iteration; log-likelihood after {ITERATIONS} of them from the "
        "votes, and from the default start"
    )
    print(
        f"{'':<22}{'responses':>10}{'K':>3}{'bayesfuse':>11}{'crowd-kit':>11}{'ratio':>7}"
        f"{'its steps':>11}{'ratio':>7}{'bayesfuse':>13}{'crowd-kit':>13}{'from default':>14}"
    )
    ratios = []
    for title, responses in tables(*((10_000, REAL[:1]) if given.quick else (1_000_000,))):
        (ours, fit, steps), reached = compare(responses, 1 if given.quick else given.rounds)
        ratios.append([fit / ours, steps / ours])
        print(
            f"{title:<22}{responses.n_responses:10,}{responses.n_classes:3}{1e3 * ours:11.3f}"
            f"{1e3 * fit:11.1f}{ratios[-1][0]:7.0f}{1e3 * steps:11.1f}{ratios[-1][1]:7.0f}"
            + f"{reached[0]:13.2f}{reached[1]:13.2f}{reached[2]:14.2f}"
        )
    least = np.min(ratios, axis=0)
    print(
        f"smallest ratio {least[0]:.0f}, of the steps alone {least[1]:.0f}; claim: at least {CLAIM}"
    )


if __name__ == "__main__":
    main()
