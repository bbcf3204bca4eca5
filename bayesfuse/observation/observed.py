"""Responses as an observed random variable of a PyMC model: ``observe``."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.initial_point import make_initial_point_expression
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from bayesfuse.data.names import smallest_integer
from bayesfuse.data.partitions import Partitions
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_kind, require_name, warn
from bayesfuse.labels.base import LabelPrior
from bayesfuse.observation import (
    ChunkedResponseModel,
    ResponseModel,
    SummedResponseModel,
    in_blocks,
)
from bayesfuse.observation.evaluate import described
from bayesfuse.observation.ops import Evidence, EvidenceOfParts
from bayesfuse.parameters.compiled import without_compilation
from bayesfuse.raters.base import RaterChannel


class ObservedResponses(RandomVariable):
    """Responses, labels summed out; inputs: parameters, item and rater of every response."""

    __props__ = (*RandomVariable.__props__, "observation")

    def __init__(self, observation: ResponseModel, **props: Any) -> None:
        super().__init__(**props)
        self.observation = observation
        labels, raters = observation.labels, observation.raters
        name = f"{type(labels).__name__}{type(raters).__name__}"
        self._print_name = (name, f"\\operatorname{{{name}}}")

    def __str__(self) -> str:
        """Leave the observation out, which messages of PyTensor would show entry by entry."""
        return self._print_name[0]

    def rng_fn(self, rng: np.random.Generator, *inputs: Any) -> NDArray[Any]:
        """Draw truths and responses; predictive draws of PyMC go through here."""
        observation, (*arguments, size) = self.observation, inputs
        if not observation.responses.is_unweighted:  # PyMC draws to see shapes when it draws graphs
            warn(
                "Predictive draws have one answer per row, so an item that stands for several is "
                "drawn once: build the model with responses.expand() for draws of all. Got: a "
                "table of counts."
            )
        point = observation.rows(dict(zip(observation.names, arguments, strict=False)))
        shape = tuple(size) if size is not None else ()
        draws = [observation.simulate(point, rng)[1] for _ in range(int(np.prod(shape)))]
        return np.array(draws, dtype=self.dtype).reshape(*shape, -1)


@_logprob.register(ObservedResponses)
def _log_evidence(
    op: ObservedResponses, values: Any, rng: Any, size: Any, *inputs: Any, **kwargs: Any
) -> TensorVariable:
    """Build the graph of the log evidence of responses from the parameters' variables."""
    observation = op.observation
    _require_observed(observation, *values)
    labels, raters = observation.labels, observation.raters
    by_name = dict(zip(observation.names, inputs, strict=False))
    n_classes = observation.table.n_classes
    label_tables = labels.expand(tuple(labels.to_kernel(by_name, pt).values()), n_classes, pt)
    tables = raters.expand(tuple(raters.to_kernel(by_name, pt).values()), n_classes, pt)
    n_rows, n_tables = len(label_tables), len(label_tables) + len(tables)
    if isinstance(observation, SummedResponseModel):
        return EvidenceOfParts(observation, n_rows, n_tables)(*label_tables, *tables)[0]
    indices = [pt.cast(by_name[name], "int64") for name in observation.indices]
    structure = observation.label_structure
    evidence = Evidence(type(labels), type(raters), n_rows, n_tables, len(structure))
    data = *structure, *indices, *observation.rater_structure
    return evidence(*label_tables, *tables, *data)[0]


def _require_observed(observation: ResponseModel, value: Any) -> None:
    """Raise ModelError for other responses than those that were observed."""
    label = observation.responses.label
    is_spread = isinstance(observation, ChunkedResponseModel)
    if not (isinstance(value, Constant) and (is_spread or np.array_equal(value.data, label))):
        raise ModelError(
            "The log density of responses is compiled for the responses that were observed; build "
            f"another model for others. Got: other responses for {observation.name}."
        )


class ResponsesDistribution(pm.Distribution):
    """The distribution that registers :class:`ObservedResponses` with a PyMC model."""

    rv_type = ObservedResponses

    @classmethod
    def dist(cls, observation: ResponseModel, parameters: list[Any], **kwargs: Any) -> Any:
        """Return the variable, outside any model."""
        columns = map(pt.as_tensor, observation.responses.small_columns)
        return super().dist([*parameters, *columns], observation=observation, **kwargs)

    @classmethod
    def rv_op(cls, *inputs: Any, observation: ResponseModel, rng: Any = None, **kwargs: Any) -> Any:
        """Return the variable of these inputs."""
        letters = iter("abcdefghijklmnopqstuvwxyz")  # a dimension each; r is that of responses
        cores = [",".join(islice(letters, value.type.ndim)) for value in inputs[:-2]]
        op = ObservedResponses(
            observation,
            name="responses",
            signature=",".join(f"({core})" for core in [*cores, "r", "r"]) + "->(r)",
            dtype=np.dtype(smallest_integer(observation.responses.n_classes)).name,
        )
        rng = pt.random.shared_rng(seed=None) if rng is None else rng
        return op(*inputs, rng=rng, return_next_rng=True, **kwargs)[1]


def observe(
    responses: Responses | Partitions,
    *,
    labels: LabelPrior,
    raters: RaterChannel,
    gold: Mapping[Any, Any] | None = None,
    name: str = "responses",
) -> TensorVariable:
    """Register responses as an observed variable of the PyMC model in the current context.

    The true labels are summed out, so the model has gradients (NUTS, ADVI) as well as Gibbs steps
    (:class:`bayesfuse.build.LabelGibbs`), and prior and posterior predictive draws.

    Parameters
    ----------
    responses : Responses
    labels, raters : LabelPrior and RaterChannel
        Prior of the true labels, e.g. ``bf.build.Independent(prevalence)``, and distribution of
        responses given the truth, e.g. ``bf.build.Confusion(confusion)``, of variables of the model
        or numbers.
    gold : mapping of item name to class name, optional
        Known classes, which predictive draws keep.
    name : str, default "responses"
        Name of the observed variable; its dimension is "response" (``name_row`` for another
        name or with a prefix), in the order of ``responses.to_frame()``.

    Returns
    -------
    TensorVariable, shape (responses,)

    Raises
    ------
    ModelError, ResponsesError
        Parameters whose shapes do not fit the responses; constants, and values at which the model
        has a positive prior density, that are not probabilities; a coupling whose prior is not
        continuous and proper; gold labels of unknown items or classes.

    Examples
    --------
    >>> import pymc as pm, bayesfuse as bf
    >>> with pm.Model() as model:
    ...     labels = bf.build.Independent(pm.Dirichlet("prevalence", [3, 3, 3, 3]))
    ...     raters = bf.build.OneCoin(pm.math.sigmoid(pm.Normal("logit", 1.0, 1.0, shape=5)))
    ...     answers = bf.build.observe(bf.datasets.anesthesia(), labels=labels, raters=raters)
    >>> answers.name
    'responses'
    """
    model = pm.modelcontext(None)  # outside a model's context, say so before working
    table, responses = responses, first_table(responses)
    require_kind("labels=", labels, LabelPrior)
    require_kind("raters=", raters, RaterChannel)
    require_name("variable", name)
    require_name("model", model.name)
    parameters = {
        key: pt.as_tensor(value) for key, value in (labels.parameters | raters.parameters).items()
    }
    shapes = {key: value.type.shape for key, value in parameters.items()}
    labels.check(shapes, responses)
    raters.check(shapes, responses)
    for factor in (labels, raters):
        for key in factor.parameters:
            if isinstance(parameter := parameters[key], Constant):
                factor.support(key).require(key, parameter.data)
            elif parameter in model.free_RVs:
                factor.support(key).require_variable(key, parameter)
    if type(model).__module__.partition(".")[0] != __name__.partition(".")[0]:
        _require_values(model, labels, raters, parameters)  # our own models are tested instead
    full_name = model.name_for(name)
    rows = "response" if full_name == "responses" else f"{full_name}_row"
    if isinstance(table, Partitions):
        observation: ResponseModel = ChunkedResponseModel.of(table, labels, raters, gold)
    else:
        observation = in_blocks(ResponseModel.build(responses, labels, raters, gold))
    prediction = described(model, labels, raters, parameters)
    observation = replace(observation, name=full_name, rows_name=rows, prediction=prediction)
    label = responses.label.astype(smallest_integer(responses.n_classes))
    model.add_coord(rows, length=len(label))
    answers = ResponsesDistribution(
        name, observation, list(parameters.values()), observed=label, dims=(rows,)
    )
    _latest.append(weakref.ref(model))
    return answers


def _require_values(
    model: pm.Model, labels: LabelPrior, raters: RaterChannel, parameters: Mapping[str, Any]
) -> None:
    """Raise ModelError if parameters can leave their support where samplers may go.

    They are evaluated at the initial point and around it, in unconstrained coordinates.
    Distributions with the right support are skipped.
    """
    supports = {}
    for factor in (labels, raters):
        for name in factor.parameters:
            support, variable = factor.support(name), parameters[name]
            is_free = variable in model.free_RVs
            if isinstance(variable, Constant) or support.discrete:
                continue
            if not (is_free and support.coordinates(model, variable) is not None):
                supports[name] = support
    if not supports:
        return
    graphs = [parameters[name] for name in supports]
    with without_compilation(), np.errstate(all="ignore"):
        free = [variable for variable in model.free_RVs if variable in set(ancestors(graphs))]
        inputs = [model.rvs_to_values[variable] for variable in free]
        try:
            start = _initial_values(model, free)
        except NotImplementedError:  # a distribution without initial point or draws
            return
        function = pytensor.function(
            inputs, model.replace_rvs_by_values(graphs), on_unused_input="ignore"
        )
        rng = np.random.default_rng(0)
        for jitter in (0.0, *JITTERS):
            point = list(start)
            for i, value in enumerate(start):
                if value.dtype.kind == "f":
                    point[i] = value + jitter * rng.standard_normal(value.shape)
            try:
                for (name, support), value in zip(supports.items(), function(*point), strict=True):
                    support.require(name, value)
            except ModelError:
                values = dict(zip(inputs, point, strict=True))
                if jitter == 0.0 or _has_density(model, free, values):
                    raise


def _initial_values(model: pm.Model, free: list[Any]) -> list[NDArray[Any]]:
    """Return where samplers begin, in their coordinates."""
    graphs = make_initial_point_expression(
        free_rvs=free,
        rvs_to_transforms=model.rvs_to_transforms,
        initval_strategies=model.rvs_to_initial_values,
        default_strategy="support_point",
        return_transformed=True,
    )
    return [np.asarray(value) for value in pytensor.function([], graphs)()]


def _has_density(model: pm.Model, free: list[Any], point: Mapping[Any, Any]) -> bool:
    """Return whether the prior allows a point; a transform or a potential may exclude it."""
    graphs = [*model.logp(free, sum=False), *model.replace_rvs_by_values(model.potentials)]
    total = sum(graph.sum() for graph in graphs)
    others = [value for value in model.value_vars if value not in point]
    function = pytensor.function([*point, *others], total, on_unused_input="ignore")
    return bool(
        function(
            *point.values(),
            *_initial_values(model, [model.values_to_rvs[value] for value in others]),
        )
        > -np.inf
    )


JITTERS = 0.5, 1.0, 2.0  # standard deviations around the initial point at which values are checked

_latest: deque[weakref.ref[pm.Model]] = deque(maxlen=1)
"""The model that last observed responses: PyMC tells a step that is made in the call of
``pm.sample(step=bf.build.LabelGibbs(), model=model)`` nothing of its model."""


def latest() -> pm.Model | None:
    """Return the model that last observed responses, if it is still there."""
    return _latest[0]() if _latest else None


def first_table(responses: Responses | Partitions) -> Responses:
    """Return the table, or its first partition, which has the names of all raters and classes."""
    if isinstance(responses, Partitions):
        return responses.head
    require_kind("responses", responses, Responses)
    return responses
