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
from bayesfuse.inference.gibbs import Sweep, step, with_priors
from bayesfuse.inference.plan import Block, Plan, make_plan
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import Interruption
from bayesfuse.observation import LogParameters
from bayesfuse.parameters.compiled import depends, value_function
from bayesfuse.parameters.variables import RaterGroupingRV
from bayesfuse.pymc.observed import latest


class LabelGibbs(BlockedStep):
    """Step method that draws labels and, given them, every Dirichlet row of a label model.

    Conjugate parameters are drawn from their conditionals, a coupling by slice sampling; for
    independent labels, some sweeps begin with a move of the prevalence, if that proves useful.
    Others are left to other steps: ``pm.sample(step=bf.build.LabelGibbs(), model=model)`` gives
    them to NUTS. Labels on a graph with circles must not depend on such variables.

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
        self.sweeps = sweeps
        self._guessed = model is None and pm.Model.get_context(error_if_none=False) is None
        model = _model(model)
        plan = make_plan(model) if plan is None else plan
        wanted = {block.value for block in plan.all_blocks}
        if vars is not None:
            listed = vars if isinstance(vars, list | tuple) else [vars]
            wanted = {model.rvs_to_values.get(variable, variable).name for variable in listed}
        blocks = [b for b in plan.blocks.values() if b.value in wanted]
        drawn = {b.parameter for b in blocks}
        pools = [
            pooled
            for pooled in plan.pools
            if wanted >= {b.value for b in pooled.members.values()}
            and (pooled.pool.parameter in drawn or pooled.pool.parameter not in plan.blocks)
        ]
        members = [block for pooled in pools for block in pooled.members.values()]
        self.blocks = [*blocks, *members]
        if not self.blocks or len(self.blocks) != len(wanted):
            raise ModelError(
                "LabelGibbs draws parameters of the observed responses with a Dirichlet or Beta "
                "prior on which nothing else in the model depends; give the others to NUTS. Got: "
                f"{sorted(wanted or plan.variables)}, of which such are "
                f"{sorted(b.value for b in self.blocks)}."
            )
        observation = plan.observation
        if drawn & set(observation.indices) and not drawn >= set(observation.raters.parameters):
            raise ModelError(
                "Groups of raters are drawn with the matrices of groups and raters summed out, so "
                "one step draws them all, with Dirichlet priors: pm.sample(step="
                f"bf.build.LabelGibbs()), or bf.sample. Got: a step for {sorted(drawn)} only."
            )
        self.rng = get_random_generator(rng)
        self.watch: Callable[[int, int, LogParameters, NDArray[Any]], None] | None = None
        self._chain, self._draw = -1, 0
        self._written: dict[str, tuple[Any, Array]] = {}
        updated = {block.value for block in self.blocks}
        self.vars = [value for value in model.value_vars if value.name in updated]
        self.sweep = Sweep.of(plan, tuple(b.parameter for b in blocks), pools)
        self.state = self.sweep.begin({})
        # whatever else the conditionals depend on is evaluated at the point of each step
        known = drawn | {name for pool in pools for name in pool.implied}
        others = {name: variable for name, variable in plan.variables.items() if name not in known}
        left = [name for name, variable in others.items() if depends(model, [variable])]
        if left and not observation.labels.exact:
            raise ModelError(
                "Other steps than LabelGibbs sum the labels out, approximately where labels are "
                f"{type(observation.labels).__name__} on this graph, so what the responses depend "
                "on must be drawn by one LabelGibbs. Give rows Dirichlet or Beta priors and a "
                "coupling any prior, on which nothing else depends, or leave all variables to "
                f"NUTS: bf.sample(…, sampler='nuts'). Got: {left} left to other steps."
            )
        self.others = value_function(model, others) if others else lambda point: {}
        below = {pooled.pool.parameter for pooled in pools}
        self.varying = {
            b.parameter: b.varying for b in blocks if b.varying and b.parameter not in below
        }

    @staticmethod
    def competence(var: Any, has_grad: bool = False) -> Competence:
        """Claim groups that are to be inferred, which PyMC's own steps do not find."""
        groups = isinstance(getattr(var.owner, "op", None), RaterGroupingRV)
        return Competence.IDEAL if groups else Competence.INCOMPATIBLE

    def __repr__(self) -> str:
        """Name the model, which PyMC quotes where it samples another one."""
        whose = "the model built last (pass model= for another)" if self._guessed else "its model"
        return f"{type(self).__name__} of {whose}"

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Begin a chain: what an earlier one has left is not its own."""
        super().setup_chain(rng, tune, draws)
        self.state, self._written = self.sweep.begin({}), {}
        self._chain, self._draw = self._chain + 1, -tune

    def stop_tuning(self) -> None:
        """Leave turns out if few were accepted: the responses determine the prevalence then."""
        super().stop_tuning()
        self.state = self.state.tuned()

    def step(self, point: Any) -> tuple[Any, list[dict[str, Any]]]:
        """Draw labels, then every conjugate parameter."""
        sweep = self.sweep
        rows = {block.parameter: self.read(block, point) for block in self.blocks}
        for name, value in self.others(point).items():
            with np.errstate(divide="ignore"):  # zero is a legal probability
                rows[name] = sweep.observation.support(name).to_kernel(value)
        if self.varying:
            sweep = with_priors(sweep, {name: at(point) for name, at in self.varying.items()})
        for pooled in sweep.pools:
            rows |= pooled.rows(pooled.values(rows))
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

    def read(self, block: Block, point: Any) -> Array:
        """Return the block's log rows: those drawn last, exactly, if the point is unchanged."""
        there = point[block.value]
        if block.value in self._written:
            value, rows = self._written[block.value]
            if value is there or np.array_equal(value, there):
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
