"""The prior of ItemTypes drawn in NumPy, for tests of its sampler, and a crowd it was made for."""

from __future__ import annotations

import numpy as np

import bayesfuse as bf
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.parameters.pool import Member
from bayesfuse.parameters.tilted_rows import TiltedRows
from bayesfuse.parameters.typed_rows import FLOOR, Hyperpriors, TypedRows

LEAST = 1e-300
COMPETENCE = (
    "competence_mean",
    "competence_concentration",
    "competence",
    "guess_mean",
    "guess_concentration",
    "guess",
)
ROLES = (
    "type_concentration",
    "type_share",
    "consensus",
    "trust",
    "firmness",
    "class_of_type",
    *COMPETENCE,
    "row_concentration",
)
SCALES = {role for role in ROLES if role.endswith("concentration")} | {"trust", "firmness"}

SETTLED = Hyperpriors(
    type_concentration=(8.0, 2.0),
    row_concentration=(6.0, 1.0),
    competence_mean=(4.0, 2.0),
    competence_concentration=(8.0, 1.0),
    guess_concentration=(8.0, 2.0),
    guess_mean=2.0,
    consensus=1.5,
    trust=(0.2, 0.3),
    firmness=(1.0, 0.4),
)
"""Priors without the mass near zero and one that makes the default ones hard to integrate."""


def pool_of(n_raters, n_types, n_classes, *, leave_out=(), fixed=None, kinds=0, **options):
    """The pool of a model, without its PyMC variables; of kinds of items, if there are some."""
    fixed = {role: np.asarray(value) for role, value in (fixed or {}).items()}
    roles = [role for role in ROLES if role not in leave_out and role not in fixed]
    members = {role: Member(None, None) for role in roles}
    if kinds:
        options |= {"n_kinds": kinds}
    pool = TiltedRows if kinds else TypedRows
    return pool(members, n_raters, n_types, n_classes, fixed=fixed, **options)


def meaning(log_consensus, trust):
    """What consensus rows say of the truth, many along the first axis."""
    raised = np.exp(trust[:, None, None] * log_consensus)
    share = raised / raised.sum(axis=-1, keepdims=True)
    return FLOOR + (1 - FLOOR * log_consensus.shape[-1]) * share


def draw_prior(pool, size, rng):
    """Draw members by role, (size, …), as rows of logarithms; unit weights of imaginary items."""
    h, n_types, n_classes, n_raters = pool.priors, pool.n_types, pool.n_classes, pool.n_raters

    def scale(role, *shape):
        given = getattr(h, role)
        if role in ("trust", "firmness"):
            drawn = np.exp(rng.normal(*given, size=(size, *shape)))
        else:
            drawn = rng.gamma(given[0], 1 / given[1], size=(size, *shape))
        return np.full(size, pool.fixed[role]) if role in pool.fixed else drawn

    def rows(concentration, *shape):
        return draw_dirichlet(
            np.maximum(np.broadcast_to(concentration, (size, *shape)), LEAST), rng
        )

    found = {"type_concentration": scale("type_concentration")}
    found["type_share"] = rows(found["type_concentration"][:, None] / n_types, n_types)
    found["consensus"] = rows(h.consensus, n_types, n_classes)
    found["trust"], found["firmness"] = scale("trust"), scale("firmness")
    said = meaning(found["consensus"], found["trust"])
    found["class_of_type"] = rows(found["firmness"][:, None, None] * said, n_types, n_classes)
    found["competence_mean"] = rows(np.asarray(h.competence_mean), 2)
    found["guess_mean"] = rows(h.guess_mean, n_classes)
    for role, columns in (("competence", 2), ("guess", n_classes)):
        spread = found[f"{role}_concentration"] = scale(f"{role}_concentration")
        mean = np.exp(found[f"{role}_mean"])
        found[role] = rows((spread[:, None] * mean)[:, None], n_raters, columns)
    found["row_concentration"] = scale("row_concentration", n_types)
    return {role: found[role] for role in ROLES if role in pool.members}


def base_of(pool, values):
    """Return the rows around which those of the raters are, (size, raters, types, answers)."""
    consensus = np.exp(values["consensus"])[:, None]
    if "competence" not in pool.members:
        return np.repeat(consensus, pool.n_raters, axis=1)
    looks = np.exp(values["competence"][..., 0])[:, :, None, None]
    return looks * consensus + (1 - looks) * np.exp(values["guess"])[:, :, None]


def prevalence_of(values):
    """Return the shares of the classes, (size, classes)."""
    return np.einsum("sz,szk->sk", np.exp(values["type_share"]), np.exp(values["class_of_type"]))


def bounded(role, value):
    """Return a bounded function of members: all of a law whose tails may be heavy."""
    return value / (1 + value) if role in SCALES else np.exp(value)


def hard_crowd(seed, *, n_items=300, n_raters=8, n_classes=2):
    """Return responses and truth; on two items in five most raters are taken in, or nearly so."""
    rng = np.random.default_rng(seed)
    size = np.arange(2.0, n_classes + 2)
    truth = rng.choice(n_classes, n_items, p=size / size.sum())
    hard, mistaken = rng.random(n_items) < 0.4, rng.random(n_items) < 0.5
    share = np.where(hard, np.where(mistaken, 0.3, 0.7), 0.95)
    right = rng.random((n_items, n_raters)) < share[:, None]
    said = np.where(right, truth[:, None], (truth[:, None] + 1) % n_classes)
    said[rng.random(said.shape) < 0.1] = -1
    return bf.Responses.from_matrix(said, classes=range(n_classes)), truth
