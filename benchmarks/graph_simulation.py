"""Traganitis & Giannakis (2020), Figs 8–10: labels on the graph of a stochastic block model.

K = 4 communities, which are the classes, M = 10 raters better than random, mean degree 0.5 and 5, δ
= M. The paper does not state how many edges stay within a community: here nine of ten. Nor does it
state how much better than random raters are: rows are uniform on the simplex, with the largest
entry moved to the diagonal. Methods: majority vote, Dawid–Skene (posterior), Algorithm 3 from
majority vote, Algorithm 4, and posteriors of ``MarkovRandomField`` with δ = M, with the coupling
inferred, and with edges that depend on the labels (``edges="drawn"``). All priors of the confusion
rows are flat, the distribution from which rows are drawn before the largest entry is moved. All
methods see the same data; the tables give means over runs, how often the last method does at least
as well as each other, and the share of true confusion entries in their 90 % intervals.

    python benchmarks/graph_simulation.py [--quick] [--runs 10]
"""

from __future__ import annotations

import numpy as np
from _icm_em import icm_em
from _shared import QUIET, Arguments, communities, f_score

import bayesfuse as bf
from bayesfuse.models import DawidSkene, MarkovRandomField

N_CLASSES, N_RATERS, WITHIN = 4, 10, 0.9
FLAT = np.ones((N_CLASSES, N_CLASSES))
METHODS = (
    "majority vote",
    "Dawid–Skene",
    "MV + Alg. 3",
    "Alg. 4",
    "field, δ = M",
    "field, inferred",
    "field, drawn edges",
)


def simulate(rng, n_items, degree):
    """Draw raters, labels, their graph and all responses."""
    confusion = rng.dirichlet(np.ones(N_CLASSES), size=(N_RATERS, N_CLASSES))
    for rows in confusion:
        for k, row in enumerate(rows):
            row[[k, row.argmax()]] = row[[row.argmax(), k]]
    truth = rng.integers(0, N_CLASSES, n_items)
    made = bf.datasets.simulate_responses(
        truth, N_RATERS, N_CLASSES, confusion=confusion, random_seed=rng
    )
    edges = communities(truth, degree, WITHIN, rng)
    return made, bf.Graph.from_edges(edges, items=range(n_items))


def by_guess(responses, guess):
    """Return the confusion matrices estimated from given labels."""
    counts = np.full((N_RATERS, N_CLASSES, N_CLASSES), 1e-9)
    np.add.at(counts, (responses.rater, guess[responses.item], responses.label), 1.0)
    return counts / counts.sum(axis=2, keepdims=True)


def one_run(rng, n_items, degree, draws):
    """Return by method F-score and confusion error (38), and the coupling inferred."""
    made, graph = simulate(rng, n_items, degree)
    responses = made.responses
    found = {}

    def add(name, guess, confusion):
        error = np.abs(confusion - made.confusion).sum(axis=(1, 2)).mean()
        found[name] = f_score(made.truth, guess, N_CLASSES), error

    votes = responses.votes()
    ties = (votes + 1e-6 * rng.random(votes.shape)).argmax(axis=1)
    add("majority vote", ties, by_guess(responses, ties))
    for name, start in (("MV + Alg. 3", "majority"), ("Alg. 4", "moments")):
        fit = icm_em(responses, graph, trust="paper", start=start)
        add(name, fit.labels, fit.confusion)
    options = QUIET | {"log_likelihood": False, "random_seed": rng}
    fields = {
        "field, δ = M": {"trust": "paper"},
        "field, inferred": {},
        "field, drawn edges": {"edges": "drawn"},
    }
    models = {"Dawid–Skene": DawidSkene(responses, confusion_prior=FLAT)}
    for name, given in fields.items():
        models[name] = MarkovRandomField(responses, graph, confusion_prior=FLAT, **given)
    covered = {}
    for name, model in models.items():
        result = bf.sample(model, draws, chains=2, **options)
        posterior = result["posterior"].dataset
        guess = bf.label_probabilities(result).values.argmax(axis=1)
        rows = posterior["confusion"].values
        add(name, guess, rows.mean(axis=(0, 1)))
        low, high = np.quantile(rows, [0.05, 0.95], axis=(0, 1))
        covered[name] = np.mean((low <= made.confusion) & (made.confusion <= high))
    return found, covered, float(posterior["coupling"].mean())


def main() -> None:
    """Print the tables."""
    parser = Arguments(__doc__, "one run of a small size")
    parser.add_argument("--runs", type=int, default=10, help="Monte Carlo runs (paper: 10)")
    options = parser.parse_args()
    runs, draws = (1, 50) if options.quick else (options.runs, 500)
    sizes = (200,) if options.quick else (100, 200, 500, 1000, 2000, 5000, 10_000)
    for degree in (0.5, 5.0):
        rows = []
        for n_items in sizes:
            rng = np.random.default_rng([8, n_items, round(10 * degree)])
            rows.append([one_run(rng, n_items, degree, draws) for _ in range(runs)])
        for measure, name in enumerate(("F-score (37)", "confusion error (38)")):
            print(
                f"\nmean degree {degree}: {name}\n{'':<10}" + "".join(f"{m:>18}" for m in METHODS)
            )
            for n_items, outcomes in zip(sizes, rows, strict=True):
                values = np.array([[f[m][measure] for m in METHODS] for f, *_ in outcomes])
                mean, error = values.mean(axis=0), values.std(axis=0) / np.sqrt(runs)
                print(
                    f"N={n_items:<8}"
                    + "".join(f"{m:>11.3f} ±{e:.3f}" for m, e in zip(mean, error, strict=True))
                )
        for n_items, outcomes in zip(sizes, rows, strict=True):
            scores = np.array([[f[m] for m in METHODS] for f, *_ in outcomes])
            at_least = [
                f"{np.sum(scores[:, -1, 0] >= scores[:, j, 0] - 1e-12)}/{runs} {METHODS[j]}"
                for j in range(len(METHODS) - 1)
            ]
            coupling = np.mean([coupling for *_, coupling in outcomes])
            shares = {name: np.mean([c[name] for _, c, _ in outcomes]) for name in outcomes[0][1]}
            print(
                f"N={n_items:<8}coupling inferred {coupling:.2f} (δ = M means {N_RATERS / 2:.1f}); "
                "F-score at least that of "
                + ", ".join(at_least)
                + "; 90 % intervals cover "
                + ", ".join(f"{share:.3f} {name}" for name, share in shares.items()),
                flush=True,
            )


if __name__ == "__main__":
    main()
