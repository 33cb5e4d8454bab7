"""The glossary lists words that are in use, each once, in order."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
TERM = re.compile(r"^\| \*\*(.+?)\*\* \|", re.MULTILINE)


def words_of(term: str) -> list[str]:
    """The words that a row explains: ``pull, push``, ``batch norm: whole, parts``."""
    return [word.strip().lower() for word in re.split("[,:]", term)]


def test_every_word_is_in_use() -> None:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
    text = "\n".join(file.read_text(encoding="utf-8").lower() for file in files if file != GLOSSARY)
    known = [word for term in TERM.findall(GLOSSARY.read_text(encoding="utf-8")) for word in words_of(term)]
    in_use = {word: re.escape(word).replace(r"\-", "[-_ ]?").replace(r"\ ", "[-_ ]") for word in known}

    assert [word for word, pattern in in_use.items() if not re.search(rf"\b{pattern}", text)] == []


def test_other_terms_are_listed_once_and_in_order() -> None:
    nouns, others = GLOSSARY.read_text(encoding="utf-8").split("## Other terms")
    terms = TERM.findall(others)

    assert terms == sorted(terms, key=lambda term: re.sub(r"[^a-z0-9]", " ", term.lower()).split())
    assert len({*TERM.findall(nouns), *terms}) == len(TERM.findall(nouns)) + len(terms)
