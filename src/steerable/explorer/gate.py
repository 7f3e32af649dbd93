"""The conditions that a request must meet before the page sees it: its host, origin, size and path.

Gradio serves much that this page does not use, reads the files that a request names, and accepts any number of uploads.
Here everything that the page does not need is refused, whichever part of Gradio would answer it.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import nullcontext
from typing import TYPE_CHECKING

from steerable.explorer.hosts import Hosts
from steerable.explorer.request_bodies import RefusedRequest, check_form, named_paths, read_again, read_body
from steerable.explorer.uploads import LARGEST_UPLOAD, Uploads, UploadsFull

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Gate"]

# The browser itself is told to load nothing from anywhere else. Gradio's page needs inline scripts and styles.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "frame-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
_UPLOADED_POLICY = "sandbox; default-src 'none'"  # an uploaded file may be a page or a drawing with scripts

_FILE, _UPLOAD = "/gradio_api/file=", "/gradio_api/upload"
_READ = re.compile(
    r"/(config|theme\.css|favicon\.ico|manifest\.json|robots\.txt)?"
    r"|/(assets|static|svelte)/.*"
    r"|/gradio_api/(info|startup-events|upload_progress|queue/data|heartbeat/[^/]*|file=.*)",
    re.DOTALL,
)
_WRITTEN = (_UPLOAD, "/gradio_api/queue/join", "/gradio_api/reset", "/gradio_api/cancel")
_LARGEST_QUESTION = 64 * 2**10  # bytes of a request that is not an upload, and of what surrounds a file in one that is
_PATIENCE = 60  # seconds for the whole of a request


class Gate:
    """ASGI middleware that lets the requests of the explorer's page through, and refuses all others with a message.

    Args:
        app: what is behind it.
        hosts: the names that it answers to.
        uploads: the only files that a request may name.
    """

    def __init__(self, app: ASGIApp, *, hosts: Hosts, uploads: Uploads) -> None:
        self.app, self.hosts, self.uploads = app, hosts, uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse

        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # the page opens no WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope)
        send = _with_headers(send, _UPLOADED_POLICY if scope["path"].startswith(_FILE) else _POLICY)
        try:
            self._check_sender(request)
            self._check_path(request.method, scope["path"])
            if request.method != "POST":
                await self.app(scope, receive, send)
                return
            with self.uploads.arrival() if scope["path"] == _UPLOAD else nullcontext():
                body = await self._checked_body(request, receive)
                await self.app(scope, read_again(body, receive), send)
        except UploadsFull as full:
            await PlainTextResponse(f"{full}\n", 507)(scope, receive, send)
        except RefusedRequest as refusal:
            await PlainTextResponse(f"{refusal}\n", refusal.status)(scope, receive, send)

    def _check_sender(self, request: Request) -> None:
        host = ", ".join(request.headers.getlist("host"))  # of two, none is believed
        if not self.hosts.serve(host):
            raise RefusedRequest(
                400,
                f"the explorer does not answer to the name `{host}`, only to {self.hosts}. If that is its name, start "
                "it with `steerable explore --name NAME`.",
            )
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            raise RefusedRequest(
                403, f"the explorer answers only to its own page, and this request comes from `{origin}`."
            )

    def _check_path(self, method: str, path: str) -> None:
        known = path in _WRITTEN if method == "POST" else method in ("GET", "HEAD") and _READ.fullmatch(path)
        if not known:
            raise RefusedRequest(404, f"the explorer has no page for {method} {path}.")
        if path.startswith(_FILE):
            self._check_file(path.removeprefix(_FILE))

    def _check_file(self, path: object) -> None:
        try:
            self.uploads.file(path)
        except ValueError as error:
            raise RefusedRequest(403, str(error)) from error

    async def _checked_body(self, request: Request, receive: Receive) -> bytes:
        """The body of a POST request: one file, or a question whose files are uploads."""
        is_upload = request.scope["path"] == _UPLOAD
        try:
            async with asyncio.timeout(_PATIENCE):
                body = await read_body(receive, _LARGEST_QUESTION + (LARGEST_UPLOAD if is_upload else 0))
        except TimeoutError as error:
            raise RefusedRequest(408, f"the request did not arrive within {_PATIENCE} seconds. Try again.") from error
        if is_upload:
            await check_form(request.scope, body)
            return body
        try:
            question = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RefusedRequest(400, "the request's body is not JSON.") from error
        for path in named_paths(question):
            self._check_file(path)
        return json.dumps(question).encode()  # exactly what was checked, however the text might be read elsewhere


def _with_headers(send: Send, policy: str) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = ((b"content-security-policy", policy.encode()), (b"x-content-type-options", b"nosniff"))
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return with_headers
