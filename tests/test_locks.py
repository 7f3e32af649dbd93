"""Locks between processes: held by one, waited for by another, done without where the file system has none."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from steerable import locks
from steerable.locks import exclusive

pytestmark = pytest.mark.skipif(locks.fcntl is None, reason="the system has no locks")


class Calls:
    """An ``flock`` that fails with each of some errors, one after the other, and then works."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.made = 0

    def __call__(self, handle: int, operation: int) -> None:
        self.made += 1
        if self.errors:
            number = self.errors.pop(0)
            raise OSError(number, os.strerror(number))


def use(monkeypatch: pytest.MonkeyPatch, *errors: int) -> Calls:
    calls = Calls(*errors)
    monkeypatch.setattr(locks, "fcntl", SimpleNamespace(flock=calls, LOCK_EX=2, LOCK_NB=4))
    return calls


def test_one_holds_a_lock_at_a_time(tmp_path: Path) -> None:
    with exclusive(tmp_path / "lock") as first, exclusive(tmp_path / "lock", seconds=0.01) as second:
        assert (first, second) == (True, False)
    with exclusive(tmp_path / "lock") as third:
        assert third


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EIO])
def test_a_file_system_without_locks_is_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    calls = use(monkeypatch, number, number)
    with exclusive(tmp_path / "lock", seconds=60) as alone:
        assert alone
    assert calls.made == 1  # nobody waits for a lock that cannot be had


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EWOULDBLOCK])
def test_another_process_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    calls = use(monkeypatch, number, number, number)
    with exclusive(tmp_path / "lock", seconds=60) as alone:
        assert alone
    assert calls.made == 4
    use(monkeypatch, number)
    with exclusive(tmp_path / "lock") as alone:
        assert not alone
