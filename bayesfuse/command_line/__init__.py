"""The command line: arguments, input tables, fits, reports and output files."""


class CommandError(Exception):
    """A command that cannot be carried out as given."""
