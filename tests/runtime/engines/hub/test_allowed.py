"""What the owner of a worker allows, and nothing else."""

from __future__ import annotations

import pytest

from palmette.errors import InputError, RunError
from palmette.runtime.engines.hub.allowed import allowed_names

ALLOWED = allowed_names(
    ["mine.nets:small"], ["photos=folder:/srv/photos", "csv:table.csv?target=kind", "tokens:/srv/ids"]
)


@pytest.mark.parametrize("name", [None, "lenet5", "lenet5?size=64", "mine.nets:small", "mine.nets:small?lora=q&rank=2"])
def test_code_that_may_run(name: str | None) -> None:
    ALLOWED.refuse_code(name)


@pytest.mark.parametrize("name", ["mine.nets:big", "os:system", "mine.nets.small:x", ":", "mine.nets:small:x"])
def test_code_that_may_not_run(name: str) -> None:
    with pytest.raises(RunError, match="is not allowed here; its owner may: palmette worker --allow"):
        ALLOWED.refuse_code(name)


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("digits", "digits"),
        ("photos", "folder:/srv/photos"),
        ("csv:table.csv?target=kind", "csv:table.csv?target=kind"),
        ("mine.nets:small", "mine.nets:small"),
    ],
)
def test_data_that_may_be_read(name: str, here: str) -> None:
    assert ALLOWED.data_here(name) == here


@pytest.mark.parametrize(
    "name", ["csv:/etc/passwd", "folder:/srv/photos", "tokens:/srv/other", "os:environ", "nothing"]
)
def test_data_that_may_not_be_read(name: str) -> None:
    with pytest.raises(RunError, match="is not allowed here; its owner may: palmette worker --data"):
        ALLOWED.data_here(name)


def test_words_that_allow_nothing() -> None:
    with pytest.raises(InputError) as error:
        allowed_names(["os.system"], ["=x"])
    assert [fault.value for fault in error.value.faults] == ["os.system", "=x"]
