"""Label models as PyMC models: what they observe, and ``LabelModel``, which names it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.fgraph import fgraph_from_model, model_from_fgraph
from pymc.model.transform.basic import prune_vars_detached_from_observed
from pytensor.tensor.variable import TensorVariable

from bayesfuse import priors
from bayesfuse.data.describing import summarise
from bayesfuse.data.gold_tables import read_gold
from bayesfuse.data.partitions import Partitions
from bayesfuse.data.tables import Table, read_table
from bayesfuse.errors import ModelError, require_choice, require_flag, require_kind, require_name
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.labels.base import LabelPrior
from bayesfuse.observation import ResponseModel, rater_rows
from bayesfuse.observation.evaluate import common_mean
from bayesfuse.observation.observed import ObservedResponses, first_table, observe
from bayesfuse.parameters.pool import Pool
from bayesfuse.parameters.variables import dirichlet
from bayesfuse.raters import Abstaining, Confusion, ConsensusOfType, OneCoin, Stated
from bayesfuse.raters.base import RaterChannel


def all_observed(model: pm.Model) -> list[TensorVariable]:
    """Return the variables of ``model`` that ``observe`` made."""
    require_kind("model", model, pm.Model)
    return [
        variable
        for variable in model.observed_RVs
        if isinstance(getattr(variable.owner, "op", None), ObservedResponses)
    ]


def observed(model: pm.Model) -> tuple[TensorVariable, ResponseModel]:
    """Return the one variable of ``model`` that ``observe`` made, and its observation."""
    variables = all_observed(model)
    if len(variables) > 1:
        raise ModelError(
            "This takes the model of one table of responses: bf.build.part(model, name) is that of "
            f"one of several. Got: a model of {[v.name for v in variables]}."
        )
    if not variables:
        if isinstance(model, LabelModel) and model.instead:
            raise ModelError(model.instead)
        raise ModelError(
            "The model must observe responses, with bf.build.observe or as one of "
            f"bayesfuse.models. Got: 0 such variables among {[v.name for v in model.observed_RVs]}."
        )
    return variables[0], variables[0].owner.op.observation


def part(model: pm.Model, name: str) -> pm.Model:
    """Return the model of one of several tables that a model observes.

    Functions of a result and a model take the result of the whole model and this part.

    Parameters
    ----------
    model, name : pymc.Model and str
        Of several calls of ``bf.build.observe``, each with a ``name``.

    Returns
    -------
    pymc.Model
        A copy with the variables on which these responses depend, and their priors.

    Raises
    ------
    ModelError
        No responses of this name; a potential, whose table is unknown.

    Examples
    --------
    >>> import numpy as np, pymc as pm, bayesfuse as bf
    >>> table = bf.Responses.from_matrix([[0, 0, 1], [1, 1, 1], [0, 0, 0]])
    >>> with pm.Model() as model:
    ...     rows = bf.build.dirichlet("confusion", np.ones((3, 2, 2)) + 4 * np.eye(2))
    ...     raters = bf.build.Confusion(rows)
    ...     for name in ("first", "second"):
    ...         labels = bf.build.Independent(pm.Dirichlet(f"share of {name}", np.ones(2)))
    ...         answers = bf.build.observe(table, labels=labels, raters=raters, name=name)
    >>> [variable.name for variable in bf.build.part(model, "second").free_RVs]
    ['confusion', 'share of second']
    """
    variables = {variable.name: variable for variable in all_observed(model)}
    if not isinstance(name, str) or name not in variables:
        raise ModelError(
            f"A part of a model is one of the tables it observes, {list(variables)}. Got: {name!r}."
        )
    if model.potentials:
        raise ModelError(
            "A model with potentials has no parts, because it is not known to which table each "
            f"belongs. Got: {[potential.name for potential in model.potentials]}."
        )
    graph, memo = fgraph_from_model(model)
    for other, variable in variables.items():
        if other != name:
            graph.remove_output(graph.outputs.index(memo[variable]))
    return prune_vars_detached_from_observed(model_from_fgraph(graph, mutate_fgraph=True))


def require_like(actual_shape: tuple[int, ...], variable: TensorVariable) -> None:
    """Raise ModelError unless a value has the shape of a variable, as far as that is known."""
    shape = variable.type.shape
    fits = len(actual_shape) == len(shape)
    for size, actual in zip(shape, actual_shape, strict=False):
        fits = fits and size in (None, actual)
    if not fits:
        raise ModelError(
            f"Values of {variable.name} must have the shape that it has in the model, {shape}. "
            f"Got: shape {actual_shape}."
        )


def parameter_variables(variable: TensorVariable) -> dict[str, TensorVariable]:
    """Return the variables behind the parameters of an observed variable, by parameter name."""
    names = variable.owner.op.observation.names
    inputs = variable.owner.op.dist_params(variable.owner)
    return dict(zip(names, inputs, strict=False))


SILENCE = "nothing"  # name of the last entry of what a source may say

# Prior mean of the share of items on which a source speaks, for every class. With 1/2, a rare class
# takes all items on which rare rules speak (log loss of .59, not .20, for one item in twenty).
COVERAGE = 0.1


class LabelModel(pm.Model):
    """A PyMC model over responses, with the user's names as coordinates.

    Subclasses write down the priors of a label prior and a rater channel in ``__init__`` and end
    with :meth:`observe`.

    Parameters
    ----------
    responses, gold : Responses, DataFrame or array, and mapping of item to class, optional
        The table and the items whose true class is known, as in :func:`bayesfuse.fuse`.
    name : str, optional
        Prefix of the model's variables, as in PyMC.

    Examples
    --------
    >>> import numpy as np, pymc as pm, bayesfuse as bf
    >>> class Crowd(bf.build.LabelModel):
    ...     def __init__(self, responses, **kwargs):
    ...         super().__init__(responses, **kwargs)
    ...         prevalence = pm.Dirichlet("prevalence", [2.0, 2.0], dims="class")
    ...         logit = pm.Normal("logit", 1.0, 1.0, dims="rater")
    ...         raters = bf.build.OneCoin(pm.math.sigmoid(logit))
    ...         self.observe(labels=bf.build.Independent(prevalence), raters=raters)
    >>> model = Crowd(np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]]))
    >>> bf.label_probabilities(bf.find_map(model), model).argmax("class").values
    array([0, 1, 0, 1])
    """

    instead = ""
    """What to use in place of functions for models of responses, where this is none."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # PyMC makes models by a metaclass, whose (*args, **kwargs) help would show
        signature = inspect.signature(cls.__init__)
        parameters = list(signature.parameters.values())[1:]
        cls.__signature__ = signature.replace(parameters=parameters)
        # what a class of its own hands on by **kwargs is for the class that it is handed to
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        if "__init__" in vars(cls) and not takes_any:
            cls.__init__ = explains_keywords(cls.__init__)  # type: ignore[method-assign]

    def __init__(self, responses: Table | Partitions, *, gold: Any = None, name: str = "") -> None:
        how = ""
        if not isinstance(responses, Partitions):
            responses, how, *_ = read_table(responses)
        table = first_table(responses)
        require_name("model", name)
        super().__init__(name=name)
        self.all_responses = responses  # `responses` may be the first partition of these
        self.responses = responses = table
        self.gold = read_gold(gold, table)
        self.pools: list[Pool] = []  # variables above rows, which Gibbs sampling draws with them
        # by parameter, what predictions take for raters without responses: the mean of a pool (a
        # variable), that of the prior (an array), or the reason why there is none (text)
        self.new_rater_defaults: dict[str, Any] = {}
        # what results should say of how the model was made
        self.notes: dict[str, str] = {"table": how} if how else {}
        classes = responses.classes.tolist()
        self.add_coords({"rater": responses.raters.tolist(), "class": classes, "answer": classes})

    def __repr__(self) -> str:
        positive = f", {self.responses.classes[-1]} is positive" * (self.responses.n_classes == 2)
        return f"{type(self).__name__}: {summarise(self.responses)[0]}{positive}"

    def require_one_table(self, why: str) -> None:
        """Raise ModelError if the responses are in partitions."""
        if isinstance(self.all_responses, Partitions):
            raise ModelError(
                f"{type(self).__name__} needs all responses at hand, because {why}: read them "
                f"with Responses.from_long. Got: {self.all_responses.n_partitions} partitions."
            )

    def rater_channel(
        self, raters: str, confusion_prior: Any, pooled: bool = False
    ) -> RaterChannel:
        """Register the priors of the raters' parameters, and return their channel.

        Arguments are those of :class:`bayesfuse.models.DawidSkene`. For silence, matrices have a
        last column; for stated probabilities, the channel is ``bf.build.Stated``.
        """
        require_choice("raters", raters, "confusion", "class", "coin", "graded")
        require_flag("pooled", pooled)
        if raters == "graded":
            return self._graded(confusion_prior, pooled)
        free, by_class = raters == "confusion", raters == "class"
        if pooled:
            shared, pool = rater_rows.pooled_raters(raters, confusion_prior, self.responses)
            self.pools.append(pool)
            self.new_rater_defaults[pool.parameter] = pool.members["mean"].variable
            return shared
        if free and self.responses.silent is not None:
            return self._speech(confusion_prior)
        if free:
            rows = priors.confusion(confusion_prior, self.responses)
            self.new_rater_defaults["confusion"] = common_mean(rows)
            channel = Confusion if self.responses.stated is None else Stated
            return channel(dirichlet("confusion", rows, dims=("rater", "class", "answer")))
        right, wrong = priors.accuracy(confusion_prior, self.responses, by_class=by_class)
        mean = common_mean(np.stack([right, wrong], axis=-1))
        self.new_rater_defaults["accuracy"] = mean if isinstance(mean, str) else mean[..., 0]
        dims = ("rater", "class") if by_class else ("rater",)
        return OneCoin(pm.Beta("accuracy", right, wrong, dims=dims))

    def _speech(self, prior: Any) -> Abstaining:
        """Register the rows of sources that may abstain."""
        concentration = priors.diagonal(self.responses.n_classes)
        default = np.column_stack([concentration, concentration.sum(axis=1) * (1 / COVERAGE - 1)])
        rows = priors.confusion(prior, self.responses, default)
        self.new_rater_defaults["speech"] = common_mean(rows)
        outcomes = [*map(str, self.responses.classes.tolist()), SILENCE]
        while outcomes[-1] in outcomes[:-1]:
            outcomes[-1] += "_"
        self.add_coords({"said": outcomes})
        return Abstaining(dirichlet("speech", rows, dims=("rater", "class", "said")))

    def _graded(self, confusion_prior: Any, pooled: bool) -> Confusion:
        if confusion_prior is not None:
            raise ModelError(
                'confusion_prior is for free rows, and those of raters="graded" follow from '
                "thresholds and precision: leave it out, or write your own priors around "
                f"bf.build.Graded. Got: {type(confusion_prior).__name__}."
            )
        self.add_coords(rater_rows.names_of_thresholds(self.responses.classes))
        channel, pool, newcomer = rater_rows.graded_raters(self.responses, pooled)
        self.pools.append(pool)
        self.new_rater_defaults["confusion"] = newcomer
        return channel

    def observe(self, *, labels: LabelPrior, raters: RaterChannel) -> TensorVariable:
        """Observe the responses, and name sensitivity and specificity (a class against others)."""
        answers = observe(self.all_responses, labels=labels, raters=raters, gold=self.gold)
        n_classes = self.responses.n_classes
        rows = raters.to_kernel({k: pt.as_tensor(v) for k, v in raters.parameters.items()}, pt)
        tables = raters.expand(tuple(rows.values()), n_classes, pt)
        averaged = raters
        if isinstance(raters, ConsensusOfType):
            averaged = raters.of_chain(*labels.parameters.values())
        confusion = averaged.confusion(tables, n_classes, pt)
        structure = answers.owner.op.observation.label_structure
        prevalence = labels.prevalence(tuple(labels.parameters.values()), n_classes, structure, pt)
        if "confusion" not in raters.parameters:
            pm.Deterministic("confusion", confusion, dims=("rater", "class", "answer"))
        sensitivity, specificity = one_against_rest(confusion, prevalence, n_classes)
        dims = ("rater",) if n_classes == 2 else ("rater", "class")
        pm.Deterministic("sensitivity", sensitivity, dims=dims)
        pm.Deterministic("specificity", specificity, dims=dims)
        return answers


def one_against_rest(confusion: Any, prevalence: Any, n_classes: int) -> tuple[Any, Any]:
    """Return sensitivity and specificity, (raters,) for two classes, else (raters, classes).

    ``prevalence`` is that of the raters' source, (classes,) or (raters, classes).
    """
    if n_classes == 2:
        return confusion[:, 1, 1], confusion[:, 0, 0]
    # each class's share of "not c"; a difference to one would cancel where c has almost all
    some = prevalence + np.finfo(float).tiny
    share = some[..., None, :] * (1.0 - np.eye(n_classes))  # (…, classes c, truths)
    share = share / share.sum(axis=-1, keepdims=True)
    false_alarm = (share * confusion.swapaxes(1, 2)).sum(axis=-1)  # (raters, classes)
    return confusion.diagonal(axis1=1, axis2=2), 1 - false_alarm
