"""Ensembles of classifiers on the MAGIC gamma telescope, fused without labels.

Jaffe, Nadler & Kluger (2015), Fig 3: ten classifiers, each trained on its own 200 examples and
applied to all 19,020, thirty times. Balanced accuracy of majority vote, SML, i-SML and of the
maximum-likelihood vote with known sensitivities and specificities.

    python benchmarks/magic.py [--quick]
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.sparse
from _shared import Arguments, data, extras, save

import bayesfuse as bf
from bayesfuse.moments import improved_sml, sml
from bayesfuse.moments.binary import log_table

with extras():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

# The ten of the paper are Weka's; these are their nearest relatives in scikit-learn.
TEN = {
    "1 neighbour": lambda: KNeighborsClassifier(1),
    "5 neighbours": lambda: KNeighborsClassifier(5, weights="distance"),  # KStar
    "tree": lambda: DecisionTreeClassifier(min_samples_leaf=2),  # J48
    "pruned tree": lambda: DecisionTreeClassifier(criterion="entropy", ccp_alpha=0.02),  # PART
    "discriminant": lambda: LinearDiscriminantAnalysis(),  # LMT
    "forest": lambda: RandomForestClassifier(10),
    "logistic": lambda: LogisticRegression(),
    "stump": lambda: DecisionTreeClassifier(max_depth=1),
    "linear SVM": lambda: SVC(kernel="linear"),
    "naive Bayes": lambda: GaussianNB(),
}
PAPER = {
    "majority": "significantly below the others",
    "SML": "-",
    "i-SML": "≈ 2 points above SML, in 30 of 30 runs",
    "oracle": "-",
}


def load():
    """Return features and truth (1 is gamma)."""
    folder = data("magic04")
    features = scipy.sparse.load_npz(folder / "features.npz").toarray()
    truth = pd.read_csv(folder / "truth.csv.gz").label.to_numpy()
    return features, truth


def train(classifiers, features, truth, rng, examples=200):
    """Train each classifier on its own examples and label all items: (items, classifiers)."""
    labels = []
    for build in classifiers.values():
        mine = rng.choice(len(truth), examples, replace=False)
        model = make_pipeline(StandardScaler(), build())
        if "random_state" in model[-1].get_params():
            model[-1].set_params(random_state=int(rng.integers(2**31)))
        labels.append(model.fit(features[mine], truth[mine]).predict(features))
    return np.stack(labels, axis=1)


def balanced_accuracy(label, truth):
    return np.mean([np.mean(label[truth == k] == k) for k in np.unique(truth)])


def majority(labels):
    score = (2 * labels - 1).sum(1)
    return np.where(score == 0, labels.mean() > 0.5, score > 0).astype(int)


def oracle(labels, truth):
    """Vote by maximum likelihood with the sensitivities and specificities of the truth."""
    table = log_table(labels[truth == 1].mean(0), 1 - labels[truth == 0].mean(0))
    vote = (table[:, 1] - table[:, 0]).reshape(-1, 2)  # (classifier, label)
    score = np.where(labels == 1, vote[:, 1], vote[:, 0]).sum(1)
    return (score > 0).astype(int)


def ten_classifiers(features, truth, rng, repeats, folder):
    """Print and draw Fig 3: the balanced accuracy of each method."""
    found = {method: [] for method in PAPER}
    alone = []
    for _ in range(repeats):
        labels = train(TEN, features, truth, rng)
        responses = bf.Responses.from_matrix(labels, raters=list(TEN))
        alone.append([balanced_accuracy(column, truth) for column in labels.T])
        fused = {
            "majority": majority(labels),
            "SML": sml(responses).label.values,
            "i-SML": improved_sml(responses).label.values,
            "oracle": oracle(labels, truth),
        }
        for method, label in fused.items():
            found[method].append(balanced_accuracy(label, truth))
    found = pd.DataFrame(found)

    print(f"\nFig 3: balanced accuracy of ten classifiers fused, {repeats} repeats")
    print(f"{'method':<10} {'measured':>15}  paper")
    for method, claim in PAPER.items():
        mean, sd = 100 * found[method].mean(), 100 * found[method].std()
        print(f"{method:<10} {mean:>8.2f} ± {sd:.2f}  {claim}")
    gain = 100 * (found["i-SML"] - found["SML"])
    wins = int((gain > 0).sum())
    print(f"i-SML − SML: {gain.mean():.2f} ± {gain.std():.2f} points, above in {wins} of {repeats}")
    over = 100 * (found["SML"] - found["majority"])
    wins = int((over > 0).sum())
    print(f"SML − majority: {over.mean():.2f} ± {over.std():.2f}, above in {wins} of {repeats}")
    single = 100 * np.mean(alone, axis=0)
    print("alone: " + ", ".join(f"{name} {x:.1f}" for name, x in zip(TEN, single, strict=True)))

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
    left.boxplot(100 * found.to_numpy(), tick_labels=list(PAPER))
    left.set(ylabel="balanced accuracy, %")
    errors = 100 * (1 - found[["SML", "i-SML"]].to_numpy())
    ends = [errors.min() - 1, errors.max() + 1]
    right.plot(ends, ends, "k:", linewidth=1)
    right.plot(*errors.T, "o", alpha=0.6)
    right.set(xlabel="balanced error of SML, %", ylabel="balanced error of i-SML, %")
    save(figure, folder / "magic_ten_classifiers.png")


def main():
    options = Arguments(__doc__, "one repeat", figures=True).parse_args()
    features, truth = load()
    repeats = 1 if options.quick else 30
    ten_classifiers(features, truth, np.random.default_rng(1), repeats, options.output)


if __name__ == "__main__":
    main()
