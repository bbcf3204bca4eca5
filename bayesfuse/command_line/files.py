"""Reading from files and pipes, and writing files completely or not at all."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bayesfuse.command_line import CommandError

if TYPE_CHECKING:
    import xarray as xr

STDIN = Path("/dev/stdin")
STDOUT = Path("-")


def open_table(path: Path) -> Path | io.BytesIO:
    """Return a source that pandas can read more than once; pipes are read into memory."""
    if path == STDIN:
        if sys.stdin is None:
            raise CommandError(f"cannot read {path}: it is closed")
        return io.BytesIO(sys.stdin.buffer.read())
    mode = path.stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):  # may be endless
        raise CommandError(f"cannot read {path}: it is a device")
    if stat.S_ISFIFO(mode):
        return io.BytesIO(path.read_bytes())
    return path


def rewound(source: Path | io.BytesIO) -> Path | io.BytesIO:
    """Return a source at its beginning."""
    if isinstance(source, io.BytesIO):
        source.seek(0)
    return source


def check_inputs(inputs: Sequence[Path]) -> None:
    """Raise CommandError if standard input is given for several tables."""
    if list(inputs).count(STDIN) > 1:
        raise CommandError("only one table can come from standard input. Got: - for several")


def check_outputs(outputs: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Check before sampling that every output file can be written."""
    taken = {os.path.realpath(path) for path in inputs}
    for path in outputs:
        if os.path.realpath(path) in taken:
            raise CommandError(f"files must have different names. Got: {path} twice")
        taken.add(os.path.realpath(path))
        if path == STDOUT:
            raise CommandError("results cannot be written to standard output. Got: -")
        try:
            _check_output(path)
        except OSError as error:
            raise CommandError(f"cannot write {path}: {error.strerror or error}") from error


def _check_output(path: Path) -> None:
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        pass
    else:
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise CommandError(f"cannot write {path}: it is not a regular file")
        with target.open("ab"):  # raises if it cannot be written, without changing it
            pass
    with _unfinished(target):
        pass


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the name of a temporary file that replaces ``path`` on success.

    An existing file survives a failure. Of a link the target is replaced.
    """
    target = Path(os.path.realpath(path))
    with _unfinished(target) as new:
        yield new
        try:
            new.replace(target)
        except OSError as error:
            kept = new.rename(new.with_name(new.name.removeprefix(".")))
            raise CommandError(
                f"cannot write {path}: {error.strerror}; the contents are in {kept}"
            ) from error


@contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """Yield an empty file next to the target, with its mode and suffixes, and remove it."""
    ends = "".join(target.suffixes[-2:])  # these determine the format
    new = target.with_name(f".{secrets.token_hex(4)}-unfinished{ends}")
    try:
        new.touch(exist_ok=False)
        if target.is_file():
            shutil.copymode(target, new)
        yield new
    finally:
        new.unlink(missing_ok=True)


def write_netcdf(result: xr.DataTree, path: Path) -> None:
    """Write a result as NetCDF, completely or not at all."""
    with replacing(path) as new, _Sink(new, "w+") as sink:
        try:
            result.to_netcdf(sink, engine="h5netcdf")
            os.fsync(sink.fileno())  # some full disks raise only here
        finally:
            if sink.error is not None:
                raise sink.error


class _Sink(io.FileIO):
    """A file that stores its first error instead of raising it, which would crash HDF5."""

    error: OSError | None = None

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        rest = memoryview(data).cast("B")
        try:
            while self.error is None and len(rest):
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = error
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return self.tell() if size is None else size
