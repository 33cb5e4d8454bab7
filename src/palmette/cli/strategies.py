"""``palmette strategies``: the list of strategies."""

from __future__ import annotations

from palmette.cli import options as opt


def strategies(json_: opt.Json = False) -> None:
    """List the strategies, one per line.

    Example: palmette strategies
    """
    from palmette.cli.show.console import print_json
    from palmette.plan.core.registry import strategies as known

    if json_:
        print_json({"strategies": [{"name": kind.name, "summary": kind.summary} for kind in known().values()]})
        return
    wide = max(map(len, known()))
    for kind in known().values():
        print(f"{kind.name:{wide}}  {kind.summary}")
