"""All commands together: ``application`` has ``app``, the other modules add to it as they are imported."""

from steerable.cli import advising, drawings, reports, tables, trained_models, training
from steerable.cli.application import app, run

ORDER = ("advise", "train", "evaluate", "predict", "export", "report", "cost", "types", "explore", "figures")
"""The order of the commands in the help and in the documentation: what a user does first comes first."""

app.registered_commands.sort(key=lambda command: ORDER.index(getattr(command.callback, "__name__", "")))

__all__ = ["advising", "app", "drawings", "reports", "run", "tables", "trained_models", "training"]
