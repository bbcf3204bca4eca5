"""Traganitis & Giannakis (2020), Figs 4–7, with the sequence in the model.

K = 4 classes, sequences of 40 labels from a random Markov chain that begin in its stationary
distribution, M raters of whom ⌊M/2⌋ + 1 are better than random; N to 10⁴ with M = 10, then M to 30
with N = 1,000. The paper's method is moment matching followed by Baum–Welch (Alg. 1 + 2); beside
it stand majority vote, i.i.d. moments, Baum–Welch from majority vote, the true parameters, and the
posterior of ``HiddenMarkov`` (Gibbs), whose 90 % intervals are counted. The posterior is taken with
the flat prior that the simulation draws confusion matrices from (before it makes raters better than
random) and with the default one, which leans to the diagonal.

    python benchmarks/hmm_simulation.py [--quick] [--runs 10]
"""

from __future__ import annotations

import argparse

import numpy as np
from traganitis2020 import LENGTH, N_CLASSES, f_score, simulate

import bayesfuse as bf
from bayesfuse import moments
from bayesfuse.inference import em
from bayesfuse.models import HiddenMarkov
from bayesfuse.observation import Observation

FLAT = np.ones((N_CLASSES, N_CLASSES))
METHODS = (
    "majority vote",
    "i.i.d. moments",
    "majority + Baum–Welch",
    "moments + Baum–Welch",
    "posterior, flat prior",
    "posterior",
    "true parameters",
)
MEASURES = ("F-score (37)", "confusion error (38)", "transition error |T − T̂|₁")


def one_run(rng, n_items, n_raters, draws):
    """Return by method F-score, confusion and transition error; and what intervals cover."""
    transition, _, confusion, truth, responses = simulate(rng, n_items, n_raters)
    sequences = bf.Sequences.from_lengths([LENGTH] * (n_items // LENGTH))
    chain = bf.StationaryMarkovChain(None, sequences)
    observation = Observation.build(responses, chain, bf.Confusion(None))
    found, covered = {}, {}

    def add(name, labels, rows=None, steps=None):
        errors = [np.nan, np.nan]
        if rows is not None:
            errors[0] = np.abs(rows - confusion).sum(axis=(1, 2)).mean()
        if steps is not None:
            errors[1] = np.abs(steps - transition).sum()
        found[name] = (f_score(truth, labels), *errors)

    def climb(name, steps, rows):
        even = 1.0 / N_CLASSES  # keeps zeros of the start from being zeros for ever
        start = {"transition": 0.99 * steps + 0.01 * even, "confusion": 0.99 * rows + 0.01 * even}
        start = observation.rows(start)
        flat = {key: np.ones_like(value) for key, value in start.items()}
        fit = em.fit(observation, start, flat, iterations=2000)
        labels = observation.marginal(fit.rows).probability.argmax(axis=1)
        add(name, labels, np.exp(fit.rows["confusion"]), np.exp(fit.rows["transition"]))

    votes = responses.votes()
    ties = (votes + 1e-6 * rng.random(votes.shape)).argmax(axis=1)
    one_hot = np.eye(N_CLASSES)[ties]
    (counts,) = chain.tally(ties, observation.label_structure, N_CLASSES)
    by_votes = observation.raters.tally(
        (np.zeros((n_raters, N_CLASSES, N_CLASSES)),), one_hot, observation.rater_structure, rng
    )[0]
    by_votes, by_pairs = (
        (part + 0.1) / (part + 0.1).sum(axis=-1, keepdims=True) for part in (by_votes, counts)
    )
    add("majority vote", ties, by_votes, by_pairs)
    climb("majority + Baum–Welch", by_pairs, by_votes)
    estimate = moments.confusion(responses)
    rows = estimate.confusion.values
    steps = moments.transition(responses, sequences.lengths, rows).transition.values
    apart = Observation.build(responses, bf.Independent(None), bf.Confusion(None))
    point = apart.rows({"prevalence": estimate.prevalence.values, "confusion": rows})
    guess = apart.by_item(apart.marginal(point).probability).argmax(axis=1)
    add("i.i.d. moments", guess, rows, steps)
    climb("moments + Baum–Welch", steps, rows)
    exact = observation.rows({"transition": transition, "confusion": confusion})
    add("true parameters", observation.marginal(exact).probability.argmax(axis=1))
    for name, prior in (("posterior, flat prior", FLAT), ("posterior", None)):
        model = HiddenMarkov(responses, sequences, initial="stationary", confusion_prior=prior)
        result = bf.sample(
            model, draws, random_seed=rng, progressbar=False, quiet=True, log_likelihood=False
        )
        posterior = result["posterior"].dataset
        values = {key: posterior[key].values for key in ("confusion", "transition")}
        means = {key: value.mean(axis=(0, 1)) for key, value in values.items()}
        labels = bf.label_probabilities(result).values.argmax(axis=1)
        add(name, labels, means["confusion"], means["transition"])
        for key, true in (("confusion", confusion), ("transition", transition)):
            low, high = np.quantile(values[key], [0.05, 0.95], axis=(0, 1))
            covered[name, key] = ((low <= true) & (true <= high)).mean()
    return found, covered


def sweep(sizes, runs, draws, seed):
    """Run all sizes and print one table per measure."""
    results = []
    for size in sizes:
        rng = np.random.default_rng([seed, *size])
        results.append([one_run(rng, *size, draws) for _ in range(runs)])
    for measure, name in enumerate(MEASURES):
        print(f"\n{name:<16}" + "".join(f"{method:>23}" for method in METHODS))
        for (n_items, n_raters), outcomes in zip(sizes, results, strict=True):
            cells = []
            for method in METHODS:
                values = [found[method][measure] for found, _ in outcomes]
                cells.append(f"{np.mean(values):>16.3f} ±{np.std(values):.3f}")
            print(f"N={n_items:<6} M={n_raters:<5}" + "".join(cells))
    print("\nShare of true entries in their 90 % intervals")
    for (n_items, n_raters), outcomes in zip(sizes, results, strict=True):
        shares = {key: np.mean([covered[key] for _, covered in outcomes]) for key in outcomes[0][1]}
        cells = ", ".join(f"{name}, {key} {share:.3f}" for (name, key), share in shares.items())
        print(f"N={n_items:<6} M={n_raters:<5} {cells}", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few runs of small sizes")
    parser.add_argument("--runs", type=int, default=10, help="Monte Carlo runs (paper: 10)")
    options = parser.parse_args()
    runs, draws = (2, 200) if options.quick else (options.runs, 500)
    items = (200, 1000) if options.quick else (200, 400, 1000, 2000, 4000, 10_000)
    raters = (5, 15) if options.quick else (5, 15, 30)
    sweep([(n, 10) for n in items], runs, draws, 4)
    sweep([(1000, m) for m in raters], runs, draws, 6)


if __name__ == "__main__":
    main()
