"""How often checks raise an alarm: on data as modelled, and on data with the fault they look for.

In the first table every check is tried on every kind of data. Labels are in twelve sequences of
twelve items, which are also the rows of a grid. Numbers are alarms per hundred data sets. An alarm
is a p-value below .05 of all pairs of raters ("pairs"), of the differences between items ("items"),
of the mean agreement of raters ("mean"), of runs in sequence and of neighbours on the grid, or any
unusual pair, by agreement ("any pair") or shared mistakes ("mistakes"). Where model and data agree,
these rates should be at most five; an asterisk marks rates that five explains once in a thousand
tables. The second table is for checks that need data of their own.

    python benchmarks/alarms.py [--quick] [--sets 40] [--write]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from _shared import QUIET, Arguments
from scipy import stats

import bayesfuse as bf
from bayesfuse.models import (
    DawidSkene,
    HiddenMarkov,
    ItemTypes,
    LabellingFunctions,
    LatentGroup,
    MarkovRandomField,
)

SIDE, N_RATERS, LEVEL = 12, 8, 0.05
N_ITEMS = SIDE * SIDE
SEQUENCES = bf.Sequences.from_lengths([SIDE] * SIDE)
GRID = bf.Graph.grid((SIDE, SIDE))

# ---------------------------------------------------------------- data


def answers(rng, truth, accuracy=0.8, n_raters=N_RATERS, n_classes=2):
    """Return answers (items, raters), right with a probability by item, rater or both."""
    right = rng.random((len(truth), n_raters)) < accuracy
    wrong = (truth[:, None] + rng.integers(1, n_classes, right.shape)) % n_classes
    return np.where(right, truth[:, None], wrong)


def table(matrix, n_classes=2):
    return bf.Responses.from_matrix(matrix, classes=range(n_classes))


def plain(rng):
    truth = rng.choice(3, N_ITEMS, p=[0.5, 0.3, 0.2])
    return table(answers(rng, truth, rng.uniform(0.6, 0.9, N_RATERS), n_classes=3), 3)


def copied(rng):
    """The first four raters report on one noisy source."""
    truth = rng.integers(0, 2, N_ITEMS)
    heard = answers(rng, truth, 0.75, 1)[:, 0]
    rest = answers(rng, truth, 0.85, N_RATERS - 4)
    return table(np.column_stack([answers(rng, heard, 0.85, 4), rest]))


def hard(rng):
    """Half of the items are hardly better than a coin."""
    accuracy = np.where(rng.random((N_ITEMS, 1)) < 0.5, 0.55, 0.95)
    return table(answers(rng, rng.integers(0, 2, N_ITEMS), accuracy))


def typed(rng):
    """Three types of items, one of which says little; raters look or guess."""
    consensus = np.array([[0.97, 0.03], [0.03, 0.97], [0.6, 0.4]])
    kind = rng.choice(3, N_ITEMS, p=[0.4, 0.35, 0.25])
    looks = rng.random((N_ITEMS, N_RATERS)) < rng.beta(6, 2, N_RATERS)
    said = rng.random(looks.shape) < np.where(looks, consensus[kind, 1][:, None], 0.5)
    return table(said.astype(int))


def walks(rng, stay=0.9):
    """Labels last long in every sequence."""
    moves = rng.random((SIDE, SIDE)) > stay
    moves[:, 0] = rng.random(SIDE) < 0.5
    return table(answers(rng, (moves.cumsum(axis=1) % 2).ravel(), 0.75))


def regions(rng):
    """Labels are two regions of the grid."""
    truth = np.zeros((SIDE, SIDE), dtype=int)
    place, size = rng.integers(0, SIDE // 2, 2), SIDE // 2
    truth[place[0] : place[0] + size, place[1] : place[1] + size] = 1
    return table(answers(rng, truth.ravel(), 0.75))


def field(rng):
    """Labels of a random field with a coupling somewhat below the critical one."""
    empty = MarkovRandomField(table(np.zeros((N_ITEMS, 5), dtype=int)), GRID, trust=1.4)
    return bf.testing.simulate(empty, rng)[2]


def sharper(rng):
    """Raters of many classes are better than a prior that says they guess."""
    truth = rng.integers(0, 4, N_ITEMS)
    return table(answers(rng, truth, 0.9, n_classes=4), 4)


def doubtful(responses):
    return DawidSkene(responses, confusion_prior=np.full((4, 4), 30.0))


ROWS: dict[str, tuple[Callable[..., Any], Callable[..., Any], bool]] = {
    "as modelled": (plain, DawidSkene, True),
    "copies": (copied, DawidSkene, False),
    "copies, in a group": (copied, lambda r: LatentGroup(r, [[0, 1, 2, 3]]), True),
    "hard items": (hard, DawidSkene, False),
    "item types, modelled": (typed, ItemTypes, True),
    "sequences": (walks, DawidSkene, False),
    "sequences, modelled": (walks, lambda r: HiddenMarkov(r, SEQUENCES, raters="confusion"), True),
    "regions": (regions, DawidSkene, False),
    "random field, modelled": (field, lambda r: MarkovRandomField(r, GRID), True),
    "too heavy a prior": (sharper, doubtful, False),
}
"""Data, model, and whether they agree, so that alarms are false."""

COLUMNS = "pairs", "any pair", "mistakes", "items", "mean", "runs", "neighbours"


def alarms(result, model, draws, seed):
    """Return whether each check raises an alarm."""
    settings = {"draws": draws, "random_seed": seed}
    pairs = bf.checks.pairwise_agreement(result, model, **settings)
    mistakes = bf.checks.conditional_dependence(result, model, **settings)
    items = bf.checks.item_difficulty(result, model, **settings)
    runs = bf.checks.runs(result, model, SEQUENCES, **settings)
    neighbours = bf.checks.neighbour_agreement(result, model, GRID, **settings)
    return [
        pairs.attrs["p_value"] < LEVEL,
        bool(pairs["unusual"].any()),
        bool(mistakes["unusual"].any()),
        items.attrs["p_value"] < LEVEL,
        items.attrs["mean_p_value"] < LEVEL,
        runs.attrs["p_value"] < LEVEL,
        neighbours.attrs["p_value"] < LEVEL,
    ]


# ---------------------------------------------------------------- checks with data of their own


def draw(model, random_seed):
    """Return draws of two chains."""
    return bf.sample(model, 100, chains=2, random_seed=random_seed, **QUIET)


def collapses(model, rules, fit=lambda model, random_seed: bf.find_map(model)):
    """Return alarms of collapse: a rare class by raters, or rules of one label each."""

    def alarm(seed):
        rng = np.random.default_rng(seed)
        if rules:
            truth, label = rng.integers(0, 2, 1500), np.arange(6) % 2
            fires = rng.random((1500, 6)) < np.where(truth[:, None] == label, 0.3, 0.1)
            matrix = np.where(fires, label, -1)
        else:
            matrix = answers(rng, (rng.random(400) < 0.1).astype(int), 0.8, 5)
        fitted = model(table(matrix))
        return bf.checks.collapse(fit(fitted, seed), fitted).attrs["collapsed"]

    return alarm


def phases(**options):
    """Return alarms of phase_transition: regions by poor raters, with a coupling."""

    def alarm(seed):
        rng = np.random.default_rng(seed)
        truth = np.kron(rng.integers(0, 3, (4, 4)), np.ones((4, 4), dtype=int)).ravel()
        matrix = answers(rng, truth, 2 / 3, 4, 3)
        matrix[rng.random(matrix.shape) > 0.7] = -1
        model = MarkovRandomField(table(matrix, 3), bf.Graph.grid((16, 16)), **options)
        result = draw(model, seed)
        return bf.checks.phase_transition(result, model, random_seed=seed).attrs["trouble"]

    return alarm


def switches(planted, by_draw=False):
    """Return alarms of switching: a chain with the classes in another order at most draws.

    Chains of ``DawidSkene`` visit other orders for a few draws where the responses leave these in
    doubt; ``by_draw`` counts such tables, too.
    """

    def alarm(seed):
        made = bf.datasets.simulate_dawid_skene(100, 5, 2, random_seed=seed)
        result = bf.sample(DawidSkene(made.responses), 60, chains=2, random_seed=seed, **QUIET)
        if planted:
            posterior = result["posterior"].dataset.copy(deep=True)
            for name, axes in (("prevalence", (0,)), ("confusion", (1,))):
                values = posterior[name].values
                values[1] = np.flip(values[1], axis=[axis + 1 for axis in axes])
            result["posterior"] = xr.DataTree(posterior)
        found = bf.checks.switching(result)
        if by_draw:
            return not found.attrs["agree"]
        return bool((found["permutation"] != found["class"]).any())

    return alarm


OTHERS: dict[tuple[str, str], tuple[Callable[[int], bool], float]] = {
    ("collapse", "a class of one item in ten"): (collapses(DawidSkene, False), 1.0),
    ("collapse", "a class of one item in ten, draws"): (collapses(DawidSkene, False, draw), 1.0),
    ("collapse", "rules of one label each"): (collapses(DawidSkene, True), 0.5),
    ("collapse", "rules of one label each, draws"): (collapses(DawidSkene, True, draw), 0.5),
    ("collapse", "these, by LabellingFunctions"): (collapses(LabellingFunctions, True), 0.5),
    ("phase_transition", "regions, coupling inferred"): (phases(), 0.5),
    ("phase_transition", "regions, far too strong a coupling"): (phases(trust=20.0), 0.5),
    ("switching", "two sound chains"): (switches(False), 0.5),
    ("switching", "two sound chains, single draws"): (switches(False, by_draw=True), 0.5),
    ("switching", "classes of one chain in another order"): (switches(True), 0.5),
}
"""An alarm by seed, and the number of data sets relative to the first table."""


def main() -> None:
    parser = Arguments(__doc__, "a few rows, two data sets")
    parser.add_argument("--sets", type=int, default=40, help="data sets per row")
    options = parser.parse_args()
    rows, others, draws = ROWS, OTHERS, 100
    if options.quick:
        options.sets, draws = 2, 20
        rows = {name: ROWS[name] for name in ("as modelled", "copies")}
        others = {name: OTHERS[name] for name in list(OTHERS)[:6:5]}
    # hundreds of small fits; what they say is counted, and printed as rates
    warnings.simplefilter("ignore", bf.errors.PoorFitWarning)
    warnings.simplefilter("ignore", bf.errors.CollapseWarning)
    fit = QUIET | {"chains": 2, "log_likelihood": False}
    most = stats.binom.ppf(0.999, options.sets, LEVEL)
    print(f"{options.sets} data sets per row; alarms per hundred of them\n")
    print(f"{'':<24}" + "".join(f"{name:>12}" for name in COLUMNS))
    for name, (draw, build, agrees) in rows.items():
        found = []
        for seed in range(options.sets):
            model = build(draw(np.random.default_rng(seed)))
            result = bf.sample(model, draws, random_seed=seed, **fit)
            found.append(alarms(result, model, draws, seed))
        number = np.sum(found, axis=0)
        false = agrees & (number > most)
        cells = (
            f"{100 * n / options.sets:>11.0f}{'*' if f else ' '}"
            for n, f in zip(number, false, strict=True)
        )
        print(f"{name:<24}" + "".join(cells))
    print(f"\n{'':<62}{'sets':>6}{'alarms, %':>11}")
    for (check, what), (alarm, share) in others.items():
        sets = max(int(share * options.sets), 2)
        rate = np.mean([alarm(seed) for seed in range(sets)])
        print(f"{check:<18}{what:<44}{sets:>6}{100 * rate:>11.0f}")


if __name__ == "__main__":
    main()
