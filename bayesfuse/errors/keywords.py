"""Keyword arguments that a function does not take, and what to use in their place."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps

from bayesfuse.errors import ModelError
from bayesfuse.errors.messages import brief

# names of the seed here and in other packages
SEEDS = "random_seed", "seed", "random_state", "rng"
SEED = "the seed of random numbers is random_seed=, as in PyMC"
NO_SEED = "it draws no random numbers"

OWNERS = {
    "bf.Responses.from_long": "item rater label missing classes items positive normalise",
    "bf.fuse": "minutes checks gold_error ordered",
    "bf.sample": "draws tune chains cores sampler nuts_sampler sweeps thin precision start "
    "log_likelihood progressbar resume",
    "bf.fit": "method batch_size batches",
    "bf.find_map": "iterations tolerance",
    "bf.models.DawidSkene": "prevalence_prior confusion_prior raters pooled populations covariates "
    "classifier name",
    "bf.models.HiddenMarkov": "sequences initial initial_prior transition_prior bio",
    "bf.models.ItemTypes": "consensus guesses clean",
    "bf.models.LabelProfiles": "profiles",
    "bf.models.LabellingFunctions": "class_shares odds weight dispersion",
    "bf.models.LatentGroup": "groups group_prior share_prior",
    "bf.models.MarkovRandomField": "graph edges trust prevalence",
    "bf.models.WeightedVotes": "results as_given",
    "bf.class_shares": "by contrasts chosen",
    "bf.rater_table": "truth",
}
"""Names of arguments, by a function that takes them."""

OWNER = {name: owner for owner, names in OWNERS.items() for name in names.split()}

INSTEAD = {
    "minutes": "only bf.fuse and the command line take a time limit; Ctrl-C ends bf.sample "
    "and keeps its draws",
    "resume": "bf.sample(model, resume=result) continues the chains of one model; an answer of "
    "bf.fuse cannot be continued, so give it enough minutes= at once, and keep it by "
    "fused.to_netcdf(path)",
    "gold": "known labels are an argument of the model, as in bf.models.DawidSkene(responses, "
    "gold=gold), and of bf.fuse",
}
"""What to use in place of an argument, where the function that takes it does not say so."""


def explains_keywords[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Let a function raise ModelError, with what to use instead, for an argument of another one."""
    named = inspect.signature(function).parameters
    name = function.__qualname__.removesuffix(".__init__")
    name = name if name != function.__qualname__ else f"bf.{name}"

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for other in kwargs.keys() - named.keys():
            instead = INSTEAD.get(other)
            if other in SEEDS:
                instead = SEED if "random_seed" in named else NO_SEED
            if instead is None and other in OWNER:
                instead = f"it is an argument of {OWNER[other]}"
            if instead is not None:
                value = brief(kwargs[other])
                raise ModelError(f"{name} takes no {other}=: {instead}. Got: {other}={value}.")
        return function(*args, **kwargs)

    return checked
