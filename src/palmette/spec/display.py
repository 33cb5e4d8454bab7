"""How things look where a person works with them: a short text in a shell, HTML in a notebook.

HTML is drawn in ``report``, which stands above; whoever knows it says so once, by ``render_html_with``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Renderer = Callable[["Displayed"], str]
_renderers: list[Renderer] = []


def render_html_with(renderer: Renderer) -> None:
    """Let notebooks show things by this renderer."""
    _renderers[:] = [renderer]


class Displayed:
    """What notebooks show as HTML; its ``repr`` is a short text."""

    def facts(self) -> Mapping[str, str]:
        """What there is to know in short, by name, for people."""
        return {}

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str | None:
        """For IPython; None means that the text is shown."""
        return _renderers[0](self) if _renderers else None
