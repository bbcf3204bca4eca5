"""The errors of the package: each names the rule, the reason and what was given."""

from contextlib import ContextDecorator
from numbers import Integral

__all__ = [
    "ImpossibleDataError",
    "ModelError",
    "MomentsError",
    "NoGroupsWarning",
    "PoorFitWarning",
    "ResponsesError",
]


def __dir__() -> list[str]:
    return __all__


class ResponsesError(ValueError):
    """A table of responses, or something said about its items, breaks a rule."""


class ModelError(ValueError):
    """A model is given priors, parameters or data that do not fit together."""


class ImpossibleDataError(ModelError):
    """The parameters give some item's responses probability zero under every class."""


def require_shape(name: str, given: tuple[int | None, ...], **expected: int) -> None:
    """Raise ModelError unless ``given`` is the expected shape; None in it is not known yet."""
    sizes = tuple(expected.values())
    if len(given) != len(sizes) or any(
        found is not None and found != size for found, size in zip(given, sizes, strict=True)
    ):
        axes = ", ".join(f"{size} {axis}" for axis, size in expected.items())
        raise ModelError(
            f"{name} must have shape ({axes}), else its entries would belong to nobody. Got: "
            f"shape {given}."
        )


def require_kind(name: str, given: object, kind: type) -> None:
    """Raise ModelError unless ``given`` is of that kind."""
    if not isinstance(given, kind):
        module = "pm" if kind.__module__.startswith("pymc") else "bf"
        raise ModelError(
            f"{name} must be a {module}.{kind.__name__}, because everything else is read from it. "
            f"Got: {type(given).__name__}."
        )


def require_count(name: str, given: object, least: int = 1) -> None:
    """Raise ModelError unless ``given`` is a whole number, no smaller than there may be."""
    if not isinstance(given, Integral) or given < least:
        raise ModelError(f"{name} must be a whole number, at least {least}. Got: {given!r}.")


class MomentsError(ValueError):
    """The responses do not determine the moments that were asked for."""


class PoorFitWarning(UserWarning):
    """A variational fit is far from the posterior, or stopped before it settled."""


class NoGroupsWarning(UserWarning):
    """No raters seem to share a source, so a model of groups has none."""


class _Interruptible(ContextDecorator):
    """Make an interruption of compiled code a KeyboardInterrupt.

    A kernel that Ctrl-C meets comes back with a result and an exception, of which Python makes a
    SystemError, or several, one the cause of the other.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        cause = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if cause is not error and isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from error


interruptible = _Interruptible()  # no generator: every sweep enters it
