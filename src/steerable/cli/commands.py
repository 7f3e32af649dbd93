"""All commands together: ``application`` has ``app``, and the other modules add to it when they are imported."""

import inspect

from steerable.cli import advising, drawings, reports, tables, trained_models, training
from steerable.cli.application import app, run

ORDER = ("advise", "train", "evaluate", "predict", "export", "report", "cost", "types", "explore", "figures")
"""The order of the commands in the help and in the documentation: what a user does first comes first."""

app.registered_commands.sort(key=lambda command: ORDER.index(getattr(command.callback, "__name__", "")))

for command in app.registered_commands:  # a docstring's lines would stay lines, whatever the width of the terminal
    paragraphs = inspect.cleandoc(command.help or getattr(command.callback, "__doc__", None) or "").split("\n\n")
    command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)

__all__ = ["advising", "app", "drawings", "reports", "run", "tables", "trained_models", "training"]
