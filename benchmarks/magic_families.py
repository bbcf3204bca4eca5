"""Sixteen classifiers of four families on the MAGIC gamma telescope, fused without labels.

Jaffe, Fetaya, Nadler, Jiang & Kluger (2016), Figs 5, 9 and 10d: four random forests, three logistic
model trees, four SVMs and five naive Bayes classifiers, each trained on its own 200 examples; the
items are all others. Balanced accuracy of L-SML, with the groups found and with the families given,
compared with methods that assume independent classifiers.

    python benchmarks/magic_families.py [--quick]
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from _shared import Arguments, extras, save
from jaffe2016 import em_from_sml
from magic import balanced_accuracy, load, majority, oracle

import bayesfuse as bf
from bayesfuse.moments import find_groups, improved_sml, latent_sml, select_raters, sml

with extras():
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

EXAMPLES = 200
SIZES = {"forest": 4, "logistic tree": 3, "SVM": 4, "naive Bayes": 5}
FAMILY = np.repeat(np.arange(4), list(SIZES.values()))
NAMES = [f"{name} {i + 1}" for name, size in SIZES.items() for i in range(size)]
PAPER = {
    "best single": "below L-SML",
    "majority": "-",
    "SML": "about 4 points below L-SML",
    "i-SML": "-",
    "SML+EM": "below L-SML",
    "Oracle-CI": "below L-SML",
    "L-SML": "about 4 points above SML",
    "L-SML, ≥ 8 groups": "(Fig 9 shows about 9 groups)",
    "L-SML, families": "-",
    "L-SML, eq. 14": "(Algorithm 1 as printed)",
    "vote of 5, L-SML": "-",
    "vote of 5, SML": "-",
}


class LogisticTree(ClassifierMixin, BaseEstimator):
    """A tree of at most three leaves with a logistic regression in each (Weka's LMT, in brief)."""

    def fit(self, features, truth):
        self.tree_ = DecisionTreeClassifier(max_leaf_nodes=3, min_samples_leaf=30, random_state=0)
        leaf = self.tree_.fit(features, truth).apply(features)
        self.leaves_ = {}
        for name in np.unique(leaf):
            mine = leaf == name
            mixed = len(np.unique(truth[mine])) > 1
            model = LogisticRegression() if mixed else DecisionTreeClassifier()
            self.leaves_[name] = model.fit(features[mine], truth[mine])
        return self

    def predict(self, features):
        leaf = self.tree_.apply(features)
        label = np.empty(len(features), dtype=np.int64)
        for name, model in self.leaves_.items():
            if np.any(leaf == name):
                label[leaf == name] = model.predict(features[leaf == name])
        return label


def ensemble(kernel, seed):
    return [
        *(RandomForestClassifier(random_state=seed + i) for i in range(4)),
        *(LogisticTree() for _ in range(3)),
        *(SVC(kernel=kernel) for _ in range(4)),
        *(GaussianNB() for _ in range(5)),
    ]


def train(kernel, features, truth, rng):
    """Return labels (items, classifiers) of the items not used for training, and their truth."""
    models = ensemble(kernel, int(rng.integers(2**31)))
    order = rng.permutation(len(truth))
    taken, left = np.split(order, [EXAMPLES * len(models)])
    labels = [
        make_pipeline(StandardScaler(), model)
        .fit(features[own], truth[own])
        .predict(features[left])
        for model, own in zip(models, taken.reshape(len(models), -1), strict=True)
    ]
    return np.stack(labels, axis=1), truth[left]


def fuse(labels, truth):
    """Return the balanced accuracy of every method, and the groups found."""
    responses = bf.Responses.from_matrix(labels, raters=NAMES, classes=[0, 1])
    groups = find_groups(responses)
    plain = sml(responses)
    five = [NAMES.index(name) for name in select_raters(responses, 5, groups)]
    top = np.argsort(-plain.weight.values)[:5]
    label = {
        "majority": majority(labels),
        "SML": plain.label.values,
        "i-SML": improved_sml(responses).label.values,
        "SML+EM": em_from_sml(responses)[0],
        "Oracle-CI": oracle(labels, truth),
        "L-SML": latent_sml(responses, groups).label.values,
        "L-SML, ≥ 8 groups": latent_sml(responses, find_groups(responses, min_groups=8)).label,
        "L-SML, families": latent_sml(responses, FAMILY).label.values,
        "L-SML, eq. 14": latent_sml(
            responses, find_groups(responses, criterion="residual", min_groups=2)
        ).label.values,
        "vote of 5, L-SML": majority(labels[:, five]),
        "vote of 5, SML": majority(labels[:, top]),
    }
    found = {name: balanced_accuracy(np.asarray(each), truth) for name, each in label.items()}
    single = [balanced_accuracy(column, truth) for column in labels.T]
    return {"best single": max(single), **found}, groups.group.values, single


def report(kernel, found, together, single):
    repeats = len(found)
    print(f"\n16 classifiers in four families, {kernel} SVMs, {repeats} repeats: per cent")
    print(f"{'method':<20} {'balanced accuracy':>17} {'over SML':>15}  {'above in':>8}  paper")
    for name, claim in PAPER.items():
        value, gain = 100 * found[name], 100 * (found[name] - found["SML"])
        print(
            f"{name:<20} {value.mean():>10.2f} ± {value.std():.2f} {gain.mean():>8.2f} ± "
            f"{gain.std():.2f}  {(gain > 0).sum():>2} of {repeats}  {claim}"
        )
    print("share of the pairs of two families that were put in one group:")
    print(f"{'':<15}" + "".join(f"{name:>15}" for name in SIZES))
    for a, name in enumerate(SIZES):
        pairs = [together[FAMILY == a][:, FAMILY == b] for b in range(4)]
        pairs[a] = pairs[a][~np.eye(len(pairs[a]), dtype=bool)]
        print(f"{name:<15}" + "".join(f"{np.mean(each):>15.2f}" for each in pairs))
    means = [f"{name} {100 * np.mean(single[:, FAMILY == g]):.1f}" for g, name in enumerate(SIZES)]
    print("alone: " + ", ".join(means))


def draw(kernel, found, together, folder):
    figure, axes = plt.subplots(1, 3, figsize=(16, 4.5))
    axes[0].boxplot(100 * found.to_numpy(), orientation="horizontal", tick_labels=list(found))
    axes[0].set(xlabel="balanced accuracy, %", title=f"{kernel} SVMs")
    errors = 100 * (1 - found)
    ends = np.array([errors[["SML", "L-SML"]].min().min() - 1, errors["SML"].max() + 1])
    axes[1].plot(errors["L-SML"], errors["SML"], "o", label="groups found")
    axes[1].plot(errors["L-SML, families"], errors["SML"], "x", label="families given")
    for points in (0, 2, 4):
        axes[1].plot(ends, ends + points, "k:", linewidth=1)
        axes[1].annotate(f"+{points}", (ends[1] - 3, ends[1] - 3 + points))
    axes[1].set(xlabel="balanced error of L-SML, %", ylabel="of SML, %", title="Fig 10d")
    axes[1].legend()
    image = axes[2].imshow(together, vmin=0, vmax=1)
    axes[2].set_yticks(range(16), NAMES)
    axes[2].set(title="Fig 9: share of runs in one group", xticks=[])
    figure.colorbar(image, ax=axes[2])
    save(figure, folder / f"magic_families_{kernel}.png")


def main():
    options = Arguments(__doc__, "one repeat", figures=True).parse_args()
    features, truth = load()
    repeats, kernels = (1, ["rbf"]) if options.quick else (30, ["linear", "rbf"])
    for kernel in kernels:
        rng = np.random.default_rng(1)
        runs = [fuse(*train(kernel, features, truth, rng)) for _ in range(repeats)]
        found = pd.DataFrame([run[0] for run in runs])[list(PAPER)]
        together = np.mean([run[1][:, None] == run[1] for run in runs], axis=0)
        report(kernel, found, together, np.array([run[2] for run in runs]))
        draw(kernel, found, together, options.output)


if __name__ == "__main__":
    main()
