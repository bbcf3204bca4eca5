"""``bf.fuse``: one answer from several models."""

from __future__ import annotations

from typing import Any, Literal

from bayesfuse.data.graph import Graph
from bayesfuse.data.label_sets import LabelSets
from bayesfuse.data.sequences import Sequences
from bayesfuse.data.tables import Table
from bayesfuse.ensemble.candidates import choose
from bayesfuse.ensemble.combine import combine
from bayesfuse.ensemble.diagnostics import check
from bayesfuse.ensemble.evidence import Evidence, examine
from bayesfuse.ensemble.fits import Session, approximate, run, seed_as_number
from bayesfuse.ensemble.fused import Fused
from bayesfuse.ensemble.fused_sets import fuse_sets
from bayesfuse.ensemble.inputs import read
from bayesfuse.ensemble.schedule import FITS, Progress, Schedule
from bayesfuse.ensemble.weights import weigh
from bayesfuse.errors import require_count, require_flag, require_positive
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.numerics.threads import Interruption
from bayesfuse.parameters.compiled import without_traces


@explains_keywords
def fuse(
    responses: Table | LabelSets,
    *,
    item: str = "item",
    rater: str = "rater",
    label: str = "label",
    missing: Literal["error", "drop"] = "error",
    positive: Any = None,
    normalise: bool = False,
    sequences: Sequences | None = None,
    graph: Graph | None = None,
    groups: Any = None,
    covariates: Any = None,
    gold: Any = None,
    gold_error: float = 0.0,
    ordered: bool | None = None,
    minutes: float = 3.0,
    draws: int | None = None,
    checks: bool = True,
    random_seed: Any = None,
    progressbar: bool = True,
) -> Fused:
    """Fit the few models that are sensible for a table, check and average them.

    Parameters
    ----------
    responses : Responses, DataFrame, array, list of rows, or path of a CSV or Parquet file
        A DataFrame with a column ``rater`` or ``label``, or of another usual name such as
        ``worker`` or ``answer``, has one row per response. Any other table has one row per item
        (named by the column ``item``, else the index) and one column per rater; missing are NaN,
        None, "", "NA", "?", "skip" and, among numbers, −1. Or several labels an item, of
        :meth:`bayesfuse.Responses.from_label_sets`, with known sets (``gold``, as in
        :class:`bayesfuse.models.LabelProfiles`) and none of the other inputs.
    item, rater, label : str
        Columns of the DataFrame, as in :meth:`bayesfuse.Responses.from_long`.
    missing : {"error", "drop"}, default "error"
        What to do with rows of a long table that have no label.
    positive, normalise : optional
        The positive one of two classes, and whether spellings of a class are one, as in
        :meth:`bayesfuse.Responses.from_long`. Known labels then may be spelt in any way.
    sequences, graph : Sequences, Graph, optional
        Items are in sequence, such as words, or have neighbours, such as pixels. Those without
        responses are labelled, too. Labels of a DataFrame of responses are in the order of the
        sequences, those of Responses in their own.
    groups, covariates : optional
        ``groups``: raters that share a source, as in :class:`bayesfuse.models.LatentGroup`;
        ``covariates``: item features, as in :class:`bayesfuse.models.ItemTypes`.
    gold : mapping of item name to class name, DataFrame or path, optional
        Known labels, a DataFrame or CSV file with the columns ``item`` and ``label``; items without
        a label count as unknown. :class:`bayesfuse.models.WeightedVotes` estimates from them the
        weights of raters and models, which are fitted without them except on graphs and for tables
        of counts. A known tag I-X that continues no span is read as B-X.
    gold_error : float, default 0
        Probability that a known label is wrong, at most .5, not on graphs and for tables of counts.
    ordered : bool, optional
        Whether classes are grades. Default: whether text labels were given in an order; numbers may
        be codes.
    minutes : float, default 3
        Maximum time, checks included; those for which no time is left are named in the answer.
    draws : int, optional
        Number of draws of each of four chains per model, as far as the time allows. Default 250 or
        350, fewer for large tables; models that are not sampled have at most 250 in all.
    checks : bool, default True
    random_seed : int, Generator, optional
        The same seed gives the same answer, unless time runs out.
    progressbar : bool, default True
        Show progress on stderr: a bar on terminals and in notebooks, else a line every ten seconds.

    Returns
    -------
    Fused
        After an interruption, the average of the complete fits. For label sets, ``labels()`` gives
        sets with the probability of each label and of the whole set.

    Raises
    ------
    ModelError, ResponsesError
        Structures that no model combines; known labels of unknown items or classes.

    Warns
    -----
    QuickAnswerWarning
        No model was fitted (no time, or none allows the data), so that labels are vote shares.

    Notes
    -----
    The guide to ``bf.fuse`` lists the models of every input and their weights.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> fused = bf.fuse(bf.datasets.anesthesia(), minutes=1, random_seed=1, progressbar=False)
    >>> sorted(fused.attrs["models"])[:3]
    ['clean items', 'competing classes', 'consensus']
    >>> fused.labels().shape
    (45, 4)
    """
    require_flag("progressbar", progressbar)
    require_flag("checks", checks)
    if draws is not None:
        require_count("draws", draws)
    schedule = Schedule(require_positive("minutes", minutes), checks, draws or 0)
    columns: dict[str, Any] = {"item": item, "rater": rater, "label": label, "missing": missing}
    columns |= {"positive": positive, "normalise": normalise}
    structure: dict[str, Any] = {"sequences": sequences, "graph": graph}
    structure |= {"groups": groups, "covariates": covariates}
    if isinstance(responses, LabelSets):
        inputs_of_tables = columns | structure | {"ordered": ordered, "gold_error": gold_error}
        default: dict[str, Any] = {"item": "item", "rater": "rater", "label": "label"}
        default |= {"missing": "error", "normalise": False, "gold_error": 0.0}
        others = {
            name: value
            for name, value in inputs_of_tables.items()
            if value is not None and not (name in default and value == default[name])
        }
        with without_traces(), Interruption() as interruption, Progress(progressbar) as progress:
            session = Session(schedule, seed_as_number(random_seed), progress, interruption)
            return fuse_sets(responses, gold, others, draws, session)
    inputs = read(responses, columns, structure, gold, gold_error, ordered)
    seed = seed_as_number(random_seed)
    with without_traces(), Interruption() as interruption, Progress(progressbar) as progress:
        session = Session(schedule, seed, progress, interruption)
        drafts = approximate(inputs, session)
        progress.say("comparing raters")
        evidence = Evidence()
        if not interruption.requested:
            evidence = schedule.timed(lambda: examine(inputs), FITS) or evidence
        selection = choose(inputs, evidence, schedule, seed, draws)
        fits = run(selection, drafts, session)
        # the first Ctrl-C skips optional work, and the second ends the call
        interruption.wait(0 if interruption.requested else 1)
        weights = weigh(fits, selection)
        findings = check(fits, weights, session) if checks else {}
        progress.say("averaging")
        fused = combine(inputs, evidence, fits, weights, findings, session)
        if fits.complete:
            interruption.wait(0)
        return fused
