"""The explorer as a web application: five tabs, served to this machine alone by default."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from steerable.explorer.cost_tab import add_cost_tab
from steerable.explorer.filters_tab import add_filters_tab
from steerable.explorer.gate import Gate
from steerable.explorer.group_tab import add_group_tab
from steerable.explorer.hosts import Hosts, listens_everywhere
from steerable.explorer.model_tab import add_model_tab
from steerable.explorer.run_folders import run_folders
from steerable.explorer.steer_tab import add_steer_tab
from steerable.explorer.uploads import LARGEST_UPLOAD, UPLOADS_LIVE, Uploads
from steerable.extras import require

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["Explorer"]


class Explorer:
    """The page and its server.

    The port is taken at once: one that is in use is refused before anything is built.

    Args:
        host: the address to listen on.
        port: the port; 0 for any that is free.
        runs: the folder whose run folders the Model tab may open.
        names: names by which browsers reach it besides ``host`` and ``localhost``; requests for others are refused.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 7860, runs: str | Path = ".", names: Sequence[str] = ()
    ) -> None:
        self.runs = Path(runs).resolve()
        if not self.runs.is_dir():
            raise ValueError(f"`{runs}` is not a folder. Give the folder that holds your runs.")
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise ValueError(
                f"cannot listen on {host}:{port}: {error.strerror or error}. Choose another with --host and --port."
            ) from error
        self.port: int = self._socket.getsockname()[1]
        self.hosts = Hosts(host, names)
        shown = "127.0.0.1" if listens_everywhere(host) else host
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}"

    def application(self, folder: Path) -> FastAPI:
        """The page as an ASGI application.

        Args:
            folder: an empty folder for what is uploaded.
        """
        uploads = Uploads(folder)
        os.environ["GRADIO_TEMP_DIR"] = str(uploads.folder)
        # Before Gradio is imported, which reads it then; nothing is reported to anyone.
        os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
        require("gradio", purpose="the explorer")
        import gradio as gr
        from fastapi import FastAPI

        with gr.Blocks(title="steerable explorer", analytics_enabled=False, delete_cache=(600, UPLOADS_LIVE)) as page:
            gr.Markdown("# steerable explorer\nSteerable CNNs to look at. Everything is computed on demand.")
            has_a_model = bool(run_folders(self.runs))  # whoever has one comes for it
            with gr.Tabs():
                if has_a_model:
                    add_model_tab(self.runs, uploads)
                add_group_tab()
                add_filters_tab()
                add_cost_tab()
                add_steer_tab(uploads)
                if not has_a_model:
                    add_model_tab(self.runs, uploads)
        application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        application.add_middleware(Gate, hosts=self.hosts, uploads=uploads)
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
            css=files("steerable.explorer").joinpath("explorer.css").read_text("utf-8"),
        )
        # What ``launch`` would set. Without it Gradio takes every request for a part of building the page: it copies
        # any file that one names to where it can be fetched, and shows drawings with their scripts.
        page.has_launched = page.is_running = True
        return application

    def close(self) -> None:
        """Release the port; after ``serve`` this is not needed."""
        self._socket.close()

    def serve(self) -> None:
        """Answer requests until Ctrl+C."""
        import uvicorn

        # What people upload is gone when the server ends.
        with tempfile.TemporaryDirectory(prefix="steerable-explorer-") as folder:
            application = self.application(Path(folder))
            config = uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=2)
            uvicorn.Server(config).run(sockets=[self._socket])
