"""Commands that take a dataclass of options: each of its fields is an option of the command line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

__all__ = ["grouped_options"]


def grouped_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer is to see it: the fields of a parameter that is a dataclass stand in that parameter's place.

    The fields are annotated as a command's own parameters are, ``Annotated[int, typer.Option(...)]``.
    """
    written = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: p.annotation for name, p in written.parameters.items() if is_dataclass(p.annotation)
    }
    shown: list[inspect.Parameter] = []
    for name, parameter in written.parameters.items():
        if name not in groups:
            shown.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(groups[name], include_extras=True)
        shown += [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
            for f in fields(groups[name])
        ]

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        made = {name: kind(**{f.name: values.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        command(**values, **made)

    flat.__dict__["__signature__"] = written.replace(parameters=shown)
    flat.__annotations__ = {p.name: p.annotation for p in shown}
    return flat
