"""Learning curves from the files that a run writes while it trains."""

from __future__ import annotations

from pathlib import Path

from steerable.training.requests.limits import MOST_EPOCHS

__all__ = ["Curve", "read_curves"]

Curve = dict[int, float]
"""A metric by epoch, the first epoch being 1."""


def read_curves(folder: Path) -> dict[str, Curve]:
    """Metrics of training and validation by epoch; if a resumed run repeated epochs, their last values count."""
    curves: dict[str, Curve] = {}
    for path in sorted(path for path in folder.glob("*.csv") if path.is_file()):
        heads: list[str] = []
        # Cells that are not numbers are left out: a run may have been killed in the middle of a line.
        for line in path.read_text("utf-8", errors="replace").splitlines():
            row = line.split(",")
            if "epoch" in row or not heads:  # a resumed run may have written its own header
                heads = row
                continue
            cells = dict(zip(heads, row, strict=False))
            epoch = _number(cells.get("epoch"))
            if epoch is None or not 0 <= epoch < MOST_EPOCHS:
                continue
            for head, cell in cells.items():
                value = _number(cell)
                if value is not None and head.startswith(("train_", "val_")):
                    curves.setdefault(head, {})[int(epoch) + 1] = value
    return {head: dict(sorted(curve.items())) for head, curve in sorted(curves.items())}


def _number(cell: str | None) -> float | None:
    try:
        return float(cell) if cell else None
    except ValueError:
        return None
