"""Jaffe, Nadler & Kluger (2015), Figs 1, 2 and 4: estimating the class imbalance.

Ten raters with sensitivities and specificities U(0.5, 0.8); the imbalance is estimated from the
third moments ("tensor") and by the restricted likelihood. Fig 4: raters of balanced accuracy
0.69–0.71, 10,000 items, the tensor method with the estimated and with the true v.
"""

import matplotlib.pyplot as plt
import numpy as np
from _shared import Arguments, save

import bayesfuse as bf
from bayesfuse.moments import class_imbalance, covariance
from bayesfuse.moments.binary import triple_sums

IMBALANCES = 0.0, 0.3, 0.6
METHODS = "tensor", "likelihood"


def simulate(rng, items, sensitivity, specificity, imbalance):
    truth = rng.random((items, 1)) < (1 + imbalance) / 2
    chance = np.where(truth, sensitivity, 1 - specificity)
    labels = (rng.random(chance.shape) < chance).astype(np.int8)
    return bf.Responses.from_matrix(labels, classes=[0, 1])


def estimates(rng, items, imbalance, runs):
    """Estimate by both methods, shape (runs, 2); NaN where the estimate lies at the edge."""
    found = np.full((runs, len(METHODS)), np.nan)
    for run in range(runs):
        responses = simulate(rng, items, *rng.uniform(0.5, 0.8, (2, 10)), imbalance)
        for column, method in enumerate(METHODS):
            try:
                found[run, column] = class_imbalance(responses, method).imbalance
            except bf.errors.MomentsError:
                continue
    return found


def figures_1_and_2(rng, sizes, runs, folder):
    print("\nFig 1, 2: mean and standard deviation of the estimated imbalance, 10 raters")
    print(f"{'b':>5} {'items':>7}" + "".join(f" {m:>22} {'MSE':>9} {'edge':>5}" for m in METHODS))
    figure, axes = plt.subplots(2, 3, figsize=(11, 6), sharex=True)
    squares = {}
    for (top, bottom), imbalance in zip(axes.T, IMBALANCES, strict=True):
        found = np.stack([estimates(rng, n, imbalance, runs) for n in sizes])
        mean, sd = np.nanmean(found, 1), np.nanstd(found, 1)
        error = np.nanmean((found - imbalance) ** 2, 1)
        squares[imbalance] = error
        for row, items in enumerate(sizes):
            cells = (
                f" {mean[row, c]:>13.3f} ± {sd[row, c]:.3f} {error[row, c]:>9.2e}"
                f" {np.isnan(found[row, :, c]).sum():>5}"
                for c in range(2)
            )
            print(f"{imbalance:>5} {items:>7}" + "".join(cells))
        for column, method in enumerate(METHODS):
            top.errorbar(sizes, mean[:, column], sd[:, column], label=method, capsize=3)
            bottom.loglog(sizes, error[:, column], "o-", label=method)
        bottom.loglog(sizes, error[-1, 1] * sizes[-1] / np.array(sizes), "k:", label="slope −1")
        top.axhline(imbalance, color="k", linewidth=0.5)
        top.set(title=f"b = {imbalance}", ylim=(imbalance - 0.25, imbalance + 0.25))
        bottom.set(xlabel="items", ylim=(3e-6, 0.1))
    axes[0, 0].set(ylabel="estimate, mean ± sd")
    axes[1, 0].set(ylabel="mean squared error")
    axes[1, 2].legend()
    save(figure, folder / "jaffe2015_fig1_2.png")

    half = len(sizes) // 2
    for column, method in enumerate(METHODS):
        slopes = [
            np.polyfit(np.log(sizes[half:]), np.log(error[half:, column]), 1)[0]
            for error in squares.values()
        ]
        shown = ", ".join(f"{slope:.2f}" for slope in slopes)
        print(f"slope of log MSE in log items, {method:<11} paper ≈ −1; measured {shown}")
    ratio = [np.exp(np.log(error[:, 0] / error[:, 1]).mean()) for error in squares.values()]
    shown = ", ".join(f"{value:.2f}" for value in ratio)
    print(f"MSE of tensor / likelihood             paper > 1;  measured {shown}")


def by_third_moments(responses, v):
    mean = covariance(responses)["mean"].values
    products, squares = triple_sums(responses, mean, v)
    skew = products / squares
    return -skew / np.sqrt(4 + skew**2)


def figure_4(rng, raters, items, runs, folder):
    print(f"\nFig 4: mean absolute error of the tensor method, {items} items, accuracies 0.69–0.71")
    print(f"{'b':>5} {'raters':>7} {'estimated v':>12} {'true v':>9}")
    figure, axis = plt.subplots(figsize=(5, 4))
    for imbalance, colour in zip((0.0, 0.3), ("C0", "C1"), strict=True):
        errors = np.empty((len(raters), runs, 2))
        for row, count in enumerate(raters):
            for run in range(runs):
                balanced = rng.uniform(0.69, 0.71, count)
                tilt = rng.uniform(-0.15, 0.15, count)
                responses = simulate(rng, items, balanced + tilt, balanced - tilt, imbalance)
                v = np.sqrt(1 - imbalance**2) * (2 * balanced - 1)
                found = class_imbalance(responses, "tensor").imbalance
                errors[row, run] = found - imbalance, by_third_moments(responses, v) - imbalance
        size = np.abs(errors).mean(1)
        for count, (own, oracle) in zip(raters, size, strict=True):
            print(f"{imbalance:>5} {count:>7} {own:>12.4f} {oracle:>9.4f}")
        axis.loglog(raters, size[:, 0], "o-", color=colour, label=f"b = {imbalance}")
        axis.loglog(raters, size[:, 1], "s--", color=colour, label=f"b = {imbalance}, true v")
    axis.set(xlabel="raters", ylabel="mean absolute error of b")
    axis.set_xticks(raters, raters)
    axis.set_xticks([], minor=True)
    axis.legend()
    save(figure, folder / "jaffe2015_fig4.png")
    floor = np.sqrt(2 / np.pi / items)
    print("paper: falls with the number of raters; at b = 0 both curves nearly coincide")
    print(f"(had the labels of all items been known, the error at b = 0 would be {floor:.4f})")


def main():
    options = Arguments(__doc__, "few runs", figures=True).parse_args()
    rng = np.random.default_rng(1)
    if options.quick:
        figures_1_and_2(rng, [300, 1000, 3000], 3, options.output)
        figure_4(rng, [5, 10], 1000, 3, options.output)
    else:
        figures_1_and_2(rng, [300, 1000, 3000, 10_000, 30_000, 100_000], 100, options.output)
        figure_4(rng, [4, 6, 10, 16, 25, 40, 63, 100], 10_000, 50, options.output)


if __name__ == "__main__":
    main()
