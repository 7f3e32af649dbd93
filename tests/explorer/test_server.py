"""The explorer's server: what it sends with a page, where it listens."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from steerable.explorer import Explorer

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def test_the_browser_is_told_to_load_nothing_from_elsewhere(address: str) -> None:
    with OPENER.open(address, timeout=30) as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "connect-src 'self'" in policy
    assert "http" not in policy


def test_it_listens_on_this_machine_alone_unless_told_otherwise(tmp_path: Path) -> None:
    explorer = Explorer(port=0, runs=tmp_path)
    try:
        assert explorer.url == f"http://127.0.0.1:{explorer.port}"
        assert explorer.runs == tmp_path.resolve()
        with pytest.raises(ValueError, match=rf"cannot listen on 127.0.0.1:{explorer.port}: .*--port"):
            Explorer(port=explorer.port, runs=tmp_path)
    finally:
        explorer.close()


def test_a_folder_of_runs_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not a folder\. Give the folder that holds your runs"):
        Explorer(port=0, runs=tmp_path / "nothing")
