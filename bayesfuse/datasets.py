"""Classic data sets, and simulators of responses whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse import errors
from bayesfuse.data.arrays import shown
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import invert

__all__ = [
    "Simulated",
    "Sleep",
    "anesthesia",
    "caries",
    "simulate_dawid_skene",
    "simulate_responses",
    "sleep",
    "tuberculosis",
]
__dir__ = __all__.copy


_ANESTHESIA = """
1111111 3334334 1122122 2223121 2223222 2223322 1122111 3333433 2222223 2322223 4444444 2223343
1111111 2223212 1211111 1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 2212222
1111111 1111111 2322222 1111111 1111111 1121121 1111111 3333233 1111111 2222222 2223232 4334343
2212232 2323233 3333432 1111111 1111111 1212111 2322222 1211111 2222222
"""

_CARIES = """
00000:1880 00001:789 00010:43 00011:75 00100:23 00101:63 00110:8 00111:22 01000:188 01001:191
01010:17 01011:67 01100:15 01101:85 01110:8 01111:56 10000:22 10001:26 10010:6 10011:14 10100:1
10101:20 10110:2 10111:17 11000:2 11001:20 11010:6 11011:27 11100:3 11101:72 11110:1 11111:100
"""


def anesthesia() -> Responses:
    """Return assessments of 45 patients by five anaesthetists on a scale from 1 to 4.

    The first anaesthetist assessed every patient three times.

    References
    ----------
    Dawid & Skene (1979), Applied Statistics 28, 20–28, Table 1.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.datasets.anesthesia().n_responses
    315
    """
    item, rater = np.repeat(np.arange(1, 46), 7), np.tile([1, 1, 1, 2, 3, 4, 5], 45)
    label = [int(digit) for digit in "".join(_ANESTHESIA.split())]
    return Responses.from_long({"item": item, "rater": rater, "label": np.array(label)})


def caries() -> Responses:
    """Return five dentists' verdicts (sound or carious) on 3,869 radiographs, as 32 patterns.

    References
    ----------
    Espeland & Handelman (1989), Biometrics 45, 587–599.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> int(bf.datasets.caries().multiplicity.sum())
    3869
    """
    patterns, counts = zip(*(entry.split(":") for entry in _CARIES.split()), strict=True)
    names = np.array(["sound", "carious"])
    return Responses.from_counts(
        names[np.array(list(map(list, patterns)), dtype=int)],
        list(map(int, counts)),
        items=patterns,
        raters=[f"dentist {number}" for number in range(1, 6)],
        classes=names,
    )


def tuberculosis() -> tuple[Responses, dict[str, str]]:
    """Return two skin tests for tuberculosis of 1,877 people in two populations, as patterns.

    Population "1" is a school district, "2" a sanatorium; the population of items comes second.

    References
    ----------
    Hui & Walter (1980), Biometrics 36, 167–171.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.datasets.tuberculosis()[1]["2: +-"]
    '2'
    """
    patterns, counts = ("++", "+-", "-+", "--"), {"1": (14, 4, 9, 528), "2": (887, 31, 37, 367)}
    populations = {f"{name}: {pattern}": name for name in counts for pattern in patterns}
    responses = Responses.from_counts(
        np.array([list(pattern) for _ in counts for pattern in patterns]),
        [number for numbers in counts.values() for number in numbers],
        items=list(populations),
        raters=["Mantoux", "tine"],
        classes=["-", "+"],
    )
    return responses, populations


class Sleep(NamedTuple):
    """Stages of sleep by epoch: ``responses``, ``sequences`` (nights) and ``truth`` by item.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.datasets.Sleep._fields
    ('responses', 'sequences', 'truth')
    """

    responses: Responses
    sequences: Sequences
    truth: dict[str, str]


_STAGES = "W", "N1", "N2", "N3", "REM"
_SCORERS = tuple(f"scorer {number}" for number in range(1, 6))
_NETWORKS = "Chambon", "DeepSleepNet", "Mixed", "SeqSleepNet", "SimpleNet", "Tsinalis"


def sleep(raters: Literal["all", "people", "networks"] = "all", nights: int | None = None) -> Sleep:
    """Return stages of sleep of 25 nights in epochs of 30 s, by five people and six networks.

    An item is an epoch, such as "night 3, 417". ``truth`` is the stage by at least three of the
    five people, and so not independent of them; the others have none. Networks leave out epochs at
    the ends of a night, which stay as items without responses; each was trained on other nights.

    Parameters
    ----------
    raters : {"all", "people", "networks"}, default "all"
        Whose labels are returned. Names are "scorer 1" to "scorer 5", and those of networks.
    nights : int, optional
        The first so many of the 25 nights. Default all.

    Returns
    -------
    Sleep

    References
    ----------
    Guillot, Sauvet, During & Thorey (2020), Dreem Open Datasets: Multi-Scored Sleep Datasets to
    Compare Human and Automated Sleep Staging, IEEE TNSRE 28(9). Labels are from the repository
    Dreem-Organization/dreem-learning-evaluation, under the MIT licence.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> night = bf.datasets.sleep("people", nights=1)
    >>> night.responses.n_items, night.responses.raters.size
    (1192, 5)
    >>> night.sequences
    Sequences: 1,192 items in 1 sequences, 1,192 long
    """
    errors.require_choice("raters", raters, "all", "people", "networks")
    with np.load(Path(__file__).with_name("sleep.npz")) as data:
        stage, length = data["stage"], data["length"]
    if nights is not None:
        errors.require_count("nights", nights)
        if nights > len(length):
            raise errors.ModelError(f"There are {len(length)} nights. Got: nights={nights}.")
        length = length[:nights]
    names = [
        f"night {night + 1}, {epoch + 1}" for night, n in enumerate(length) for epoch in range(n)
    ]
    stage = stage[: len(names)]
    counts = (stage[:, : len(_SCORERS), None] == np.arange(len(_STAGES))).sum(axis=1)
    best = counts.argmax(axis=1)
    truth = {names[n]: _STAGES[best[n]] for n in np.flatnonzero(counts.max(axis=1) >= 3)}
    used = {"all": slice(None), "people": slice(0, 5), "networks": slice(5, None)}[raters]
    item, rater = np.nonzero(stage[:, used] >= 0)
    responses = Responses.from_long(
        {
            "item": np.array(names)[item],
            "rater": np.array(_SCORERS + _NETWORKS)[used][rater],
            "label": np.array(_STAGES)[stage[:, used][item, rater]],
        },
        items=names,
        raters=(_SCORERS + _NETWORKS)[used],
        classes=_STAGES,
    )
    number = [f"night {night + 1}" for night in range(len(length))]
    return Sleep(responses, Sequences.from_lengths(length, items=names, names=number), truth)


@dataclass(frozen=True)
class Simulated:
    """Simulated responses and their parameters.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.datasets.simulate_dawid_skene(100, 5, 3, random_seed=1).confusion.shape
    (5, 3, 3)
    """

    responses: Responses
    truth: NDArray[np.int64]  # indices of the true classes (items,)
    prevalence: Array  # (classes,)
    confusion: Array  # (raters, classes, labels)


def simulate_dawid_skene(
    n_items: int,
    n_raters: int,
    n_classes: int,
    *,
    per_item: int | None = None,
    prevalence: ArrayLike | None = None,
    confusion: ArrayLike | None = None,
    accuracy: tuple[float, float] = (0.5, 0.9),
    random_seed: int | np.random.Generator | None = None,
) -> Simulated:
    """Simulate the Dawid–Skene model.

    Parameters
    ----------
    n_items, n_raters, n_classes : int
    per_item : int, optional
        Raters per item, at most ``n_raters``, chosen at random. Default all.
    prevalence : array-like, shape (classes,), optional: default a draw from Dirichlet(5, …, 5)
    confusion : array-like, shape (raters, classes, labels), optional
        Default: diagonals uniform in the range ``accuracy``, the rest of a row flat Dirichlet.
    accuracy : pair of float
    random_seed : int or Generator, optional

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(100, 5, 3, per_item=2, random_seed=1)
    >>> made.responses.n_responses
    200
    """
    rng = _generator(random_seed, n_items=n_items, n_raters=n_raters, n_classes=n_classes)
    if prevalence is None:
        share = rng.dirichlet(np.full(n_classes, 5.0))
    else:
        share = _checked("prevalence", prevalence, True, classes=n_classes)
    table = _confusion(confusion, n_raters, n_classes, accuracy, rng)
    truth = rng.choice(n_classes, size=n_items, p=share)
    return Simulated(_answers(truth, table, per_item, rng), truth, share, table)


def simulate_responses(
    truth: ArrayLike,
    n_raters: int,
    n_classes: int,
    *,
    per_item: int | None = None,
    confusion: ArrayLike | None = None,
    accuracy: tuple[float, float] = (0.5, 0.9),
    random_seed: int | np.random.Generator | None = None,
) -> Simulated:
    """Simulate responses to items with given true classes, of shares ``prevalence``.

    Parameters
    ----------
    truth : array-like of int: indices of the true classes, of any shape; items are in C order
    n_raters, n_classes, per_item, confusion, accuracy, random_seed
        As in :func:`simulate_dawid_skene`.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> made = bf.datasets.simulate_responses(np.eye(20, dtype=int), 3, 2, random_seed=1)
    >>> made.responses.n_items, made.prevalence.round(2).tolist()
    (400, [0.95, 0.05])
    """
    rng = _generator(random_seed, n_raters=n_raters, n_classes=n_classes)
    known = np.asarray(truth).ravel()
    inside = known.dtype.kind in "iu" and len(known) and known.min() >= 0
    if not (inside and known.max() < n_classes):
        raise errors.ModelError(
            f"truth must hold whole numbers from 0 to {n_classes - 1}. Got: {shown(known, 5)}."
        )
    table = _confusion(confusion, n_raters, n_classes, accuracy, rng)
    share = np.bincount(known, minlength=n_classes) / len(known)
    return Simulated(_answers(known, table, per_item, rng), known, share, table)


def _generator(random_seed: Any, **sizes: int) -> np.random.Generator:
    """Check sizes and return the generator of a seed."""
    for name, size in sizes.items():
        errors.require_count(name, size, least=2 if name == "n_classes" else 1)
    return errors.require_seed(random_seed)


def _checked(name: str, value: ArrayLike, rows: bool, **axes: int) -> Array:
    values = errors.require_numbers(name, value)
    errors.require_shape(name, values.shape, **axes)
    errors.require_probabilities(name, values, rows=rows)
    return values


def _confusion(confusion: Any, n_raters: int, n_classes: int, accuracy: Any, rng: Any) -> Array:
    if confusion is not None:
        axes = {"raters": n_raters, "classes": n_classes, "labels": n_classes}
        return _checked("confusion", confusion, True, **axes)
    ends = _checked("accuracy", accuracy, False, ends=2)
    right = rng.uniform(*ends, size=(n_raters, n_classes, 1))
    wrong = rng.dirichlet(np.ones(n_classes - 1), size=(n_raters, n_classes)) * (1 - right)
    rows = [np.insert(wrong[:, k], k, right[:, k, 0], axis=1) for k in range(n_classes)]
    return np.stack(rows, axis=1)


def _answers(
    truth: NDArray[np.int64], confusion: Array, per_item: int | None, rng: np.random.Generator
) -> Responses:
    """Simulate responses of all raters, or of some chosen at random, to every item."""
    n_items, (n_raters, n_classes, _) = len(truth), confusion.shape
    per_item = n_raters if per_item is None else per_item
    errors.require_count("per_item", per_item)
    if per_item > n_raters:
        raise errors.ModelError(
            f"per_item must be at most {n_raters}, all raters. Got: {per_item}."
        )
    item = np.repeat(np.arange(n_items), per_item)
    rater = np.tile(np.arange(n_raters), n_items)
    if per_item < n_raters:
        rater = rng.random((n_items, n_raters)).argpartition(per_item - 1)[:, :per_item].ravel()
    label = invert(confusion.cumsum(axis=-1)[rater, truth[item]], rng.random(len(item)))
    rows = {"item": item, "rater": rater, "label": label}
    items, raters = range(n_items), range(n_raters)
    return Responses.from_long(rows, items=items, raters=raters, classes=range(n_classes))
