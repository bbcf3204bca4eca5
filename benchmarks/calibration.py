"""Simulation-based calibration of models and samplers.

Parameters, truths and responses are drawn from the prior of a model, and the model is fitted to
them. Then the ranks of the parameters among their draws are uniform, and so is the randomised
probability integral transform of the labels (Talts et al., 2018, arXiv:1804.06788). A model and its
sampler are one row:

* "numbers": entries of the parameters that were ranked, and labels as one number;
* "mean", "spread": the largest deviation of a mean rank, and of a mean squared distance of ranks
  from the middle, in standard errors (positive: parameters above their draws; draws too narrow);
* "p": the smallest of all these p-values times their number. Below .01 a row is marked;
* "covered": the share of the parameters in their 90 % intervals, ± its standard error, and of the
  labels in the middle 90 % of their transform.

    python benchmarks/calibration.py [--quick] [--simulations 100] [--only "item types"] [--write]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pymc as pm
from _shared import Arguments
from scipy import stats

import bayesfuse as bf
from bayesfuse.models import (
    DawidSkene,
    HiddenMarkov,
    ItemTypes,
    LatentGroup,
    MarkovRandomField,
)
from bayesfuse.observation import parts
from bayesfuse.parameters.compiled import without_compilation

DRAWS = 99
GIBBS = {"sweeps": 5, "thin": 2, "start": "prior"}
SLOW = {"tune": 100, "start": "prior"}
NUTS = SLOW | {"sampler": "nuts", "nuts_sampler": "pymc"}
MARKED = 0.01
SMALL_BLOCKS = patch.multiple(parts, BLOCK_ENTRIES=16, MIN_BLOCKS=2, ENTRIES_PER_TABLE=0)


class Case(NamedTuple):
    """A model as a function of responses and known labels, its design, and how it is sampled."""

    build: Callable[..., pm.Model]
    design: bf.Responses
    revealed: Any = ()
    options: dict[str, Any] = GIBBS
    simulations: float = 1.0  # relative to those of other cases


def sparse(n_items: int, n_raters: int, n_classes: int, answered: float = 0.7) -> bf.Responses:
    """Return a table in which pairs are missing, and six responses are repeated."""
    rng = np.random.default_rng(9)
    item, rater = np.nonzero(rng.random((n_items, n_raters)) < answered)
    item, rater = np.append(item, item[:6]), np.append(rater, rater[:6])
    table = {"item": item, "rater": rater, "label": np.arange(len(item)) % n_classes}
    return bf.Responses.from_long(table, items=range(n_items))


def silent(missing: float) -> bf.Responses:
    """Return a table of sources that abstain, some of which were not asked."""
    rng = np.random.default_rng(9)
    said = rng.integers(-1, 2, (25, 4)).astype(float)
    said[rng.random(said.shape) < missing] = np.nan
    return bf.Responses.from_matrix(said, abstain=-1, raters=range(4), classes=[0, 1])


def stated() -> bf.Responses:
    """Return a table of labels by three raters and of probabilities that two sources state."""
    rng = np.random.default_rng(9)
    label = rng.integers(0, 2, (25, 3)).astype(float)
    label[rng.random(label.shape) < 0.3] = np.nan
    hard = bf.Responses.from_matrix(label, raters=range(3), classes=[0, 1])
    soft = rng.dirichlet([0.6, 0.6], (25, 2))
    return hard.joined(bf.Responses.from_probabilities(soft, raters=[2, 3], classes=[0, 1]))


def votes(responses: bf.Responses, gold: Any = None) -> pm.Model:
    """Return a model of votes; the prior of LabellingFunctions depends on the table."""
    column = [[0, -1, -1], [-1, 1, -1], [-1, -1, 2], [-1, -1, 3]]
    with pm.Model(coords={"class": range(3), "vote": range(4)}) as model:
        prevalence = pm.Dirichlet("prevalence", [3.0, 2.0, 2.0], dims="class")
        share = pm.Dirichlet("vote_share", LIFTED, dims=("class", "vote"))
        bf.build.observe(
            responses,
            labels=bf.build.Independent(prevalence),
            raters=bf.build.Votes(share, column),
            gold=gold,
        )
    return model


def of(model: Callable[..., pm.Model], *arguments: Any, **options: Any) -> Callable[..., pm.Model]:
    """Return a function from responses (and ``gold=``) to the model."""
    return lambda table, gold=None: model(table, *arguments, gold=gold, **options)


def lengths(*parts: int) -> bf.Sequences:
    return bf.Sequences.from_lengths(list(parts))


TWO, THREE = sparse(25, 4, 2), sparse(25, 4, 3)
MANY, TRIPLE = sparse(25, 6, 2, 0.8), sparse(25, 6, 3, 0.8)
LONG = sparse(60, 4, 3)
CHAIN = lengths(4, 1, 10, 8, 2, 15, 20)
ALLOWED = [[1.0, 2.0, 0.0], [1.0, 1.0, 1.0], [3.0, 0.0, 1.0]]
SKEWED = {"prevalence_prior": [1.0, 3.0]}
ROWS = {"confusion_prior": [[3.0, 1.0], [0.5, 2.0]]}
POOLED = {"prevalence_prior": [4.0, 8.0], "pooled": True}
SHARED = {
    "confusion": [[24.0, 6.0], [5.0, 30.0]],
    "class": [[24.0, 6.0], [30.0, 5.0]],
    "coin": [28.0, 6.0],
}
COVARIATE = np.random.default_rng(2).normal(size=(25, 1))
WORD = np.random.default_rng(5).dirichlet([1.0, 1.0], 25)
MIXTURE = bf.priors.mixture([0.7, 0.3], [[[6.0, 1.0], [1.0, 4.0]], [[1.0, 3.0], [1.0, 1.0]]])
GRADES = {"prevalence_prior": [4.0, 5.0, 6.0], "raters": "graded"}
DIAGONAL = np.ones((3, 3)) + 6 * np.eye(3)
PLACES = {"north": [6.0, 2.0, 3.0], "south": [1.0, 1.0, 1.0], "west": [1.0, 2.0, 4.0]}
POPULATION = np.repeat(["north", "south", "west"], [15, 6, 4])
STEADY = {
    "confusion_prior": [[12.0, 3.0], [2.0, 9.0]],
    "transition_prior": [[4.0, 1.0], [2.0, 2.0]],
    "initial_prior": [2.0, 1.0],
}
LIFTED = [[5.0, 1.5, 1.0, 1.0], [1.0, 4.0, 2.0, 2.0], [2.0, 0.5, 2.5, 3.0]]
SPOKEN = np.tile([0, 1, 2, 3, 3], 6)
VOTES = bf.Responses.from_long(  # of several on an item, the likelihood is that with replacement
    {"item": range(30), "rater": SPOKEN, "label": np.minimum(SPOKEN, 2)}, raters=range(4)
)
SILENCE = {"prevalence_prior": [1.0, 2.0], "confusion_prior": [[3.0, 1.0, 2.0], [0.5, 2.0, 1.0]]}
BY_NUTS = {"options": NUTS, "simulations": 0.2}
NEXT_TO_NUTS = {"options": SLOW | {"sweeps": 5}, "simulations": 0.2}

CASES = {
    "Dawid–Skene": Case(of(DawidSkene, **SKEWED), TWO),
    "three classes, known labels": Case(
        of(DawidSkene, prevalence_prior=[1.0, 2.0, 4.0]), THREE, [0, 7]
    ),
    "in blocks, two threads": Case(
        of(DawidSkene), THREE, options=GIBBS | {"cores": 2}, simulations=0.4
    ),
    "per class": Case(of(DawidSkene, raters="class", confusion_prior=[4.0, 2.0]), THREE),
    "one coin": Case(of(DawidSkene, raters="coin", **SKEWED), TWO),
    "mixture prior": Case(of(DawidSkene, confusion_prior=MIXTURE, **SKEWED), TWO),
    **{
        f"pooled, {raters}": Case(
            of(DawidSkene, raters=raters, confusion_prior=np.array(prior), **POOLED),
            MANY,
            options=GIBBS | {"sweeps": 8},
        )
        for raters, prior in SHARED.items()
    },
    **{
        name: Case(
            of(DawidSkene, pooled=pooled, **GRADES),
            sparse(30, 6, 3, 0.8),
            range(0, 30, 3),
            options=GIBBS | {"tune": 100},
            simulations=0.5,
        )
        for name, pooled in (("graded", False), ("graded, pooled", True))
    },
    "populations": Case(
        of(DawidSkene, populations=POPULATION, prevalence_prior=PLACES, confusion_prior=DIAGONAL),
        THREE,
        [0, 22],
    ),
    "covariates": Case(
        of(DawidSkene, covariates=COVARIATE, **ROWS), TWO, range(0, 25, 3), **NEXT_TO_NUTS
    ),
    "classifier": Case(
        of(DawidSkene, classifier=WORD, **ROWS), TWO, range(0, 25, 3), **NEXT_TO_NUTS
    ),
    "silence": Case(of(DawidSkene, **SILENCE), silent(0.0), [3]),
    "silence, some not asked": Case(of(DawidSkene, **SILENCE), silent(0.3), [3]),
    "stated probabilities": Case(
        of(DawidSkene, prevalence_prior=[1.0, 2.0], **ROWS), stated(), [3]
    ),
    "votes, one per item": Case(votes, VOTES, range(0, 30, 3)),
    "item types": Case(of(ItemTypes), MANY, range(0, 25, 3)),
    "item types, pairs": Case(of(ItemTypes, trust=1.2), TRIPLE, range(0, 25, 3)),
    "item types, populations": Case(
        of(ItemTypes, guesses="even", populations=np.arange(25) % 2),
        MANY,
        range(0, 25, 3),
        **NEXT_TO_NUTS,
    ),
    "hidden Markov, zeros": Case(
        of(HiddenMarkov, CHAIN, initial_prior=[1, 1, 0], transition_prior=ALLOWED), LONG
    ),
    "hidden Markov, stationary": Case(of(HiddenMarkov, CHAIN, initial="stationary"), LONG),
    "stationary with zeros": Case(
        of(HiddenMarkov, CHAIN, initial="stationary", transition_prior=ALLOWED), LONG
    ),
    "hidden Markov, populations": Case(
        of(HiddenMarkov, lengths(*[10] * 6), populations=np.arange(6) % 2, **STEADY),
        sparse(60, 4, 2, 1.0),
    ),
    "known groups": Case(
        of(LatentGroup, [[0, 1, 2], [3, 4]], prevalence_prior=[1.0, 2.0, 4.0]), TRIPLE, [0]
    ),
    "inferred groups": Case(
        of(LatentGroup, "posterior", share_prior=0.3, prevalence_prior=[2.0, 4.0]),
        sparse(30, 5, 2, 0.8),
        options=GIBBS | {"sweeps": 6},
    ),
    "random field": Case(of(MarkovRandomField, bf.Graph.grid((5, 5))), TWO, [3, 11]),
    "Dawid–Skene, NUTS": Case(of(DawidSkene, **SKEWED), TWO, **BY_NUTS),
    "one coin pooled, NUTS": Case(
        of(DawidSkene, raters="coin", confusion_prior=SHARED["coin"], **POOLED), MANY, **BY_NUTS
    ),
    "known groups, NUTS": Case(of(LatentGroup, [[0, 1, 2], [3, 4]]), MANY, [0], **BY_NUTS),
}


def uniforms(case: Case, simulations: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ranks on (0, 1) of parameters (simulation, entry) and labels (simulation, item)."""
    ranks = bf.testing.sbc_ranks(
        case.build,
        case.design,
        revealed=case.revealed,
        simulations=simulations,
        draws=DRAWS,
        random_seed=1,
        **case.options,
    )
    labels = np.delete(ranks["labels"].values, list(case.revealed), axis=1)
    # seats of groups have no order, and their ties no rank
    names = [name for name in ranks if name not in ("labels", "assignment")]
    flat = np.column_stack([ranks[name].values.reshape(simulations, -1) for name in names])
    flat = flat[:, flat.any(axis=0)]  # without zeros for good
    return (flat + np.random.default_rng(2).random(flat.shape)) / (DRAWS + 1), labels


def deviations(uniform: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return deviations in standard errors of mean and spread, shape (2, entries + 1).

    The last entry is the mean over the labels of a simulation, which share its parameters.
    """
    found = []
    for values, moment, variance in (
        (lambda u: u - 0.5, 0.0, 1 / 12),
        (lambda u: (u - 0.5) ** 2, 1 / 12, 1 / 180),
    ):
        entries = (values(uniform).mean(axis=0) - moment) / np.sqrt(variance / len(uniform))
        each = values(labels).mean(axis=1) - moment
        found.append(np.append(entries, each.mean() / (each.std(ddof=1) / np.sqrt(len(each)))))
    return np.array(found)


def share(inside: np.ndarray) -> str:
    """Return the share of a (simulation, entry) table and its error over simulations."""
    each = inside.mean(axis=1)
    return f"{each.mean():.3f} ± {each.std(ddof=1) / np.sqrt(len(each)):.3f}"


def row(name: str, case: Case, simulations: int) -> str:
    """Return the line of one case; gradients are in Python, as every data set has its own graph."""
    begun = time.process_time()
    with without_compilation(), SMALL_BLOCKS if "blocks" in name else nullcontext():
        uniform, labels = uniforms(case, simulations)
    z = deviations(uniform, labels)
    worst = [float(each[np.argmax(np.abs(each))]) for each in z]
    p_value = min(1.0, 2 * stats.norm.sf(np.abs(z).max()) * z.size)
    covered, middle = (share(np.abs(each - 0.5) <= 0.45) for each in (uniform, labels))
    return (
        f"{name:<28}{simulations:>5}{z.shape[1]:>8}{worst[0]:>7.1f}{worst[1]:>7.1f}{p_value:>8.3f}"
        f"{covered:>15}{middle:>15}{time.process_time() - begun:>8.0f}"
        f"{'  *' if p_value < MARKED else ''}"
    )


def main() -> None:
    parser = Arguments(__doc__, "three cases, few simulations")
    parser.add_argument("--simulations", type=int, default=100, help="data sets per row")
    parser.add_argument("--only", help="cases whose name has this")
    options = parser.parse_args()
    cases = {name: case for name, case in CASES.items() if (options.only or "") in name}
    if options.quick:
        options.simulations = 4
        cases = {
            name: CASES[name] for name in ("Dawid–Skene", "populations", "stated probabilities")
        }
    with SMALL_BLOCKS:  # raises at once if a constant has another name
        pass
    print(
        f"{'':<28}{'sets':>5}{'numbers':>8}{'mean':>7}{'spread':>7}{'p':>8}{'covered':>15}"
        f"{'labels':>15}{'CPU s':>8}"
    )
    for name, case in cases.items():
        simulations = max(int(case.simulations * options.simulations), 4)
        print(row(name, case, simulations))


if __name__ == "__main__":
    main()
