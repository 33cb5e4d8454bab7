"""The passphrase or code of a pack of keys: typed, or read from a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from palmette.errors import ArgumentFault, InputError

PassphraseFile = Annotated[
    Path | None, typer.Option("--passphrase-file", help="Read the passphrase or code from this file.")
]


def read_passphrase(file: Path | None, *, new: bool = False) -> str:
    """What a user types, twice where it is new, or what a file has.

    Raises:
        InputError: the file cannot be read, or there is none and nobody to ask.
    """
    if file is not None:
        try:
            return file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "expected text"
            raise InputError(ArgumentFault("passphrase_file", str(file), f"cannot be read: {why}")) from None
    if not sys.stdin.isatty():
        raise InputError(ArgumentFault("passphrase_file", "missing", "there is nobody to ask; expected one"))
    return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=new, err=True))
