"""A running explorer and a client for it that, unlike a browser, sends whatever it likes."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Reply:
    status: int
    text: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Server:
    """Where an explorer listens, and the folder in which it has put its uploads."""

    address: str
    uploads: Path

    def ask(
        self, path: str, data: Any = None, headers: Mapping[str, str] | None = None, method: str | None = None
    ) -> Reply:
        """One request, with a path that is sent as it is; ``data`` is bytes or an iterable of them, sent in chunks."""
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.address).netloc, timeout=60)
        try:
            connection.request(method or ("GET" if data is None else "POST"), path, data, dict(headers or {}))
            answer = connection.getresponse()
            return Reply(answer.status, answer.read().decode("utf-8", "replace"), dict(answer.headers.items()))
        finally:
            connection.close()

    def upload(self, *files: tuple[str, bytes], headers: Mapping[str, str] | None = None) -> Reply:
        return self.ask("/gradio_api/upload", form(*files), {**FORM, **(headers or {})})

    def events(self) -> list[dict[str, Any]]:
        """What the page can ask for: functions, with the ids and the names of their inputs."""
        config = json.loads(self.ask("/config").text)
        kinds = {component["id"]: component["type"] for component in config["components"]}
        return [{"id": found["id"], "inputs": [kinds[k] for k in found["inputs"]]} for found in config["dependencies"]]

    def call(self, event: int, data: list[Any], headers: Mapping[str, str] | None = None) -> Reply:
        """Have a function computed as the page does: join the queue, then read what comes of it."""
        session = uuid.uuid4().hex
        question = {"data": data, "fn_index": event, "session_hash": session}
        joined = self.ask("/gradio_api/queue/join", json.dumps(question).encode(), {**JSON, **(headers or {})})
        if joined.status != 200:
            return joined
        return self.ask(f"/gradio_api/queue/data?session_hash={session}", headers=headers)


FORM = {"Content-Type": "multipart/form-data; boundary=x"}


def form(*files: tuple[str, bytes]) -> bytes:
    parts = (
        f'--x\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode() + content + b"\r\n"
        for name, content in files
    )
    return b"".join(parts) + b"--x--\r\n"


def file_data(path: object) -> dict[str, Any]:
    """What a browser sends for an uploaded file."""
    return {"path": str(path), "meta": {"_type": "gradio.FileData"}}


@contextmanager
def running_explorer(runs: Path, temporary: Path) -> Iterator[Server]:
    """``steerable explore`` in a process of its own; Ctrl+C ends it without a complaint, and nothing is left."""
    command = [sys.executable, "-m", "steerable.cli", "explore", "--port", "0", "--runs", str(runs)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "TMPDIR": str(temporary)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            line = "" if server.stdout is None else server.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert found is not None, line
            address = found[0]
            Server(address, temporary).ask("/config")  # waits until it answers
            (uploads,) = temporary.glob("steerable-explorer-*")
            yield Server(address, uploads)
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=30) == 0
            assert list(temporary.glob("steerable-explorer-*")) == []
