"""The reference of the ``steerable`` command as Markdown, from what ``--help`` prints."""

from __future__ import annotations

import inspect
from typing import Any

import typer

__all__ = ["command_reference"]


def command_reference(app: typer.Typer) -> str:
    """One section per command: its usage, its help, and a table of its arguments and options."""
    group: Any = typer.main.get_command(app)  # a group of commands, in click's or in typer's own classes
    return "\n\n".join(_section(name, command) for name, command in group.commands.items())


def _section(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join(["steerable", name, *(_placeholder(p) for p in arguments), "[OPTIONS]"])
    lines = [f"## {name}", "", inspect.cleandoc(command.help or ""), "", "```text", usage, "```", ""]
    rows = [(f"`{_placeholder(p)}`", _described(p)) for p in arguments]
    rows += [(", ".join(f"`{text}`" for text in (*p.opts, *p.secondary_opts)), _described(p)) for p in options]
    lines += ["| argument or option | meaning |", "|---|---|"]
    lines += [f"| {left} | {right} |".replace("\n", " ") for left, right in rows]
    return "\n".join(lines)


def _placeholder(argument: Any) -> str:
    """``RUN``, ``[RUN]`` where it may be left out, ``RUN...`` where it may be repeated."""
    text = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return text if argument.required else f"[{text}]"


def _described(parameter: Any) -> str:
    """The help text, and the default where there is one that says something."""
    text = (parameter.help or "").replace("|", "\\|")
    default = parameter.default
    if parameter.required:
        return f"{text} Required."
    if default is None or default is False or callable(default) or default == []:
        return text
    return f"{text} Default: `{default}`."
