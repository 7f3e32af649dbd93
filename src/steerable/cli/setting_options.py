"""Options of a command that come from the fields of dataclasses: a new field with its setting is a new option."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from steerable.training.requests.limits import Range
from steerable.training.requests.settings import settings_of

__all__ = ["HeadedCommand", "with_settings"]

Command = Callable[..., None]


class HeadedCommand(TyperCommand):
    """A command whose ``--help`` shows options under their headings; Typer does so in boxes only."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                plain = "Arguments" if parameter.param_type_name == "argument" else "Options"
                rows.setdefault(getattr(parameter, "rich_help_panel", None) or plain, []).append(record)
        for heading, records in rows.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def with_settings(owners: Collection[type], unsaid: Collection[str] = ()) -> Callable[[Command], Command]:
    """A decorator that gives a command an option for each field of these dataclasses that is marked as one.

    The command takes them by name, as ``**settings``.

    Args:
        owners: dataclasses whose fields have settings.
        unsaid: fields whose default depends on something else, so that the option is None where it is not given.
    """

    def decorate(command: Command) -> Command:
        written = inspect.signature(command, eval_str=True).parameters.values()
        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in written if p.name != "settings"]
        options = [*own, *(option for owner in owners for option in _options(owner, unsaid))]
        command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        return command

    return decorate


def _options(owner: type, unsaid: Collection[str]) -> Iterator[inspect.Parameter]:
    hints, known = get_type_hints(owner), settings_of(owner)
    for field in fields(owner):
        about = known.get(field.name)
        if about is None or not about.option:
            continue
        hint, default = hints[field.name], field.default
        if field.name in unsaid:
            hint, default = hint | None, None
        lowest = about.limit.lowest if isinstance(about.limit, Range) and not about.limit.above else None
        option = typer.Option(*about.flags, help=about.help, min=lowest, rich_help_panel=about.panel or None)
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, option]
        )
