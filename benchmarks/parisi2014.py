"""Parisi, Strino, Nadler & Kluger (2014), Figs 1, S1, S4 and S5: ranking and fusing 100 raters.

Balanced accuracies U(0.3, 0.8) on 10,000 items, of which 300 positive and 300 negative ones are
answered; with a cartel, a third of the raters follow a target unrelated to the truth with a
balanced accuracy of 0.7. Every rater makes exactly as many errors as its balanced accuracy says,
split at random between the classes (supplement G). "iMLE" is EM from the labels of SML or of the
majority.
"""

import matplotlib.pyplot as plt
import numpy as np
from _shared import Arguments, save
from scipy.stats import kendalltau

import bayesfuse as bf
from bayesfuse.inference import em
from bayesfuse.moments import covariance, rank_one
from bayesfuse.moments.pairs import METHODS
from bayesfuse.observation import ResponseModel
from bayesfuse.parameters.dirichlet import Dirichlet

RATERS = 100
METALEARNERS = "best rater", "majority", "SML", "iMLE from SML", "iMLE from majority"


def detector(target, balanced_accuracy, rng):
    """Copy a target with exactly this balanced accuracy and a random split of the errors."""
    positive, negative = np.flatnonzero(target), np.flatnonzero(~target)
    errors = 2 - 2 * balanced_accuracy  # false positive rate + false negative rate
    false_positive = rng.uniform(max(0, errors - 1), min(1, errors))
    label = target.copy()
    for group, rate in ((negative, false_positive), (positive, errors - false_positive)):
        label[rng.permutation(group)[: round(rate * len(group))]] ^= True
    return label


def simulate(rng, cartel=0.0, items=10_000, answered=600):
    """Return labels (answered, raters) and truth of the answered items."""
    truth = np.arange(items) < items // 2
    members = round(cartel * RATERS)
    labels = [detector(truth, rng.uniform(0.3, 0.8), rng) for _ in range(RATERS - members)]
    if members:
        target = detector(truth, 0.5, rng)
        labels += [detector(target, 0.7, rng) for _ in range(members)]
    half = answered // 2
    chosen = np.concatenate(
        [rng.permutation(items // 2)[:half], rng.permutation(items // 2)[:half] + items // 2]
    )
    return np.stack(labels, axis=1)[chosen].astype(int), truth[chosen].astype(int)


def balanced_accuracy(labels, truth):
    """Balanced accuracy of every column."""
    right = labels.T == truth
    return (right[..., truth == 0].mean(-1) + right[..., truth == 1].mean(-1)) / 2


def expectation_maximisation(responses, label):
    """Return labels at the mode that Dawid–Skene EM finds from these labels."""
    prevalence = np.bincount(label, minlength=2) + 1.0
    counts = np.ones((RATERS, 2, 2))
    np.add.at(counts, (responses.rater, label[responses.item], responses.label), 1)
    start = {
        "prevalence": prevalence / prevalence.sum(),
        "confusion": counts / counts.sum(-1, keepdims=True),
    }
    seen = ResponseModel.build(
        responses, bf.build.Independent(start["prevalence"]), bf.build.Confusion(start["confusion"])
    )
    flat = {name: Dirichlet(np.ones_like(value)) for name, value in start.items()}
    ended = em.fit(seen, seen.rows(start), flat, iterations=200)
    return seen.marginal(ended.rows).probability[seen.inverse].argmax(1)


def one_run(rng, cartel):
    """Return the metalearners' balanced accuracies, the rank of the best rater, and wrong signs.

    The signs (2,): whether the sign of v is wrong, and whether that of the published rule is, by
    which most raters are better than random. The latter often is: 40 % of the raters, and by chance
    the whole cartel, are worse than random.
    """
    labels, truth = simulate(rng, cartel)
    responses = bf.Responses.from_matrix(labels, classes=[0, 1])
    v = rank_one(covariance(responses), "log_linear").values
    own = balanced_accuracy(labels, truth)
    score, votes = (2 * labels - 1) @ v, (2 * labels - 1).sum(1)
    fused = {"SML": (score > 0).astype(int), "majority": (votes > 0).astype(int)}
    for start in ("SML", "majority"):
        fused[f"iMLE from {start}"] = expectation_maximisation(responses, fused[start])
    reached = {name: balanced_accuracy(label, truth) for name, label in fused.items()}
    reached["best rater"] = own[np.argmax(np.abs(v))]
    rank = int(np.sum(np.abs(v) > np.abs(v[np.argmax(own)])))
    direction = v @ (own - 0.5)  # negative where v ranks the raters from the worst to the best
    wrong = direction < 0, direction * np.sign(v).sum() < 0
    return [reached[name] for name in METALEARNERS], rank, wrong


def figures_1_and_s4(rng, runs, folder):
    figure, axes = plt.subplots(2, 2, figsize=(11, 7))
    for (top, bottom), cartel in zip(axes.T, (0.0, 0.33), strict=True):
        results = [one_run(rng, cartel) for _ in range(runs)]
        reached = np.array([result[0] for result in results])
        rank = np.array([result[1] for result in results])
        weighted, published = np.mean([result[2] for result in results], axis=0)
        print(f"\nFig 1, cartel {cartel:.0%}: balanced accuracy, {runs} runs")
        print(f"{'':<20} {'median':>7} {'5 %':>7} {'95 %':>7} {'below 0.9':>10}")
        for name, column in zip(METALEARNERS, reached.T, strict=True):
            low, middle, high = np.quantile(column, [0.05, 0.5, 0.95])
            print(
                f"{name:<20} {middle:>7.3f} {low:>7.3f} {high:>7.3f} {np.mean(column < 0.9):>10.1%}"
            )
        print(
            "paper: SML far above majority; iMLE from SML adds little; with a cartel iMLE from\n"
            "       majority is bimodal, iMLE from SML is not"
        )
        print(
            f"wrong sign of v in {weighted:.1%} of runs, by the published rule in {published:.1%}"
        )
        first, five = np.mean(rank == 0), np.mean(rank < 5)
        print(f"Fig S4, cartel {cartel:.0%}: the best rater (on the 600 items) has the largest |v|")
        print(f"  in {first:.1%} of runs (paper ≥ 80 %), is in its top five in {five:.1%} (> 99 %)")
        top.boxplot(
            reached, tick_labels=[name.replace(" from ", "\nfrom ") for name in METALEARNERS]
        )
        top.set(title=f"cartel {cartel:.0%}", ylabel="balanced accuracy", ylim=(0, 1.02))
        bottom.bar(np.arange(1, 11), np.bincount(rank, minlength=RATERS)[:10] / runs)
        bottom.set(xlabel="rank of the best rater", ylabel="share of runs", ylim=(0, 1))
        bottom.set_xticks(np.arange(1, 11))
    save(figure, folder / "parisi2014_fig1_s4.png")


def figure_s1(rng, runs, folder):
    """Kendall's τ between the estimated and the true order, by method."""
    print(f"\nFig S1: Kendall's τ of v with the balanced accuracies, quartiles of {runs} runs")
    print("paper: all alike, eigen slightly lower")
    figure, axes = plt.subplots(1, 2, figsize=(9, 4))
    for axis, cartel in zip(axes, (0.0, 0.33), strict=True):
        tau = np.empty((runs, len(METHODS)))
        for row in tau:
            labels, truth = simulate(rng, cartel)
            moments = covariance(bf.Responses.from_matrix(labels, classes=[0, 1]))
            own = balanced_accuracy(labels, truth)
            row[:] = [kendalltau(rank_one(moments, method), own).statistic for method in METHODS]
        for method, column in zip(METHODS, tau.T, strict=True):
            low, middle, high = np.quantile(column, [0.25, 0.5, 0.75])
            print(f"  cartel {cartel:>4.0%} {method:<14} {middle:.4f} ({low:.4f} to {high:.4f})")
        axis.boxplot(tau, tick_labels=[name.replace("_", "\n") for name in METHODS])
        lost = np.sum(tau.max(1) < 0.7)  # the cartel, or the sign, has won
        below = f", {lost} runs below" if lost else ""
        axis.set(title=f"cartel {cartel:.0%}{below}", ylabel="Kendall's τ")
        axis.set_ylim(bottom=max(axis.get_ylim()[0], 0.7))
    save(figure, folder / "parisi2014_figS1.png")


def figure_s5(rng, runs, shares, folder):
    """Balanced accuracy against the size of the cartel."""
    print(f"\nFig S5: mean balanced accuracy by size of the cartel, {runs} runs each")
    print("paper: at 20 % SML is nearly perfect, majority and iMLE from it are far from it")
    print(f"{'cartel':>7}" + "".join(f" {name:>19}" for name in METALEARNERS[1:]))
    reached = np.array([[one_run(rng, share)[0][1:] for _ in range(runs)] for share in shares])
    mean, error = reached.mean(1), reached.std(1) / np.sqrt(runs)
    for share, row in zip(shares, mean, strict=True):
        print(f"{share:>7.0%}" + "".join(f" {value:>19.3f}" for value in row))
    figure, axis = plt.subplots(figsize=(6, 4))
    for name, column, width in zip(METALEARNERS[1:], mean.T, error.T, strict=True):
        style = "--" if name.startswith("iMLE") else "-"  # else it hides what it starts from
        axis.errorbar(shares, column, width, label=name, capsize=3, linestyle=style)
    axis.set(xlabel="share of the cartel", ylabel="balanced accuracy", ylim=(0.4, 1.02))
    axis.legend()
    save(figure, folder / "parisi2014_figS5.png")


def main():
    options = Arguments(__doc__, "few runs", figures=True).parse_args()
    rng = np.random.default_rng(1)
    runs = 8 if options.quick else 400
    figures_1_and_s4(rng, runs, options.output)
    figure_s1(rng, runs // 8, options.output)
    shares = [0.0, 0.33] if options.quick else np.arange(0, 0.61, 0.05)
    figure_s5(rng, runs // 4, shares, options.output)


if __name__ == "__main__":
    main()
