"""A page that is alive: a small server on loopback for one reader, who knows its address.

The address holds a random token; whoever does not know it gets nothing, and nobody but this machine gets anywhere. The
Host header has to name loopback, so that no page of another site can ask through a name that it controls.
"""

from __future__ import annotations

import hmac
import json
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from palmette.errors import Fault, InputError
from palmette.report.build import title_of
from palmette.report.live_run import Follower
from palmette.report.page import page

LOOPBACK = "127.0.0.1"


class LiveServer(ThreadingHTTPServer):
    """Serves the page of a run that goes on, and news of it."""

    daemon_threads = True

    def __init__(self, follower: Follower, port: int = 0) -> None:
        """Raises InputError where the port cannot be had."""
        self.token = secrets.token_urlsafe(24)
        self._follower, self._turn = follower, Lock()
        try:
            super().__init__((LOOPBACK, port), _Answer)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "expected 0 to 65535"
            raise InputError(Fault("--port", port, f"cannot be had: {reason}")) from None

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def knows(self, host: str | None) -> bool:
        """Whether a Host header names this server by loopback."""
        return host in (f"{LOOPBACK}:{self.server_port}", f"localhost:{self.server_port}")

    def answer(self, place: str) -> tuple[str, str] | None:
        """What stands at a place below the token: its type and its text; None where there is nothing."""
        if place not in ("", "data"):
            return None
        with self._turn:
            view = self._follower.view()
        if place == "data":
            return "application/json", json.dumps(view, allow_nan=False)
        entry = self._follower.entry
        return "text/html", page(title_of([entry]), f"Run {entry.name}, as it goes on", view, live=True)


class _Answer(BaseHTTPRequestHandler):
    server: LiveServer
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        token, _, place = self.path.partition("?")[0].removeprefix("/").partition("/")
        known = hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode())
        if not (known and self.server.knows(self.headers.get("Host"))):
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "forbidden\n")
            return
        found = self.server.answer(place)
        if found is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here\n")
        else:
            self._send(HTTPStatus.OK, *found)

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name that it has in http.server
        """Say nothing: the terminal is somebody's, and requests hold the token."""
