"""Cases of a test of which some take long."""

import pytest


def with_slow(names, *slow):
    return [pytest.param(name, marks=pytest.mark.slow if name in slow else ()) for name in names]
