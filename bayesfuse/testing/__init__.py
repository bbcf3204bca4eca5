"""Test helpers: enumeration of labels, checks of kernels, simulation-based calibration.

Use them for your own label priors and rater channels. Failures name the worst point.
"""

from bayesfuse.testing.calibration import (
    assert_close,
    assert_frequencies,
    assert_uniform,
    assert_within_mcse,
    sbc_ranks,
    simulate,
)
from bayesfuse.testing.factors import (
    Enumerated,
    check_label_prior,
    check_rater_channel,
    check_tangent,
    enumerate_labels,
    relative,
)

__all__ = [
    "Enumerated",
    "assert_close",
    "assert_frequencies",
    "assert_uniform",
    "assert_within_mcse",
    "check_label_prior",
    "check_rater_channel",
    "check_tangent",
    "enumerate_labels",
    "relative",
    "sbc_ranks",
    "simulate",
]


def __dir__() -> list[str]:
    return __all__
