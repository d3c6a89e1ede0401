"""Values as JSON: round trips, and errors that say where."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.verbs.remote.codec import CodecError, format_bytes, from_json, parse_bytes, to_json
from mrc_host.verbs_types import (
    Access,
    Completion,
    CompletionOpcode,
    CompletionStatus,
    PathEvent,
    PathReason,
    PathState,
    PortEvent,
    QpAddress,
    QpAttributes,
    QpCounters,
    QpEvent,
    SlowPortEvent,
)

VALUES: list[Any] = [
    QpAttributes(mpr=3, congestion_window=9000),
    QpCounters(lost=3),
    QpAddress(bytes(range(16)), 77, 5),
    PathEvent(5, 1, 0x401, 1, PathState.GOOD, PathState.ASSUMED_BAD, PathReason.LOSS, 3),
    PortEvent(1, 0, False, False, bytes(16)),
    PortEvent(1, 0, False, True),
    SlowPortEvent(1, 0, True, False, bytes(16)),
    QpEvent(9, 4, "because"),
    Completion(1, 2, CompletionOpcode.WRITE, CompletionStatus.RETRY_EXCEEDED, 9, None, "gone"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_survive_encoding(value: Any) -> None:
    assert from_json(type(value), json.loads(json.dumps(to_json(value)))) == value


@given(st.binary(max_size=20))
def test_bytes_survive_encoding(value: bytes) -> None:
    assert parse_bytes(format_bytes(value)) == value


def test_flags_are_encoded_as_numbers() -> None:
    both = Access.LOCAL_WRITE | Access.REMOTE_WRITE
    assert from_json(Access, to_json(both)) == both
    for wrong in (4, -1, "1", None):
        with pytest.raises(CodecError, match="flags"):
            from_json(Access, wrong)


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        (QpAttributes, {"mpr": "eight"}, "At mpr: expected an integer, not 'eight'."),
        (QpAttributes, {"mpr": True}, "At mpr: expected an integer"),
        (QpAttributes, {"colour": 1}, "At the top: unknown key 'colour'; known are"),
        (QpAttributes, {"path_mt": 1}, r"At the top: unknown key 'path_mt'; did you mean path_mtu\?"),
        (QpAttributes, [], r"At the top: expected an object, not \[\]."),
        (QpAddress, {"address": "fd00::1"}, "the key 'qpn' is missing"),
        (QpAddress, {"address": "fd00::zz", "qpn": 1}, "At address: expected a MAC address, an IPv6 address"),
        (QpAddress, {"address": 5, "qpn": 1}, "At address: expected"),
        (QpEvent, {"time": 1, "qpn": 1, "reason": 5}, "At reason: expected a text, not 5."),
        (PortEvent, {"time": 1, "port": 1, "up": 1, "local": True}, "At up: expected true or false, not 1."),
        (PathState, "awful", "'awful' is not one of 'good', "),
        (tuple[int, ...], {"a": 1}, "expected a list"),
        (tuple[int, ...], [1, "x"], r"At \[1\]: expected an integer"),
    ],
)
def test_errors_name_the_location(kind: Any, data: Any, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        from_json(kind, data)


def test_hexadecimal_numbers_are_accepted() -> None:
    assert from_json(int, "0x6001") == 0x6001


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["time", "qpn", "ev", "x"]), inner),
    max_leaves=8,
)


@given(json_data, st.sampled_from([type(value) for value in VALUES]))
def test_any_json_decodes_or_is_an_error(data: Any, kind: Any) -> None:
    try:
        value = from_json(kind, data)
    except CodecError:
        return
    assert isinstance(value, kind)
