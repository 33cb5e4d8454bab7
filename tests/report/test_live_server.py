"""The live page's server: one reader, who knows the address."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from palmette.errors import InputError
from palmette.report.live_run import LiveRun
from palmette.report.live_server import LiveServer
from tests.report.folders import run_folder, tree


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    with LiveServer(LiveRun(run_folder(tmp_path / "run", tree()))) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server: LiveServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_the_page_and_its_news(server: LiveServer) -> None:
    status, text = ask(server, f"/{server.token}/")
    assert status == 200
    assert "connect-src 'self'" in text
    status, text = ask(server, f"/{server.token}/data?now")
    assert (status, json.loads(text)["entries"][0]["run"]["ended"]) == (200, "done")
    assert ask(server, f"/{server.token}/other")[0] == 404


@pytest.mark.parametrize("path", ["/", "/data", "/wrong/", "/wrong/data", "//", "/%C3%BC/", "/%00/"])
def test_without_the_token_there_is_nothing(server: LiveServer, path: str) -> None:
    assert ask(server, path)[0] == 403


def test_part_of_the_token_is_not_the_token(server: LiveServer) -> None:
    assert ask(server, f"/{server.token[:-1]}/data")[0] == 403
    assert ask(server, f"/{server.token}x/data")[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "evil.example:80", ""])
def test_another_host_name_gets_nothing(server: LiveServer, host: str) -> None:
    assert ask(server, f"/{server.token}/data", Host=host)[0] == 403


def test_localhost_is_this_machine_too(server: LiveServer) -> None:
    assert ask(server, f"/{server.token}/data", Host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_only_reading(server: LiveServer, method: str) -> None:
    assert ask(server, f"/{server.token}/", method)[0] == 501


def test_only_this_machine_can_reach_it(server: LiveServer) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_tokens_differ(server: LiveServer, tmp_path: Path) -> None:
    with LiveServer(LiveRun(tmp_path / "run")) as other:
        assert other.token != server.token
        assert len(other.token) >= 32


def test_a_port_that_is_taken_is_refused(server: LiveServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="port"):
        LiveServer(LiveRun(tmp_path / "run"), server.server_port)
