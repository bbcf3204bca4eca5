"""Answers of ``bf.fuse`` that take a second, for several test files."""

from bayesfuse.answer import budget, findings


def quick_answers(patch):
    """Let fits have few draws without a run that times them, and checks few replications."""
    patch.setattr(budget.Fit, "enough", budget.Size(20, 20))
    patch.setattr(budget.Budget, "_room", lambda *_: 1000.0)
    patch.setattr(findings, "REPLICATED", 20)
