"""The plan of the experiment: plan.toml as one value per run."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from digit_networks import Filters

from steerable.errors import did_you_mean

__all__ = ["HERE", "Run", "planned"]

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Run:
    """One network with one seed, and how it learns: each epoch shows every image turned by up to ``angle`` degrees."""

    name: str
    group: str
    seed: int
    parameters: int
    epochs: int
    batch: int
    learning_rate: float
    weight_decay: float
    angle: float
    filters: str = "default"
    leak: float | None = None

    @property
    def filter_choice(self) -> Filters:
        return Filters(self.filters, self.leak)

    @property
    def file_name(self) -> str:
        """Such as ``C16-leak-0.01-seed0``."""
        return f"{self.name.replace(', ', '-').replace(' ', '-')}-seed{self.seed}"


def planned(plan: dict[str, Any] | None = None) -> list[Run]:
    """All runs, seed by seed, so that an experiment cut short has every network once."""
    plan = tomllib.loads((HERE / "plan.toml").read_text("utf-8")) if plan is None else plan
    known = {field.name for field in fields(Run)} - {"seed"} | {"seeds"}
    networks = [{**plan["common"], **run} for run in plan["runs"]]
    for network in networks:
        for key in network.keys() - known:
            raise ValueError(f"a run of plan.toml has no setting `{key}`. {did_you_mean(key, sorted(known))}")
    names = [network["name"] for network in networks]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two runs of plan.toml are called {repeated[0]!r}; their results would be mixed up.")
    seeds = sorted({seed for network in networks for seed in network["seeds"]})
    return [
        Run(seed=seed, **{key: value for key, value in network.items() if key != "seeds"})
        for seed in seeds
        for network in networks
        if seed in network["seeds"]
    ]
