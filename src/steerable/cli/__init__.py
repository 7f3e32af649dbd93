"""The ``steerable`` command, one file for each group of commands.

``commands`` puts them together. It needs packages that come with extras, so that it is imported when the command is
run: where one of them is missing, ``main`` says which extra to install. Heavy imports (torch, Lightning) happen inside
the commands that need them, so that help and tables come at once.
"""

from steerable.cli.extras import or_missing_extra

__all__ = ["main"]


@or_missing_extra
def main() -> None:
    """Entry point: a mistake of the user is one line and exit code 2, a missing package one line and exit code 1."""
    from steerable.cli.commands import run

    run()
