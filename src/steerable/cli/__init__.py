"""The ``steerable`` command, one file for each group of commands.

``application`` has ``app`` and what commands share; the other modules add their commands to it when they are imported.
Heavy imports (torch, Lightning) happen inside the commands that need them, so that help and tables come at once.
"""

from steerable.cli import drawings, reports, tables, trained, training
from steerable.cli.application import app, main

ORDER = ("train", "evaluate", "predict", "export", "report", "cost", "types", "explore", "figures")
"""Of the commands in the help and in the documentation: what one does first stands first."""

app.registered_commands.sort(key=lambda command: ORDER.index(getattr(command.callback, "__name__", "")))

__all__ = ["app", "drawings", "main", "reports", "tables", "trained", "training"]
