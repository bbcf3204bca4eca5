"""Draws of a model by PyMC's chains, by chains of Gibbs sweeps, or by sweeps next to NUTS."""

from __future__ import annotations

import inspect
import logging
import time
from collections import ChainMap
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pymc.sampling.mcmc import NUTPIE_INSTALLED
from pytensor.compile.ops import wrap_py
from pytensor.tensor.type import TensorType
from rich.progress import MofNCompleteColumn, Progress

from bayesfuse.errors import ModelError
from bayesfuse.inference.chains import Chain, adds_labels, compilable, run
from bayesfuse.inference.collapsed import TypesFit, fit_types, suits
from bayesfuse.inference.gibbs import Sweep, draw_parameters, draw_pools, step
from bayesfuse.inference.gradients import GIVEN, Gradients, initialize, start_at, values_of
from bayesfuse.inference.plan import Plan
from bayesfuse.inference.start import find_start
from bayesfuse.inference.step_method import LabelGibbs
from bayesfuse.labels.independent import Independent
from bayesfuse.numerics.threads import available, check, hold, threads
from bayesfuse.observation import LogParameters, ResponseModel, through_matrices, with_matrices
from bayesfuse.observation.evaluate import as_posterior
from bayesfuse.parameters.contract import Prior
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.priors import diagonal
from bayesfuse.results.draws import Draws

SECONDS_PER_DRAW = 130e-6  # spent on a draw after sampling; cheaper sweeps are repeated
MIN_SECONDS_OF_THREADS = 5e-4  # of an interpreted sweep, above which chains run side by side

# arguments of pm.sample that have an effect if Gibbs sweeps draw all variables
GIBBS_SETTINGS = {"model", "draws", "tune", "chains", "cores", "random_seed", "progressbar"}
GIBBS_SETTINGS |= {"quiet", "compute_convergence_checks"}

POOL_DRAWS = 10  # of hyperparameters given the same labels, before a chain begins

_log = logging.getLogger("pymc")  # shown by PyMC, as for its own chains


class ChainInitializer:
    """The start that all chains share, and overdispersed points around it.

    The density of a pool is highest if all raters are equal, so labels are drawn from the model
    without the pool, or from Dawid and Skene's model.
    """

    def __init__(self, plan: Plan, method: str | xr.DataTree | Mapping[str, Any]) -> None:
        self.plan, self.without_pools = plan, plan.observation
        self.nonconjugate: Gradients | None = None
        if not isinstance(method, str | xr.DataTree):
            self.start = start_at(plan, method)
            return
        if not plan.pooled:
            self.start, self.nonconjugate = initialize(plan, method)
            return
        self.without_pools, priors = _without_pools(plan)
        self.start = find_start(self.without_pools.first_chunk, priors, method)

    @cached_property
    def types(self) -> TypesFit | None:
        """The variational fit of a model of hidden types of items, near which its chains begin."""
        return fit_types(self.plan, self.labels()) if suits(self.plan) else None

    def labels(self) -> Any:
        """Return class probabilities at the start, (table items, classes)."""
        observation = self.without_pools
        probability = observation.by_item(observation.marginal(self.start.rows).probability)
        return probability[self.plan.observation.firsts]

    def rows(self, rng: np.random.Generator) -> LogParameters:
        """Return the log parameters at which a chain begins."""
        if self.start.method == GIVEN:
            return self.start.rows
        if self.types is not None:
            values = self.types.draw(1, rng)
            return self.plan.rows_at({name: drawn[0] for name, drawn in values.items()})
        if self.plan.pooled:
            return self._pooled(self.start.rows, rng)
        rows: LogParameters = {**self.start.rows, **self.plan.indices()}
        priors: dict[str, Prior] = self.plan.priors()
        if self.nonconjugate is not None:
            priors |= self.nonconjugate.priors(rows)
        drawn = tuple(name for name, prior in priors.items() if prior.free)
        sweep = Sweep(self.plan.observation, priors, drawn)
        initial = {n: prior.centre() for n, prior in priors.items()} | rows
        sampled = step(sweep, sweep.init(initial), rng).rows
        if self.nonconjugate is None:
            return sampled
        _, counts = self.plan.observation.expected(rows)
        return self.nonconjugate.disperse(sampled, counts, rng)

    def _pooled(self, initial: LogParameters, rng: np.random.Generator) -> LogParameters:
        """Draw labels once, then all parameters given these."""
        plan, sweep, observation = self.plan, Sweep.of(self.plan), self.plan.observation
        rows = {name: prior.centre() for name, prior in sweep.priors.items()} | initial
        for pooled in plan.pools:
            rows |= pooled.rows(pooled.pool.begin(rng))
        rows |= {n: p.centre() for n, p in sweep.priors_at(rows).items() if n not in sweep.priors}
        unpooled = dict(initial)
        for name in observation.labels.parameters:  # maybe by kind of items
            unpooled[name] = np.broadcast_to(initial.get(name, rows[name]), rows[name].shape)
        counts = observation.draw_counts(rows, rng, drawn_by=(self.without_pools.raters, unpooled))
        for _ in range(POOL_DRAWS):
            rows |= draw_pools(sweep, rows, counts, rng)
        return rows | draw_parameters(sweep, rows, {}, counts, rng)

    def values(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return values of the model's variables at which a chain begins, in the interior."""
        return values_of(self.plan, self.nonconjugate, self.rows(rng))


def _without_pools(plan: Plan) -> tuple[ResponseModel, dict[str, Prior]]:
    """Return the model without pools, or with a confusion matrix per rater, and fixed priors."""
    priors, observation, unpooled = plan.priors(), plan.observation, {}
    for pooled in plan.pools:
        if (prior := pooled.pool.unpooled()) is not None:
            unpooled[pooled.pool.parameter] = prior
    if len(unpooled) == len(plan.pools):
        return observation, {**priors, **unpooled}
    labels, table = observation.labels, observation.responses
    rows = np.tile(diagonal(table.n_classes), (table.n_raters, 1, 1))
    flat = Dirichlet(np.ones(table.n_classes))
    has_item_prior = isinstance(labels, Independent) and labels.axis is not None
    if has_item_prior and not set(labels.parameters) <= set(priors):
        observation = through_matrices(table, observation.gold)  # one prevalence, moved by chains
    else:
        observation = with_matrices(observation)
    names = observation.labels.parameters
    return observation, {n: priors.get(n, flat) for n in names} | {"confusion": Dirichlet(rows)}


def sample_nuts(
    beginnings: list[ChainInitializer], nuts_sampler: str | None, settings: dict[str, Any]
) -> xr.DataTree:
    """Draw all variables by NUTS, from points around the start."""
    streams = settings["random_seed"].spawn(settings["chains"])
    tables = [[initializer.values(stream) for stream in streams] for initializer in beginnings]
    # the first table decides on variables that tables share
    points = [dict(ChainMap(*values)) for values in zip(*tables, strict=True)]
    if nuts_sampler is None:
        # with several tables every chain has its own start, which nutpie does not support
        one = len(beginnings) == 1 and NUTPIE_INSTALLED
        nuts_sampler = "nutpie" if one else "pymc"
    settings = settings | {"nuts_sampler": nuts_sampler}
    # without jitter, which would undo the start
    if nuts_sampler == "nutpie":
        one = len(beginnings) == 1
        settings["initvals"] = _random_start(beginnings[0], points[0]) if one else points[0]
        values = settings.get("compile_kwargs", {})
        settings["compile_kwargs"] = {"jitter_rvs": set()} | values
    else:
        settings["initvals"] = points
    if nuts_sampler == "pymc":
        settings.setdefault("init", "adapt_diag")
    elif nuts_sampler in ("numpyro", "blackjax"):
        values = settings.get("nuts", {})
        settings["nuts"] = {"jitter": False, "chain_method": "vectorized"} | values
    return _by_pymc(settings)


def _by_pymc(settings: dict[str, Any]) -> xr.DataTree:
    """Sample by PyMC, with a function of progress as callback."""
    if callable(shown := settings["progressbar"]):
        settings = settings | {"progressbar": False, "callback": lambda *_, **__: shown(1)}
    return pm.sample(**settings)


def _random_start(initializer: ChainInitializer, one: dict[str, Any]) -> dict[str, Any]:
    """Return a random starting point: nutpie evaluates one for every chain, with its own seed."""
    stream = pytensor.shared(np.random.default_rng(0))
    _, seed = pt.random.integers(0, 2**31 - 1, rng=stream, return_next_rng=True)

    def draw(number: Any) -> list[Any]:
        point = initializer.values(np.random.default_rng(int(number)))
        return [np.asarray(point[name]) for name in one]

    types = [TensorType("float64", (None,) * np.ndim(value)) for value in one.values()]
    drawn = wrap_py([seed.type], types)(draw)(seed)
    return dict(zip(one, drawn if isinstance(drawn, list) else [drawn], strict=True))


def thinned(result: xr.DataTree, thin: int) -> xr.DataTree:
    """Return every ``thin``-th draw."""
    return result.isel(draw=slice(None, None, thin), missing_dims="ignore") if thin > 1 else result


def sample_gibbs(
    initializer: ChainInitializer,
    settings: dict[str, Any],
    *,
    sweeps: int | None,
    thin: int,
    log_likelihood: bool,
) -> tuple[xr.DataTree, Draws | None]:
    """Return the draws and, if the chains added up label probabilities, the sums."""
    plan = initializer.plan
    draws, summed = settings["draws"], None
    sweeps = sweeps or sweeps_of_draw(plan)
    moves_labels = plan.observation.labels.capabilities.moves_labels
    if moves_labels or adds_labels(plan, initializer.start.rows):
        sizes = settings["chains"], -(-draws // thin)
        options = {"log_likelihood": log_likelihood, "labels": moves_labels}
        summed = Draws(plan.observation, *sizes, **options)
    if not plan.is_fully_conjugate:
        return thinned(_next_to_nuts(initializer, settings, sweeps, summed, thin), thin), summed
    result = _chains(initializer, settings, sweeps, summed, thin)
    is_cut = result["posterior"].sizes["draw"] < -(-draws // thin)
    # of interrupted chains, only labels that were drawn cannot be computed again
    return result, None if is_cut and not moves_labels else summed


def _chains(
    initializer: ChainInitializer,
    settings: dict[str, Any],
    sweeps: int,
    summed: Draws | None,
    thin: int,
) -> xr.DataTree:
    """Run chains in which sweeps draw all variables."""
    plan, began = initializer.plan, time.perf_counter()
    tune = LabelGibbs.default_tune_steps if settings["tune"] is None else settings["tune"]
    # more sweeps per draw are equivalent to thinning
    sizes = {"tune": -(-tune // thin), "draws": -(-settings["draws"] // thin)}
    n_chains, cores = settings["chains"], settings["cores"] or available()
    compiled = compilable(plan)
    # A sweep over many items is itself shared by threads, and a short one is mostly Python, which
    # holds its lock: then chains take turns.
    shared = plan.observation.shared or n_chains == 1
    in_turn = shared or (not compiled and sweep_cost(plan) < MIN_SECONDS_OF_THREADS)
    with threads(cores) if shared else nullcontext():
        sweep, chains = Sweep.of(plan), []
        for number, stream in enumerate(settings["random_seed"].spawn(n_chains)):
            # the first sweep scatters compiled chains as well as `rows` does, except of a pool
            scatters = compiled and not plan.pooled and initializer.start.method != GIVEN
            rows = initializer.start.rows if scatters else initializer.rows(stream)
            options: dict[str, Any] = {"compiled": compiled, "sweeps": sweeps * thin, **sizes}
            if summed is not None and summed.drawn:
                options["watch"] = partial(summed.add, number)
            elif summed is not None:
                options["sums"] = summed.arrays(number)
            chains.append(Chain(sweep, sweep.init(rows), stream, **options))
        _run_with_progress(chains, 1 if in_turn else cores, settings["progressbar"])
    hold()  # the draws must not be lost
    n_draws = min(chain.n_stored for chain in chains)
    if n_draws == 0:  # interrupted before there were draws
        hold(False)
        check()
        raise KeyboardInterrupt
    if summed is not None and not summed.drawn and n_draws == sizes["draws"]:
        for number, chain in enumerate(chains):  # of the last draw, after which there is no sweep
            summed.add(number, {name: draws[-1] for name, draws in chain.stored.items()})
    seconds = time.perf_counter() - began
    values = {}
    for block in plan.all_blocks:
        drawn = np.stack([chain.stored[block.parameter][:n_draws] for chain in chains])
        values[block.variable.name] = block.support.from_kernel(drawn)
    attrs = {"sampling_time": seconds, "tuning_steps": sizes["tune"]}
    posterior = as_posterior(plan.model, values).assign_attrs(attrs)
    groups = {"posterior": posterior, "sample_stats": xr.Dataset(attrs=attrs)}
    result = xr.DataTree.from_dict(groups)
    is_cut = n_draws < sizes["draws"]
    if (settings["progressbar"] or is_cut) and not settings.get("quiet", False):
        cut = f", and ended before {sizes['draws']:_d} draws" * is_cut
        made = f"{sizes['tune'] * n_chains:_d} + {n_draws * n_chains:_d} draws total"
        _log.info(
            f"Gibbs sampling {n_chains} chain{'s' if n_chains > 1 else ''} for {sizes['tune']:_d} "
            f"tune and {n_draws:_d} draw iterations ({made}) took {seconds:.0f} seconds{cut}."
        )
    return result


def _run_with_progress(chains: list[Chain], cores: int, progressbar: Any) -> None:
    """Run chains, and show the draws of all by a bar or a function of their number."""
    if callable(progressbar):
        run(chains, cores, progressbar)
        return
    columns = *Progress.get_default_columns(), MofNCompleteColumn()
    with Progress(*columns, disable=not progressbar) as bar:
        task = bar.add_task("Sampling", total=sum(c.tune + c.draws for c in chains))
        run(chains, cores, lambda made: bar.advance(task, made))


def _next_to_nuts(
    initializer: ChainInitializer,
    settings: dict[str, Any],
    sweeps: int,
    summed: Draws | None,
    thin: int,
) -> xr.DataTree:
    """Run PyMC's chains, in which NUTS draws the variables that sweeps leave."""
    plan = initializer.plan
    label_step = LabelGibbs(model=plan.model, plan=plan, sweeps=sweeps)
    points = [
        initializer.values(stream) for stream in settings["random_seed"].spawn(settings["chains"])
    ]
    # responses numbered by a range take no memory; ArviZ would write the numbers out
    (dim,) = plan.model.named_vars_to_dims[plan.answers.name]
    rows = {dim: pd.RangeIndex(plan.observation.responses.n_responses)}
    data_settings = {"coords": rows} | settings.get("idata_kwargs", {})
    settings = settings | {"step": label_step, "initvals": points, "idata_kwargs": data_settings}
    if summed is not None:
        settings["cores"] = 1  # sums over labels are in this process

        def add(chain: int, draw: int, rows: LogParameters, labels: Any) -> None:
            if draw % thin == 0:
                summed.add(chain, rows, labels)

        label_step.watch = add
    return _by_pymc(settings)


def require_settings(settings: Mapping[str, Any], is_fully_conjugate: bool) -> None:
    """Raise ModelError for settings that have no effect: of NUTS, or of PyMC's loop."""
    known = GIBBS_SETTINGS
    rule = (
        "settings of PyMC's steps and loop, such as target_accept=, have no effect if Gibbs steps "
        "draw all variables, as here (sampler='nuts' uses them)"
    )
    if not is_fully_conjugate:
        known = {*inspect.signature(pm.sample).parameters, "nuts", "target_accept"}
        rule = "settings of NUTS, which draws the other variables, belong in nuts={…}"
    if unknown := set(settings) - known:
        raise ModelError(
            f"bf.sample takes its own arguments and those of pm.sample; {rule}. Got: "
            f"{sorted(unknown)}."
        )


def sweeps_of_draw(plan: Plan) -> int:
    """Return the default number of sweeps of a draw."""
    if plan.observation.first_chunk is not plan.observation:  # in partitions
        return 1
    min_sweeps = plan.observation.raters.capabilities.min_sweeps if compilable(plan) else 1
    return int(np.clip(SECONDS_PER_DRAW / sweep_cost(plan), min_sweeps, 10))


def sweep_cost(plan: Plan) -> float:
    """Estimate the seconds of a Gibbs sweep from sizes alone, so that results are reproducible."""
    table = plan.observation.table
    priors = plan.continuous_priors().values()
    entries = sum(np.size(getattr(prior, "concentration", ())) for prior in priors)
    adds = table.n_responses * table.n_classes
    pools = sum(pooled.pool.seconds(plan.observation.n_responses) for pooled in plan.pools)
    fixed = 1e-6 if compilable(plan) else 20e-6
    by_item = 2e-9 * table.n_classes
    if plan.observation.labels.unit == "sequence":  # the product with a transition matrix
        by_item += 5e-9 * table.n_classes**2
    return fixed + 0.4e-9 * adds + by_item * table.n_items + 60e-9 * entries + pools
