"""The body of a request: read up to a limit, checked, and handed on to be read again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from steerable.explorer.uploads import LARGEST_UPLOAD, too_large

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope

__all__ = ["RefusedRequest", "check_form", "named_paths", "read_again", "read_body"]

_READ_AWAY = 64 * 2**20  # bytes that are read of a request that is too large: a browser shows an answer only after it


class RefusedRequest(Exception):
    """A request that is not answered, and the reason.

    Args:
        status: the status of the HTTP response.
        reason: what the reader is told.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


async def read_body(receive: Receive, largest: int) -> bytes:
    """All of a request's body; RefusedRequest if it is too large, or if the sender is gone."""
    parts, size = [], 0
    while size <= _READ_AWAY:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusedRequest(400, "the connection was closed before the request was complete.")
        part = message.get("body", b"")
        size += len(part)
        if size <= largest:
            parts.append(part)
        if not message.get("more_body", False):
            break
    if size > largest:
        words = f"the request has {size:,} bytes; at most {largest:,} are read."
        raise RefusedRequest(413, too_large(size) if largest > LARGEST_UPLOAD else words)
    return b"".join(parts)


async def check_form(scope: Scope, body: bytes) -> None:
    """Refuse a form unless it contains one file that is not too large."""
    from starlette.datastructures import UploadFile
    from starlette.exceptions import HTTPException
    from starlette.formparsers import MultiPartException
    from starlette.requests import Request

    async def nothing() -> Message:
        return {"type": "http.disconnect"}

    try:
        async with Request(scope, read_again(body, nothing)).form(max_files=1, max_fields=0) as form:
            files = [file for file in form.getlist("files") if isinstance(file, UploadFile)]
            if len(files) != 1:
                raise RefusedRequest(
                    400, f"an upload is a form with one file called `files`; this one has {len(files)}."
                )
            if (files[0].size or 0) > LARGEST_UPLOAD:
                raise RefusedRequest(413, too_large(files[0].size or 0))
    except (HTTPException, MultiPartException) as error:
        reason = error.detail if isinstance(error, HTTPException) else error.message
        raise RefusedRequest(400, f"an upload is a form with one file called `files`. {reason}") from error


def named_paths(value: Any) -> Iterator[object]:
    """Yield every value of "path" anywhere in a request, because Gradio reads such files wherever they are."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if "path" in item:
                yield item["path"]
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def read_again(body: bytes, after: Receive) -> Receive:
    """A channel that yields a body that has been read before, and then whatever comes after it."""
    unread = True

    async def receive() -> Message:
        nonlocal unread
        if unread:
            unread = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await after()

    return receive
