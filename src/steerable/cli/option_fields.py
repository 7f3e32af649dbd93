"""Options of a command that come from the fields of dataclasses: a new field is a new option."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from steerable.training.requests.limits import Range
from steerable.training.requests.settings import settings_of

__all__ = ["HeadedCommand", "with_options"]

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


def with_options(owners: Collection[type] = (), unsaid: Collection[str] = ()) -> Callable[[Command], Command]:
    """A decorator that gives a command the fields of dataclasses as options.

    A parameter that is a dataclass is replaced by its fields, which are annotated like a command's own parameters,
    ``Annotated[int, typer.Option(...)]``.

    Args:
        owners: dataclasses whose fields have settings; those that are marked as options are passed on by name, as
            ``**settings``.
        unsaid: fields whose default depends on something else, so that the option is None if it is not given.
    """

    def decorate(command: Command) -> Command:
        written = inspect.signature(command, eval_str=True).parameters.values()
        groups: dict[str, Any] = {p.name: p.annotation for p in written if is_dataclass(p.annotation)}
        shown: list[inspect.Parameter] = []
        for p in written:
            if p.name in groups:
                hints = get_type_hints(groups[p.name], include_extras=True)
                shown += [_parameter(f.name, f.default, hints[f.name]) for f in fields(groups[p.name])]
            elif p.kind is not inspect.Parameter.VAR_KEYWORD:
                shown.append(_parameter(p.name, p.default, p.annotation))
        shown += [option for owner in owners for option in _settings_as_options(owner, unsaid)]

        @functools.wraps(command)
        def flat(**values: Any) -> None:
            made = {name: kind(**{f.name: values.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
            command(**values, **made)

        flat.__dict__["__signature__"] = inspect.Signature(shown)
        flat.__annotations__ = {}
        return flat

    return decorate


def _settings_as_options(owner: type, unsaid: Collection[str]) -> Iterator[inspect.Parameter]:
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
        yield _parameter(field.name, default, Annotated[hint, option])


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
