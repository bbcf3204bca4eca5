"""Sets of labels: whether an item has each label depends on the item's profile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.errors import ModelError
from bayesfuse.labels.base import LabelPrior, Words
from bayesfuse.labels.profile_kernels import draw_labels, marginal
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.capabilities import Capabilities
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.simplex import PROBABILITY, SIMPLEX

CLUSTER_STEPS = 10  # of the clustering of items by which profiles begin
SHARPNESS = 4.0  # of the shares of profiles in an item, per unit of squared distance


class Profiles(LabelPrior):
    r"""Labels of items that may have several: every item has a hidden profile.

    Whether item n has label l is a binary question. Questions are independent given the profile
    :math:`z_n` of the item, so labels occur together as far as profiles differ:

    .. math:: z_n \sim w, \qquad p(y_{nl} = 1 \mid z_n = z) = \rho_{zl}

    The items of the table are the questions, those of an item in a row.

    Parameters
    ----------
    profile_share : tensor or array, shape (profiles,)
        :math:`w`.
    label_rate : tensor or array, shape (profiles, labels)
        :math:`\rho`.
    item, label : array of int, shape (questions,)
        Number of the item and of the label of every question; items do not decrease.
    names : sequence, shape (items,), optional
        Names of the items; default their numbers.

    References
    ----------
    Lazarsfeld & Henry (1968), Latent structure analysis.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> share, rate = np.array([0.5, 0.5]), np.array([[0.9, 0.9], [0.1, 0.1]])
    >>> prior = bf.build.Profiles(share, rate, item=[0, 0], label=[0, 1])
    >>> tables = np.log(share), np.log(np.stack([rate, 1 - rate], axis=-1))
    >>> likelihood = np.array([[0.1, 0.9], [0.5, 0.5]])  # the second label follows the first
    >>> posterior = prior.marginal(tables, likelihood, np.zeros(2), prior.structure(None))
    >>> posterior.probability[:, 1].round(2).tolist()
    [0.9, 0.76]
    """

    declared = (
        Parameter("profile_share", SIMPLEX, ("profile",)),
        Parameter("label_rate", PROBABILITY, ("profile", "set_label")),
    )
    words = Words("sum over profiles of items", "labels of the most probable profiles")
    unit = "set"
    capabilities = Capabilities(decodes_exactly=False, adds_states=True)
    marginal_kernel = staticmethod(marginal)

    def __init__(
        self,
        profile_share: Any,
        label_rate: Any,
        *,
        item: ArrayLike,
        label: ArrayLike,
        names: Any = None,
    ) -> None:
        self.parameters = {"profile_share": profile_share, "label_rate": label_rate}
        self.n_profiles = int(getattr(profile_share, "type", profile_share).shape[0])
        self.item, self.label = (np.asarray(numbers, dtype=np.int64) for numbers in (item, label))
        if self.item.shape != self.label.shape or (np.diff(self.item) < 0).any():
            raise ModelError(
                "item= and label= must hold a number for every question, the questions of an item "
                f"in a row. Got: shapes {self.item.shape} and {self.label.shape}."
            )
        _, self.first = np.unique(self.item, return_index=True)
        self.names = np.arange(len(self.first)) if names is None else np.asarray(names)

    @classmethod
    def rebuild_for(cls, values, settings, **places):
        raise ModelError(
            "Sets of labels of new items are not predicted, because their questions are not part "
            "of a result: fit the model to all items. Got: new items."
        )

    def check(self, shapes, responses):
        if responses.n_classes != 2 or responses.n_items != len(self.item):
            raise ModelError(
                "Profiles are of binary questions, one for every entry of item= and label=. Got: "
                f"{responses.n_items} questions with {responses.n_classes} classes for "
                f"{len(self.item)} entries."
            )
        super().check(shapes, responses)

    def sizes(self, name, shape, responses):
        sizes = {"profile": shape[0] or 0, "set_label": int(self.label.max(initial=-1)) + 1}
        return super().sizes(name, shape, responses) | sizes

    def structure(self, responses):
        return np.append(self.first, len(self.item)), self.label

    def units(self, responses):
        return self.names

    def unit_of(self, responses):
        return np.unique(self.item, return_inverse=True)[1]

    def draw(self, log_parameters, likelihood, structure, rng, previous=None):
        uniform = rng.random((len(likelihood), 2))
        return draw_labels(*log_parameters, likelihood, uniform, *structure)

    def sample_counts(self, drawn, structure, n_classes):
        start, label = structure
        weight = self._shares_of_profiles(drawn, structure)  # (items, profiles)
        by_question = np.repeat(weight, np.diff(start), axis=0)
        has_label = drawn[:, 1] if drawn.ndim == 2 else drawn % n_classes
        rates = np.zeros((self.n_profiles, int(label.max()) + 1, 2))
        for column, share in enumerate((has_label, 1 - has_label)):
            for z in range(self.n_profiles):
                rates[z, :, column] = np.bincount(label, share * by_question[:, z], rates.shape[1])
        return weight.sum(axis=0), rates

    def _shares_of_profiles(self, drawn: NDArray[Any], structure: Any) -> Array:
        """Return the drawn profile of every item or, of label probabilities, those of clusters."""
        start, label = structure
        if drawn.ndim == 1:
            return np.eye(self.n_profiles)[drawn[start[:-1]] // 2]
        n_items = len(start) - 1
        table = np.full((n_items, int(label.max()) + 1), drawn[:, 1].mean())
        table[np.repeat(np.arange(n_items), np.diff(start)), label] = drawn[:, 1]
        rng = np.random.default_rng(0)
        chosen = rng.choice(n_items, self.n_profiles, replace=n_items < self.n_profiles)
        centre = table[chosen]  # (profiles, labels)
        for _ in range(CLUSTER_STEPS):
            distance = ((table[:, None] - centre) ** 2).sum(axis=2)
            weight = np.exp(-SHARPNESS * (distance - distance.min(axis=1, keepdims=True)))
            weight /= weight.sum(axis=1, keepdims=True)
            centre = (weight.T @ table + table.mean(axis=0)) / (weight.sum(axis=0)[:, None] + 1.0)
        return weight

    def decode(self, log_parameters, likelihood, structure):
        start, label = structure
        n_items = np.diff(start)
        with np.errstate(divide="ignore"):
            log_likelihood = np.log(likelihood)
        log_rate = log_parameters[1][:, label, ::-1]  # (profiles, questions, classes)
        joint = log_rate + log_likelihood
        height = np.add.reduceat(joint.max(axis=2), start[:-1], axis=1)  # (profiles, items)
        best = (log_parameters[0][:, None] + height).argmax(axis=0)
        return joint[np.repeat(best, n_items), np.arange(len(label))].argmax(axis=1)

    def log_prob(self, log_parameters, labels, structure):
        certain = np.eye(2)[labels % 2]
        return float(self.marginal(log_parameters, certain, np.zeros(len(labels)), structure).total)

    def prevalence(self, parameters, n_classes, structure, xp):
        share, rate = parameters
        number = np.bincount(structure[1]) / len(structure[1])
        mean = (xp.dot(share, rate) * number).sum()
        return xp.stack([1.0 - mean, mean])
