"""A square of nine pixels, small enough for enumeration."""

import numpy as np
import pymc as pm

import bayesfuse as bf

RATERS = np.array([[[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]]])


def square_of_pixels():
    """Nine pixels, two known raters with a missing answer, the coupling to be inferred."""
    graph = bf.Graph.grid((3, 3))
    answers = [[0, 0], [0, 1], [1, 1], [0, 0], [1, -1], [1, 1], [0, 1], [0, 0], [1, 1]]
    responses = bf.Responses.from_matrix(answers, missing=-1)
    with pm.Model() as model:
        coupling = pm.Gamma("coupling", 2.0, 3.0)
        labels = bf.build.Potts(coupling, graph, [0.4, 0.6])
        bf.build.observe(responses, labels=labels, raters=bf.build.Confusion(RATERS))
    return model, responses, graph
