"""Settings: dataclass fields with their meaning, their allowed values, and their names on the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from steerable.errors import did_you_mean, shown
from steerable.training.requests.limits import Limit

__all__ = ["Setting", "check_names", "check_settings", "documented", "marked", "setting", "settings_of"]

Settings = TypeVar("Settings", bound=type)


@dataclass(frozen=True)
class Setting:
    """The description of one field.

    Args:
        help: what it means, in a sentence or two.
        limit: the values that it allows.
        option: whether ``steerable train`` has an option for it.
        flags: the option's names, if they are not the field's name.
        panel: the heading under which ``--help`` shows the option; "" for the first one.
        free: whether it may change when a run is resumed, because it says where a run is computed, not what.
        planned: whether the plan of a run decides it if the field keeps its default.
    """

    help: str
    limit: Limit
    option: bool = False
    flags: tuple[str, ...] = ()
    panel: str = ""
    free: bool = False
    planned: bool = False


def setting(default: Any, limit: Limit, help: str, **details: Any) -> Any:  # noqa: A002 - as click and typer call it
    """A field of a dataclass; ``details`` are further arguments of :class:`Setting`."""
    return field(default=default, metadata={"setting": Setting(help, limit, **details)})


def settings_of(owner: type) -> dict[str, Setting]:
    """The settings among the fields of a dataclass, by name."""
    found = {item.name: item.metadata.get("setting") for item in dataclasses.fields(owner)}
    return {name: known for name, known in found.items() if known is not None}


def marked(owner: type, mark: str) -> list[str]:
    """The names of the settings of a dataclass that have a mark: ``"free"``, ``"option"`` or ``"planned"``."""
    return [name for name, known in settings_of(owner).items() if getattr(known, mark)]


def check_settings(owner: str, values: object) -> None:
    """Raise a ValueError for the first setting whose value is not allowed; ``owner`` precedes its name."""
    for name, known in settings_of(type(values)).items():
        if (value := getattr(values, name)) not in known.limit:
            raise ValueError(f"{owner}{name} must be {known.limit}; got {shown(value)}.")


def check_names(owner: str, kind: type, given: Mapping[str, Any]) -> None:
    """Raise a ValueError for the first given name that is not a field of the dataclass."""
    known = [item.name for item in dataclasses.fields(kind)]
    for name in given:
        if name not in known:
            raise ValueError(f"{owner} has no setting `{name}`. {did_you_mean(name, known)}")


def documented(kind: Settings) -> Settings:
    """The dataclass with its settings listed in its docstring."""
    lines = [f"        {name}: {known.help}" for name, known in settings_of(kind).items()]
    kind.__doc__ = f"{kind.__doc__ or ''}\n    Args:\n" + "\n".join(lines) + "\n"
    return kind
