"""Responses as an observed random variable, which knows its observation: ``observe``."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Constant
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from bayesfuse.data.names import smallest_integer
from bayesfuse.data.partitions import Partitions
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_kind, require_name, warn
from bayesfuse.labels.base import LabelPrior
from bayesfuse.observation import Observation, Spread, Summed, in_blocks
from bayesfuse.pymc.evaluate import described
from bayesfuse.pymc.ops import Evidence, EvidenceOfParts
from bayesfuse.raters.base import RaterChannel


class ObservedResponses(RandomVariable):
    """Responses, labels summed out; inputs: parameters, item and rater of every response."""

    __props__ = (*RandomVariable.__props__, "observation")

    def __init__(self, observation: Observation, **props: Any) -> None:
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
        if not observation.responses.is_plain:  # PyMC draws to see shapes when it draws graphs
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
    (value,) = values
    observation = _seen(op.observation, value)
    labels, raters = observation.labels, observation.raters
    given = dict(zip(observation.names, inputs, strict=False))
    label_tables, tables = (
        factor.expand(tuple(factor.to_kernel(given, pt).values()), observation.table.n_classes, pt)
        for factor in (labels, raters)
    )
    if isinstance(observation, Summed):
        total, *_ = EvidenceOfParts(observation, len(label_tables))(*label_tables, *tables)
        return total
    indices = tuple(pt.cast(given[name], "int64") for name in observation.indices)
    structures = *observation.label_structure, *indices, *observation.rater_structure
    evidence = Evidence(
        type(labels), type(raters), len(label_tables), len(tables), len(observation.label_structure)
    )
    total, *_ = evidence(*label_tables, *tables, *structures)
    return total


def _seen(observation: Observation, value: Any) -> Observation:
    """Return the observation of ``value``: the one made already, unless it is other data."""
    if not isinstance(value, Constant):
        raise ModelError(
            "The log density of responses is compiled for the responses that were observed; build "
            "another model for others. Got: responses that are not constant."
        )
    responses = observation.responses
    if isinstance(observation, Spread) or np.array_equal(value.data, responses.label):
        return observation
    known = np.flatnonzero(observation.gold >= 0)
    items, classes = responses.items[known], responses.classes[observation.gold[known]]
    gold = dict(zip(items.tolist(), classes.tolist(), strict=True))
    other = responses.relabelled(value.data)
    return in_blocks(Observation.build(other, observation.labels, observation.raters, gold))


class ResponsesDistribution(pm.Distribution):
    """The distribution that registers :class:`ObservedResponses` with a PyMC model."""

    rv_type = ObservedResponses

    @classmethod
    def dist(cls, observation: Observation, parameters: list[Any], **kwargs: Any) -> Any:
        """Return the variable, outside any model."""
        columns = map(pt.as_tensor, observation.responses.small_columns)
        return super().dist([*parameters, *columns], observation=observation, **kwargs)

    @classmethod
    def rv_op(cls, *inputs: Any, observation: Observation, rng: Any = None, **kwargs: Any) -> Any:
        """Return the variable of these inputs."""
        letters = iter("abcdefghijklmnopqstuvwxyz")
        cores = (",".join(next(letters) for _ in range(each.type.ndim)) for each in inputs[:-2])
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
    r"""Register responses as an observed variable of the PyMC model in the current context.

    The true labels are summed out, :math:`\log \sum_y p(y) \exp \sum_n \ell_{n y_n}` with
    :math:`\ell_{nk}` the log-likelihood of all responses to item n if its truth is k, so the
    model has gradients (NUTS, ADVI) as well as Gibbs steps (:class:`bayesfuse.LabelGibbs`), and
    prior and posterior predictive draws.

    Parameters
    ----------
    responses : Responses
    labels, raters : LabelPrior and RaterChannel
        Prior of the true labels, e.g. ``bf.Independent(prevalence)``, and distribution of responses
        given the truth, e.g. ``bf.Confusion(confusion)``, of variables of the model or numbers.
    gold : mapping of item name to class name, optional
        Known classes. Predictive draws keep them and draw the others given them (on a graph
        approximately, by Markov chain Monte Carlo).
    name : str, default "responses"
        Name of the observed variable; its dimension is "response" (``name_row`` for another
        name or with a prefix), in the order of ``responses.to_frame()``.

    Returns
    -------
    TensorVariable, shape (responses,)

    Raises
    ------
    ModelError
        Parameters whose shapes do not fit the responses; constants that are no probabilities; a
        coupling whose prior is not continuous and proper, with density zero below zero.
    ResponsesError
        Gold labels of unknown items or classes.

    Examples
    --------
    >>> import pymc as pm, bayesfuse as bf
    >>> responses = bf.datasets.anesthesia()
    >>> with pm.Model() as model:
    ...     prevalence = pm.Dirichlet("prevalence", [3, 3, 3, 3])
    ...     mean = pm.Normal("mean", 1.0, 1.0)
    ...     logit = pm.Normal("logit", mean, 1.0, shape=responses.n_raters)
    ...     channel = bf.OneCoin(pm.math.sigmoid(logit))
    ...     answers = bf.observe(responses, labels=bf.Independent(prevalence), raters=channel)
    >>> answers.name
    'responses'
    """
    model = pm.modelcontext(None)  # outside a model's context, say so before working
    table, responses = responses, whole_or_head(responses)
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
            if isinstance(given := parameters[key], Constant):
                factor.support(key).require(key, given.data)
            elif given in model.free_RVs:
                factor.support(key).require_variable(key, given)
    whole = model.name_for(name)
    rows = "response" if whole == "responses" else f"{whole}_row"
    if isinstance(table, Partitions):
        observation: Observation = Spread.of(table, labels, raters, gold)
    else:
        observation = in_blocks(Observation.build(responses, labels, raters, gold))
    prediction = described(model, labels, raters, parameters)
    observation = replace(observation, name=whole, rows_name=rows, prediction=prediction)
    label = responses.label.astype(smallest_integer(responses.n_classes))
    model.add_coord(rows, length=len(label))
    answers = ResponsesDistribution(
        name, observation, list(parameters.values()), observed=label, dims=(rows,)
    )
    _latest.append(weakref.ref(model))
    return answers


_latest: deque[weakref.ref[pm.Model]] = deque(maxlen=1)
"""The model that last observed responses: PyMC tells a step that is made in the call of
``pm.sample(step=bf.LabelGibbs(), model=model)`` nothing of its model."""


def latest() -> pm.Model | None:
    """Return the model that last observed responses, if it is still there."""
    return _latest[0]() if _latest else None


def whole_or_head(responses: Responses | Partitions) -> Responses:
    """Return the table, or its first partition, which has the names of all raters and classes."""
    if isinstance(responses, Partitions):
        return responses.head
    require_kind("responses", responses, Responses)
    return responses
