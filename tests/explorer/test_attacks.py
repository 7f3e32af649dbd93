"""A running explorer against requests that no browser with its page would send: files, names, origins, amounts."""

from __future__ import annotations

import base64
import html
import io
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explorer_client import FORM, JSON, Reply, Server, file_data, form
from PIL import Image

from steerable.explorer.hosts import Hosts
from steerable.explorer.model_tab import model_page
from steerable.explorer.run_folders import run_path
from steerable.explorer.uploads import LARGEST_UPLOAD, MOST_BYTES, MOST_UPLOADS, Uploads

SECRET = b"a secret that nobody uploaded"
Paths = dict[str, object]


def picture() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng().integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(file, "png")
    return file.getvalue()


def held(server: Server) -> dict[Path, bytes]:
    """What lies in the folder of uploads."""
    return {path: path.read_bytes() for path in server.uploads.rglob("*") if path.is_file() and not path.is_symlink()}


@pytest.fixture
def elsewhere(server: Server, tmp_path: Path) -> Iterator[Paths]:
    """Ways to name files that were not uploaded."""
    text, image = tmp_path / "secret.txt", tmp_path / "secret.png"
    text.write_bytes(SECRET)
    image.write_bytes(picture())
    link, linked_folder = server.uploads / "link.png", server.uploads / "folder"
    link.symlink_to(image)
    linked_folder.symlink_to(tmp_path)
    yield {
        "text": text,
        "image": image,
        "relative": os.path.relpath(image),
        "traversal": f"{server.uploads}/../{os.path.relpath(image, server.uploads.parent)}",
        "link": link,
        "linked folder": linked_folder / "secret.png",
        "folder itself": server.uploads,
        "sibling": f"{server.uploads}-sibling/secret.png",
        "url": "https://example.com/secret.png",
        "file url": f"file://{image}",
        "zero": f"{image}\0",
        "long": "/" + "x" * 5000,
        "number": 5,
    }
    link.unlink()
    linked_folder.unlink()


WAYS = (
    "text",
    "image",
    "relative",
    "traversal",
    "link",
    "linked folder",
    "folder itself",
    "sibling",
    "url",
    "file url",
    "zero",
    "long",
    "number",
)
WRAPPED: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda file: file,
    "in a list": lambda file: [file],
    "as a value": lambda file: {"value": file},
    "with a harmless one": lambda file: {**file, "orig_name": "a.png", "url": "http://127.0.0.1/a.png"},
}


@pytest.mark.parametrize("wrapping", WRAPPED)
@pytest.mark.parametrize("way", WAYS)
def test_no_control_reads_a_file_that_was_not_uploaded(
    server: Server, elsewhere: Paths, way: str, wrapping: str
) -> None:
    before = held(server)
    file = {**file_data(""), "path": elsewhere[way] if way == "number" else str(elsewhere[way])}
    places = [(event, k) for event in server.events() for k in range(len(event["inputs"]))]
    assert len(places) > 40  # all tabs
    assert sum(event["inputs"][k] == "file" for event, k in places) >= 3
    for event, place in places:
        data = [WRAPPED[wrapping](file) if k == place else None for k in range(len(event["inputs"]))]
        reply = server.call(event["id"], data)
        assert reply.status == 403, (event, place)
        assert "is not an uploaded file, and only files that were uploaded on this page are read" in reply.text
        assert SECRET.decode() not in reply.text
    assert held(server) == before


def test_files_elsewhere_and_files_that_do_not_exist_get_the_same_answer(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture())
    event = next(event for event in server.events() if "file" in event["inputs"])
    data = [None] * len(event["inputs"])
    found, missing = (server.call(event["id"], [file_data(tmp_path / name), *data[1:]]) for name in ("a.png", "b.png"))
    assert found.text.replace("a.png", "b.png") == missing.text


def test_a_duplicate_key_does_not_hide_a_path(server: Server, elsewhere: Paths) -> None:
    harmless = json.dumps(str(server.uploads / "a.png"))
    for first, second in ((harmless, f'"{elsewhere["image"]}"'), (f'"{elsewhere["image"]}"', harmless)):
        file = f'{{"path": {first}, "path": {second}, "meta": {{"_type": "gradio.FileData"}}}}'
        event = next(event for event in server.events() if "file" in event["inputs"])
        data = ", ".join(file if kind == "file" else "null" for kind in event["inputs"])
        body = f'{{"data": [{data}], "fn_index": {event["id"]}, "session_hash": "{secrets.token_hex()}"}}'
        reply = server.ask("/gradio_api/queue/join", body.encode(), JSON)
        assert reply.status == (403 if second != harmless else 200)
    assert all(content != Path(str(elsewhere["image"])).read_bytes() for content in held(server).values())


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("zero", "number")])
@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_no_file_that_was_not_uploaded_is_given_away(
    server: Server, elsewhere: Paths, way: str, encoded: bool, method: str
) -> None:
    path = urllib.parse.quote(str(elsewhere[way]), safe="" if encoded else "/:")
    reply = server.ask(f"/gradio_api/file={path}", method=method)
    assert reply.status == 403
    assert SECRET.decode() not in reply.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/gradio_api/call/predict"),
        ("POST", "/gradio_api/call/steer_page"),
        ("POST", "/gradio_api/call/v2/predict"),
        ("POST", "/gradio_api/run/predict"),
        ("POST", "/gradio_api/api/predict"),
        ("POST", "/gradio_api/component_server"),
        ("POST", "/gradio_api/process_recording"),
        ("POST", "/gradio_api/stream/x"),
        ("POST", "/gradio_api/vibe-code"),
        ("GET", "/gradio_api/vibe-code"),
        ("GET", "/gradio_api/deep_link?session_hash=x"),
        ("GET", "/gradio_api/proxy=https://example.com/a"),
        ("GET", "/gradio_api/file/a.png"),
        ("GET", "/gradio_api/custom_component/x/client/component/index.js"),
        ("GET", "/gradio_api/openapi.json"),
        ("GET", "/gradio_api/run-history/buckets"),
        ("GET", "/monitoring"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
        ("PUT", "/gradio_api/upload"),
        ("DELETE", "/gradio_api/queue/join"),
        ("POST", "/gradio_api/upload/"),
        ("POST", "//gradio_api/upload"),
        ("POST", "/gradio_api/queue/join/"),
    ],
)
def test_nothing_answers_that_the_page_does_not_need(server: Server, method: str, path: str) -> None:
    before = held(server)
    body = json.dumps({"data": [file_data("/etc/hostname")], "fn_index": 0, "session_hash": "x"}).encode()
    reply = server.ask(path, body if method == "POST" else None, JSON, method)
    assert reply.status == 404
    assert "the explorer has no page for" in reply.text
    assert held(server) == before


FOREIGN = (
    "evil.example",
    "evil.example:80",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "evil.example@127.0.0.1",
    "127.0.0.1@evil.example",
    "10.0.0.1",
    "[::2]",
    "",
    "localhost,evil.example",
    "localhost:80:80",
    "[::1",
)


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("path", ["/", "/config", "/gradio_api/queue/data?session_hash=x", "/gradio_api/upload"])
def test_other_names_are_not_answered(server: Server, host: str, path: str) -> None:
    reply = server.ask(path, form(("a.png", b"")) if path.endswith("upload") else None, {**FORM, "Host": host})
    assert reply.status == 400
    assert f"the explorer does not answer to the name `{host}`, only to 127.0.0.1, ::1, localhost" in reply.text
    assert "steerable explore --name NAME" in reply.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9000", "[::1]", "[0:0:0:0:0:0:0:1]:7860"])
def test_this_machines_names_are_answered_with_any_port(server: Server, host: str) -> None:
    assert server.ask("/", headers={"Host": host}).status == 200


def test_two_names_and_none_are_not_answered(server: Server) -> None:
    for headers in ("", "Host: localhost\r\nHost: evil.example\r\n", "Host: evil.example\r\nHost: localhost\r\n"):
        for version in ("1.0", "1.1"):
            place = urllib.parse.urlsplit(server.address)
            with socket.create_connection((place.hostname or "", place.port or 0), timeout=30) as connection:
                connection.sendall(f"GET / HTTP/{version}\r\n{headers}Connection: close\r\n\r\n".encode())
                assert b" 400 " in connection.recv(1000).splitlines()[0]


def test_which_names_a_server_has() -> None:
    assert not Hosts("192.168.1.5").serve("192.168.1.6")
    assert Hosts("192.168.1.5").serve("192.168.1.5:7860")
    assert Hosts("My-Server.lan").serve("my-server.LAN")
    assert not Hosts("127.0.0.1").serve("proxy.example")
    assert Hosts("127.0.0.1", ["proxy.example"]).serve("proxy.example:443")
    for everywhere in ("0.0.0.0", "::", ""):
        hosts = Hosts(everywhere)
        assert hosts.serve("192.168.1.5:7860")
        assert hosts.serve("[fe80::1]:7860")
        assert hosts.serve(socket.gethostname())
        assert not hosts.serve("evil.example")
        assert str(hosts).endswith("any IP address")


ORIGINS = ("http://evil.example", "null", "https://127.0.0.1", "http://localhost:1", "file://", "http://evil@{host}")


@pytest.mark.parametrize("origin", ORIGINS)
def test_other_pages_are_not_answered(server: Server, origin: str) -> None:
    host = urllib.parse.urlsplit(server.address).netloc
    headers = {"Origin": origin.format(host=host)}
    before = held(server)
    event = server.events()[0]
    for reply in (
        server.ask("/config", headers=headers),
        server.upload(("a.png", picture()), headers=headers),
        server.call(event["id"], [None] * len(event["inputs"]), headers),
        server.ask("/gradio_api/queue/join", headers=headers, method="OPTIONS"),
    ):
        assert reply.status == 403
        assert "the explorer answers only to its own page, and this request comes from" in reply.text
        assert "Access-Control-Allow-Origin" not in {name.title() for name in reply.headers}
    assert held(server) == before


def chunks(size: int) -> Iterator[bytes]:
    yield b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
    for _ in range(size // 2**16):
        yield bytes(2**16)
    yield b"\r\n--x--\r\n"


@pytest.mark.parametrize("excess", [1, 2**16 + 1, 2**20])
def test_files_that_are_too_large_are_refused_in_words_and_leave_nothing(server: Server, excess: int) -> None:
    before = held(server)
    reply = server.upload(("a.png", bytes(LARGEST_UPLOAD + excess)))
    assert reply.status == 413
    assert re.search(r"the file has [56]\.\d MiB; at most 5 are taken\. Shrink the image\.", reply.text)
    assert held(server) == before


def test_a_size_that_is_not_announced_is_measured(server: Server) -> None:
    before = held(server)
    assert server.ask("/gradio_api/upload", chunks(2**23), FORM).status == 413
    assert held(server) == before


def test_the_largest_file_is_taken(server: Server) -> None:
    reply = server.upload(("a.png", bytes(LARGEST_UPLOAD)))
    assert reply.status == 200
    (path,) = json.loads(reply.text)
    assert Path(path).stat().st_size == LARGEST_UPLOAD
    Path(path).unlink()


@pytest.mark.parametrize(
    ("body", "headers", "message"),
    [
        (form(("a.png", b"1"), ("b.png", b"2")), FORM, "Too many files. Maximum number of files is 1."),
        (form(), FORM, "this one has 0"),
        (form(("a.png", b"1")), {"Content-Type": "multipart/form-data"}, "Missing boundary"),
        (form(("a.png", b"1")), JSON, "this one has 0"),
        (b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n', FORM, "Too many fields"),
        (form(("a.png", b"1")).replace(b'"files"', b'"other"'), FORM, "this one has 0"),
    ],
)
def test_an_upload_is_one_file(server: Server, body: bytes, headers: dict[str, str], message: str) -> None:
    before = held(server)
    reply = server.ask("/gradio_api/upload", body, headers)
    assert reply.status == 400
    assert "an upload is a form with one file called `files`" in reply.text
    assert message in reply.text
    assert held(server) == before


def test_names_of_uploads_stay_in_the_folder(server: Server) -> None:
    for name in ("../../../../tmp/a.png", "/etc/a.png", "..", "a/../../b.png", "..\\..\\a.png", "<img src=x>.png"):
        reply = server.upload((name, picture()))
        if reply.status != 200:
            continue
        for path in json.loads(reply.text):
            assert Path(path).resolve().is_relative_to(server.uploads)
            Path(path).unlink()


def refused(reply: Reply, message: str) -> None:
    assert reply.status == 507
    assert message in reply.text
    assert "Uploads are deleted after 60 minutes: try again later, or start the explorer again." in reply.text


def test_too_many_files_are_refused_in_words(server: Server) -> None:
    crowd = server.uploads / "crowd"
    crowd.mkdir()
    try:
        for number in range(MOST_UPLOADS - len(held(server)) - 1):
            (crowd / f"{number}.png").touch()
        assert server.upload(("last.png", picture())).status == 200
        refused(server.upload(("more.png", picture())), f"the explorer holds {MOST_UPLOADS} uploads")
    finally:
        shutil.rmtree(crowd)
    assert server.upload(("again.png", picture())).status == 200


def test_too_much_is_refused_in_words(server: Server) -> None:
    large = server.uploads / "large.bin"
    try:
        with large.open("wb") as file:
            file.truncate(MOST_BYTES - LARGEST_UPLOAD)  # takes no room on the disk
        refused(server.upload(("more.png", picture())), "the uploads have nearly 100 MiB together")
    finally:
        large.unlink()
    assert server.upload(("again.png", picture())).status == 200


def until(server: Server, status: int) -> Reply:
    """The answer to an upload once it has this status: connections are opened and closed in their own time."""
    for _ in range(100):
        reply = server.upload(("a.png", SECRET))
        if reply.status == status:
            break
        time.sleep(0.1)
    return reply


def test_uploads_that_never_end_are_counted_until_they_are_gone(server: Server) -> None:
    place = urllib.parse.urlsplit(server.address)
    head = f"POST /gradio_api/upload HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: 4000000\r\n"
    head += f"Content-Type: {FORM['Content-Type']}\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(MOST_BYTES // LARGEST_UPLOAD):
            connection = socket.create_connection((place.hostname or "", place.port or 0), timeout=30)
            stack.enter_context(connection).sendall(head.encode() + b"--x\r\n")
        refused(until(server, 507), "the uploads have nearly 100 MiB together")
    assert until(server, 200).status == 200


def test_large_and_odd_questions_are_refused(server: Server) -> None:
    for body, status, words in (
        (b'"' + b"x" * 2**20 + b'"', 413, "the request has 1,048,578 bytes; at most 65,536 are read."),
        (b"[" * 60_000, 400, "is not JSON"),
        (b"no JSON", 400, "is not JSON"),
        (b"\xff\xfe", 400, "is not JSON"),
        (b"", 400, "is not JSON"),
    ):
        reply = server.ask("/gradio_api/queue/join", body, JSON)
        assert reply.status == status
        assert words in reply.text


def images(reply: Reply) -> list[bytes]:
    """The pictures of a page that a function has given."""
    (line,) = [line for line in reply.text.splitlines() if '"process_completed"' in line]
    page = json.loads(line.removeprefix("data: "))["output"]["data"][0]
    return [base64.b64decode(text) for text in re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", page)]


def test_a_page_of_our_own_uploads_steers_and_fetches(server: Server) -> None:
    own = {"Origin": server.address}
    content = picture()
    reply = server.upload(("mine.png", content), headers=own)
    assert reply.status == 200
    (path,) = json.loads(reply.text)
    assert Path(path).is_relative_to(server.uploads)
    fetched = server.ask(f"/gradio_api/file={path}", headers=own)
    assert fetched.status == 200
    assert fetched.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert fetched.headers["x-content-type-options"] == "nosniff"
    steer = [event for event in server.events() if "file" in event["inputs"] and len(event["inputs"]) == 7][-1]
    arguments = ["D4", "qm", "r", "sailing boat", None, 20, 9]
    boat = images(server.call(steer["id"], arguments, own))
    arguments[4] = {**file_data(path), "orig_name": "mine.png", "url": f"{server.address}/gradio_api/file={path}"}
    uploaded = images(server.call(steer["id"], arguments, own))
    assert len(boat) == len(uploaded) > 10
    assert boat != uploaded
    assert sum(1 for found in held(server).values() if found == content) == 1  # not copied
    before = held(server)
    Path(path).unlink()
    assert "the uploaded file was deleted in the meantime" in server.call(steer["id"], arguments, own).text
    assert set(held(server)) == set(before) - {Path(path)}


def test_a_drawing_is_not_shown_with_its_scripts(server: Server) -> None:
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    (path,) = json.loads(server.upload(("a.svg", drawing)).text)
    for event in server.events():
        if "file" in event["inputs"]:
            server.call(event["id"], [file_data(path) if kind == "file" else None for kind in event["inputs"]])
    reply = server.ask(f"/gradio_api/file={path}")
    assert reply.headers["content-disposition"].startswith("attachment")
    assert reply.headers["content-security-policy"].startswith("sandbox;")


WITHOUT_THE_GATE = """
import json, sys
from pathlib import Path
from starlette.testclient import TestClient
from steerable.explorer import Explorer

question, runs, uploads = sys.argv[1:]
application = Explorer(port=0, runs=runs).application(Path(uploads))
application.user_middleware.clear()
with TestClient(application) as browser:
    joined = browser.post("/gradio_api/queue/join", json=json.loads(question))
    print(joined.status_code, browser.get("/gradio_api/queue/data", params={"session_hash": "x"}).text)
"""


def test_gradio_knows_that_the_page_is_served(tmp_path: Path) -> None:
    """Behind the gate, Gradio's own checks are the second line: without them it copies any file to its uploads."""
    secret, uploads = tmp_path / "secret.png", tmp_path / "uploads"
    secret.write_bytes(picture())
    uploads.mkdir()
    question = json.dumps({"data": [file_data(secret)], "fn_index": 0, "session_hash": "x"})
    command = [sys.executable, "-c", WITHOUT_THE_GATE, question, str(tmp_path), str(uploads)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert answer.startswith("200 ")
    assert '"success":false' in answer
    assert [path for path in uploads.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", ["report.html", "results.json", "model/model.safetensors", "model/config.json"])
def test_a_run_with_a_link_to_elsewhere_is_not_opened(runs: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(runs / "steerable", tmp_path / "runs" / "linked")
    file = tmp_path / "runs" / "linked" / name
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=rf"`{name}` of the run `linked` is a link to a file that is not below"):
        run_path(tmp_path / "runs", "linked")
    (tmp_path / "uploads").mkdir()
    page = model_page(tmp_path / "runs", Uploads(tmp_path / "uploads"), "linked", "digit 3", None)
    assert "Put the file itself there" in html.unescape(page)
    file.unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "runs" / "shared")  # below the folder of runs, a link may lead anywhere
    file.symlink_to(tmp_path / "runs" / "shared")
    assert run_path(tmp_path / "runs", "linked") == tmp_path / "runs" / "linked"
