"""The ``steerable`` command, one file for each group of commands.

``application`` has ``app`` and what commands share; the other modules add their commands to it when they are imported.
Heavy imports (torch, Lightning) happen inside the commands that need them, so that help and tables come at once.
"""

from steerable.cli import drawings, reports, tables, trained, training
from steerable.cli.application import app, main

__all__ = ["app", "drawings", "main", "reports", "tables", "trained", "training"]
