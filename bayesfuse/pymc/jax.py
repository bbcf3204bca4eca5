"""Dispatch of the Ops to JAX: likelihood and evidence in jax.numpy, the rest by its gradients."""

from __future__ import annotations

from typing import Any

import jax
from pytensor.link.jax.dispatch import jax_funcify

from bayesfuse.pymc.ops import Evidence, ExpectedCounts


@jax_funcify.register(ExpectedCounts)
def expected_counts(op: ExpectedCounts, **kwargs: Any) -> Any:
    """Return the pullback of the channel's likelihood."""

    def counts(*inputs):
        tables, (weight, *answers) = inputs[: op.n_tables], inputs[op.n_tables :]
        _, pullback = jax.vjp(lambda *t: op.channel.log_lik_jax(*t, *answers), *tables)
        found = pullback(weight)
        return found[0] if len(found) == 1 else found

    return counts


@jax_funcify.register(Evidence)
def evidence(op: Evidence, **kwargs: Any) -> Any:
    """Return the log evidence and its derivatives (which XLA drops where nobody asks)."""

    def outputs(*inputs):
        rows, tables, structure, answers = op.split(inputs)
        log_lik = op.channel.log_lik_jax(*tables, *answers)

        def units(log_lik, *rows):
            return op.prior.marginal_jax(*rows, log_lik, *structure)

        def total(*rows):
            terms = units(log_lik, *rows)
            return (terms * structure[0] if op.prior.merges else terms).sum()

        probability = jax.grad(lambda log_lik: units(log_lik, *rows).sum())(log_lik)
        expected = jax.grad(total, argnums=tuple(range(op.n_rows)))(*rows)
        return total(*rows), units(log_lik, *rows), probability, *expected

    return outputs
