"""Cora: ten classifiers of 2,708 papers, each trained on 150, fused along the citations.

Traganitis & Giannakis (2020), Table 2, trained ten classifiers of MATLAB's toolbox on the words of
150 papers each; here they are scikit-learn's, so only the order of the methods can be compared.
F-score (37) and accuracy over all papers, means over repeats, compared with the paper's F-scores.
The data are read from ../shared/data/cora, next to the checkout.

    python benchmarks/cora.py [--quick] [--repeats 10] [--picture benchmarks/figures/cora.png]
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _icm_em import icm_em
from _shared import QUIET, Arguments, data, extras, f_score
from scipy import sparse

import bayesfuse as bf
from bayesfuse.models import DawidSkene, MarkovRandomField

with extras():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import BernoulliNB, GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

TRAINED_ON = 150
PUBLISHED = {
    "single best": 0.51,
    "majority vote": 0.2785,
    "Dawid–Skene": 0.4228,
    "Alg. 4": 0.6412,
    "MV + Alg. 3": 0.336,
}
FIELDS = {
    "field, δ = M": {"trust": "paper"},
    "field, inferred": {},
    "field, drawn edges": {"edges": "drawn"},
    "field, item types": {"raters": "types"},
    "field, drawn, types": {"edges": "drawn", "raters": "types"},
}


def read():
    """Return words (papers, words), the citation graph and the true topics."""
    folder = data("cora")
    truth = pd.read_csv(folder / "truth.csv.gz").sort_values("item")
    graph = bf.Graph.from_edges(pd.read_csv(folder / "edges.csv.gz"), items=truth["item"].tolist())
    words = sparse.load_npz(folder / "features.npz").astype(float).toarray()
    return words, graph, truth["label"].to_numpy()


def classifiers(seed):
    return {
        "nearest": KNeighborsClassifier(1),
        "nearest five": KNeighborsClassifier(5),
        "tree": DecisionTreeClassifier(random_state=seed),
        "forest": RandomForestClassifier(50, random_state=seed),
        "boosting": AdaBoostClassifier(random_state=seed),
        "naive Bayes, normal": GaussianNB(),
        "naive Bayes, binary": BernoulliNB(),
        "support vectors": SVC(),
        "logistic": LogisticRegression(max_iter=300),
        "linear discriminant": LinearDiscriminantAnalysis(),
    }


def answers(words, truth, rng):
    """Train every classifier on its own papers; return its predictions for all (papers, raters)."""
    said = {}
    for name, classifier in classifiers(int(rng.integers(2**31))).items():
        own = rng.choice(len(truth), TRAINED_ON, replace=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 150 papers in 1,433 dimensions are collinear
            said[name] = classifier.fit(words[own], truth[own]).predict(words)
    return pd.DataFrame(said)


def one_repeat(words, graph, truth, rng, draws, fields, limit):
    """Return F-score, accuracy and seconds by method, and the check of the inferred coupling."""
    table = answers(words, truth, rng)
    n_classes = truth.max() + 1
    responses = bf.Responses.from_matrix(table, classes=range(n_classes))
    found = {}

    def add(name, guess, begun):
        taken = time.perf_counter() - begun
        found[name] = f_score(truth, guess, n_classes), np.mean(guess == truth), taken

    now = time.perf_counter
    best = max(table.columns, key=lambda name: f_score(truth, table[name].to_numpy(), n_classes))
    add("single best", table[best].to_numpy(), now())
    votes = responses.votes()
    add("majority vote", (votes + 1e-6 * rng.random(votes.shape)).argmax(axis=1), now())
    begun = now()
    point = bf.find_map(DawidSkene(responses))
    add("Dawid–Skene", bf.label_probabilities(point).values.argmax(axis=1), begun)
    for name, start in (("Alg. 4", "moments"), ("MV + Alg. 3", "majority")):
        begun = now()
        add(name, icm_em(responses, graph, trust="paper", start=start).labels, begun)
    for name, options in fields.items():
        begun = now()
        model = MarkovRandomField(responses, graph, **options)
        result = bf.sample(model, draws, random_seed=rng, log_likelihood=False, **QUIET)
        add(name, bf.label_probabilities(result).values.argmax(axis=1), begun)
    begun = now()
    seed = int(rng.integers(2**31))
    settings = {"checks": False, "random_seed": seed, "progressbar": False} | limit
    fused = bf.fuse(responses, graph=graph, **settings)
    table = bf.label_probabilities(fused).sel(item=responses.items).values
    add("bf.fuse", table.argmax(axis=1), begun)
    print(
        f"bf.fuse: {(table.argmax(axis=1) != truth).sum()} labels wrong, "
        f"{(1.0 - table.max(axis=1)).sum():.0f} expected"
    )
    check = bf.checks.phase_transition(result, model, random_seed=1)
    return found, result, check


def main() -> None:
    """Print the table, draw the graph."""
    parser = Arguments(__doc__, "one repeat, few words, few draws")
    parser.add_argument("--repeats", type=int, default=10, help="paper: 10")
    parser.add_argument("--picture", type=Path, help="where to draw the last repeat's labels")
    options = parser.parse_args()
    repeats, draws = (1, 20) if options.quick else (options.repeats, 1000)
    words, graph, truth = read()
    fields, limit = FIELDS, {}
    if options.quick:
        words, limit = words[:, ::10], {"minutes": 0.2}
        fields = {name: FIELDS[name] for name in ("field, δ = M", "field, inferred")}
    outcomes = []
    for repeat in range(repeats):
        rng = np.random.default_rng([7, repeat])
        found, result, check = one_repeat(words, graph, truth, rng, draws, fields, limit)
        outcomes.append(found)
        print(
            f"repeat {repeat}: coupling {float(check['coupling'].mean()):.2f}, critical "
            f"{check.attrs['critical']:.2f}, {'trouble' if check.attrs['trouble'] else 'fine'}: "
            f"{check.attrs['verdict']}",
            flush=True,
        )
    print(f"\n{'':<18}{'paper: F':>10}{'F (37)':>16}{'accuracy':>16}{'seconds':>10}{'best in':>9}")
    scores = {name: np.array([found[name] for found in outcomes]) for name in outcomes[0]}
    top = np.max([values[:, 0] for values in scores.values()], axis=0)
    for name, values in scores.items():
        (f, accuracy, taken), (f_sd, a_sd, _) = values.mean(axis=0), values.std(axis=0)
        paper = f"{PUBLISHED[name]:.2f}" if name in PUBLISHED else ""
        print(
            f"{name:<18}{paper:>10}{f:>10.3f} ±{f_sd:.3f}{accuracy:>10.3f} ±{a_sd:.3f}"
            f"{taken:>10.1f}{np.sum(values[:, 0] >= top):>6}/{repeats}"
        )
    if options.picture:
        options.picture.parent.mkdir(parents=True, exist_ok=True)
        ax = bf.plots.plot_graph(result, graph)
        ax.figure.savefig(options.picture, dpi=150)


if __name__ == "__main__":
    main()
