"""Weighted votes: the logit of an item's class from label probabilities and responses.

Known labels are the data of :class:`bayesfuse.models.WeightedVotes`, and responses its inputs. All
its parameters are normal given the spread τ of the raters' weights, so that the posterior is near
a normal distribution for every τ. Draws are proposed from these distributions on a grid of τ, and
accepted by independence Metropolis, so they have the posterior that NUTS draws from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.vote_terms import Terms, contrasts
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.pymc.evaluate import as_posterior
from bayesfuse.results.contents import named
from bayesfuse.results.joint_labels import LabelDraws
from bayesfuse.results.posterior import order_variables

GRID = np.exp(np.linspace(np.log(0.03), np.log(2.0), 9))
"""Values of τ, as shares of its prior scale; those beyond have 5 % of the prior."""

OVER = 4  # proposals per draw
MOST_RATERS = 1500  # raters with own weights in proposals, which take time to the power of three
VALUES = 4_000_000  # probabilities that are computed at a time


@dataclass(frozen=True)
class Scales:
    """Standard deviations of the priors, and the probability that there is nothing to correct."""

    bias: float
    trust: float
    own_trust: float
    weight_slope: float
    weight_mean: float
    weight_scale: float
    as_given: float


@dataclass(frozen=True)
class Known:
    """Items with known labels, in the terms of the logit."""

    terms: Terms
    items: NDArray[np.int64]
    label: NDArray[np.int64]
    scales: Scales
    error: float = 0.0

    @property
    def chance(self) -> Array:
        """Probability of the known label given each class (known items, classes)."""
        n_classes = self.terms.given.shape[1]
        found = np.full((len(self.label), n_classes), self.error / (n_classes - 1))
        found[np.arange(len(self.label)), self.label] = 1.0 - self.error
        return found


@dataclass(frozen=True)
class Component:
    """A normal distribution of the parameters given τ; of nothing to correct, τ is zero."""

    scale: float
    inputs: Any
    mode: Array
    root: Array
    weight: float  # log prior probability


def draw_parameters(
    known: Known, chains: int, draws: int, rng: np.random.Generator
) -> tuple[dict[str, Array], Array]:
    """Return draws of all variables of the model (chain, draw, …), and shares accepted."""
    from scipy import sparse

    terms, scales, n_classes = known.terms, known.scales, known.terms.given.shape[1]
    inputs, votes = terms.rows(known.items)
    number = votes.getnnz(axis=0)
    own = np.sort(np.argsort(-number, kind="stable")[:MOST_RATERS])
    own = own[number[own] > 0]
    density = _Density(known, len(own))
    log_prior = -0.5 * GRID**2 + np.log(GRID)  # half-normal, on a logarithmic grid
    log_prior -= np.log(np.exp(log_prior).sum()) - np.log1p(-scales.as_given)
    parts, evidence, point = [], [], density.mean
    fixed = sparse.csr_matrix(inputs)
    for share, prior in zip(GRID, log_prior, strict=True):
        scale = float(share * scales.weight_scale)
        part = sparse.hstack([fixed, scale * votes[:, own]], format="csr")
        point, root, value = density.mode(part, point)
        parts.append(Component(scale, part, point, root, float(prior)))
        evidence.append(value - np.log(np.diag(root)).sum() + density.constant + prior)
    if scales.as_given:
        evidence.append(density.as_given() + np.log(scales.as_given))
    share_of = np.exp(np.array(evidence) - max(evidence))
    share_of /= share_of.sum()

    size = len(known.label) * n_classes
    over = int(np.clip(2e8 / ((size + len(density.mean)) * chains * draws), 1, OVER))
    burn = max(draws * over // 10, 20)
    total = chains * (draws * over + burn)
    which = np.sort(rng.choice(len(evidence), total, p=share_of))
    values, ratio = np.empty((total, len(density.mean))), np.zeros(total)
    for number_of in np.unique(which):
        at = np.flatnonzero(which == number_of)
        if number_of == len(parts):  # nothing is observed of the parameters
            values[at] = density.prior(len(at), rng)
            ratio[at] = evidence[-1] - np.log(share_of[-1])
            continue
        component = parts[number_of]
        values[at], ratio[at] = density.propose(component, len(at), rng)
        ratio[at] -= np.log(share_of[number_of])
    kept, accepted = _metropolis(ratio, chains, draws, over, burn, rng)
    corrected = which[kept] < len(parts)
    grid = np.array([part.scale for part in parts])
    spare = np.abs(rng.standard_normal(kept.shape)) * scales.weight_scale  # from the prior
    spread = np.where(corrected, grid[np.minimum(which[kept], len(parts) - 1)], spare)
    drawn, n_fixed = values[kept], inputs.shape[1]
    offset = rng.standard_normal((chains, draws, votes.shape[1]))
    offset[..., own] = drawn[..., n_fixed:]
    found: dict[str, Any] = {
        "bias": drawn[..., : n_classes - 1] @ contrasts(n_classes).T,
        "trust": drawn[..., n_classes - 1],
        "own_trust": drawn[..., n_classes : n_fixed - 2],
        "weight_slope": drawn[..., n_fixed - 2],
        "weight_mean": drawn[..., n_fixed - 1],
        "weight_scale": spread,
        "offset": offset,
        "corrected": corrected.astype(np.int64),
    }
    expected = found["weight_mean"][..., None] + found["weight_slope"][..., None] * terms.competence
    found["weight"] = expected + spread[..., None] * offset
    return found, accepted


class _Density:
    """The logarithm of the posterior of the parameters given τ, and its approximations."""

    def __init__(self, known: Known, n_raters: int) -> None:
        from scipy import sparse

        scales, (_, n_classes) = known.scales, known.terms.given.shape
        n_results = known.terms.apart.shape[2]
        spread = [scales.bias] * (n_classes - 1) + [scales.trust]
        spread += [scales.own_trust] * n_results
        spread += [scales.weight_slope, scales.weight_mean, *[1.0] * n_raters]
        self.mean = np.zeros(len(spread))
        self.mean[n_classes - 1] = 1.0
        self.precision = np.array(spread) ** -2.0
        self.constant = 0.5 * np.log(self.precision).sum()
        self.known, self.n_classes = known, n_classes
        n_items = len(known.label)
        self.observed = np.arange(n_items) * n_classes + known.label
        self.chance = known.chance[:, :, None]
        self.sums = sparse.kron(sparse.eye(n_items), np.ones((1, n_classes)), format="csr")

    def as_given(self) -> float:
        """Return the log likelihood of the given probabilities."""
        logits = self.known.terms.given[self.known.items].reshape(-1, 1)
        return float(self._likelihood(logits)[0][0])

    def _likelihood(self, logits: Array) -> tuple[Array, Array]:
        """Return the log likelihood (draws,) and probabilities (items × classes, draws)."""
        shaped = logits.reshape(-1, self.n_classes, logits.shape[1])
        probability, norm = softmax(shaped)
        if self.known.error:
            found = np.log((probability * self.chance).sum(axis=1)).sum(axis=0)
        else:
            found = logits[self.observed].sum(axis=0) - norm.sum(axis=0)
        return found, probability.reshape(logits.shape)

    def _value(self, inputs: Any, point: Array) -> tuple[float, Array]:
        found, probability = self._likelihood((inputs @ point)[:, None])
        prior = -0.5 * float(self.precision @ (point - self.mean) ** 2)
        return float(found[0]) + prior, probability[:, 0]

    def mode(self, inputs: Any, point: Array) -> tuple[Array, Array, float]:
        """Return the mode, the root of the precision and the value there, by Newton's method."""
        from scipy import sparse
        from scipy.linalg import cho_solve, cholesky

        value, probability = self._value(inputs, point)
        # doubtful labels have less information, and at most this share of it where classes are even
        share = (1.0 - self.known.error * self.n_classes / (self.n_classes - 1)) ** 2
        for _ in range(50):
            error = self._true(probability) - probability
            slope = inputs.T @ error - self.precision * (point - self.mean)
            weighed = sparse.diags(probability) @ inputs
            sums = self.sums @ weighed
            curvature = share * (inputs.T @ weighed - sums.T @ sums).toarray()
            curvature += np.diag(self.precision)
            root = cholesky(curvature, lower=True)
            step = cho_solve((root, True), slope)
            if slope @ step < 1e-8:
                break
            length = 1.0
            while True:
                new, probability = self._value(inputs, point + length * step)
                if new >= value - 1e-9 or length < 1e-6:
                    break
                length /= 2
            point, value = point + length * step, new
        return point, root, value

    def _true(self, probability: Array) -> Array:
        """Return the probabilities of the classes given the known labels, too."""
        if not self.known.error:
            return np.bincount(self.observed, minlength=len(probability)).astype(float)
        found = probability.reshape(-1, self.n_classes) * self.chance[:, :, 0]
        return (found / found.sum(axis=1, keepdims=True)).ravel()

    def prior(self, number: int, rng: np.random.Generator) -> Array:
        """Return draws from the prior (number, parameters)."""
        return self.mean + rng.standard_normal((number, len(self.mean))) / np.sqrt(self.precision)

    def propose(
        self, part: Component, number: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Return draws (number, parameters) and the log density relative to the proposal's."""
        from scipy.linalg import solve_triangular

        noise = rng.standard_normal((len(self.mean), number))
        values = part.mode[:, None] + solve_triangular(part.root, noise, lower=True, trans="T")
        ratio = 0.5 * (noise**2).sum(axis=0) - np.log(np.diag(part.root)).sum()
        ratio -= 0.5 * (self.precision @ (values - self.mean[:, None]) ** 2)
        length = max(VALUES // max(part.inputs.shape[0], 1), 1)
        for begin in range(0, number, length):
            some = slice(begin, begin + length)
            ratio[some] += self._likelihood(part.inputs @ values[:, some])[0]
        return values.T, ratio + part.weight + self.constant


def _metropolis(
    ratio: Array, chains: int, draws: int, over: int, burn: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Array]:
    """Return the proposals that chains keep (chain, draw), and shares accepted (chain,)."""
    order = rng.permutation(len(ratio)).reshape(chains, -1)
    chance = np.log(rng.random(order.shape))
    kept = np.empty((chains, draws), dtype=np.int64)
    accepted = np.zeros(chains)
    for chain in range(chains):
        now = order[chain, 0]
        for step, new in enumerate(order[chain]):
            if chance[chain, step] < ratio[new] - ratio[now]:
                now, accepted[chain] = new, accepted[chain] + 1
            if step >= burn and (step - burn) % over == over - 1:
                kept[chain, (step - burn) // over] = now
    return kept, accepted / order.shape[1]


def softmax(logits: Array) -> tuple[Array, Array]:
    """Return probabilities (items, classes, draws) and log normalisers (items, draws)."""
    top = logits.max(axis=1, keepdims=True)
    shares = np.exp(logits - top)
    norm = shares.sum(axis=1, keepdims=True)
    return shares / norm, (top + np.log(norm))[:, 0]


def sample_weights(
    model: Any, sampler: str, settings: Mapping[str, Any], refused: Mapping[str, Any]
) -> xr.DataTree:
    """Return draws of a model of weighted votes as a result; ``settings`` are of ``pm.sample``."""
    if sampler not in ("auto", "nuts"):
        raise ModelError(
            f"WeightedVotes is drawn by its own sampler ('auto') or 'nuts'. Got: {sampler!r}."
        )
    if wrong := [name for name, value in refused.items() if value is not None]:
        raise ModelError(
            "Weighted votes are drawn independently from the mode of the posterior, so they have "
            f"no sweeps, start or thinning. Got: {wrong[0]}=."
        )
    rng = settings["random_seed"]
    if sampler == "nuts":
        result = pm.sample(**settings)
    else:
        drawn, accepted = draw_parameters(model.known, settings["chains"], settings["draws"], rng)
        values = {model.name_for(name): value for name, value in drawn.items()}
        here = sorted(values.keys() & model.named_vars.keys())
        posterior = as_posterior(model, {name: values[name] for name in here})
        rate = np.repeat(accepted[:, None], settings["draws"], axis=1)
        pair = {dim: posterior[dim].values for dim in ("chain", "draw")}
        stats = xr.Dataset({"acceptance_rate": (("chain", "draw"), rate)}, pair)
        result = xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})
    add_labels(result, model, rng)
    order_variables(result)
    result.attrs |= {"sampler": "nuts" if sampler == "nuts" else "independence Metropolis"}
    result.attrs |= {"thin": 1, **model.notes}
    return result


def add_labels(result: xr.DataTree, model: Any, rng: np.random.Generator) -> None:
    """Add labels, rater tables and log likelihoods that follow from draws of the parameters."""
    posterior = result["posterior"].dataset
    sizes = posterior.sizes["chain"], posterior.sizes["draw"]
    known = model.known
    summed = LabelDraws(model.terms.responses, model.gold_codes, sizes, rng, known.error)
    items, chance = known.items, known.chance[:, :, None]
    pointwise = np.empty((sizes[0] * sizes[1], len(items)))
    apart = np.zeros((len(items), chance.shape[1]))
    for some, probability in each_part(model.terms, posterior):
        seen = (probability[items] * chance).sum(axis=1)
        pointwise[some] = np.log(seen).T
        apart += (probability[items] / seen[:, None]).sum(axis=2)
        summed.add(some, probability)
    honest = np.full((len(model.gold_codes), chance.shape[1]), np.nan)
    honest[items] = apart / apart.sum(axis=1, keepdims=True)
    given = softmax(model.terms.given[:, :, None])[0][:, :, 0]
    summed.store(result, model, {"left_out": honest, "given": given})
    dims = ("chain", "draw", "item")
    names = model.terms.responses.items[items]
    # draws of nothing to correct have equal values, for which ArviZ's leave-one-out has no tail
    pointwise += 1e-9 * rng.random(pointwise.shape)
    values = pointwise.reshape(*sizes, -1)
    coords = {"chain": posterior["chain"], "draw": posterior["draw"], "item": names}
    name = model.name_for("label")
    result["log_likelihood"] = xr.DataTree(xr.Dataset({name: (dims, values)}, coords))


def each_part(terms: Terms, posterior: xr.Dataset) -> Any:
    """Yield draws, as slices, with their label probabilities (items, classes, draws).

    Items without responses keep the given probabilities: known labels of items with responses say
    nothing of them.
    """
    total = posterior.sizes["chain"] * posterior.sizes["draw"]
    n_items, n_classes = terms.given.shape

    def flat(name: str) -> Array:
        values = named(posterior, name)
        if values is None:
            return np.ones(total) if name == "corrected" else np.zeros((total, 0))
        return np.asarray(values.values, dtype=float).reshape(total, *values.shape[2:])

    names = ("bias", "trust", "own_trust", "weight", "corrected")
    bias, trust, own_trust, weight, corrected = map(flat, names)
    answered = terms.answered
    length = max(VALUES // max(n_items * n_classes, terms.votes.nnz), 1)
    for begin in range(0, total, length):
        some = slice(begin, begin + length)
        logits = (terms.votes @ weight[some].T).reshape(n_items, n_classes, -1)
        logits += bias[some].T + terms.given[:, :, None] * trust[some]
        if own_trust.size:
            logits += terms.apart @ own_trust[some].T
        as_given = ~answered[:, None, None] | (corrected[some] == 0)
        yield some, softmax(np.where(as_given, terms.given[:, :, None], logits))[0]
