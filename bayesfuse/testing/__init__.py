"""Tests of your own label priors and rater channels; failures name the worst point."""

from bayesfuse.testing.calibration import (
    assert_close as assert_close,
    assert_frequencies as assert_frequencies,
    assert_uniform as assert_uniform,
    sbc_ranks as sbc_ranks,
    simulate as simulate,
)
from bayesfuse.testing.factors import (
    check_label_prior as check_label_prior,
    check_rater_channel as check_rater_channel,
    enumerate_labels as enumerate_labels,
)

__all__ = sorted(name for name, thing in globals().items() if callable(thing))


def __dir__() -> list[str]:
    return __all__
