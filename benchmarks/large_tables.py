"""Expected and actual wrong labels of ``bf.fuse`` on tables of 10⁵ to 10⁷ responses.

Five labels an item by raters of whom few are busy (gamma-distributed shares, shape .7), 400 labels
a rater on average and at most 5,000 raters:

* "coins": errors are independent, as often on every class, and wrong labels are even;
* "rows": errors are independent, by a confusion row of every rater and class;
* "hard items": raters share a belief about an item, which on a quarter of the items is often wrong.

Columns: seconds of the call, accuracy and log-loss of the answer and of vote shares, expected and
actual numbers of wrong labels and their ratio.
"""

import time
import warnings

import numpy as np
from _shared import Arguments

import bayesfuse as bf

STORIES = "coins", "rows", "hard items"
LABELS = 5  # of an item


def table(story: str, size: int, n_classes: int, seed: int):
    """Return responses and the true classes of all items."""
    rng = np.random.default_rng(seed)
    n_items, n_raters = size // LABELS, int(np.clip(size // 400, 50, 5000))
    share = np.arange(n_classes, 0, -1.0)
    truth = rng.choice(n_classes, n_items, p=share / share.sum())
    item = np.repeat(np.arange(n_items), LABELS)
    busy = rng.gamma(0.7, size=n_raters) + 0.01
    rater = rng.choice(n_raters, len(item), p=busy / busy.sum())
    if story == "rows":
        near = 0.7 + 3.0 * np.eye(n_classes)
        rows = np.stack([rng.dirichlet(each, n_raters) for each in near], axis=1).cumsum(axis=2)
        label = (rng.random(len(item))[:, None] > rows[rater, truth[item]]).sum(axis=1)
        label = np.minimum(label, n_classes - 1)
    else:
        belief, looks = truth[item], rng.random(len(item)) < rng.beta(5, 2, n_raters)[rater]
        if story == "hard items":
            hard = rng.random(n_items) < 0.25
            clear = np.where(hard, rng.uniform(0.3, 0.8, n_items), rng.uniform(0.85, 1.0, n_items))
            other = (truth + rng.integers(1, n_classes, n_items)) % n_classes
            belief = np.where(rng.random(len(item)) < clear[item], belief, other[item])
        label = np.where(looks, belief, rng.integers(0, n_classes, len(item)))
    first = np.unique(item * n_raters + rater, return_index=True)[1]  # one label of a rater
    item, rater, label = item[first], rater[first], label[first]
    classes = range(n_classes)
    return bf.Responses.from_long(
        {"item": item, "rater": rater, "label": label}, classes=classes
    ), truth


def score(result, truth: np.ndarray) -> tuple[float, float, float, int]:
    """Return accuracy, log-loss, and expected and actual wrong labels."""
    probability = bf.label_probabilities(result)
    truth, values = truth[probability["item"].values], probability.values
    wrong = int((values.argmax(axis=1) != truth).sum())
    loss = -np.log(np.maximum(values[np.arange(len(truth)), truth], 1e-4)).mean()
    return 1.0 - wrong / len(truth), loss, float((1.0 - values.max(axis=1)).sum()), wrong


def main() -> None:
    parser = Arguments(__doc__, "2,000 responses")
    parser.add_argument("--sizes", nargs="*", type=float, default=[1e5, 1e6, 1e7])
    parser.add_argument("--seeds", nargs="*", type=int, default=[1])
    options = parser.parse_args()
    sizes = [2_000] if options.quick else [int(size) for size in options.sizes]
    print(
        f"{'responses':<12}{'story':<12}{'classes':>7}{'seconds':>9}{'bf.fuse':>14}{'votes':>14}"
        f"{'expected':>11}{'wrong':>9}{'ratio':>7}  models"
    )
    for size in sizes:
        for story in STORIES:
            for n_classes in (2,) if options.quick else (2, 4):
                for seed in options.seeds:
                    responses, truth = table(story, size, n_classes, seed)
                    begun = time.perf_counter()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", UserWarning)  # fits are judged by truth
                        fused = bf.fuse(
                            responses, checks=False, random_seed=seed, progressbar=False
                        )
                    seconds = time.perf_counter() - begun
                    right, loss, expected, wrong = score(fused, truth)
                    votes = score(bf.vote_shares(responses), truth)
                    print(
                        f"{responses.n_responses:<12,}{story:<12}{n_classes:>7}{seconds:>9.0f}"
                        f"{f'{right:.3f}/{loss:.3f}':>14}{f'{votes[0]:.3f}/{votes[1]:.3f}':>14}"
                        f"{expected:>11,.0f}{wrong:>9,}{expected / max(wrong, 1):>7.2f}  "
                        f"{', '.join(fused.attrs['models'])}"
                    )


if __name__ == "__main__":
    main()
