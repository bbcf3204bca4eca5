"""Traganitis & Giannakis (2020), Figs 4–7, with the sequence in the model.

K = 4 classes, sequences of 40 labels from a random Markov chain that begin in its stationary
distribution, M raters of whom ⌊M/2⌋ + 1 are better than random; N to 10⁴ with M = 10, then M to 30
with N = 1,000. The paper's method is moment matching followed by Baum–Welch (Alg. 1 + 2). It is
compared with majority vote, i.i.d. moments, Baum–Welch from majority vote, the true parameters, and
the posterior of ``HiddenMarkov`` (Gibbs), with the coverage of its 90 % intervals. The posterior
has one of three priors: flat, from which the simulation draws confusion matrices (before it makes
raters better than random); the default, which favours the diagonal; and ``bf.priors.robust``, under
which some rows are uniform.

None of them is the distribution of the paper's rows: it is fixed which raters are better than
random, and the others have random rows. So nominal coverage is not expected, and labels of two
classes may be switched: a Dirichlet prior that favours the diagonal prefers the order of the
classes with the larger product of the diagonal entries, in which one rater who is hardly ever right
in a class outweighs several who mostly are (the first table counts how often, for both priors); a
flat prior does not identify the order, so its draws are aligned with the mode they start from. The
last tables therefore draw rows and transitions from the default prior itself. Differences within a
run have standard errors over runs, and are also given for the runs without switched labels.

    python benchmarks/hmm_simulation.py [--quick] [--runs 10]
"""

from __future__ import annotations

import numpy as np
from _shared import QUIET, Arguments, f_score
from scipy.optimize import linear_sum_assignment
from traganitis2020 import LENGTH, N_CLASSES, simulate

import bayesfuse as bf
from bayesfuse.inference import em
from bayesfuse.models import HiddenMarkov
from bayesfuse.observation import ResponseModel
from bayesfuse.parameters.dirichlet import Dirichlet

FLAT = np.ones((N_CLASSES, N_CLASSES))
DEFAULT = bf.priors.mixture([1.0], [bf.priors.diagonal(N_CLASSES)])  # of one component
ROBUST = bf.priors.robust(N_CLASSES)
METHODS = (
    "majority vote",
    "i.i.d. moments",
    "majority + Baum–Welch",
    "moments + Baum–Welch",
    "posterior, flat prior",
    "posterior",
    "posterior, robust",
    "true parameters",
)
POSTERIORS = METHODS[4:7]
MEASURES = ("F-score (37)", "labels right", "confusion error (38)", "transition error |T − T̂|₁")


def sequences_of(n_items):
    """Cut the items into sequences of 40."""
    return bf.Sequences.from_lengths([LENGTH] * (n_items // LENGTH))


def from_paper(rng, n_items, n_raters):
    """Draw transition and confusion as the paper does, then truth and responses."""
    transition, _, confusion, truth, responses = simulate(rng, n_items, n_raters)
    return transition, confusion, truth, responses


def from_prior(rng, n_items, n_raters):
    """Draw transition and confusion from the default prior, then truth and responses."""
    unanswered = np.zeros((n_items, n_raters), dtype=int)
    table = bf.Responses.from_matrix(unanswered, classes=range(N_CLASSES))
    model = HiddenMarkov(table, sequences_of(n_items), initial="stationary")
    values, truth, responses = bf.testing.simulate(model, rng)
    return values["transition"], values["confusion"], truth, responses


def renamed(rows, confusion):
    """Say whether other names of the classes are nearer the true ones, by half the distance."""
    cost = ((confusion[:, :, None] - rows[:, None]) ** 2).sum(axis=(0, 3))
    return cost[linear_sum_assignment(cost)].sum() < 0.5 * np.trace(cost)


def misnamed(rng, n_raters, priors, simulations):
    """Return how often each prior prefers other names to the true ones at the true rows."""
    wrong = np.zeros(len(priors))
    for _ in range(simulations):
        log_rows = np.log(simulate(rng, LENGTH, n_raters)[2])[:, :, None]
        for place, prior in enumerate(priors):
            # the density of every row under every name: (raters, classes, names)
            power = prior.concentration[:, None, None] - 1.0
            logs = prior.log_weight[:, None, None] + (power * log_rows).sum(axis=-1)
            gain = np.logaddexp.reduce(logs).sum(axis=0)
            _, best = linear_sum_assignment(gain, maximize=True)
            wrong[place] += (best != np.arange(N_CLASSES)).any()
    return wrong / simulations


def one_run(rng, problem, n_items, n_raters, draws):
    """Return by method the measures; what intervals cover; whose names of classes are wrong."""
    transition, confusion, truth, responses = problem(rng, n_items, n_raters)
    sequences = sequences_of(n_items)
    chain = bf.build.StationaryMarkovChain(None, sequences)
    observation = ResponseModel.build(responses, chain, bf.build.Confusion(None))
    found, covered, wrong_names = {}, {}, {}

    def add(name, labels, rows=None, steps=None):
        errors = [np.nan, np.nan]
        if rows is not None:
            errors[0] = np.abs(rows - confusion).sum(axis=(1, 2)).mean()
        if steps is not None:
            errors[1] = np.abs(steps - transition).sum()
        found[name] = (f_score(truth, labels, N_CLASSES), np.mean(labels == truth), *errors)

    def climb(name, steps, rows):
        even = 1.0 / N_CLASSES  # keeps zeros of the start from being zeros for ever
        start = {"transition": 0.99 * steps + 0.01 * even, "confusion": 0.99 * rows + 0.01 * even}
        start = observation.rows(start)
        flat = {key: Dirichlet(np.ones_like(value)) for key, value in start.items()}
        fit = em.fit(observation, start, flat, iterations=2000)
        labels = observation.marginal(fit.rows).probability.argmax(axis=1)
        add(name, labels, np.exp(fit.rows["confusion"]), np.exp(fit.rows["transition"]))

    votes = responses.votes()
    ties = (votes + 1e-6 * rng.random(votes.shape)).argmax(axis=1)
    one_hot = np.eye(N_CLASSES)[ties]
    (counts,) = chain.sample_counts(ties, observation.label_structure, N_CLASSES)
    by_votes = observation.raters.sample_counts(
        (np.zeros((n_raters, N_CLASSES, N_CLASSES)),), one_hot, observation.rater_structure, rng
    )[0]
    by_votes, by_pairs = (
        (part + 0.1) / (part + 0.1).sum(axis=-1, keepdims=True) for part in (by_votes, counts)
    )
    add("majority vote", ties, by_votes, by_pairs)
    climb("majority + Baum–Welch", by_pairs, by_votes)
    estimate = bf.moments.confusion(responses)
    rows = estimate.confusion.values
    steps = bf.moments.transition(responses, sequences.lengths, rows).transition.values
    apart = ResponseModel.build(responses, bf.build.Independent(None), bf.build.Confusion(None))
    point = apart.rows({"prevalence": estimate.prevalence.values, "confusion": rows})
    guess = apart.by_item(apart.marginal(point).probability).argmax(axis=1)
    add("i.i.d. moments", guess, rows, steps)
    climb("moments + Baum–Welch", steps, rows)
    exact = observation.rows({"transition": transition, "confusion": confusion})
    add("true parameters", observation.marginal(exact).probability.argmax(axis=1))
    for name, prior in zip(POSTERIORS, (FLAT, None, ROBUST), strict=True):
        model = HiddenMarkov(responses, sequences, initial="stationary", confusion_prior=prior)
        result = bf.sample(model, draws, random_seed=rng, log_likelihood=False, **QUIET)
        if prior is FLAT:  # to which all namings are equal: chains may mix them
            result = bf.checks.align_labels(result, model, reference=bf.find_map(model))
        posterior = result["posterior"].dataset
        values = {key: posterior[key].values for key in ("confusion", "transition")}
        means = {key: value.mean(axis=(0, 1)) for key, value in values.items()}
        labels = bf.label_probabilities(result).values.argmax(axis=1)
        add(name, labels, means["confusion"], means["transition"])
        wrong_names[name] = renamed(means["confusion"], confusion)
        for key, true in (("confusion", confusion), ("transition", transition)):
            low, high = np.quantile(values[key], [0.05, 0.95], axis=(0, 1))
            covered[name, key] = ((low <= true) & (true <= high)).mean()
    return found, covered, wrong_names


def sweep(title, problem, sizes, runs, draws, seed):
    """Run all sizes and print one table per measure."""
    print(f"\n{title}")
    results = []
    for size in sizes:
        rng = np.random.default_rng([seed, *size])
        results.append([one_run(rng, problem, *size, draws) for _ in range(runs)])
    lines = [f"N={n_items:<6} M={n_raters:<5}" for n_items, n_raters in sizes]
    for measure, name in enumerate(MEASURES):
        print(f"\n{name:<16}" + "".join(f"{method:>23}" for method in METHODS))
        for line, outcomes in zip(lines, results, strict=True):
            cells = []
            for method in METHODS:
                values = [found[method][measure] for found, _, _ in outcomes]
                cells.append(f"{np.mean(values):>16.3f} ±{np.std(values):.3f}")
            print(line + "".join(cells))
    for measure, name in enumerate(MEASURES[:2]):
        print(f"\n{name} less that of majority + Baum–Welch in the same run, ± standard error")
        for line, outcomes in zip(lines, results, strict=True):
            for method in POSTERIORS:
                gains = [
                    found[method][measure] - found[METHODS[2]][measure] for found, _, _ in outcomes
                ]
                kept = [
                    gain for gain, run in zip(gains, outcomes, strict=True) if not run[2][method]
                ]
                print(
                    f"{line} {method:<22} {with_error(gains)}; not switched in {len(kept)} of "
                    f"{len(gains)} runs, there {with_error(kept)}"
                )
    print("\nShare of true entries in their 90 % intervals, ± standard error over runs")
    for line, outcomes in zip(lines, results, strict=True):
        for name in POSTERIORS:
            for key in ("confusion", "transition"):
                shares = [covered[name, key] for _, covered, _ in outcomes]
                kept = [covered[name, key] for _, covered, wrong in outcomes if not wrong[name]]
                print(
                    f"{line} {name:<22} {key:<11}{with_error(shares)}; not switched: "
                    f"{with_error(kept)}",
                    flush=True,
                )


def with_error(values):
    """Write the mean of runs and its standard error."""
    if len(values) < 2:
        return "too few runs"
    return f"{np.mean(values):.3f} ±{np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


def main() -> None:
    """Print the tables."""
    parser = Arguments(__doc__, "one run of small sizes")
    parser.add_argument("--runs", type=int, default=10, help="Monte Carlo runs (paper: 10)")
    options = parser.parse_args()
    runs, draws = (1, 20) if options.quick else (options.runs, 500)
    items = (200,) if options.quick else (200, 400, 1000, 2000, 4000, 10_000)
    raters = () if options.quick else (5, 15, 30)
    print("Share of the paper's confusion matrices at which a prior prefers switched labels")
    print(f"{'':<7}{'default':>9}{'robust':>9}")
    for n_raters in (5, 10, 15, 30):
        rng = np.random.default_rng([5, n_raters])
        shares = misnamed(rng, n_raters, (DEFAULT, ROBUST), 20 if options.quick else 2000)
        print(f"M={n_raters:<5}" + "".join(f"{share:>9.3f}" for share in shares), flush=True)
    sweep("Figs 4 and 5: M = 10", from_paper, [(n, 10) for n in items], runs, draws, 4)
    sweep("Figs 6 and 7: N = 1,000", from_paper, [(1000, m) for m in raters], runs, draws, 6)
    sizes = [(200, 10)] if options.quick else [(400, 10), (1000, 5), (4000, 10)]
    sweep("Rows and transitions drawn from the default prior", from_prior, sizes, runs, draws, 8)


if __name__ == "__main__":
    main()
