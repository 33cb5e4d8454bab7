"""Serves the live page of a run on loopback.

The address contains a random token; requests without it, and from other machines, are refused. The Host header must
name loopback, so that no page of another site can reach the server through a name that it controls (DNS rebinding).
"""

from __future__ import annotations

import hmac
import json
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from palmette.errors import ArgumentFault, InputError
from palmette.report.build import page_title
from palmette.report.live_run import LiveRun
from palmette.report.page import render_page

LOOPBACK = "127.0.0.1"


class LiveServer(ThreadingHTTPServer):
    """Serves the page of a run in progress, and its updates."""

    daemon_threads = True

    def __init__(self, run: LiveRun, port: int = 0) -> None:
        """Raises InputError where the port cannot be used."""
        self.token = secrets.token_urlsafe(24)
        self._run, self._lock = run, Lock()
        try:
            super().__init__((LOOPBACK, port), _Answer)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "expected 0 to 65535"
            raise InputError(ArgumentFault("port", port, f"cannot be used: {reason}")) from None

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def knows(self, host: str | None) -> bool:
        """Whether a Host header names this server by loopback."""
        return host in (f"{LOOPBACK}:{self.server_port}", f"localhost:{self.server_port}")

    def answer(self, path: str) -> tuple[str, str] | None:
        """The content type and text of a path below the token; None where there is none."""
        if path not in ("", "data"):
            return None
        with self._lock:
            view = self._run.view()
        if path == "data":
            return "application/json", json.dumps(view, allow_nan=False)
        entry = self._run.entry
        return "text/html", render_page(page_title([entry]), f"Run {entry.name}, live", view, live=True)


class _Answer(BaseHTTPRequestHandler):
    server: LiveServer
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        token, _, path = self.path.partition("?")[0].removeprefix("/").partition("/")
        known = hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode())
        if not (known and self.server.knows(self.headers.get("Host"))):
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "forbidden\n")
            return
        found = self.server.answer(path)
        if found is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "not found\n")
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
        """Log nothing: requests contain the token."""
