"""Dispatch of the Ops to JAX: likelihood and evidence in jax.numpy, the rest by its gradients."""

from __future__ import annotations

from typing import Any

import jax
from pytensor.link.jax.dispatch import jax_funcify

from bayesfuse.errors import ModelError
from bayesfuse.observation import Spread
from bayesfuse.pymc.ops import Evidence, EvidenceOfParts, ExpectedCounts


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
    """Return the log evidence and its derivatives (XLA drops those that are not used)."""

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


@jax_funcify.register(EvidenceOfParts)
def evidence_of_parts(op: EvidenceOfParts, **kwargs: Any) -> Any:
    """Return the log evidence of the whole table, which JAX cuts itself, and its derivatives."""
    seen = op.observation
    if isinstance(seen, Spread):
        raise ModelError(
            "JAX needs all responses in memory; responses in partitions are sampled by Gibbs, or "
            f"by PyMC's own NUTS. Got: {seen.partitions.n_partitions} partitions."
        )

    def total(*tables):
        log_lik = seen.raters.log_lik_jax(*tables[op.n_rows :], *seen.rater_structure)
        terms = seen.labels.marginal_jax(*tables[: op.n_rows], log_lik, *seen.label_structure)
        return (terms * seen.label_structure[0] if seen.labels.merges else terms).sum()

    return lambda *tables: (
        total(*tables),
        *jax.grad(total, argnums=tuple(range(len(tables))))(*tables),
    )
