"""Simulation-based calibration: ranks of prior draws among posterior draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.inference.sample import sample
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.compiled import plain_python
from bayesfuse.pymc.model import observed, parameter_variables
from bayesfuse.results.probabilities import label_probabilities


def simulate(
    model: pm.Model, random_seed: int | np.random.Generator | None = None
) -> tuple[dict[str, Array], NDArray[np.int64], Responses]:
    """Draw parameters, truths and responses from the prior of a model.

    Returns
    -------
    parameters : dict
        Values of the parameters of the label prior and the channel, and of the model's other free
        variables by name.
    truth : ndarray of int64, shape (items,)
    responses : Responses
        The model's table with what was drawn: labels, and silence if the table knows it.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.testing import simulate
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> parameters, truth, responses = simulate(model, random_seed=1)
    >>> parameters["confusion"].shape, truth.shape, responses.n_responses
    ((5, 4, 4), (45,), 315)
    """
    rng = np.random.default_rng(random_seed)
    variable, observation = observed(model)
    variables = parameter_variables(variable)
    variables = {v.name: v for v in model.free_RVs if v not in variables.values()} | variables
    with plain_python():  # compilation does not pay for one draw
        values = pm.draw(list(variables.values()), random_seed=rng)
    parameters = dict(zip(variables, values, strict=True))
    truth, table = observation.redraw(observation.rows(parameters), rng)
    return parameters, truth, table


def sbc_ranks(
    build: Callable[..., pm.Model],
    responses: Responses,
    *,
    revealed: Iterable[Any] = (),
    simulations: int = 200,
    draws: int = 100,
    thin: int = 1,
    random_seed: int = 0,
    **kwargs: Any,
) -> xr.Dataset:
    """Simulation-based calibration: ranks of prior draws among posterior draws.

    For a correct sampler, ranks are uniform on 0, …, draws. For labels the rank is replaced by the
    randomised probability integral transform of the true class.

    Parameters
    ----------
    build : callable
        From responses (and ``gold=``, with ``revealed``) to the model, with a fixed prior.
    responses : Responses
        The design; its labels are replaced by simulated ones.
    revealed : iterable of item names, optional
        Items whose simulated truth is given to the model. Fixed gold labels would not be draws
        from the prior.
    simulations, draws, thin : int
        Number of data sets; number of posterior draws, every ``thin``-th of one chain.
    **kwargs
        Passed to :func:`bayesfuse.sample`.

    Returns
    -------
    Dataset
        Ranks (simulation, …) by variable that is a parameter or a hyperparameter; ``labels``
        (simulation, item), uniform on (0, 1). The attribute ``draws`` is the highest rank.

    References
    ----------
    Talts et al. (2018), Validating Bayesian inference algorithms with simulation-based
    calibration, arXiv:1804.06788.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.testing import assert_uniform, sbc_ranks
    >>> design = bf.datasets.simulate_dawid_skene(12, 3, 2, random_seed=1).responses
    >>> ranks = sbc_ranks(bf.models.DawidSkene, design, simulations=3, draws=20)
    >>> ranks["prevalence"].shape, ranks["labels"].shape
    ((3, 2), (3, 12))
    >>> assert_uniform(ranks["labels"], 1, "labels")
    """
    place = {item: n for n, item in enumerate(responses.items.tolist())}
    known = {item: place[item] for item in revealed}
    template = build(responses)
    called = {k: v.name for k, v in parameter_variables(observed(template)[0]).items() if v.name}
    found: dict[str, list[Array]] = {}
    for stream in np.random.default_rng(random_seed).spawn(simulations):
        parameters, truth, table = simulate(template, stream)
        gold = {item: responses.classes[truth[n]] for item, n in known.items()}
        result = sample(
            build(table, gold=gold) if gold else build(table),
            draws * thin,
            chains=1,
            random_seed=stream,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
            log_likelihood=False,
            **kwargs,
        )
        posterior = result["posterior"].dataset
        for key, value in parameters.items():
            if (name := called.get(key, key)) in posterior:  # else an expression of others
                kept = posterior[name].values[0, ::thin]
                found.setdefault(name, []).append((kept < value).sum(axis=0).astype(float))
        probability = label_probabilities(result).values
        below = np.where(np.arange(probability.shape[1]) < truth[:, None], probability, 0).sum(1)
        own = probability[np.arange(len(truth)), truth]
        found.setdefault("labels", []).append(below + stream.random(len(truth)) * own)
    ranks = xr.Dataset(attrs={"draws": draws})
    for name, values in found.items():
        axes = (f"{name}_{axis}" for axis in range(values[0].ndim))
        ranks[name] = ("simulation", *axes), np.stack(values)
    return ranks
