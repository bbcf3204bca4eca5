"""Posteriors without the package's samplers: draws from the prior, weighted by enumeration."""

from itertools import product

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from scipy.special import logsumexp

from bayesfuse.parameters.compiled import without_compilation


def log_rows_of(responses, confusion):
    """Return log p(responses to n | class), (draws, items, classes), response by response."""
    found = np.zeros((len(confusion), responses.n_items, confusion.shape[2]))
    for n, m, c in zip(responses.item, responses.rater, responses.label, strict=True):
        found[:, n] += np.log(confusion[:, m, :, c])
    return found


def by_item(log_share):
    """Return a function for independent labels with log shares (draws, items, classes)."""
    return lambda labels: log_share[:, np.arange(len(labels)), labels].sum(axis=1)


def enumerated(log_prior, log_likelihood, gold):
    """Return log evidence (draws,), labels (draws, items, classes), and pairs of one class.

    ``log_prior`` returns the log probability (draws,) of the labels of all items.
    """
    n_draws, n_items, n_classes = log_likelihood.shape
    every = [
        np.array(labels)
        for labels in product(range(n_classes), repeat=n_items)
        if all(labels[n] == k for n, k in gold.items())
    ]
    log_joint = np.stack(
        [log_prior(one) + by_item(log_likelihood)(one) for one in every], axis=1
    )  # (draws, labellings)
    log_evidence = logsumexp(log_joint, axis=1)
    weight = np.exp(log_joint - log_evidence[:, None])
    labels = np.zeros((n_draws, n_items, n_classes))
    together = np.zeros((n_draws, n_items, n_items))
    for one, share in zip(every, weight.T, strict=True):
        labels[:, np.arange(n_items), one] += share[:, None]
        together += share[:, None, None] * (one[:, None] == one)
    return log_evidence, labels, together


def drawn_together(variables, draws, seed):
    """Draw from the prior by one call of the graph; :func:`pymc.draw` calls it for every draw."""
    is_contrast = [getattr(v.owner.op, "name", None) == "ZeroSumNormal" for v in variables]
    sigmas = [  # of contrasts, whose graphs PyTensor cannot repeat for other values
        v.owner.op.dist_params(v.owner)[0] if contrast else v
        for v, contrast in zip(variables, is_contrast, strict=True)
    ]
    owners = dict.fromkeys(variable.owner for variable in ancestors(sigmas) if variable.owner)
    nodes = [node for node in owners if isinstance(node.op, RandomVariable)]
    random = {output for node in nodes for output in node.outputs}
    batches = {}
    for node in nodes:  # those of fixed parameters; the others follow
        parameter, *others = node.op.dist_params(node)
        if random.isdisjoint(ancestors([parameter, *others])):
            batches[parameter] = pt.broadcast_to(parameter, (draws, *parameter.shape))
    with without_compilation():
        drawn = pm.draw(vectorize_graph(sigmas, batches), random_seed=seed)
    rng = np.random.default_rng(seed)
    for place in np.flatnonzero(is_contrast):
        shape = draws, *variables[place].shape.eval()
        scale = np.expand_dims(drawn[place], tuple(range(1, 1 + len(shape) - drawn[place].ndim)))
        normal = scale * rng.normal(size=shape)
        drawn[place] = normal - normal.mean(axis=-1, keepdims=True)
    return drawn


class Reference:
    """Posterior means and their standard errors, from weighted draws of a model's prior."""

    def __init__(self, model, names, evaluate, *, draws=20_000, seed=0):
        variables = [model[name] for name in names]
        drawn = drawn_together(variables, draws, seed)
        self.values = dict(zip(names, drawn, strict=True))
        log_evidence, labels, together = evaluate(self.values)
        weight = np.exp(log_evidence - log_evidence.max())
        self.weight = weight / weight.sum()
        self.effective = 1 / (self.weight**2).sum()
        self.log_evidence = logsumexp(log_evidence) - np.log(draws)
        self.labels, self.together = labels, together

    def mean(self, values):
        """Return the mean of values (draws, …) and its standard error."""
        mean = np.tensordot(self.weight, values, 1)
        return mean, np.sqrt(np.tensordot(self.weight**2, (values - mean) ** 2, 1))

    def assert_equals(self, result, *, sigmas=5.0):
        """Fail if means of a result's parameters or labels differ by more than is chance."""
        posterior, labels = result["posterior"].dataset, result["label_posterior"].dataset
        pairs = {"labels": (labels["probability"].values, labels["mcse"].values, self.labels)}
        for name, values in self.values.items():
            error = az.mcse(posterior[[name]])[name].values
            mean = posterior[name].mean(("chain", "draw")).values
            pairs[name] = mean, np.nan_to_num(error), values
        for name, (found, error, values) in pairs.items():
            mean, own_error = self.mean(values)
            allowed = sigmas * np.hypot(own_error, error) + 1e-6
            excess = np.abs(found - mean) / allowed
            place = np.unravel_index(np.argmax(excess), excess.shape)
            assert excess[place] <= 1, (
                f"{name}: worst at {place}: {found[place]:.4f} and {mean[place]:.4f}, allowed "
                f"{allowed[place]:.4f}, effective draws {self.effective:.0f}"
            )
