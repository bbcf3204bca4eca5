"""``bf.build.LabelGibbs``: Gibbs sweeps as a step method of PyMC, next to other steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.util import get_random_generator

from bayesfuse.errors import ModelError, require_count
from bayesfuse.inference.gibbs import Sweep, step
from bayesfuse.inference.plan import Block, Plan, PooledBlock, make_plan
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import Interruption
from bayesfuse.observation import LogParameters
from bayesfuse.observation.observed import latest
from bayesfuse.parameters.compiled import depends, value_function
from bayesfuse.parameters.variables import RaterGroupingRV


class LabelGibbs(BlockedStep):
    """Step method that draws labels and, given them, every Dirichlet row of a label model.

    Conjugate parameters are drawn from their conditionals, a coupling by slice sampling; for
    independent labels, some sweeps begin with a move of the prevalence, if that proves useful.
    ``pm.sample(step=bf.build.LabelGibbs(), model=model)`` draws the other variables by NUTS. Labels
    on a graph with circles must not depend on such variables.

    Parameters
    ----------
    vars : list of variables, optional
        Conjugate parameters to draw. Default all of them.
    model : pymc.Model, optional
        By default the model on the context stack, else the label model built last.
    rng, sweeps : optional
        Random numbers; sweeps per step, of which the last is kept.

    Raises
    ------
    ModelError
        No responses, or no conjugate parameter among ``vars``; other steps would move parameters
        of labels that must be drawn with them.

    References
    ----------
    Diebolt & Robert (1994), Journal of the Royal Statistical Society B 56, 363–375.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> step = bf.build.LabelGibbs(model=bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> [variable.name for variable in step.vars]
    ['prevalence_simplex__', 'confusion_logratio__']
    """

    name = "label_gibbs"
    default_tune_steps = 200
    _state_class = StepMethodState

    def __new__(cls, *args: Any, **kwargs: Any) -> LabelGibbs:
        """Find the model: ``pm.sample(step=LabelGibbs(), model=model)`` puts none on the stack."""
        kwargs["model"] = _model(kwargs.get("model"))
        return super().__new__(cls, *args, **kwargs)

    def __init__(
        self,
        vars: Any = None,
        model: pm.Model | None = None,
        rng: Any = None,
        blocked: bool = True,
        sweeps: int = 1,
        plan: Plan | None = None,
        **kwargs: Any,
    ) -> None:
        require_count("sweeps", sweeps)
        self._uses_latest = model is None and pm.Model.get_context(error_if_none=False) is None
        model = _model(model)
        plan = make_plan(model) if plan is None else plan
        blocks, pools = _blocks_of(plan, vars)
        members = [block for pooled in pools for block in pooled.members.values()]
        self.blocks = [*blocks.values(), *members]
        drawn_values = {block.value for block in self.blocks}
        self.vars = [value for value in model.value_vars if value.name in drawn_values]
        self.rng, self.sweeps = get_random_generator(rng), sweeps
        self.sweep = Sweep.of(plan, tuple(blocks), pools)
        self.state = self.sweep.init({})
        self.watch: Callable[[int, int, LogParameters, NDArray[Any]], None] | None = None
        self._chain, self._draw = -1, 0
        self._written: dict[str, tuple[Any, Array]] = {}
        # all other variables of the conditionals are evaluated at the point of each step
        fixed = set(blocks) | {name for pooled in pools for name in pooled.implied}
        others = {name: variable for name, variable in plan.variables.items() if name not in fixed}
        _require_exact_labels(plan, others)
        self._others = value_function(model, others) if others else lambda point: {}
        below = {pooled.pool.parameter for pooled in pools}
        self._varying = {
            name: block.varying
            for name, block in blocks.items()
            if block.varying is not None and name not in below
        }

    @staticmethod
    def competence(var: Any, has_grad: bool = False) -> Competence:
        """Claim groups that are to be inferred, which PyMC's own steps do not find."""
        groups = isinstance(getattr(var.owner, "op", None), RaterGroupingRV)
        return Competence.IDEAL if groups else Competence.INCOMPATIBLE

    def __repr__(self) -> str:
        """Name the model, which PyMC quotes where it samples another one."""
        latest = "the model built last (pass model= for another)"
        return f"{type(self).__name__} of {latest if self._uses_latest else 'its model'}"

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Forget the state of an earlier chain."""
        super().setup_chain(rng, tune, draws)
        self.state, self._written = self.sweep.init({}), {}
        self._chain, self._draw = self._chain + 1, -tune

    def stop_tuning(self) -> None:
        """Go on without rotations if few were accepted."""
        super().stop_tuning()
        self.state = self.state.tuned()

    def step(self, point: Any) -> tuple[Any, list[dict[str, Any]]]:
        """Draw labels, then every conjugate parameter."""
        sweep, rows = self.sweep, self._rows(point)
        if self._varying:
            sweep = sweep.with_priors({name: at(point) for name, at in self._varying.items()})
        self.state = self.state._replace(rows=rows)
        with Interruption():
            for _ in range(self.sweeps):
                self.state = step(sweep, self.state, self.rng)
        point = dict(point)
        for block in self.blocks:
            drawn = self.state.rows[block.parameter]
            # an array: functions that numba compiles take no other numbers
            point[block.value] = np.asarray(block.coordinates.write(drawn))
            self._written[block.value] = point[block.value], drawn
        if self.watch is not None and self._draw >= 0 and self.state.labels is not None:
            self.watch(self._chain, self._draw, self.state.rows, self.state.labels)
        self._draw += 1
        return point, [{}]

    def _rows(self, point: Any) -> LogParameters:
        """Return all parameters in kernel coordinates."""
        rows = {block.parameter: self._read(block, point) for block in self.blocks}
        for name, value in self._others(point).items():
            with np.errstate(divide="ignore"):  # zero is a legal probability
                rows[name] = self.sweep.observation.support(name).to_kernel(value)
        for pooled in self.sweep.pools:
            rows |= pooled.rows(pooled.values(rows))
        return rows

    def _read(self, block: Block, point: Any) -> Array:
        """Return the block's log rows: those drawn last, exactly, if the point is unchanged."""
        current = point[block.value]
        if block.value in self._written:
            value, rows = self._written[block.value]
            if value is current or np.array_equal(value, current):
                return rows
        return block.read(point)


STEP_METHODS.append(LabelGibbs)


def _model(model: pm.Model | None) -> pm.Model:
    context = pm.Model.get_context(error_if_none=False) if model is None else model
    context = latest() if context is None else context
    if context is None:
        raise ModelError(
            "LabelGibbs belongs to a model: use it inside the model's context or pass model=. "
            "Got: no model."
        )
    return context


def _blocks_of(plan: Plan, vars: Any) -> tuple[dict[str, Block], list[PooledBlock]]:
    """Return the blocks by parameter, and the pools, that draw some variables, by default all."""
    requested = {block.value for block in plan.all_blocks}
    if vars is not None:
        values = plan.model.rvs_to_values
        listed = vars if isinstance(vars, list | tuple) else [vars]
        requested = {values.get(variable, variable).name for variable in listed}
    blocks = {name: block for name, block in plan.blocks.items() if block.value in requested}
    pools = []
    for pooled in plan.pools:
        has_rows = pooled.pool.parameter in blocks or pooled.pool.parameter not in plan.blocks
        if has_rows and requested >= {block.value for block in pooled.members.values()}:
            pools.append(pooled)
    members = [block for pooled in pools for block in pooled.members.values()]
    drawn = {block.value for block in (*blocks.values(), *members)}
    if not drawn or drawn != requested:
        raise ModelError(
            "LabelGibbs draws parameters of the observed responses with a Dirichlet or Beta prior "
            "on which nothing else in the model depends; give the others to NUTS. Got: "
            f"{sorted(requested or plan.variables)}, of which LabelGibbs can draw {sorted(drawn)}."
        )
    observation = plan.observation
    draws_groups = not set(blocks).isdisjoint(observation.indices)
    if draws_groups and not set(blocks) >= set(observation.raters.parameters):
        raise ModelError(
            "Groups of raters are drawn with the matrices of groups and raters summed out, so one "
            "step draws them all, with Dirichlet priors: pm.sample(step=bf.build.LabelGibbs()), "
            f"or bf.sample. Got: a step for {sorted(blocks)} only."
        )
    return blocks, pools


def _require_exact_labels(plan: Plan, others: dict[str, Any]) -> None:
    """Raise ModelError if other steps move parameters whose labels they sum out approximately."""
    labels = plan.observation.labels
    moved = [name for name, variable in others.items() if depends(plan.model, [variable])]
    if moved and not labels.capabilities.exact:
        raise ModelError(
            "Other steps than LabelGibbs sum the labels out, approximately where labels are "
            f"{type(labels).__name__} on this graph, so one LabelGibbs must draw all parameters of "
            "the responses. Give rows Dirichlet or Beta priors and a coupling any prior, on which "
            "nothing else depends, or leave all variables to NUTS: bf.sample(…, sampler='nuts'). "
            f"Got: {moved} left to other steps."
        )
