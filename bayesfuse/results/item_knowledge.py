"""Prior probabilities of single items under a label prior, and the inputs they depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.labels.independent import Independent
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.tables import SMALLEST
from bayesfuse.observation import LogParameters, ResponseModel
from bayesfuse.results import schema
from bayesfuse.results.contents import constants, named

BEFORE = "population_index", "covariate_mean", "classifier_mean"
"""Variables of constant_data of models whose prior differs between items."""

TINY = 1e-9  # shares below it are rounding errors


class ItemKnowledge(NamedTuple):
    """Prior probabilities (items, classes) and the inputs that they depend on, of a result."""

    prior: Array
    population: NDArray[np.int64] | None = None
    inputs: Array | None = None
    depends: bool = False
    share: float = 1.0

    @property
    def has_common_prior(self) -> bool:
        """Return whether the prior is the same for all items."""
        return self.population is None and self.inputs is None and not self.depends

    def unexplained(self, code: NDArray[np.int64]) -> Array:
        """Return the share of the variance of every group's indicator that inputs leave (groups,).

        0 for groups of which the model knows the share: those spanned by the inputs of its prior.
        """
        n_groups = int(code.max()) + 1
        if self.depends:
            return np.zeros(n_groups)
        if self.has_common_prior:
            return np.ones(n_groups)
        size = np.bincount(code)
        total = size * (1.0 - size / len(code))
        population = np.zeros_like(code) if self.population is None else self.population
        count = np.bincount(population)
        cell = np.bincount(code * len(count) + population, minlength=n_groups * len(count))
        both = cell.reshape(n_groups, -1)
        left = size - (both**2 / np.maximum(count, 1)).sum(axis=1)
        if self.inputs is not None and self.inputs.shape[1]:
            mean = np.zeros((len(count), self.inputs.shape[1]))
            np.add.at(mean, population, self.inputs)
            within = self.inputs - (mean / np.maximum(count, 1)[:, None])[population]
            basis, scale, _ = np.linalg.svd(within, full_matrices=False)
            basis = basis[:, scale > 1e-8 * max(scale.max(initial=0.0), SMALLEST)]
            along = np.zeros((n_groups, basis.shape[1]))
            np.add.at(along, code, basis)  # columns have mean zero in every population
            left = left - (along**2).sum(axis=1)
        share = np.where(left > TINY * len(code), left / np.maximum(total, TINY), 0.0)
        return 1.0 - self.share * (1.0 - np.clip(share, 0.0, 1.0))


DEPENDENT = ItemKnowledge(np.zeros((0, 0)), depends=True)
"""Labels depend on those of other items, or on inputs that are not stored."""


def prior_knowledge(
    observation: ResponseModel, points: Iterable[LogParameters]
) -> ItemKnowledge | None:
    """Return the prior probabilities of items, averaged over some draws; None if all are equal."""
    labels = observation.labels
    if not isinstance(labels, Independent) or labels.axis == "item":
        return DEPENDENT
    if labels.population is None:
        return None
    place, number, total = observation.full_structure[1], 0, np.zeros(1)
    for rows in points:
        total, number = total + np.exp(observation.label_tables(rows)[0]), number + 1
    return ItemKnowledge((total / number)[place], *_inputs(labels))


def _inputs(labels: Independent) -> tuple[NDArray[np.int64] | None, Array | None]:
    """Return the population of every item, and numeric inputs (items, inputs)."""
    kind: NDArray[np.int64] = np.asarray(labels.population, dtype=np.int64)
    if not labels.inputs:
        return kind, None
    known = dict(zip(labels.needs, labels.inputs, strict=True))
    population, columns = known.get("populations"), [known.get("covariates")]
    if (word := known.get("classifier")) is not None:
        columns.append(word[:, 1:] - word[:, :1])
    inputs = [column[kind] for column in columns if column is not None]
    code = None if population is None else np.asarray(population, dtype=np.int64)[kind]
    return code, np.hstack(inputs) if inputs else None


def store(groups: dict[str, xr.Dataset], known: ItemKnowledge | None) -> None:
    """Add the prior probabilities of items to the groups of a result."""
    labels = groups.get(schema.LABEL_POSTERIOR)
    if known is None or labels is None:
        return
    if known.depends:
        groups[schema.LABEL_POSTERIOR] = labels.assign_attrs({schema.LABELS_DEPEND: 1})
        return
    labels = labels.assign({schema.PRIOR: (("item", "class"), known.prior)})
    groups[schema.LABEL_POSTERIOR] = labels.assign_attrs({schema.KNOWLEDGE_SHARE: known.share})
    data = groups.get(schema.CONSTANT_DATA, xr.Dataset())
    if known.population is not None:
        data = data.assign({schema.ITEM_POPULATION: ("item", known.population)})
    if known.inputs is not None:
        data = data.assign({schema.ITEM_INPUTS: (("item", "input"), known.inputs)})
    groups[schema.CONSTANT_DATA] = data


def stored(result: xr.DataTree) -> ItemKnowledge:
    """Return the stored prior probabilities of items, or the average prevalence."""
    labels, data = result["label_posterior"].dataset, constants(result)
    probability = labels["probability"].transpose("item", "class").values
    depends = bool(labels.attrs.get(schema.LABELS_DEPEND, 0)) or "sequence_index" in data
    if "label_draws" in result.children and "chain" in result["label_draws"].dims:
        depends = True
    if schema.PRIOR in labels:
        population, inputs = data.get(schema.ITEM_POPULATION), data.get(schema.ITEM_INPUTS)
        return ItemKnowledge(
            labels[schema.PRIOR].transpose("item", "class").values,
            None if population is None else population.values.astype(np.int64),
            None if inputs is None else inputs.transpose("item", "input").values,
            depends,
            float(labels.attrs.get(schema.KNOWLEDGE_SHARE, 1.0)),
        )
    # of versions that did not store priors
    depends |= any(str(name).endswith(BEFORE) for name in data.data_vars)
    share = None
    if "posterior" in result.children:
        share = named(result["posterior"].dataset, "prevalence")
    mean = probability.mean(axis=0)
    if share is not None and set(share.dims) == {"chain", "draw", "class"}:
        mean = share.mean(("chain", "draw")).values
    return ItemKnowledge(np.tile(mean, (len(probability), 1)), depends=depends)


def averaged_knowledge(
    labels: xr.Dataset, results: Mapping[str, xr.DataTree], weights: Array
) -> ItemKnowledge | None:
    """Return the prior probabilities of items in a mixture of models; vote shares have none."""
    prior: Array = np.zeros((1, 1))
    total, informed = 0.0, 0.0  # weights of all models, and of those that know something
    inputs_of: tuple[NDArray[np.int64] | None, Array | None] | None = (
        None  # of the first that knows something
    )
    for result, weight in zip(results.values(), weights, strict=True):
        if schema.LABEL_POSTERIOR not in result.children or weight == 0.0:
            continue
        known, labels_of = stored(result), result[schema.LABEL_POSTERIOR].dataset
        if known.depends:
            return DEPENDENT
        place = labels_of.get_index("item").get_indexer(labels["item"].values)
        code = labels_of.get_index("class").get_indexer(labels["class"].values)
        prior = prior + weight * known.prior[np.ix_(place, code)]
        if known.has_common_prior:
            total += weight if schema.POSTERIOR in result.children else 0.0
            continue
        total += weight
        informed += weight * known.share
        if inputs_of is None:
            population, inputs = known.population, known.inputs
            inputs_of = (
                None if population is None else population[place],
                None if inputs is None else inputs[place],
            )
    if inputs_of is None:
        return None
    prior = prior / prior.sum(axis=1, keepdims=True)
    return ItemKnowledge(prior, *inputs_of, share=float(informed / total))
