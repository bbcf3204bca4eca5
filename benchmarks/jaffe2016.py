"""Jaffe, Fetaya, Nadler, Jiang & Kluger (2016), Figs 4, 6 and 7: dependent classifiers.

Twenty raters of 10,000 items, balanced truth. One group of 1 to 10 raters follows its own verdict
with P(verdict = truth) from U(0.5, 0.8) in both classes; sensitivities and specificities for the
verdict are from U(0.7, 0.9). Each of the others follows a separate verdict.
"""

import matplotlib.pyplot as plt
import numpy as np
from _shared import Arguments, save
from magic import balanced_accuracy, majority, oracle

import bayesfuse as bf
from bayesfuse.inference import em
from bayesfuse.moments import find_groups, latent_sml, sml
from bayesfuse.observation import ResponseModel
from bayesfuse.parameters.dirichlet import Dirichlet

RATERS = 20
LABELLERS = {
    "majority": "o",
    "SML+EM": "s",
    "Oracle-CI": "^",
    "L-SML": "D",
    "L-SML, groups known": "x",
    "Oracle-L": "*",
}
RULES = {  # which assignment is called right, and who chose it
    "penalised, exactly c": ("penalised", "same"),
    "eq. 14, exactly c": ("residual", "same"),
    "eq. 14, group 1 apart": ("residual", "apart"),
}


def simulate(rng, items, size):
    """Return truth (items,), groups, labels (items, raters) and the parameters of the model."""
    group = np.append(np.zeros(size, dtype=int), 1 + np.arange(RATERS - size))
    truth = rng.random(items) < 0.5
    outer = rng.uniform(0.5, 0.8, (2, group.max() + 1))
    inner = rng.uniform(0.7, 0.9, (2, RATERS))
    verdict = answer(rng, truth[:, None], outer)
    return truth, group, answer(rng, verdict[:, group], inner), outer, inner


def answer(rng, truth, rates):
    positive = np.where(truth, rates[0], 1 - rates[1])
    return rng.random(positive.shape) < positive


def oracle_latent(labels, group, outer, inner):
    """Label by maximum likelihood at the true parameters (eq. 19)."""
    yes = np.where(labels, inner[0], 1 - inner[0])
    no = np.where(labels, 1 - inner[1], inner[1])
    score = np.zeros(len(labels))
    for g in range(group.max() + 1):
        positive, negative = yes[:, group == g].prod(axis=1), no[:, group == g].prod(axis=1)
        score += np.log(outer[0, g] * positive + (1 - outer[0, g]) * negative)
        score -= np.log((1 - outer[1, g]) * positive + outer[1, g] * negative)
    return score > 0


def em_from_sml(responses):
    """Return labels, sensitivities and specificities of EM for independent raters."""
    start = (sml(responses).score.values > 0).astype(float)
    labels = responses.label.reshape(responses.n_items, -1)
    agree = np.stack([1 - (1 - start) @ labels / sum(1 - start), start @ labels / sum(start)], 1)
    confusion = np.stack([agree[:, 0], 1 - agree[:, 0], 1 - agree[:, 1], agree[:, 1]], 1)
    values = {
        "prevalence": np.array([1 - start.mean(), start.mean()]),
        "confusion": np.clip(confusion.reshape(-1, 2, 2), 1e-3, 1 - 1e-3),
    }
    observation = ResponseModel.build(
        responses,
        bf.build.Independent(values["prevalence"]),
        bf.build.Confusion(values["confusion"]),
    )
    flat = {name: Dirichlet(np.ones_like(value)) for name, value in values.items()}
    rows = em.fit(observation, observation.rows(values), flat, iterations=300).rows
    probability = observation.marginal(rows).probability[observation.inverse, 1]
    fitted = np.exp(rows["confusion"])
    return probability > 0.5, np.array([fitted[:, 1, 1], fitted[:, 0, 0]])


def accuracies_for(label, labels):
    return np.array([labels[label].mean(axis=0), 1 - labels[~label].mean(axis=0)])


def one_run(rng, items, size):
    """Return balanced accuracies, errors of ψ and η, and whether each rule found the groups."""
    truth, group, labels, outer, inner = simulate(rng, items, size)
    responses = bf.Responses.from_matrix(labels.astype(int), classes=[0, 1])
    accuracy = outer[:, group] * inner + (1 - outer[:, group]) * (1 - inner[::-1])  # eq. 8
    vote = majority(labels.astype(int)) == 1
    em_label, em_accuracy = em_from_sml(responses)
    groups = find_groups(responses)
    published = find_groups(responses, criterion="residual", min_groups=2)
    fused, informed = latent_sml(responses, groups), latent_sml(responses, group)
    label = {
        "majority": vote,
        "SML+EM": em_label,
        "Oracle-CI": oracle(labels.astype(int), truth.astype(int)) == 1,
        "L-SML": fused.score.values > 0,
        "L-SML, groups known": informed.score.values > 0,
        "Oracle-L": oracle_latent(labels, group, outer, inner),
    }
    estimate = {
        "majority": accuracies_for(vote, labels),
        "SML+EM": em_accuracy,
        "L-SML": np.array([fused.sensitivity, fused.specificity]),
        "L-SML, groups known": np.array([informed.sensitivity, informed.specificity]),
    }
    chosen = {"penalised": groups.group.values, "residual": published.group.values}
    found = [right(chosen[by], group, kind) for by, kind in RULES.values()]
    balanced = [balanced_accuracy(label[name], truth) for name in LABELLERS]
    return balanced, [np.mean((value - accuracy) ** 2) for value in estimate.values()], found


def right(chosen, group, kind):
    """Whether all groups are correct, or at least group 1 is."""
    if kind == "same":
        return np.array_equal(chosen[:, None] == chosen, group[:, None] == group)
    return np.array_equal(chosen == chosen[0], group == 0)


def report(sizes, balanced, errors, found, repeats):
    print(f"\nFig 4: balanced accuracy by size of group 1, {repeats} repeats, per cent")
    print("paper: L-SML close to Oracle-L up to size 6, then falling")
    table(sizes, LABELLERS, 100 * balanced.mean(axis=1), ".2f")
    gap = 100 * (balanced[..., 5] - balanced[..., 3]).mean(axis=1)
    print("Oracle-L − L-SML:   " + " ".join(f"{value:7.2f}" for value in gap))
    print("\nFig 6: share of runs in which the assignment is found")
    print("paper: 1 up to size 6, then falling, 0 above 7")
    table(sizes, RULES, found.mean(axis=1), ".2f")
    print("\nFig 7: log10 mean squared error of ψ and η")
    print("paper: SML+EM degrades very fast with the group, L-SML is almost perfect up to size 6")
    table(sizes, ESTIMATED, np.log10(errors.mean(axis=1)), ".2f")


ESTIMATED = "majority", "SML+EM", "L-SML", "L-SML, groups known"


def table(sizes, names, values, form):
    print(" " * 24 + " ".join(f"{size:>7}" for size in sizes))
    for name, row in zip(names, np.transpose(values), strict=True):
        print(f"{name:<24}" + " ".join(f"{value:>7{form}}" for value in row))


def draw(sizes, balanced, errors, found, folder):
    figure, axes = plt.subplots(1, 3, figsize=(14, 4))
    for name, marker, row in zip(
        LABELLERS, LABELLERS.values(), balanced.mean(axis=1).T, strict=True
    ):
        axes[0].plot(sizes, 100 * row, marker=marker, label=name)
    axes[0].set(ylabel="balanced accuracy, %", title="Fig 4")
    for name, row in zip(RULES, found.mean(axis=1).T, strict=True):
        axes[1].plot(sizes, row, marker="o", label=name)
    axes[1].set(ylabel="share of runs that find the groups", title="Fig 6", ylim=(-0.05, 1.05))
    for name, row in zip(ESTIMATED, errors.mean(axis=1).T, strict=True):
        axes[2].semilogy(sizes, row, marker=LABELLERS[name], label=name)
    axes[2].set(ylabel="mean squared error of ψ, η", title="Fig 7")
    for axis in axes:
        axis.set(xlabel="raters in group 1", xticks=sizes)
        axis.legend(fontsize=8)
    save(figure, folder / "jaffe2016.png")


def main():
    options = Arguments(__doc__, "few runs", figures=True).parse_args()
    sizes, repeats, items = ([1, 4], 2, 2000) if options.quick else (range(1, 11), 50, 10_000)
    rng = np.random.default_rng(1)
    runs = [[one_run(rng, items, size) for _ in range(repeats)] for size in sizes]
    balanced, errors, found = (
        np.array([[run[part] for run in row] for row in runs]) for part in range(3)
    )
    report(sizes, balanced, errors, found, repeats)
    draw(sizes, balanced, errors, found, options.output)


if __name__ == "__main__":
    main()
