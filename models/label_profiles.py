"""Several labels an item: labels occur together, and raters differ from label to label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm

import bayesfuse as bf
from bayesfuse.data.known_sets import known_answers
from bayesfuse.data.label_sets import LabelSets
from bayesfuse.data.names import listed
from bayesfuse.errors import require_count, require_kind
from bayesfuse.observation.model import LabelModel
from bayesfuse.observation.rater_rows import CONCENTRATION, grouped_rows, shared_shares

N_PROFILES = 10
RATE_CONCENTRATION = 1.0, 0.1  # shape and rate, as for the rows of raters


class LabelProfiles(LabelModel):
    r"""The model of items that may have several labels, a :class:`pymc.Model`.

    Every item has a hidden profile, given which it has each label independently. A rater answers
    the question whether an item has a label with a sensitivity and a specificity for this label,
    partially pooled over the labels of the rater::

        profile_share ──► profile (item) ──► truth (item, label) ──► response (item, label, rater)
                          label_rate ───────────┘                        ▲
                          confusion_mean (annotator) ──► confusion (rater: label)

    .. math::

        z_n \sim w, \quad y_{nl} \sim \mathrm{Bernoulli}(\rho_{z_n l}), \quad
        x_{nlm} \sim \theta_{mly_{nl}}, \quad
        \rho_{zl} \sim \mathrm{Beta}(\kappa_l \mu_l, \kappa_l (1 - \mu_l)), \quad
        \theta_{mlk} \sim \mathrm{Dir}(\lambda_{mk} \nu_{mk})

    Parameters
    ----------
    responses : bf.io.LabelSets
        Of :meth:`bayesfuse.Responses.from_label_sets`.
    profiles : int, default 10
        Largest number of profiles. Those that are not needed have shares near zero, because the
        prior of the shares is Dirichlet(1/profiles); if labels are independent, one remains.
    gold : mapping or DataFrame, optional
        Known sets: items mapped to sets, or to a mapping from some labels to whether they apply; or
        a table with the columns item and label, whose cells are as those of the responses, or with
        a column of 0 and 1 for labels.
    name : str, optional
        Prefix of the model's variables, as in PyMC.

    Notes
    -----
    Latent classes of items were as good as a log-linear model with all pairs of labels on simulated
    tables of either kind, and have no limit to the number of labels. Profiles are not identified,
    as the components of any mixture; labels and raters are.

    References
    ----------
    Lazarsfeld & Henry (1968), Latent structure analysis. Dawid & Skene (1979), Applied Statistics
    28, 20–28.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> frame = {"item": [1, 1], "rater": ["a", "b"], "label": [["cat", "dog"], ["dog"]]}
    >>> model = bf.models.LabelProfiles(bf.Responses.from_label_sets(frame), profiles=2)
    >>> model["confusion"].eval().shape  # raters and labels, truth, answer
    (4, 2, 2)
    """

    def __init__(
        self,
        responses: LabelSets,
        *,
        profiles: int = N_PROFILES,
        gold: Any = None,
        name: str = "",
    ) -> None:
        label_sets = require_kind("responses", responses, LabelSets)
        require_count("profiles", profiles)
        known = None if gold is None else known_answers(label_sets, gold)
        super().__init__(label_sets.questions, gold=known, name=name)
        self.label_sets = label_sets
        n_labels, n_raters = label_sets.n_labels, len(label_sets.raters)
        self.add_coords(
            {
                "profile": range(profiles),
                "set_label": listed(label_sets.labels),
                "annotator": listed(label_sets.raters),
            }
        )
        # w: a sparse prior empties profiles that are not needed
        share = pm.Dirichlet("profile_share", np.full(profiles, 1.0 / profiles), dims="profile")
        # ρ: profiles are alike in labels that do not occur with others
        rate, pool = shared_shares(
            "label_rate",
            np.ones((n_labels, 2)),
            RATE_CONCENTRATION,
            profiles,
            ("set_label",),
            of="profile",
        )
        self.pools.append(pool)
        labels = bf.build.Profiles(
            share, rate, item=label_sets.item, label=label_sets.label, names=label_sets.items
        )
        # θ: rows of a rater's labels vary around a mean of the rater
        prior: Any = np.tile(bf.priors.diagonal(2), (n_raters, 1, 1))
        rows, pool_of_raters = grouped_rows(
            "confusion", prior, CONCENTRATION, n_labels, ("annotator", "class")
        )
        self.pools.append(pool_of_raters)
        self.observe(labels=labels, raters=bf.build.Confusion(rows))
