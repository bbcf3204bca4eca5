"""The models that ``bf.fuse`` may average, built and written as a user would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import bayesfuse.models
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.schedule import CHAINS, draws_of_large
from bayesfuse.observation.model import LabelModel

LEAST_VOTES, FEW_VOTES, SEQUENCE_VOTES, RULE_VOTES = 0.01, 0.05, 0.2, 0.25
SPAN_VOTES, MANY_VOTES = 0.4, 0.5
"""Weights of vote shares beside models of independent errors, of people, of sequences, of rules, of
spans, and an overconfident one."""

LEAST_WEIGHT = 0.01  # of a side whose models are fitted

TYPE_DRAWS = 250, 50  # draws of the variational fits of item types, of large tables at least

KNOWN, BY_ITEM = ("gold",), ("gold", "covariates")
"""Keywords of every model, and of models of independent items."""


@dataclass(frozen=True)
class Candidate:
    """A model that may be fitted: its name in the answer, its class, and the reason in words.

    ``inputs_used`` are the arguments of ``bf.fuse`` that it takes, and ``options`` its others.
    ``votes`` is the weight of vote shares beside the model, ``sweeps`` are the most draws and
    tuning steps of a chain, ``least_draws`` those of all chains if the table is large, and
    ``start`` is their initialisation. A model with ``settings`` has a variational fit, and is not
    sampled. A ``draft`` stands for models that take too long.
    """

    name: str
    model: str
    why: str
    inputs_used: tuple[str, ...] = BY_ITEM
    options: Mapping[str, Any] = field(default_factory=dict)
    votes: float = 0.0
    sweeps: tuple[int, int] = (250, 200)
    least_draws: int | None = None
    start: str = "moments"
    settings: Mapping[str, Any] | None = None
    draft: bool = False

    def within(self, draws: int | None, n_responses: int) -> Candidate:
        """Return the same with this number of draws of each of four chains, or fewer in all."""
        most, tune = self.sweeps
        if self.least_draws is not None:
            most = draws_of_large(CHAINS * most, self.least_draws, n_responses) // CHAINS
        settings = self.settings
        if settings is not None:
            of_table = draws_of_large(settings["draws"], TYPE_DRAWS[1], n_responses)
            settings = {**settings, "draws": min(CHAINS * (draws or most), of_table)}
        return replace(self, sweeps=(draws or most, tune), settings=settings)

    @property
    def tabulates(self) -> bool:
        """Whether building it may take long, for a table of the constants of a coupling."""
        return self.options.get("edges") == "given" and "trust" not in self.options

    def build(self, inputs: Inputs) -> LabelModel:
        """Return the model."""
        arguments = {name: getattr(inputs, name) for name in self._arguments_of(inputs)}
        build: type[LabelModel] = getattr(bayesfuse.models, self.model)
        return build(inputs.responses, **self.options, **arguments)

    def code(self, inputs: Inputs) -> str:
        """Return the call that makes it, as a user would write it."""
        options = [f"{name}={value!r}" for name, value in self.options.items()]
        arguments = [f"{name}={name}" for name in self._arguments_of(inputs)]
        return f"{self.model}({', '.join(['responses', *options, *arguments])})"

    def _arguments_of(self, inputs: Inputs) -> list[str]:
        return [name for name in self.inputs_used if getattr(inputs, name) is not None]


LEVELS = {"consensus": "levels"}
ITEMS = [
    Candidate(
        name, "ItemTypes", why, BY_ITEM, options, FEW_VOTES, settings={"draws": TYPE_DRAWS[0]}
    )
    for name, why, options in (
        (
            "consensus",
            "items differ in difficulty, and raters look or guess in their own way",
            LEVELS,
        ),
        ("even guesses", "the same, where guesses prefer no class", LEVELS | {"guesses": "even"}),
        (
            "clean items",
            "the same as the first, beside items on which raters only err in their own ways",
            LEVELS | {"clean": True},
        ),
        ("competing classes", "the same as the first, where two classes may compete", {}),
    )
]
"""Models of labels by people, which have the best labels on real crowds."""

GROUPS = Candidate(
    "groups",
    "LatentGroup",
    "raters share a source",
    ("groups", *BY_ITEM),
    # agreement may also mean that these raters are right more often, which is not identified
    votes=MANY_VOTES,
)
GRADED = Candidate(
    "graded",
    "DawidSkene",
    "classes are ordered, and raters have thresholds",
    options={"raters": "graded", "pooled": True},
    votes=FEW_VOTES,
)
INDEPENDENT = Candidate(
    "independent errors",
    "DawidSkene",
    "the errors of raters are independent given the class",
    options={"pooled": True},
    votes=LEAST_VOTES,  # an error shared by all raters is not observable
)
ONE_ACCURACY = replace(
    INDEPENDENT,
    name="independent errors, one accuracy",
    why="errors are independent, and a rater is right equally often on items of all classes",
    options={"raters": "coin"},
)
UNPOOLED = replace(
    INDEPENDENT,
    name="independent errors, unpooled",
    why="errors are independent, and the accuracies of raters vary freely",
    options={},
)
OTHERS = Candidate(
    "Dawid–Skene",
    "DawidSkene",
    "takes silence and stated probabilities; overconfident, unlike vote shares",
    votes=MANY_VOTES,
)
RULES = Candidate(
    "labelling functions",
    "LabellingFunctions",
    "sources are silent on most items and know one label each",
    inputs_used=KNOWN,
    options={"odds": 5.0},  # where rules rarely overlap, this prior determines their accuracy
    votes=RULE_VOTES,
)
CHAIN = Candidate(
    "sequences",
    "HiddenMarkov",
    "items are in sequence, and raters are independent",
    ("sequences", *BY_ITEM),
)
CHAIN_TYPES = replace(
    CHAIN,
    name="types in sequence",
    why="neighbouring items often share their difficulty and the errors of raters",
    inputs_used=("sequences", *KNOWN),
    options={"raters": "types"},
    votes=FEW_VOTES,
    sweeps=(60, 40),
    least_draws=80,
    start="majority",
)
CHAIN_POOLED = replace(
    CHAIN,
    name="sequences, pooled",
    why="items are in sequence; raters are alike unless their responses differ",
    options={"pooled": True},
)
TAGS = Candidate(
    "tags alone",
    "DawidSkene",
    "the order is not used, which is better where raters miss or shift whole spans",
    inputs_used=KNOWN,
)
GRAPH = [
    Candidate(
        f"graph, edges {edges}",
        "MarkovRandomField",
        f"neighbours are alike, and edges {how} on the labels",
        ("graph", *KNOWN),
        options={"edges": edges},
    )
    for edges, how in (("given", "do not depend"), ("drawn", "depend"))
]
GRAPH_TYPES = [
    replace(
        candidate,
        name=f"{candidate.name}, item types",
        why=f"{candidate.why}; raters make the same errors on some items",
        options={**candidate.options, "raters": "types"},
        start="majority",
    )
    for candidate in GRAPH
]
