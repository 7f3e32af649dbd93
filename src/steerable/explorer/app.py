"""The explorer as a web application: five tabs, served to this machine alone unless told otherwise."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from steerable.explorer.cost_tab import add_cost_tab
from steerable.explorer.filters_tab import add_filters_tab
from steerable.explorer.group_tab import add_group_tab
from steerable.explorer.model_tab import add_model_tab
from steerable.explorer.pictures import LARGEST_UPLOAD
from steerable.explorer.steer_tab import add_steer_tab
from steerable.explorer.style import STYLE

if TYPE_CHECKING:
    from fastapi import FastAPI, Request
    from starlette.middleware.base import RequestResponseEndpoint
    from starlette.responses import Response

__all__ = ["Explorer"]

# The browser itself is told to load nothing from anywhere else. Gradio's page needs inline scripts and styles.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "frame-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
_UPLOADS_LIVE = 3600  # seconds, after which Gradio deletes the files that were uploaded


class Explorer:
    """The page and its server.

    The port is taken at once, so that one that is in use is refused before anything is built.

    Args:
        host: the address to listen on.
        port: the port; 0 for any that is free.
        runs: the folder whose run folders the Model tab may open.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 7860, runs: str | Path = ".") -> None:
        self.runs = Path(runs).resolve()
        if not self.runs.is_dir():
            raise ValueError(f"`{runs}` is no folder; give the folder that holds your runs.")
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise ValueError(
                f"cannot listen on {host}:{port}: {error.strerror or error}. Choose another with --host and --port."
            ) from error
        self.port: int = self._socket.getsockname()[1]
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}"

    def application(self) -> FastAPI:
        """The page as an ASGI application."""
        # Before Gradio is imported, which reads it then; nothing is reported to anyone.
        os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
        try:
            import gradio as gr
        except ImportError as error:
            raise ImportError("the explorer needs Gradio: pip install 'steerable[explorer]'.") from error
        from fastapi import FastAPI

        with gr.Blocks(title="steerable explorer", analytics_enabled=False, delete_cache=(600, _UPLOADS_LIVE)) as page:
            gr.Markdown("# steerable explorer\nSteerable CNNs to look at: all of it is computed as you ask.")
            with gr.Tabs():
                add_group_tab()
                add_filters_tab()
                add_cost_tab()
                add_steer_tab()
                add_model_tab(self.runs)
        application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

        @application.middleware("http")
        async def with_policy(request: Request, call_next: RequestResponseEndpoint) -> Response:
            response = await call_next(request)
            response.headers["Content-Security-Policy"] = _POLICY
            return response

        gr.mount_gradio_app(
            application,
            page,
            path="/",
            footer_links=[],
            max_file_size=LARGEST_UPLOAD,
            show_error=False,
            ssr_mode=False,
            enable_monitoring=False,
            theme=gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]),
            css=STYLE,
        )
        return application

    def close(self) -> None:
        """Give the port back; ``serve`` does so by itself."""
        self._socket.close()

    def serve(self) -> None:
        """Answer until Ctrl+C."""
        import uvicorn

        with tempfile.TemporaryDirectory(prefix="steerable-explorer-") as uploads:
            os.environ["GRADIO_TEMP_DIR"] = uploads  # what people upload is gone when the server ends
            config = uvicorn.Config(self.application(), log_level="warning", timeout_graceful_shutdown=2)
            uvicorn.Server(config).run(sockets=[self._socket])
