"""Speed of the chain's kernels on one core, compared with forward passes written with scans.

First token-steps per second by number of classes: labels summed out (probabilities, pair counts,
log evidence: what a gradient takes), drawn, decoded. Then value and gradient of the log evidence on
sequences of equal length, where NumPyro (labels enumerated along its scan, as in its hidden Markov
example), JAX's scan of the forward pass alone and PyTensor's can process whole batches of sequences
at once; the implementations take turns. NumPyro needs funsor.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/hmm_speed.py [--quick]
"""

from __future__ import annotations

import time

import numpy as np
from _shared import Arguments, extras

from bayesfuse.labels import forward_backward

SYMBOLS = 20
"""Different responses that an item may have, in the contest."""


def problem(rng, n_sequences, length, n_classes):
    """Return log parameters, likelihood and log scale in chain order, and the structure."""
    size = n_sequences * length
    return (
        np.log(rng.dirichlet(np.ones(n_classes))),
        np.log(rng.dirichlet(np.ones(n_classes), n_classes)),
        np.exp(rng.normal(0, 3, (size, n_classes))),
        np.zeros(size),
        np.arange(size),
        np.arange(0, size + 1, length),
    )


def seconds(function, repeats):
    """Return the shortest time of several calls after one that compiles."""
    function()
    taken = []
    for _ in range(repeats):
        begun = time.perf_counter()
        function()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def kernels(rng, size, repeats):
    """Print millions of token-steps per second."""
    print(f"{size:,} items; millions of items per second on one core")
    print(f"{'classes':>8}{'length':>10}{'summed out':>12}{'drawn':>10}{'decoded':>10}")
    for n_classes in (2, 4, 9, 20):
        for length in (25, size):
            given = problem(rng, size // length, length, n_classes)
            initial, transition, likelihood, _, *structure = given
            posterior = initial, transition, likelihood, *structure
            drawn = initial, transition, likelihood, rng.random(size), *structure
            rates = [
                size / seconds(function, repeats) / 1e6
                for function in (
                    lambda given=given: forward_backward.marginal(*given),
                    lambda given=drawn: forward_backward.draw_labels(*given),
                    lambda given=posterior: forward_backward.decode(*given),
                )
            ]
            print(f"{n_classes:>8}{length:>10,}{rates[0]:>12.1f}{rates[1]:>10.1f}{rates[2]:>10.1f}")


def with_jax(initial, transition, log_lik):
    """Return a function for value and gradients by JAX's scan over whole batches."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp

    jax.config.update("jax_enable_x64", True)

    def evidence(initial, transition, log_lik):  # log_lik (time, sequences, classes)
        def step(ahead, now):
            return logsumexp(ahead[:, :, None] + transition, axis=1) + now, None

        last, _ = jax.lax.scan(step, initial + log_lik[0], log_lik[1:])
        return logsumexp(last, axis=1).sum()

    function = jax.jit(jax.value_and_grad(evidence, argnums=(0, 1, 2)))
    given = [jnp.asarray(part) for part in (initial, transition, log_lik)]
    return lambda: jax.block_until_ready(function(*given))


def with_numpyro(initial, transition, emission, said):
    """Return the same by NumPyro; ``said`` is (sequences, time), ``emission`` log rows."""
    import funsor  # noqa: F401  # numpyro names it in an error of another kind
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions as dist
    from numpyro.contrib.control_flow import scan
    from numpyro.contrib.funsor import config_enumerate, enum, log_density

    @config_enumerate
    def model(initial, transition, emission):
        rows = jnp.concatenate([transition, initial[None]])  # the last is that of a first label

        def step(before, now):
            with numpyro.plate("sequence", len(said), dim=-1):
                label = numpyro.sample("label", dist.Categorical(logits=rows[before]))
                numpyro.sample("said", dist.Categorical(logits=emission[label]), obs=now)
            return label, None

        scan(step, jnp.full(len(said), len(initial)), said.T)

    def evidence(*given):
        return log_density(enum(model, first_available_dim=-2), given, {}, {})[0]

    function = jax.jit(jax.value_and_grad(evidence, argnums=(0, 1, 2)))
    given = [jnp.asarray(part) for part in (initial, transition, emission)]
    return lambda: jax.block_until_ready(function(*given))


def with_pytensor(initial, transition, log_lik):
    """Return the same by PyTensor's scan, compiled for numba."""
    import pytensor
    import pytensor.tensor as pt

    inputs = pt.vector(), pt.matrix(), pt.tensor3()

    def step(now, ahead, transition):
        return pt.logsumexp(ahead[:, :, None] + transition, axis=1) + now

    first = inputs[0] + inputs[2][0]
    steps = pytensor.scan(
        step, inputs[2][1:], first, non_sequences=[inputs[1]], return_updates=False
    )
    total = pt.logsumexp(steps[-1], axis=1).sum()
    function = pytensor.function(inputs, [total, *pytensor.grad(total, list(inputs))])
    return lambda: function(initial, transition, log_lik)


def contenders(rng, n_sequences, length, n_classes, rounds):
    """Print time per value and gradient, and check that all agree."""
    initial, transition, _, *rest = problem(rng, n_sequences, length, n_classes)
    emission = np.log(rng.dirichlet(np.ones(SYMBOLS), n_classes))
    said = rng.integers(SYMBOLS, size=(n_sequences, length))
    given = initial, transition, np.exp(emission.T[said.ravel()]), *rest
    batch = emission.T[said.T]  # (time, sequences, classes)
    functions = {
        "bayesfuse": lambda: forward_backward.marginal(*given),
        "JAX scan": with_jax(initial, transition, batch),
        "NumPyro scan": with_numpyro(initial, transition, emission, said),
        "PyTensor scan": with_pytensor(initial, transition, batch),
    }
    totals = {name: function() for name, function in functions.items()}
    values = np.array([float(total[0]) for total in totals.values()])
    assert np.ptp(values) < 1e-9 * abs(values[0]), values
    # NumPyro's gradient is that of rows it normalises itself
    pairs = [totals["bayesfuse"][4], totals["JAX scan"][1][1], totals["PyTensor scan"][2]]
    assert all(np.allclose(part, pairs[0], rtol=1e-6) for part in pairs[1:])
    best = dict.fromkeys(functions, np.inf)
    for _ in range(rounds):
        for name, function in functions.items():
            best[name] = min(best[name], seconds(function, 1))
    print(f"\n{n_sequences:,} sequences of {length}, {n_classes} classes: value and gradient")
    for name, least in best.items():
        print(f"  {name:<16}{1e3 * least:9.2f} ms{least / best['bayesfuse']:9.1f} ×")


def main() -> None:
    """Print both tables."""
    parser = Arguments(__doc__, "few items, one size")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    kernels(rng, *((2_000, 1) if options.quick else (200_000, 10)))
    sizes = [(10, 8, 4)] if options.quick else [(50, 40, 4), (2000, 40, 4), (2000, 25, 9)]
    for size in sizes:
        with extras():
            contenders(rng, *size, 1 if options.quick else 10)


if __name__ == "__main__":
    main()
