"""Which workers a hub understands."""

from __future__ import annotations

import pytest

from palmette.runtime.engines.hub.codec import BadMessage
from palmette.runtime.engines.hub.messages import PROTOCOL, TO_ENGINE, Introduction
from palmette.runtime.engines.hub.versions import refuse_other_version, were_tested


def said(protocol: int = PROTOCOL, torch: str = "2.13.0", **more: bool) -> Introduction:
    return Introduction(protocol=protocol, palmette_version="1", torch_version=torch, **more)  # type: ignore[arg-type]


def test_the_version_before_is_understood_as_it_was_written() -> None:
    before = TO_ENGINE.written(said(PROTOCOL - 1, "2.4.0"), "", PROTOCOL - 1)
    assert b'"body":{"protocol":1,"palmette_version":"1","torch_version":"2.4.0"}' in before
    refuse_other_version(TO_ENGINE.read(before).message, "2.13.0")


def test_later_fields_are_left_out_for_the_version_before_only() -> None:
    assert b'"any_version":false,"limits":{' in TO_ENGINE.written(said(), "", PROTOCOL)
    assert TO_ENGINE.read(TO_ENGINE.written(said(any_version=True), "")).message == said(any_version=True)


@pytest.mark.parametrize("protocol", [PROTOCOL - 2, PROTOCOL + 1, -1])
def test_other_versions_are_refused(protocol: int) -> None:
    with pytest.raises(BadMessage, match=f"speaks version {protocol} of the protocol, the hub {PROTOCOL - 1} and"):
        refuse_other_version(said(protocol), "2.13.0")


def test_a_torch_that_was_not_tested_is_let_in_only_where_its_owner_says_so() -> None:
    refuse_other_version(said(torch="2.13.1+cpu"), "2.13.0")
    refuse_other_version(said(torch="2.4.1+cu121"), "2.13.0")
    with pytest.raises(BadMessage, match=r"torch 2\.5\.0 was not tested with the hub's 2\.13\.0; .* --any-version"):
        refuse_other_version(said(torch="2.5.0"), "2.13.0")
    refuse_other_version(said(torch="2.5.0", any_version=True), "2.13.0")


def test_the_same_version_needs_no_test() -> None:
    assert were_tested("3.1.4", "3.1.0+cu118")
    assert not were_tested("3.1.4", "3.10.0")
