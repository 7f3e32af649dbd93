"""What holds for all tests; besides, this file's folder is on the path, so that tests can import `command_line`."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import torch

torch.set_num_threads(1)  # tensors are tiny, and pytest-xdist runs a process per core


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Give every test the same weights and inputs in every run: errors off the pixel grid depend on them."""
    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Iterator[None]:
    """Let Ctrl-C reach the processes that tests start.

    A script's background jobs ignore SIGINT, and so do all the processes that they start. Tests that interrupt a
    process would wait for it in vain.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, before)
