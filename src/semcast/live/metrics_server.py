"""A port that serves one page: a function that makes it in, answers to GET /metrics out.

One request after the other, from a thread of its own, and none for longer than a few seconds. Knows
nothing of what is on the page.
"""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final

from semcast.live.refusal import refused

_REQUEST_S: Final = 5.0


class MetricsServer:
    """Answers GET /metrics, one request after the other, from a thread of its own."""

    def __init__(self, host: str, port: int, page: Callable[[], str]) -> None:
        """Port 0 is one that the system chooses; see `port`."""
        handler = type("Handler", (_Handler,), {"page": staticmethod(page)})
        try:
            self._server: Final = _Server((host, port), handler)
        except (OSError, OverflowError) as error:
            reason = error if isinstance(error, OSError) else OSError(str(error))
            raise refused(f"cannot serve metrics on {host} port {port}", reason) from None
        self.port: Final = int(self._server.server_address[1])
        self._thread: Final = threading.Thread(
            target=self._server.serve_forever, name=f"semcast metrics {self.port}", daemon=True
        )

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(HTTPServer):
    # The next life of a member may begin while connections of the last one linger.
    allow_reuse_address = True


class _Handler(BaseHTTPRequestHandler):
    page: Callable[[], str]
    # A client that says nothing holds others up for no longer than this.
    timeout = _REQUEST_S
    server_version = "semcast"

    def do_GET(self) -> None:
        """The one page there is."""
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "only /metrics is here")
            return
        text = self.page().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Say nothing: this is not the application's business."""
