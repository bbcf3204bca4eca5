"""Models that observe several tables of responses: the model of one of them."""

from __future__ import annotations

import pymc as pm
from pymc.model.fgraph import fgraph_from_model, model_from_fgraph
from pymc.model.transform.basic import prune_vars_detached_from_observed

from bayesfuse.errors import ModelError
from bayesfuse.pymc.model import all_observed


def part(model: pm.Model, name: str) -> pm.Model:
    """Return the model of one of several tables that a model observes.

    It has the variables on which these responses depend, under their names, so all functions of a
    result and a model take the result of the whole model and this part.

    Parameters
    ----------
    model : pymc.Model
        With several calls of ``bf.observe``, each with a ``name``.
    name : str
        Name of the responses.

    Returns
    -------
    pymc.Model
        A copy; the priors of shared variables are those of the whole model, not updated by the
        other tables.

    Raises
    ------
    ModelError
        No responses of this name; a potential, whose table is unknown.

    Examples
    --------
    Two tables of the same raters, whose classes differ in prevalence:

    >>> import numpy as np, pymc as pm, bayesfuse as bf
    >>> first = bf.Responses.from_matrix([[0, 0, 1], [1, 1, 1], [0, 0, 0]])
    >>> second = bf.Responses.from_matrix([[1, 1, 0], [1, 1, 1]], classes=[0, 1])
    >>> with pm.Model() as model:
    ...     confusion = bf.dirichlet("confusion", np.ones((3, 2, 2)) + 4 * np.eye(2))
    ...     for name, responses in (("first", first), ("second", second)):
    ...         share = pm.Dirichlet(f"share of {name}", np.ones(2))
    ...         _ = bf.observe(responses, labels=bf.Independent(share),
    ...                        raters=bf.Confusion(confusion), name=name)
    >>> [variable.name for variable in bf.part(model, "second").free_RVs]
    ['confusion', 'share of second']
    """
    found = {variable.name: variable for variable in all_observed(model)}
    if not isinstance(name, str) or name not in found:
        raise ModelError(
            f"A part of a model is one of the tables it observes, {list(found)}. Got: {name!r}."
        )
    if model.potentials:
        raise ModelError(
            "A model with potentials has no parts, because nothing tells to which table each "
            f"belongs. Got: {[potential.name for potential in model.potentials]}."
        )
    graph, memo = fgraph_from_model(model)
    for other, variable in found.items():
        if other != name:
            graph.remove_output(graph.outputs.index(memo[variable]))
    return prune_vars_detached_from_observed(model_from_fgraph(graph, mutate_fgraph=True))
