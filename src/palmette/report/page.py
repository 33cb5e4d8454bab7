"""One self-contained HTML page: style, script and data are inline, and it loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from palmette.report.plan_view import JsonObject

SCRIPTS = ("base.js", "tree.js", "timeline.js", "loss.js", "energy.js", "pareto.js", "sliders.js", "live.js", "main.js")


def render_page(title: str, lead: str, view: JsonObject, *, live: bool = False) -> str:
    """The page of a view, as the text of an HTML file; a live one polls its own server for updates."""
    script = "(() => {\n" + "\n".join(map(_asset, SCRIPTS)) + "})();"
    parts = {
        "policy": _security_policy(script, live),
        "title": escape(title),
        "lead": escape(lead),
        "style": _asset("page.css"),
        "data": embed_json(view),
        "script": script,
    }
    return re.sub(r"@(\w+)@", lambda match: parts[match[1]], _asset("page.html"))


def render_plain_page(title: str, lead: str, body: str) -> str:
    """A page without script, in the same style; ``body`` is HTML, the rest is text."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    style = f"{_asset('page.css')}\nsection td {{ vertical-align: top; white-space: normal; min-width: 6rem; }}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>\n<main>{body}</main>\n'
        "</body>\n</html>\n"
    )


def embed_json(data: Any) -> str:
    """Data as JSON that may stand inside a script element: no ``<`` can end it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _security_policy(script: str, live: bool) -> str:
    """The content security policy: this very script may run, nothing else."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    connect = "; connect-src 'self'" if live else ""
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'{connect}"


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
