"""Ordered classes: graded raters against confusion rows, by leave-one-out and by the truth.

One row per crowd and model: the expected log density of an item left out (sum over items, by
PSIS-LOO, with the number of items of Pareto k above 0.7), its difference to the best model with the
standard error, and on items with a truth log-loss (nats, probabilities clipped at 1e-4), accuracy
and the mean absolute difference of median and true grade. Anesthesia has no truth.

The classes of adult2 (G, P, R, X) and web (0 to 4) are grades. Those of weather_amt are negative,
neutral, positive, not weather related and cannot tell: only three of five are ordered, so it shows
what a wrong order costs. The data are read from ../shared/data, next to the checkout.

    python benchmarks/grades.py [--quick] [--only web] [--draws 500] [--chains 2]
"""

from __future__ import annotations

import time
import warnings

import arviz as az
import numpy as np
from _shared import QUIET, Arguments, load

import bayesfuse as bf
from bayesfuse.models import DawidSkene

CROWDS = "anesthesia", "weather_amt", "web", "adult2"
MODELS = {
    "confusion": {},
    "confusion, pooled": {"pooled": True},
    "graded": {"raters": "graded"},
    "graded, pooled": {"raters": "graded", "pooled": True},
}
CLIP = 1e-4


def score(result, truth):
    """Return log-loss, accuracy and the distance of the median grade."""
    if truth is None:
        return [np.nan] * 3
    probability = bf.label_probabilities(result).sel(item=truth.index.to_numpy()).values
    true, median = (
        truth.to_numpy(),
        bf.decisions.item_grades(result)["median"].sel(item=truth.index.to_numpy()),
    )
    own = probability[np.arange(len(true)), true]
    right = (probability.argmax(axis=1) == true).mean()
    return [-np.log(np.maximum(own, CLIP)).mean(), right, np.abs(median.values - true).mean()]


def main():
    """Print the table."""
    parser = Arguments(__doc__, "the smallest crowd, few draws")
    parser.add_argument("--only", nargs="+", choices=CROWDS, default=CROWDS)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--chains", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.only, arguments.draws = CROWDS[:1], 20
    print(
        f"{'crowd':<12}{'model':<20}{'elpd':>9}{'− best':>8}{'± se':>7}{'k>.7':>6}"
        f"{'log-loss':>10}{'accuracy':>10}{'|median−y|':>12}{'seconds':>9}"
    )
    for name in arguments.only:
        responses, truth = load(name)
        rows = {}
        for title, settings in MODELS.items():
            began = time.perf_counter()
            result = bf.sample(
                DawidSkene(responses, **settings),
                arguments.draws,
                chains=arguments.chains,
                random_seed=1,
                **QUIET,
            )
            took = time.perf_counter() - began
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of large Pareto k, which the table counts
                found = az.loo(result, pointwise=True)
            rows[title] = found, score(result, truth), took
        best = max(rows, key=lambda title: rows[title][0].elpd)
        for title, (found, scores, took) in rows.items():
            differ = (found.elpd_i - rows[best][0].elpd_i).values
            error = np.sqrt(len(differ)) * differ.std()
            log_loss, accuracy, distance = scores
            print(
                f"{name:<12}{title:<20}{float(found.elpd):>9.1f}{differ.sum():>8.1f}{error:>7.1f}"
                f"{int((found.pareto_k > 0.7).sum()):>6}{log_loss:>10.4f}{accuracy:>10.4f}"
                f"{distance:>12.4f}{took:>9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
