"""The tutorials' code runs in ``make doctests``, each page in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page writes does not land in the repository."""
    monkeypatch.chdir(tmp_path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name == "exporting.md":  # a warning of torch.onnx about torch's own code
            item.add_marker(pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning"))
