"""What tests of the command line share: quick settings, what a failure prints, a result read."""

import xarray as xr

FAST = ["--draws", "40", "--chains", "2", "--seed", "1"]


def fails(capsys, status, *words):
    """Check that a command failed with one line on stderr, and nothing else, that has ``words``."""
    printed = capsys.readouterr()
    assert status == 2
    assert printed.out == ""
    assert printed.err.startswith("bayesfuse: error: ")
    assert printed.err.count("\n") == 1
    assert all(word in printed.err for word in words), printed.err


def tables(path="result.nc"):
    result = xr.open_datatree(path)
    result.load().close()
    return result
