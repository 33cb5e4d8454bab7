"""What a hub leaves behind when it ends."""

from __future__ import annotations

import asyncio

import pytest

from palmette.runtime.engines.hub import server


def test_handlers_end_and_what_grpc_wraps_around_them_is_not_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def handler() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("handler")

    async def around() -> None:  # begins only when the hub is ending, and ends after its handler
        await asyncio.create_task(handler())
        ended.append("around")

    async def leave() -> set[asyncio.Task[None]]:
        asyncio.create_task(around())  # noqa: RUF006  (nobody waits for it, as for those of gRPC)
        await server._end_tasks()
        return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]

    monkeypatch.setattr(server, "_GRPC_CALL", "around")
    assert asyncio.run(leave()) == set()
    assert ended == ["handler", "around"]
