"""Answers of ``bf.fuse`` that take a second, for several test files."""

import bayesfuse as bf
from bayesfuse.answer import budget


def quick_answers(patch):
    """Let fits have few draws without a run that times them, and checks few replications."""
    patch.setattr(budget, "DRAWS", 20)
    patch.setattr(budget, "TUNE", 20)
    patch.setattr(budget.Budget, "_room", lambda *_: 1000.0)
    for check in (bf.checks.item_difficulty, bf.checks.conditional_dependence):
        patch.setitem(check.__kwdefaults__, "draws", 20)
