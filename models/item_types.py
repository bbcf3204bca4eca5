"""Items of several types, easy and hard, and raters who look or guess."""

from __future__ import annotations

from itertools import permutations
from typing import Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import bayesfuse as bf
from bayesfuse.data.tables import Table
from bayesfuse.errors import ModelError, require_choice, require_flag, require_number
from bayesfuse.observation.evaluate import common_mean
from bayesfuse.observation.item_priors import tilted_labels
from bayesfuse.observation.model import LabelModel
from bayesfuse.observation.rater_rows import shared_rows, shared_shares
from bayesfuse.parameters.consensus_table import TRUST, ConsensusTable, class_given_type
from bayesfuse.parameters.contract import DRAWN
from bayesfuse.parameters.pool import SMALLEST, ConsensusShares, Member
from bayesfuse.parameters.simplex import SIMPLEX
from bayesfuse.parameters.variables import dirichlet

# concentrations of the prior of shares: of all types with a consensus row, of all clean types
CONCENTRATION, CLEAN_CONCENTRATION = 3.0, 1.5
COMPETENCE = np.array([2.0, 1.0])  # beta prior of the mean competence
COMPETENCE_NEAR, GUESS_NEAR = (2.0, 0.5), (1.0, 0.2)  # gamma priors of the concentrations
MANY = 10  # classes above which only pairs are used that raters give to the same item


class ItemTypes(LabelModel):
    r"""Items of hidden types, competent and guessing raters, a :class:`pymc.Model`.

    On hard items most raters give the same wrong label. Here every item has a hidden type, and the
    consensus of the raters on a type counts as one opinion on the class, however many share it,
    which keeps label probabilities calibrated::

        type_share ──► type (item) ──► truth (item) ◄── trust
                            │
                            ▼
               response (item, rater) ◄── competence, guess (rater)

    Every type has a fixed consensus row. A rater looks with the probability of their competence,
    and then answers by this row; otherwise the rater guesses. The true class is drawn from it, too,
    raised to the power ``trust``. With L types and their rows μ:

    .. math::

        w \sim \mathrm{Dir}(3 / L), \quad z_n \sim w, \quad y_n \sim \rho_{z_n}, \quad
        \rho_{zk} \propto \mu_{zk}^\delta, \quad x_{nm} \sim a_m \mu_{z_n} + (1 - a_m)\, g_m

    Parameters
    ----------
    consensus : {"pairs", "levels"}, default "pairs"
        The consensus rows: six levels of agreement for every class, and three rows for each ordered
        pair of classes that compete, or the levels alone. The same for two classes.
    clean : bool, default False
        Whether some items are clean: one more type for every class, on which each rater answers by
        a row of their own, θ, so that their errors are independent, as in
        :class:`bayesfuse.models.DawidSkene`. The class of these items is that of the type.
    guesses : {"own", "even"}, default "own"
        Whether raters guess by a row of their own, or evenly (only if no rater prefers a label).
    trust : float, optional
        The power :math:`\delta`, the weight of the majority: at 1 the truth is like one more answer
        of a rater who looks, at infinity the most frequent answer. Default: inferred from ``gold``.
    responses, populations, covariates, classifier, gold, name : optional
        As in :class:`bayesfuse.models.DawidSkene`. Known labels calibrate those of all others.

    Raises
    ------
    bayesfuse.errors.ModelError, bayesfuse.errors.ResponsesError
        Trust that is not positive; and as in :class:`bayesfuse.models.DawidSkene`.

    Notes
    -----
    Variables: ``type_share`` w, ``trust`` δ, ``competence`` a, ``guess`` g, and for the latter two
    their ``…_mean`` and ``…_concentration``. The concentration of w is small, so few types are in
    use unless the data show more. With ``clean``, it is 1.5 for all clean types and 3 for all
    others, and ``clean_confusion`` θ (rater, class, answer) has the prior of
    :class:`bayesfuse.models.DawidSkene`. Responses cannot tell the trust, so without gold labels it
    keeps its prior, log-normal(0.2, 0.5): on ten public crowds it was between 0.4 and 2.3. The mean
    competence is around Beta(2, 1), and mean guesses around a flat row.

    With ``populations``, ``covariates`` or ``classifier`` an item has types and classes with

    .. math:: p(z_n = z, y_n = k) \propto w_z \rho_{zk} e^{\eta_{nk}}, \qquad
        \eta_{nk} = b_{g_n k} + \sum_j \tilde x_{nj} \beta_{jk} + s \log \hat p_{nk},

    so a covariate informs the class of an item, not its difficulty. "average_prevalence" is that of
    :math:`\eta = 0`, and "prevalence" the share over all items. "population_shift" b (population,
    class) sums to zero over the classes; its difference between two classes is Normal(0, σ), with
    σ ~ Gamma(2, 2), "population_scale". Slopes β and the scale s are as in
    :class:`bayesfuse.models.DawidSkene`. All these are drawn by slice sampling, labels summed out.

    Answers of several classes (:meth:`bayesfuse.Responses.from_partial_answers`) and stated
    probabilities are summed over hidden answers; such tables are sampled, not fitted by ``bf.fit``.

    ``bf.fit(model)`` is collapsed variational Bayes, in seconds: on twelve public crowds its labels
    are as good as those of sampling, but up to .1 worse in log-loss where few responses an item
    leave it in doubt. Its intervals are too narrow, the less so with ``sweeps=20``.

    References
    ----------
    Hovy et al. (2013), Learning whom to trust with MACE, NAACL-HLT (competence and guesses). Li,
    Rubinstein & Cohn (2019), ICML (types within classes).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.ItemTypes(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> result["posterior"]["competence"].dims
    ('chain', 'draw', 'rater')
    """

    def __init__(
        self,
        responses: Table | bf.io.Partitions,
        *,
        consensus: Literal["pairs", "levels"] = "pairs",
        guesses: Literal["own", "even"] = "own",
        trust: float | None = None,
        clean: bool = False,
        populations: Any = None,
        covariates: Any = None,
        classifier: Any = None,
        gold: Any = None,
        name: str = "",
    ) -> None:
        require_choice("consensus", consensus, "pairs", "levels")
        require_choice("guesses", guesses, "own", "even")
        if trust is not None and not require_number("trust", trust) > 0:
            raise ModelError(
                "trust must be positive, because it is the power to which the consensus is raised. "
                f"Got: {trust!r}."
            )
        require_flag("clean", clean)
        super().__init__(responses, gold=gold, name=name)
        responses = self.responses
        n_classes = responses.n_classes
        pairs = competing_pairs(responses) if consensus == "pairs" else []
        dictionary = ConsensusTable(n_classes, pairs, clean)
        self.add_coord("type", dictionary.names(responses.classes))
        pm.Data("consensus", dictionary.rows, dims=("type", "answer"))
        log_rows = np.log(dictionary.rows)
        n_clean = dictionary.n_clean
        n_consensus = len(log_rows) - n_clean

        concentration = np.repeat(
            [CONCENTRATION / n_consensus, CLEAN_CONCENTRATION / n_classes], [n_consensus, n_clean]
        )
        share = pm.Dirichlet("type_share", concentration, dims="type")
        members = {"type_share": Member(share, SIMPLEX)}
        power = pm.LogNormal("trust", *TRUST) if trust is None else pt.constant(float(trust))
        if trust is None:
            members["trust"] = Member(power, DRAWN)
        # a class is never impossible
        joint = share[:, None] * pt.maximum(class_given_type(log_rows, power, pt), SMALLEST)
        labels, known = tilted_labels(
            responses, joint.sum(axis=0), populations, covariates, classifier
        )
        average = self["prevalence" if known is None else "average_prevalence"]

        competence, guess = competence_and_guess(self, guesses == "own")
        of_class = pm.Deterministic("type_of_class", (joint / average).T, dims=("class", "type"))
        kind = None if known is None else known.kind
        rows = self._clean_confusion() if clean else None
        channel = bf.build.Consensus(of_class, competence, guess, rows, pairs=pairs, kind=kind)
        options: Any = {} if trust is None else {"fixed": {"trust": np.asarray(float(trust))}}
        if known is not None:
            (parameter,) = labels.parameters
            options |= {"known": known.log_odds, "label_parameter": parameter}
            members |= {
                role: Member(concentration, DRAWN)
                for role, concentration in known.variables.items()
            }
        self.pools.append(ConsensusShares(members, log_rows, concentration, TRUST, **options))
        self.observe(labels=labels, raters=channel)

    def _clean_confusion(self) -> Any:
        """Register the rows of every rater on clean types."""
        rows = bf.priors.confusion(None, self.responses)
        self.new_rater_defaults["clean_confusion"] = common_mean(rows)
        return dirichlet("clean_confusion", rows, dims=("rater", "class", "answer"))


def competence_and_guess(model: LabelModel, guess_by_rater: bool = True) -> tuple[Any, Any]:
    """Register the competence and the guess probabilities of every rater."""
    n_classes, n_raters = model.responses.n_classes, model.responses.n_raters
    competence, pool = shared_shares("competence", COMPETENCE, COMPETENCE_NEAR, n_raters)
    model.pools.append(pool)
    model.new_rater_defaults["competence"] = model["competence_mean"]
    if not guess_by_rater:
        return competence, None
    guess, pool = shared_rows("guess", np.ones(n_classes), GUESS_NEAR, n_raters)
    model.pools.append(pool)
    model.new_rater_defaults["guess"] = model["guess_mean"]
    return competence, guess


def competing_pairs(responses: bf.Responses) -> list[tuple[int, int]]:
    """Return ordered pairs of classes that may compete: of many classes, those that meet."""
    if responses.n_classes < 3:
        return []
    ordered_pairs = list(permutations(range(responses.n_classes), 2))
    if responses.n_classes <= MANY:
        return ordered_pairs
    is_used = responses.votes().astype(bool).astype(float)
    met = is_used.T @ is_used > 0
    return [pair for pair in ordered_pairs if met[pair]]
