"""Draws of known labels' weighted votes: normal given the spread τ of weights, and accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.vote_terms import Terms, contrasts
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation.evaluate import as_posterior
from bayesfuse.results import schema
from bayesfuse.results.build import build
from bayesfuse.results.contents import named
from bayesfuse.results.item_knowledge import averaged_knowledge
from bayesfuse.results.label_summary import LabelSummary
from bayesfuse.results.sampled_labels import SampledLabels
from bayesfuse.results.storage import Precision

# values of τ, as shares of its prior scale; those beyond have 5 % of the prior
GRID = np.exp(np.linspace(np.log(0.03), np.log(2.0), 9))
OVER = 4  # proposals per draw
MOST_RATERS = 1500  # raters with own weights in proposals, which take time to the power of three
VALUES = 4_000_000  # probabilities that are computed at a time


class Known:
    """Items with known labels: the density of the parameters given τ, and approximations to it.

    ``scales`` are standard deviations of priors, and the probability of nothing to correct. So
    many known labels count as one (``design_effect``).
    """

    def __init__(
        self,
        terms: Terms,
        items: NDArray[np.int64],
        label: NDArray[np.int64],
        scales: dict[str, float],
        error: float,
        design_effect: float,
    ) -> None:
        from scipy import sparse

        self.power = 1.0 / design_effect  # of the likelihood of a known label
        self.n_effective = len(items) / design_effect
        self.terms, self.items, self.label, self.scales = terms, items, label, scales
        n_items, n_classes = len(items), terms.log_mean.shape[1]
        # probability of the known label given the same class, and another one
        self.error, self.right, self.wrong = error, 1.0 - error, error / (n_classes - 1)
        inputs, votes = terms.rows(items)
        number = votes.getnnz(axis=0)
        by_number = np.sort(np.argsort(-number, kind="stable")[:MOST_RATERS])
        self.raters_with_gold = by_number[number[by_number] > 0]
        self.fixed, self.votes = sparse.csr_matrix(inputs), votes[:, self.raters_with_gold]
        spread = [scales["bias"]] * (n_classes - 1) + [scales["trust"]]
        spread += [scales["own_trust"]] * terms.deviations.shape[2]
        spread += [
            scales["weight_slope"],
            scales["weight_mean"],
            *[1.0] * len(self.raters_with_gold),
        ]
        self.mean = np.zeros(len(spread))
        self.mean[n_classes - 1] = 1.0
        self.precision = np.array(spread) ** -2.0
        self.constant = 0.5 * np.log(self.precision).sum()
        self.sums = sparse.kron(sparse.eye(n_items), np.ones((1, n_classes)), format="csr")

    def inputs(self, scale: float) -> Any:
        """Return the inputs of the logits (known items × classes, parameters) given τ."""
        from scipy import sparse

        return sparse.hstack([self.fixed, scale * self.votes], format="csr")

    def gold_likelihood(self, probability: Array) -> Array:
        """Return the probability of the known labels, (known items, draws), given the classes'."""
        probability_of_gold: Array = probability[np.arange(len(self.label)), self.label]
        return self.wrong + (self.right - self.wrong) * probability_of_gold

    def likelihood(self, logits: Array) -> tuple[Array, Array]:
        """Return the log likelihood (draws,) and probabilities (items × classes, draws)."""
        shaped = logits.reshape(len(self.label), -1, logits.shape[1])
        probability = scipy.special.softmax(shaped, axis=1)
        log_likelihood = self.power * np.log(self.gold_likelihood(probability)).sum(axis=0)
        return log_likelihood, probability.reshape(logits.shape)

    def value(self, inputs: Any, point: Array) -> tuple[float, Array]:
        """Return the log density at some parameters, and the probabilities there."""
        log_lik, probability = self.likelihood((inputs @ point)[:, None])
        prior = -0.5 * float(self.precision @ (point - self.mean) ** 2)
        return float(log_lik[0]) + prior, probability[:, 0]

    def mode(self, inputs: Any, point: Array) -> tuple[Array, Array, float]:
        """Return the mode, the root of the precision and the value there, by Newton's method."""
        from scipy import sparse
        from scipy.linalg import cho_solve, cholesky

        value, probability = self.value(inputs, point)
        # doubtful labels have less information, and at most this share of it where classes are even
        share = self.power * (self.right - self.wrong) ** 2
        at = np.arange(len(self.label)), self.label
        for _ in range(50):
            by_class = probability.reshape(len(self.label), -1)
            true = self.wrong * by_class  # given the known labels, too
            true[at] = self.right * by_class[at]
            true /= true.sum(axis=1, keepdims=True)
            slope = self.power * (inputs.T @ (true.ravel() - probability))
            slope -= self.precision * (point - self.mean)
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
                new, probability = self.value(inputs, point + length * step)
                if new >= value - 1e-9 or length < 1e-6:
                    break
                length /= 2
            point, value = point + length * step, new
        return point, root, value

    def propose(
        self, inputs: Any, mode: Array, root: Array, number: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Return draws (number, parameters) and the log density relative to the proposal's."""
        from scipy.linalg import solve_triangular

        noise = rng.standard_normal((len(self.mean), number))
        values = mode[:, None] + solve_triangular(root, noise, lower=True, trans="T")
        ratio = 0.5 * (noise**2).sum(axis=0) - np.log(np.diag(root)).sum() + self.constant
        ratio -= 0.5 * (self.precision @ (values - self.mean[:, None]) ** 2)
        length = max(VALUES // max(inputs.shape[0], 1), 1)
        for begin in range(0, number, length):
            some = slice(begin, begin + length)
            ratio[some] += self.likelihood(inputs @ values[:, some])[0]
        return values.T, ratio


def draw_parameters(
    known: Known, chains: int, draws: int, rng: np.random.Generator
) -> tuple[dict[str, Array], Array]:
    """Return draws of all variables of the model (chain, draw, …), and shares accepted."""
    terms, scales, n_classes = known.terms, known.scales, known.terms.log_mean.shape[1]
    n_parameters, n_fixed = len(known.mean), known.fixed.shape[1]
    log_prior = -0.5 * GRID**2 + np.log(GRID)  # half-normal, on a logarithmic grid
    log_prior -= np.log(np.exp(log_prior).sum()) - np.log1p(-scales["as_given"])
    grid = GRID * scales["weight_scale"]
    parts: list[tuple[Any, Array, Array]] = []
    evidence, point = [], known.mean
    for scale, prior in zip(grid, log_prior, strict=True):
        inputs = known.inputs(float(scale))
        point, root, value = known.mode(inputs, point)
        parts.append((inputs, point, root))
        evidence.append(value - np.log(np.diag(root)).sum() + known.constant + prior)
    if scales["as_given"]:
        likelihood, _ = known.likelihood(terms.log_mean[known.items].reshape(-1, 1))
        evidence.append(likelihood[0] + np.log(scales["as_given"]))
    share_of = np.exp(np.array(evidence) - max(evidence))
    share_of /= share_of.sum()

    size = len(known.label) * n_classes
    over = int(np.clip(2e8 / ((size + n_parameters) * chains * draws), 1, OVER))
    burn = max(draws * over // 10, 20)
    total = chains * (draws * over + burn)
    which = np.sort(rng.choice(len(evidence), total, p=share_of))
    values, ratio = np.empty((total, n_parameters)), -np.log(share_of[which])
    for number in np.unique(which):
        at = np.flatnonzero(which == number)
        if number == len(grid):  # nothing is observed of the parameters
            noise = rng.standard_normal((len(at), n_parameters))
            values[at] = known.mean + noise / np.sqrt(known.precision)
            ratio[at] += evidence[-1]
        else:
            inputs, point, root = parts[number]
            values[at], density = known.propose(inputs, point, root, len(at), rng)
            ratio[at] += density + log_prior[number]
    accepted_steps, accepted = _metropolis(ratio, chains, over, burn, rng)
    corrected = which[accepted_steps] < len(grid)
    spare = (
        np.abs(rng.standard_normal(accepted_steps.shape)) * scales["weight_scale"]
    )  # from the prior
    spread = np.where(corrected, grid[np.minimum(which[accepted_steps], len(grid) - 1)], spare)
    drawn = values[accepted_steps]
    offset = rng.standard_normal((chains, draws, len(terms.competence)))
    offset[..., known.raters_with_gold] = drawn[..., n_fixed:]
    slope, mean = drawn[..., n_fixed - 2], drawn[..., n_fixed - 1]
    expected = mean[..., None] + slope[..., None] * terms.competence
    draws_of: dict[str, Any] = {
        "bias": drawn[..., : n_classes - 1] @ contrasts(n_classes).T,
        "trust": drawn[..., n_classes - 1],
        "own_trust": drawn[..., n_classes : n_fixed - 2],
        "weight_slope": slope,
        "weight_mean": mean,
        "weight_scale": spread,
        "offset": offset,
        "weight": expected + spread[..., None] * offset,
        "corrected": corrected.astype(np.int64),
    }
    return draws_of, accepted


def _metropolis(
    ratio: Array, chains: int, over: int, burn: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Array]:
    """Return the proposals that chains keep (chain, draw), and shares accepted (chain,)."""
    order = rng.permutation(len(ratio)).reshape(chains, -1)
    chance = np.log(rng.random(order.shape))
    path, now, accepted = np.empty_like(order), order[:, 0], np.zeros(chains)
    for step, new in enumerate(order.T):
        better = chance[:, step] < ratio[new] - ratio[now]
        now, accepted = np.where(better, new, now), accepted + better
        path[:, step] = now
    return path[:, burn + over - 1 :: over], accepted / order.shape[1]


def sample_weights(
    model: Any,
    sampler: str,
    settings: Mapping[str, Any],
    refused: Mapping[str, Any],
    *,
    log_likelihood: bool,
    precision: Precision,
) -> xr.DataTree:
    """Return draws of a model of weighted votes as a result; ``settings`` are of ``pm.sample``."""
    if sampler not in ("auto", "nuts"):
        raise ModelError(
            f"WeightedVotes is drawn by its own sampler ('auto') or 'nuts'. Got: {sampler!r}."
        )
    if wrong := [name for name, value in refused.items() if value is not None]:
        raise ModelError(
            "Weighted votes are drawn independently from the mode of the posterior, so they have "
            f"no sweeps, start, thinning or chains to resume. Got: {wrong[0]}=."
        )
    rng = settings["random_seed"]
    if sampler == "nuts":
        drawn = pm.sample(**settings)
        posterior, stats = drawn["posterior"].dataset, drawn["sample_stats"].dataset
    else:
        values, accepted = draw_parameters(model.known, settings["chains"], settings["draws"], rng)
        values = {model.name_for(name): value for name, value in values.items()}
        here = sorted(values.keys() & model.named_vars.keys())
        posterior = as_posterior(model, {name: values[name] for name in here})
        rate = np.repeat(accepted[:, None], settings["draws"], axis=1)
        stats = xr.Dataset({"acceptance_rate": (("chain", "draw"), rate)})
    sampled, summary = _labels(posterior, model, rng)
    attributes = {
        "sampler": "nuts" if sampler == "nuts" else "independence Metropolis",
        "thin": 1,
        **model.notes,
    }
    if not log_likelihood:
        summary.log_likelihood = None
    return build(
        model,
        sampled.with_rater_tables(posterior, model),
        summary,
        {schema.SAMPLE_STATS: stats, **sampled.data()},
        attributes,
        precision=precision,
    )


def _labels(
    posterior: xr.Dataset, model: Any, rng: np.random.Generator
) -> tuple[SampledLabels, LabelSummary]:
    """Return labels drawn at every draw, and their summary with log likelihoods."""
    sizes = posterior.sizes["chain"], posterior.sizes["draw"]
    known = model.known
    sampled = SampledLabels(model.terms.responses, model.gold_codes, sizes, rng, known.error)
    items, average = known.items, scipy.special.softmax(model.terms.log_mean, axis=1)
    pointwise = np.empty((sizes[0] * sizes[1], len(items)))
    left_out_sum, left_out = np.zeros_like(average[items]), np.full_like(average, np.nan)
    for some, probability in by_part(model.terms, posterior):
        gold_likelihood = known.gold_likelihood(probability[items])
        pointwise[some] = np.log(gold_likelihood).T
        ratio = gold_likelihood[:, None] ** -known.power
        left_out_sum += (probability[items] * ratio).sum(axis=2)
        sampled.add(some, probability)
    left_out[items] = left_out_sum / left_out_sum.sum(axis=1, keepdims=True)
    summary = sampled.summary({"left_out": left_out, "given": average})
    weights = np.full(len(model.given_results), 1.0 / max(len(model.given_results), 1))
    if summary.probabilities is not None:
        labels, results = summary.probabilities, model.given_results
        summary.knowledge = averaged_knowledge(labels, results, weights)
    # draws of nothing to correct have equal values, for which ArviZ's leave-one-out has no tail
    pointwise += 1e-9 * rng.random(pointwise.shape)
    summary.log_likelihood = xr.Dataset(
        {model.name_for("label"): (("chain", "draw", "item"), pointwise.reshape(*sizes, -1))},
        {"item": model.terms.responses.items[items]},
    )
    return sampled, summary


def by_part(terms: Terms, posterior: xr.Dataset) -> Any:
    """Yield slices of draws with their label probabilities (items, classes, draws).

    Items without responses keep the given probabilities, because known labels carry no information
    about them.
    """
    total = posterior.sizes["chain"] * posterior.sizes["draw"]
    n_items, n_classes = terms.log_mean.shape

    def flat(name: str) -> Array:
        values = named(posterior, name)
        if values is None:
            return np.ones(total) if name == "corrected" else np.zeros((total, 0))
        return np.asarray(values.values, dtype=float).reshape(total, *values.shape[2:])

    names = ("bias", "trust", "own_trust", "weight", "corrected")
    bias, trust, member_trust, weight, corrected = map(flat, names)
    answered = terms.answered
    length = max(VALUES // max(n_items * n_classes, terms.votes.nnz), 1)
    for begin in range(0, total, length):
        some = slice(begin, begin + length)
        logits = (terms.votes @ weight[some].T).reshape(n_items, n_classes, -1)
        logits += bias[some].T + terms.log_mean[:, :, None] * trust[some]
        if member_trust.size:
            logits += terms.deviations @ member_trust[some].T
        is_average = ~answered[:, None, None] | (corrected[some] == 0)
        logits = np.where(is_average, terms.log_mean[:, :, None], logits)
        yield some, scipy.special.softmax(logits, axis=1)
