"""Identifiability: questions that a table of responses can answer before any fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bayesfuse.checks.advice import Advice, listing, on_classes, on_known_classes, on_repeats
from bayesfuse.data.describing import as_columns, bullet
from bayesfuse.data.gold_tables import read_gold
from bayesfuse.data.known import gold_labels, read_populations
from bayesfuse.data.positive_class import NEGATIVE, positive_class
from bayesfuse.data.responses import Responses
from bayesfuse.data.tables import ITEM, LABEL, RATER, Table, read_table
from bayesfuse.raters.dependence import Groups
from bayesfuse.results.contents import gold_of, responses_of

YES, ASSUMED, NO = "yes", "with assumptions", "no"

MIN_GOLD_OF_CLASS = 5  # known labels of a class that show how raters answer it
MIN_GOLD_OF_RATER = 20  # responses of a rater to known items that show how often the rater is right

MAX_RATERS_FOR_SUBSETS = 12  # raters up to which every subset that responds to an item is counted
MAX_PAIRS = 50_000_000  # pairs of responses above which pairs of raters are not counted

FACT_NAMES = {
    "meetings": "pairs of responses to one item",
    "parts": "parts of raters with items in common",
    "known": "known labels of items with responses",
    "parameters": "parameters of raters and shares",
    "degrees_of_freedom": "possible response patterns",
}
"""Facts, as they are printed."""

MARKS = {"", "-1", "-1.0", "na", "n/a", "nan", "none", "null", "?", "-", "missing"}
MARKS |= {"unsure", "not sure", "don't know", "dont know", "cannot tell", "can't tell", "no idea"}
"""Names of classes that may be marks of missing responses."""

MIN_UNANIMOUS = 20  # items with several responses on which raters may agree by chance
MAX_LISTED = 3  # names or parts that a sentence lists


@dataclass(frozen=True, repr=False)
class Identifiability:
    """Numbers that describe a table, the questions that it can answer, and its problems."""

    facts: pd.Series
    questions: pd.DataFrame
    problems: list[Advice]

    def __repr__(self) -> str:
        facts = [[FACT_NAMES.get(str(name), str(name)), f"{n:,}"] for name, n in self.facts.items()]
        lines = []
        for name, answer, because, remedy in self.questions.itertuples():
            more = f". Needed for more: {remedy}" if remedy else ""
            lines.append(f"{name}: {answer}, {because}{more}.")
        lines += self.problems or ["No other problem of the table was found."]
        return "\n".join([as_columns(["of the table", "number"], facts), "", *map(bullet, lines)])


def identifiability(
    responses: Table | xr.DataTree,
    gold: Any = None,
    groups: Any = None,
    populations: Any = None,
    *,
    item: str = ITEM,
    rater: str = RATER,
    label: str = LABEL,
    missing: Literal["error", "drop"] = "error",
) -> Identifiability:
    """Return which questions a table of responses can answer, and what would change that.

    Nothing is fitted. Without known labels the qualities of raters follow from their agreement
    only, which needs three raters who respond to the same items (more precisely, an odd cycle of
    raters with items in common), and the assumption that they err independently.

    Parameters
    ----------
    responses : as in :func:`bayesfuse.fuse`, or a result
    gold, item, rater, label, missing : as in :func:`bayesfuse.fuse`
    groups : raters of one source, as in :class:`bayesfuse.models.LatentGroup`; they count as one
    populations : population of every item, as in :class:`bayesfuse.models.DawidSkene`

    Returns
    -------
    Identifiability
        ``facts``, a Series: ``raters``, ``classes``, ``items``, ``responses``, ``meetings`` (pairs
        of responses of different raters to one item), ``parts`` (raters connected by common items),
        ``populations``, ``known`` labels of items with responses, ``parameters`` and
        ``degrees_of_freedom``. ``questions``, a DataFrame by ``question`` ("labels", "raters",
        "shares"): ``answer`` ("yes", "with assumptions", "no"), ``because`` and ``remedy``.
        ``problems``, a list of sentences. ``print`` shows all. Of a result of ``bf.fuse``, these
        include how far the class shares depend on the prior of the raters.

    Notes
    -----
    For K classes, R raters and P populations a model has :math:`RK(K-1) + P(K-1)` parameters, and a
    complete table :math:`P(K^R - 1)` degrees of freedom (Jones, Johnson, Hanson & Christensen 2010,
    Biometrics 66, 855–863): :math:`(K-1)^{|T|}` for each set of raters T who respond to the same
    item of a population; for more than 12 raters only single raters and pairs are counted, a lower
    bound.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> report = bf.checks.identifiability(bf.Responses.from_matrix([[0, 1], [1, 1], [0, 0]]))
    >>> report.facts[["raters", "parameters", "degrees_of_freedom"]].tolist()
    [2, 5, 3]
    >>> report.questions["answer"].tolist()
    ['no', 'no', 'no']
    """
    of_prior: list[Advice] = []
    if isinstance(responses, xr.DataTree):
        of_prior = [Advice(line, "prior") for line in responses.attrs.get("prior", "").splitlines()]
        result, responses = responses, responses_of(responses)
        gold = gold_of(result, responses) if gold is None else gold
    table = read_table(responses, item=item, rater=rater, label=label, missing=missing)[0]
    codes = gold_labels(table, read_gold(gold, table, item, label))
    population = np.zeros(table.n_items, dtype=np.int64)
    if populations is not None:
        population = read_populations(table.items, populations)[1]
    source = np.arange(table.n_raters)
    if groups is not None:
        assignment = Groups.read(groups, table).assignment
        source = np.where(assignment >= 0, table.n_raters + assignment, source)
        source = np.unique(source, return_inverse=True)[1]
    visits = _Visited(table, source)
    facts = _facts(table, visits, codes, population)
    short = facts["degrees_of_freedom"] < facts["parameters"]
    # a lower bound for many raters, and silence is informative, too
    few = short and visits.n_sources <= MAX_RATERS_FOR_SUBSETS and table.silent is None
    judged = visits.odd & (not few)
    if facts["populations"] > 1 and visits.n_sources > 1 and facts["parts"] == 1 and not short:
        judged[:] = True
    questions = _questions(table, visits, codes, judged, facts["populations"])
    problems = _classes(table, codes) + _silent(table, visits, codes) + of_prior
    problems += on_repeats(table)
    if not any(problem.kind == "classes" for problem in problems):
        problems += on_classes(table)
    if questions["answer"]["labels"] != YES:
        problems = _of_raters(table, visits, judged, facts, few) + problems
    return Identifiability(pd.Series(facts, name="number"), questions, problems)


def _facts(
    table: Responses, visits: _Visited, codes: NDArray[np.int64], population: NDArray[np.int64]
) -> dict[str, int]:
    others, n_populations = table.n_classes - 1, int(population.max()) + 1
    n_statements = 0 if table.stated is None else len(table.stated.rater)
    freedom = [visits.freedom(others, population == n) for n in range(n_populations)]
    return {
        "raters": table.n_raters,
        "classes": table.n_classes,
        "items": int(table.multiplicity.sum()),
        "responses": int(table.multiplicity[table.item].sum()) + n_statements,
        "meetings": int((table.multiplicity * visits.number * (visits.number - 1) // 2).sum()),
        "parts": len(np.unique(visits.part[visits.active])),
        "populations": n_populations,
        "known": int((codes[np.unique(visits.item)] >= 0).sum()),
        "parameters": (visits.n_sources * table.n_classes + n_populations) * others,
        "degrees_of_freedom": sum(freedom),
    }


class _Visited:
    """Which sources responded to which items, once each, and the parts that they form."""

    def __init__(self, table: Responses, source: NDArray[np.int64]) -> None:
        self.n_items, self.n_sources = table.n_items, int(source.max()) + 1
        item, rater = table.item, table.rater
        if table.stated is not None:
            item = np.append(item, table.stated.item)
            rater = np.append(rater, table.stated.rater)
        pair = np.unique(item * self.n_sources + source[rater])
        self.item, self.source = np.divmod(pair, self.n_sources)
        self.number = np.bincount(self.item, minlength=self.n_items)
        self.source_of = source
        self.active = np.unique(self.source)
        # sources of an item form a path, and three or more also an odd cycle
        first = np.flatnonzero(np.diff(self.item) == 0)
        third = np.flatnonzero(self.item[2:] == self.item[:-2])
        third = third[np.unique(self.item[third], return_index=True)[1]]
        one = np.concatenate([self.source[first], self.source[third]])
        two = np.concatenate([self.source[first + 1], self.source[third + 2]])
        size = self.n_sources
        self.part = _components(one, two, size)
        # the double cover of a part is one piece if it has an odd cycle, and two pieces otherwise
        ends = np.concatenate([one, one + size]), np.concatenate([two + size, two])
        cover = _components(*ends, 2 * size)
        self.odd = cover[:size] == cover[size:]

    def freedom(self, others: int, among: NDArray[np.bool_]) -> int:
        """Return the degrees of freedom of the responses, with ``others`` + 1 classes, to items."""
        is_among = among[self.item]
        item, source = self.item[is_among], self.source[is_among]
        if self.n_sources <= MAX_RATERS_FOR_SUBSETS:
            masks = np.bincount(item, 2.0**source, self.n_items)
            subsets: set[int] = set()
            for mask in np.unique(masks.astype(np.int64)).tolist():
                part = mask
                while part:  # all subsets of a mask
                    subsets.add(part)
                    part = (part - 1) & mask
            return sum(others ** part.bit_count() for part in subsets)
        singles = len(np.unique(source))
        if int((self.number[among].astype(np.int64) ** 2).sum()) > MAX_PAIRS:
            return singles * others
        ones, shape = np.ones(len(item), dtype=np.int32), (self.n_items, self.n_sources)
        responded = coo_array((ones, (item, source)), shape).tocsr()
        pairs = ((responded.T @ responded).nnz - singles) // 2
        return int(singles * others + pairs * others**2)


def _components(one: NDArray[np.int64], two: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the number of the connected component of every node."""
    graph = coo_array((np.ones(len(one), dtype=np.int8), (one, two)), (size, size))
    _, part = connected_components(graph.tocsr(), directed=False)
    return np.asarray(part, dtype=np.int64)


def _questions(
    table: Responses,
    visits: _Visited,
    codes: NDArray[np.int64],
    judged: NDArray[np.bool_],
    n_populations: int,
) -> pd.DataFrame:
    """Return the questions that the table can answer, the reasons, and the remedies."""
    known = codes[np.unique(visits.item)]
    per_class = np.bincount(known[known >= 0], minlength=table.n_classes)
    is_used = np.bincount(table.label, minlength=table.n_classes) > 0
    every_class = bool((per_class[is_used] >= MIN_GOLD_OF_CLASS).all()) and is_used.any()
    per_rater = np.bincount(table.rater, codes[table.item] >= 0, minlength=table.n_raters)
    assumed = "raters err independently given the class, and most are better than guessing"
    if n_populations > 1:
        differ = "" if visits.odd.any() else ", whose class shares differ"
        assumed += f", and alike in all populations{differ}"
    items = judged[visits.source[np.unique(visits.item, return_index=True)[1]]]
    more = f"{MIN_GOLD_OF_CLASS} known labels of every class"
    if every_class:
        labels = YES, f"at least {MIN_GOLD_OF_CLASS} items of every class are known", ""
        shares = YES, "items are known; if these were chosen at random", ""
    elif items.any():
        why = f"if {assumed}{_but_not(items, 'items')}"
        labels, shares = (ASSUMED, why, more), (ASSUMED, why, f"{more}, chosen at random")
    else:
        why = "the responses fit many truths equally well"
        if visits.number.max(initial=0) <= 1:
            why = "no item has responses of two raters"
        labels = shares = NO, why, "three raters on the same items, or known labels"
    by_gold = per_rater >= MIN_GOLD_OF_RATER
    by_agreement = judged[visits.source_of]
    if by_gold.all():
        raters = YES, f"every rater answered {MIN_GOLD_OF_RATER} known items or more", ""
    elif (by_gold | by_agreement).any():
        why = f"only of {int(by_gold.sum()):,} raters, by known items"
        if by_agreement.any():
            why = f"if {assumed}{_but_not(by_gold | by_agreement, 'raters')}"
        raters = ASSUMED, why, f"responses of every rater to {MIN_GOLD_OF_RATER} known items"
    else:
        why = "agreement of fewer than three connected raters does not show who is right"
        remedy = (
            f"three raters on the same items, or responses to {MIN_GOLD_OF_RATER} known items each"
        )
        raters = NO, why, remedy
    return pd.DataFrame(
        [labels, raters, shares],
        pd.Index(["labels", "raters", "shares"], name="question"),
        ["answer", "because", "remedy"],
    )


def _but_not(is_included: NDArray[np.bool_], what: str) -> str:
    return "" if is_included.all() else f"; not of {(~is_included).sum():,} {what}"


def _of_raters(
    table: Responses, visits: _Visited, judged: NDArray[np.bool_], facts: dict[str, int], few: bool
) -> list[Advice]:
    """Return advice if the responses do not identify the accuracies of the raters."""
    raters = "raters" if facts["raters"] == visits.n_sources else "sources of raters"
    alone = f"No item has responses of two {raters}"
    if len(visits.active) == 1:
        alone = "Only one rater responded"
    several, is_next = int((visits.number > 1).sum()), np.diff(table.item) == 0
    is_unanimous = table.stated is None and not np.diff(table.label)[is_next].any()
    words, call = "", ""
    if facts["meetings"] == 0:
        words = (
            f"{alone}, so accuracy cannot be estimated: label probabilities follow from the "
            "prior. Collect responses of three raters to the same items, or give known labels "
            "(gold=, --gold)."
        )
        call = "bf.fuse(responses, gold=gold)"
    elif len(visits.active) == 2 and few:
        call = "bf.models.DawidSkene(responses, populations=populations)"
        words = (
            f"With two {raters} the table shows how often they agree, not which is right where "
            "they differ: that depends on the prior. Add a third rater, known labels (gold=, "
            f"--gold), or items of several populations with different class shares ({call})."
        )
    elif facts["parts"] > 1:
        words = _of_parts(table, visits)
    elif few:
        words = (
            f"The model has {facts['parameters']:,} parameters and the table only "
            f"{facts['degrees_of_freedom']:,} degrees of freedom, so part of the answer depends on "
            "the prior. Add raters or known labels, or use fewer parameters "
            '(bf.models.DawidSkene(responses, raters="coin")).'
        )
        call = "bf.models.DawidSkene(responses, raters='coin')"
    elif not judged[visits.active].any():
        words = (
            f"No three {raters} have items in common pair by pair, so their agreement does not "
            "show who is right. Let some items have three responses."
        )
    elif is_unanimous and (several >= MIN_UNANIMOUS or len(np.unique(table.label)) == 1):
        words = (
            f"All responses to an item agree (of {several:,} items with several), so the table "
            "does not show how often raters are wrong together, and labels look too certain: known "
            "labels (gold=, --gold) would show it."
        )
        call = "bf.fuse(responses, gold=gold)"
    if not words:
        return []
    if facts["known"]:
        words += f" Only {facts['known']:,} labels are known."
    return [Advice(words, "raters", call)]


def _of_parts(table: Responses, visits: _Visited) -> str:
    """Return a sentence on sets of raters who never respond to the same items."""
    is_active = np.isin(visits.source_of, visits.active)
    part = np.where(is_active, visits.part[visits.source_of], -1)
    parts = np.unique(visits.part[visits.active]).tolist()
    named = "; ".join(listing(table.raters[part == n], MAX_LISTED) for n in parts[:MAX_LISTED])
    more = f"; and {len(parts) - MAX_LISTED:,} more" if len(parts) > MAX_LISTED else ""
    weak = sum(not visits.odd[visits.part == n].any() for n in parts)
    lacks = f" In {weak:,} of them no three raters meet." if weak else ""
    return (
        f"The raters form {len(parts):,} parts that never respond to the same items ({named}"
        f"{more}), so only the prior compares raters of different parts.{lacks} Let raters of "
        "different parts respond to some items in common."
    )


def _classes(table: Responses, codes: NDArray[np.int64]) -> list[Advice]:
    """Return in a sentence that labels are not classes, or which classes no response names."""
    names = [str(name) for name in table.classes.tolist()]
    if positive_class(table.classes) is not None:  # such as "-" beside "+"
        names = [name for name in names if name not in NEGATIVE]
    if marks := [repr(name) for name in names if name.strip().casefold() in MARKS]:
        words = (
            f"The class {', '.join(marks)} looks like a mark of missing responses: leave these "
            "responses out if it is."
        )
        return [Advice(words, "classes")]
    if table.n_classes > 2 and 2 * len(np.unique(table.label)) > table.n_responses:
        words = (
            f"There are {table.n_classes:,} classes for {table.n_responses:,} responses, which "
            "look like measurements or free text: labels must be few classes, shared by responses."
        )
        return [Advice(words, "classes")]
    is_named = np.bincount(table.label, minlength=table.n_classes) > 0
    is_named[codes[codes >= 0]] = True
    if table.stated is not None:
        is_named |= table.stated.votes().sum(axis=0) > 0
    if is_named.all():
        return on_known_classes(table, codes, MIN_GOLD_OF_CLASS)
    words = (
        f"No response names the class {listing(table.classes[~is_named], MAX_LISTED)}, so only the "
        "prior determines its share: leave it out of classes= of bf.Responses if it does not "
        "occur, or give known labels."
    )
    return [Advice(words, "unused class")]


def _silent(table: Responses, visits: _Visited, codes: NDArray[np.int64]) -> list[Advice]:
    """Return in a sentence that some items of unknown class have no responses."""
    silent = (visits.number == 0) & (codes < 0)
    if not silent.any():
        return []
    words = (
        f"Items without responses: {table.multiplicity[silent].sum():,} "
        f"({listing(table.items[silent], MAX_LISTED)}). Unless their neighbours are informative "
        "(sequences=, graph=), their labels have the probabilities of the class shares: collect "
        "responses, or leave them out."
    )
    return [Advice(words, "silent items", "bf.fuse(responses, graph=graph)")]
