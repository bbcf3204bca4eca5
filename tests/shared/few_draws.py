"""Answers of few draws, since ``bf.fuse`` takes seconds."""

from contextlib import contextmanager
from dataclasses import replace

import pytest


@contextmanager
def few_draws():
    """Let ``bf.fuse`` take few draws and replications, and no run that times them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayesfuse.ensemble.members.Candidate.within", _shortened)
        patch.setattr("bayesfuse.ensemble.schedule.Schedule._room", lambda *_: (1000.0, 1000.0))
        patch.setattr("bayesfuse.ensemble.diagnostics.REPLICATED", (20, 20))
        yield patch


def _shortened(member, draws, n_responses):
    settings = member.settings and {**member.settings, "draws": min(80, member.settings["draws"])}
    return replace(member, sweeps=(20, 20), settings=settings)
