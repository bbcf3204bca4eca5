"""Classic data sets, and simulators of responses whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from bayesfuse import errors
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.data.simulation import Simulated, simulate_dawid_skene, simulate_responses

__all__ = [
    "Judges",
    "Simulated",
    "Sleep",
    "anesthesia",
    "caries",
    "judges",
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


class Judges(NamedTuple):
    """Verdicts of language models: ``responses``, ``truth``, columns of items, pairs of raters.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.datasets.Judges._fields
    ('responses', 'truth', 'items', 'orders')
    """

    responses: Responses
    truth: dict[str, str]
    items: pd.DataFrame
    orders: list[tuple[str, str]]


def judges(prompt: str = "Vanilla") -> Judges:
    """Return verdicts of six language models on which of two outputs follows an instruction better.

    An item is one of 419 instructions, in five subsets; all but "Natural" were written so that the
    worse output looks better. Every model was asked twice, with the outputs in the given order and
    swapped, as two raters; classes are "first" and "second" in the given order.

    Parameters
    ----------
    prompt : str, default "Vanilla"
        How the models were asked: of 15 prompts, such as "CoT" (to think first) and "Metrics". Not
        every model has every prompt. "all" has all 130 raters.

    Returns
    -------
    responses : Responses
        Raters are named by model and, with all prompts, prompt: "GPT-4", "GPT-4 (swapped)".
    truth : dict
        The better output by item, on which the authors agree.
    items : DataFrame
        Columns item and subset; ``items["subset"]`` is ``by=`` of :func:`bayesfuse.class_shares`.
    orders : list of pairs
        Raters in both orders, for :func:`bayesfuse.decisions.position_bias`.

    References
    ----------
    Zeng, Yu, Gao, Meng, Goyal & Chen (2024), Evaluating Large Language Models at Evaluating
    Instruction Following, ICLR. Verdicts are from the repository princeton-nlp/LLMBar, under the
    MIT licence.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> panel = bf.datasets.judges()
    >>> panel.responses.n_items, panel.responses.raters[:2].tolist()
    (419, ['ChatGPT', 'ChatGPT (swapped)'])
    """
    with np.load(Path(__file__).with_name("judges.npz")) as data:
        prompts, models, swapped = data["prompt"], data["model"], data["swapped"]
        verdict, right, subset = data["verdict"], data["truth"], data["subset"]
    choices = sorted(set(prompts.tolist()))
    errors.require_choice("prompt", prompt, *choices, "all")
    used = np.flatnonzero((prompts == prompt) | (prompt == "all"))
    named = [f"{models[j]}, {prompts[j]}" if prompt == "all" else str(models[j]) for j in used]
    order = [" (swapped)" if swapped[j] else "" for j in used]
    raters = [name + which for name, which in zip(named, order, strict=True)]
    classes = np.array(["first", "second"])
    items = [f"{name} {number + 1}" for number, name in enumerate(subset.tolist())]
    item, rater = np.nonzero(verdict[:, used] >= 0)
    responses = Responses.from_long(
        {
            "item": np.array(items)[item],
            "rater": np.array(raters)[rater],
            "label": classes[verdict[:, used][item, rater]],
        },
        items=items,
        raters=raters,
        classes=classes.tolist(),
    )
    truth = dict(zip(items, classes[right].tolist(), strict=True))
    orders = [(name, f"{name} (swapped)") for name in dict.fromkeys(named)]
    return Judges(responses, truth, pd.DataFrame({"item": items, "subset": subset}), orders)
