"""Traganitis & Giannakis (2020), Figs 4–7: moment matching on sequences of labels.

K = 4 classes, sequences of 40 labels from a random Markov chain, M raters with random confusion
matrices of whom ⌊M/2⌋ + 1 are better than random; first M = 10 and N to 10⁴ (Figs 4, 5), then N =
10³ and M to 30 (Figs 6, 7; the caption of Fig 7 says K = 2, the text K = 4). This benchmark covers
the methods without a model of the sequence: majority vote, moment matching (17) with MAP labels
(18), EM for independent labels from either, and the transition matrix (22), (23).

    python benchmarks/traganitis2020.py [--quick] [--runs 10] [--output benchmarks/figures]
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from _shared import Arguments, f_score, save

import bayesfuse as bf
from bayesfuse import moments
from bayesfuse.inference import em
from bayesfuse.moments.views import from_votes
from bayesfuse.observation import ResponseModel
from bayesfuse.parameters.dirichlet import Dirichlet

N_CLASSES, LENGTH = 4, 40
METHODS = ("majority vote", "moments", "majority vote + EM", "moments + EM", "true parameters")
TRANSITIONS = ("majority vote", "moments", "true parameters")


def simulate(rng, n_items, n_raters):
    """Draw parameters, labels in sequences and everybody's responses (items, raters)."""
    transition = rng.dirichlet(np.ones(N_CLASSES), size=N_CLASSES)
    stationary = np.linalg.matrix_power(transition, 1000)[0]
    confusion = rng.dirichlet(np.ones(N_CLASSES), size=(n_raters, N_CLASSES))
    for rows in confusion[: n_raters // 2 + 1]:
        for k, row in enumerate(rows):
            row[[k, row.argmax()]] = row[[row.argmax(), k]]
    truth = np.empty((n_items // LENGTH, LENGTH), dtype=int)
    for sequence in truth:
        row = stationary
        for n in range(LENGTH):
            sequence[n] = rng.choice(N_CLASSES, p=row)
            row = transition[sequence[n]]
    truth = truth.ravel()
    cumulative = confusion.cumsum(axis=-1)[:, truth]
    label = (rng.random(cumulative.shape[:2])[..., None] > cumulative[..., :-1]).sum(axis=-1)
    responses = bf.Responses.from_matrix(label.T, classes=range(N_CLASSES))
    return transition, stationary, confusion, truth, responses


def one_run(rng, n_items, n_raters):
    """Return the F-scores, confusion errors (38) and transition errors of all methods."""
    transition, stationary, confusion, truth, responses = simulate(rng, n_items, n_raters)
    estimate = moments.confusion(responses)
    votes = responses.votes()
    share = (votes == votes.max(axis=1, keepdims=True)) / 1.0
    share /= share.sum(axis=1, keepdims=True)
    points = {
        "majority vote": (share.mean(axis=0), from_votes(responses)),
        "moments": (estimate.prevalence.values, estimate.confusion.values),
        "true parameters": (stationary, confusion),
    }
    found = {
        name: moments.transition(responses, [LENGTH] * (n_items // LENGTH), points[name][1])
        for name in TRANSITIONS
    }
    step_error = {
        name: np.abs(fit.transition.values - transition).sum() for name, fit in found.items()
    }
    observation = ResponseModel.build(
        responses, bf.build.Independent(None), bf.build.Confusion(None)
    )
    for name in ("majority vote", "moments"):
        points[f"{name} + EM"] = polish(observation, *points[name])
    scores, errors = {}, {}
    for name, (prevalence, rows) in points.items():
        log_rows = observation.rows({"prevalence": prevalence, "confusion": rows})
        guess = observation.marginal(log_rows).probability.argmax(axis=1)[observation.inverse]
        if name == "majority vote":
            guess = (share + 1e-6 * rng.random(share.shape)).argmax(axis=1)
        scores[name] = f_score(truth, guess, N_CLASSES)
        errors[name] = np.abs(rows - confusion).sum(axis=(1, 2)).mean()
    return scores, errors, step_error


def polish(observation, prevalence, confusion):
    """Maximise the likelihood of independent labels by EM."""
    even = 1.0 / N_CLASSES  # keeps zeros of the start from being zeros for ever
    rows = observation.rows(
        {"prevalence": 0.99 * prevalence + 0.01 * even, "confusion": 0.99 * confusion + 0.01 * even}
    )
    flat = {name: Dirichlet(np.ones_like(row)) for name, row in rows.items()}
    fit = em.fit(observation, rows, flat, iterations=2000)
    return np.exp(fit.rows["prevalence"]), np.exp(fit.rows["confusion"])


def sweep(sizes, runs, seed):
    """Run every (items, raters) of ``sizes``; mean and standard deviation by measure and method."""
    results = []
    for size in sizes:
        rng = np.random.default_rng([seed, *size])
        outcomes = [one_run(rng, *size) for _ in range(runs)]
        results.append(
            [
                {m: (np.mean(v), np.std(v)) for m in part[0] for v in [[x[m] for x in part]]}
                for part in zip(*outcomes, strict=True)
            ]
        )
    return results


def show(title, sizes, column, results):
    """Print one table per measure."""
    names = ("F-score (37)", "confusion error (38)", "transition error |T − T̂|₁")
    print(f"\n{title}")
    for measure, name in enumerate(names):
        methods = TRANSITIONS if measure == 2 else METHODS
        print(f"\n  {name:<28}" + "".join(f"{method:>20}" for method in methods))
        for size, result in zip(sizes, results, strict=True):
            cells = "".join(
                f"{result[measure][m][0]:>13.3f} ±{result[measure][m][1]:.3f}" for m in methods
            )
            print(f"  {'NM'[column]} = {size[column]:<24}{cells}")


def draw(axes, sizes, column, results):
    """Draw one row of the figure."""
    x = [size[column] for size in sizes]
    for measure, (ax, label) in enumerate(
        zip(axes, ("F-score", "confusion error (38)", "transition error"), strict=True)
    ):
        for method in TRANSITIONS if measure == 2 else METHODS:
            if measure == 1 and method == "true parameters":
                continue  # no error to show
            mean, spread = np.array([result[measure][method] for result in results]).T
            ax.errorbar(
                x, mean, spread, capsize=2, color=f"C{METHODS.index(method)}", label=method,
                linestyle="--" if method == "true parameters" else "-",
            )  # fmt: skip
        ax.set(xlabel=("items N", "raters M")[column], ylabel=label, ylim=(0, None))
        if column == 0:
            ax.set_xscale("log")
            ax.minorticks_off()
        ax.set_xticks(x, x)


def claims(by_items, items, raters):
    """Print the paper's claims and the measurements."""

    def change(results, measure):
        ends = [result[measure]["moments"][0] for result in (results[0], results[-1])]
        return f"{ends[0]:.2f} → {ends[1]:.2f}"

    def scores(place, *methods):
        found = [f"{items[place][0][method][0]:.3f}" for method in methods]
        return f"{found[0]} against {found[1]} at N = {by_items[place][0]}"

    from_either = "majority vote + EM", "moments + EM"
    rows = [
        ("confusion error of moments falls with N", change(items, 1)),
        ("transition error of moments falls with N", change(items, 2)),
        ("F-score approaches the oracle's", scores(-1, "moments + EM", "true parameters")),
        ("at small N majority vote is the better start of EM", scores(0, *from_either)),
        ("at large N it stays behind", scores(-1, *from_either)),
        ("F-score rises with M", change(raters, 0)),
        ("confusion error falls with M", change(raters, 1)),
        ("transition error falls with M", change(raters, 2)),
    ]
    print(f"\n{'The paper claims':<54}Measured here")
    for claim, measured in rows:
        print(f"{claim:<54}{measured}")
    print()


def main() -> None:
    """Print the tables and the paper's claims, draw the figure."""
    parser = Arguments(__doc__, "two runs of small sizes", figures=True)
    parser.add_argument("--runs", type=int, default=10, help="Monte Carlo runs (paper: 10)")
    options = parser.parse_args()
    runs = 2 if options.quick else options.runs
    by_items = [
        (n, 10) for n in ((200, 400) if options.quick else (200, 400, 1000, 2000, 4000, 10_000))
    ]
    by_raters = [
        (200 if options.quick else 1000, m)
        for m in ((5, 10) if options.quick else (5, 10, 15, 20, 30))
    ]
    figure, axes = plt.subplots(2, 3, figsize=(13, 7), layout="constrained")
    items, raters = sweep(by_items, runs, 4), sweep(by_raters, runs, 6)
    show("Figs 4 and 5: K = 4, M = 10", by_items, 0, items)
    draw(axes[0], by_items, 0, items)
    show("Figs 6 and 7: K = 4, N = 1000", by_raters, 1, raters)
    draw(axes[1], by_raters, 1, raters)
    claims(by_items, items, raters)
    axes[0, 0].legend(fontsize=8)
    axes[0, 0].set_title("M = 10", loc="left")
    axes[1, 0].set_title("N = 1000", loc="left")
    save(figure, options.output / "traganitis2020.png")
    print("Figure: traganitis2020.png")


if __name__ == "__main__":
    main()
