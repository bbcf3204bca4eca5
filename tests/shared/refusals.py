"""Errors by the rule of the house: the expected words, and what was given."""

import re
from functools import partial

import pytest

from bayesfuse.errors import ModelError, MomentsError, ResponsesError


def refused_as(error, words, call, /, *given, **settings):
    """Check that a call raises this error, with the words (or a match of them), and what it got."""
    with pytest.raises(error) as caught:
        call(*given, **settings)
    said = str(caught.value)
    assert words in said or re.search(words, said), said
    assert "Got" in said, said


refused = partial(refused_as, ModelError)
refused_table = partial(refused_as, ResponsesError)
refused_moments = partial(refused_as, MomentsError)
