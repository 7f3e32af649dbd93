"""The plan of a run: what will happen, as a JSON file in the run folder. A resumed run follows it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steerable.atomic import write_json
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import Rescheduled
from steerable.training.requests.run_files import PLAN, PLAN_NEEDED, PLAN_VERSION, read_fields, rescheduled_in

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """A request in which everything is decided: the same plan on the same kind of machine is the same run.

    Args:
        settings: the request with its epochs, the network's width, its precision and its other speed settings.
        data: the names of the classes, sizes, counts and digests of the images, and what was noticed about them.
        backends: how each convolution is computed, by its name, as ``snn.recorded_backends`` writes it.
        accelerator: ``"cpu"``, ``"gpu"`` or ``"mps"``; what is fast on one is not on another.
        threads: how many threads torch uses on the CPU. Their number decides in which order gradients are summed.
        rescheduled: changes of the number of epochs, and when they were made, so that the run ends on time; None if it
            is not timed.
        start: the SHA-256 of the weights that the run starts from; None if they are random.
        looked: what was found about the orientation of the images, in a line; "" if the run did not look.
    """

    settings: RunConfig
    data: dict[str, Any]
    backends: dict[str, str]
    accelerator: str
    threads: int
    rescheduled: Rescheduled | None = None
    start: str | None = None
    looked: str = ""

    @property
    def epochs(self) -> int:
        """How many epochs the run has, as far as is known."""
        return self.rescheduled[-1][1] if self.rescheduled else self.settings.recipe.epochs

    def save(self, path: Path) -> None:
        values = {"version": PLAN_VERSION, **vars(self), "settings": self.settings.to_dict()}
        write_json(path, values)

    @staticmethod
    def load(path: str | Path, way_on: str = "Give the plan.json of a run, or no plan.") -> Plan:
        """The plan that ``save`` wrote; a ValueError with the file's name if it is damaged, edited or outdated.

        Args:
            path: the file.
            way_on: what to do when it cannot be used.
        """
        try:
            return Plan._read(Path(path))
        except ValueError as error:
            raise ValueError(f"{error} {way_on}") from error

    @staticmethod
    def _read(path: Path) -> Plan:
        version = read_fields(path, {}).get("version")
        if isinstance(version, int) and version != PLAN_VERSION:
            raise ValueError(
                f"`{path}` is a plan of version {version}, and this program follows plans of version {PLAN_VERSION}; "
                "the release of steerable that wrote it can follow it."
            )
        values = read_fields(path, PLAN, PLAN_NEEDED)
        try:
            settings = RunConfig.from_dict(values["settings"])
        except (ValueError, TypeError) as error:
            raise ValueError(f"`{path}` is not the plan of a run: {error}") from error
        missing = [name for name in settings.left_open if name != "backend"]
        missing += [layer for layer, way in values["backends"].items() if way == "auto"]  # which would measure anew
        if missing:
            raise ValueError(f"`{path}` is not the plan of a run: it leaves `{missing[0]}` open.")
        rescheduled = rescheduled_in(values)
        return Plan(
            settings,
            values["data"],
            values["backends"],
            values["accelerator"],
            values["threads"],
            None if rescheduled is None else tuple((done, epochs) for done, epochs in rescheduled),
            values.get("start"),
            values.get("looked") or "",
        )

    def differences(self, request: RunConfig) -> list[str]:
        """The settings in which the plan contradicts a request."""
        return request.as_settled_in(self.settings).differences(self.settings)

    def elsewhere(self, request: RunConfig) -> Plan:
        """This plan, on the machine that the request names."""
        return replace(self, settings=self.settings.elsewhere(request))
