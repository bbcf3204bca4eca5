"""The command line, one file a subject: arguments, tables read, models fitted, results written.

It stands on top of everything else: it alone imports both the engine and the models.
"""


class CommandError(Exception):
    """Something asked for on the command line cannot be done."""
