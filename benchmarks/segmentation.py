"""A photograph segmented by simulated annotators: the gain from neighbours.

scikit-learn's photograph of a flower or of a temple, every fourth pixel; the truth is a clustering
of its smoothed colours. Every pixel is labelled by two of seven annotators, whose errors are
independent between pixels and whose accuracies differ. Majority vote, Dawid–Skene and
``MarkovRandomField`` on the grid with four and eight neighbours are compared by accuracy, mean
F-score over classes (37) and calibration (the share of correct pixels among those with label
probabilities up to 90 %, and above); a picture shows them.

    python benchmarks/segmentation.py [--quick] [--photograph flower] [--output benchmarks/figures]
"""

from __future__ import annotations

import time

import matplotlib.pyplot as plt
import numpy as np
from _shared import QUIET, Arguments, extras, f_score, save
from matplotlib.colors import to_rgb
from scipy.ndimage import gaussian_filter

import bayesfuse as bf
from bayesfuse.models import DawidSkene, MarkovRandomField

with extras():
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_sample_image

N_CLASSES, N_RATERS, PER_PIXEL = 4, 7, 2


def read(name, step):
    """Return a photograph and its segments, which are numbered from dark to light."""
    photograph = load_sample_image(f"{name}.jpg")[::step, ::step] / 255.0
    smooth = gaussian_filter(photograph, (1.5, 1.5, 0))
    fit = KMeans(N_CLASSES, n_init=4, random_state=0).fit(smooth.reshape(-1, 3))
    rank = np.argsort(np.argsort(fit.cluster_centers_.sum(axis=1)))
    return photograph, rank[fit.labels_].reshape(photograph.shape[:2])


def show(name, truth, probability, seconds, note=""):
    """Print a row; return the labels and their uncertainty."""
    guess, sure = probability.argmax(axis=1), probability.max(axis=1)
    right = guess == truth
    print(
        f"{name:<42}{right.mean():>9.4f}{f_score(truth, guess, N_CLASSES):>9.4f}"
        f"{right[sure <= 0.9].mean():>9.3f}{sure[sure <= 0.9].mean():>7.3f}"
        f"{right[sure > 0.9].mean():>9.3f}{sure[sure > 0.9].mean():>7.3f}{seconds:>9.1f}  {note}",
        flush=True,
    )
    return guess, 1 - sure


def picture(photograph, truth, found, path):
    """Save the photograph, the truth and the labels of each method."""
    colours = np.array([to_rgb(f"C{k}") for k in range(N_CLASSES)])
    shape = photograph.shape[:2]
    panels = {"photograph": photograph, "truth": colours[truth.reshape(shape)]}
    for name, (guess, _) in found.items():
        wrong = np.mean(guess != truth)
        panels[f"{name}: {wrong:.1%} wrong"] = colours[guess.reshape(shape)]
    last = list(found)[-1]
    figure, axes = plt.subplots(2, 3, figsize=(11, 5.4), layout="constrained")
    for ax, (title, image) in zip(axes.flat, panels.items(), strict=False):
        ax.imshow(image)
        ax.set_title(title, fontsize="medium")
    unsure = axes.flat[-1].imshow(found[last][1].reshape(shape), cmap="magma", vmin=0)
    axes.flat[-1].set_title(f"{last}: uncertainty", fontsize="medium")
    figure.colorbar(unsure, ax=axes.flat[-1], shrink=0.8)
    for ax in axes.flat:
        ax.set_axis_off()
    save(figure, path)


def main() -> None:
    """Print the table, save the picture."""
    parser = Arguments(__doc__, "every sixteenth pixel, few draws", figures=True)
    parser.add_argument("--photograph", choices=["flower", "china"], default="flower")
    options = parser.parse_args()
    photograph, segments = read(options.photograph, 16 if options.quick else 4)
    draws = 50 if options.quick else 1000
    truth = segments.ravel()
    made = bf.datasets.simulate_responses(
        truth, N_RATERS, N_CLASSES, per_item=PER_PIXEL, accuracy=(0.35, 0.75), random_seed=1
    )
    responses = made.responses
    votes = responses.votes()
    rng = np.random.default_rng(0)
    print(
        f"{options.photograph}: {segments.shape[0]} × {segments.shape[1]} pixels, {PER_PIXEL} of "
        f"{N_RATERS} annotators each, shares {np.round(made.prevalence, 2).tolist()}\n"
        f"{'':<60}{'sure ≤ 0.9':>16}{'sure > 0.9':>16}\n"
        f"{'':<42}{'accuracy':>9}{'F (37)':>9}{'right':>9}{'said':>7}{'right':>9}{'said':>7}"
        f"{'seconds':>9}"
    )
    by_votes = votes / votes.sum(axis=1, keepdims=True)
    ties = by_votes + 1e-6 * rng.random(votes.shape)
    found = {"majority vote": show("majority vote", truth, ties, 0.0)}
    models = {
        "Dawid–Skene": lambda: DawidSkene(responses),
        "on the grid, 4 neighbours, δ = M": lambda: MarkovRandomField(
            responses, bf.Graph.grid(segments.shape), trust="paper"
        ),
        "on the grid, 8 neighbours, inferred": lambda: MarkovRandomField(
            responses, bf.Graph.grid(segments.shape, neighbours=8)
        ),
        "on the grid, 4 neighbours, inferred": lambda: MarkovRandomField(
            responses, bf.Graph.grid(segments.shape)
        ),
    }
    shown = {"Dawid–Skene": "Dawid–Skene", "on the grid, 4 neighbours, inferred": "on the grid"}
    for name, build in models.items():
        begun = time.perf_counter()
        model = build()
        result = bf.sample(model, draws, random_seed=1, log_likelihood=False, **QUIET)
        taken, note = time.perf_counter() - begun, ""
        if "grid" in name:
            check = bf.checks.phase_transition(result, model, random_seed=1)
            trouble = "trouble" if check.attrs["trouble"] else "no trouble"
            coupling = float(check["coupling"].mean())
            note = f"coupling {coupling:.2f}, critical {check.attrs['critical']:.2f}, {trouble}"
        row = show(name, truth, bf.label_probabilities(result).values, taken, note)
        if name in shown:
            found[shown[name]] = row
    path = options.output / f"segmentation_{options.photograph}.png"
    picture(photograph, truth, found, path)
    print(f"\nPicture: {path.name}")


if __name__ == "__main__":
    main()
