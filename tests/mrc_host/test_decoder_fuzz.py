"""Every decoder on arbitrary input: a value, or the one error that it promises."""

from __future__ import annotations

import contextlib
import json
import struct
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.l2 import Ether

from mrc_host.agent.config_file import parse_config
from mrc_host.captures import scapy_layers
from mrc_host.errors import MrcError
from mrc_host.tools import session, trace
from mrc_host.verbs import Endpoint, RemoteMemory
from mrc_host.verbs.errors import ProtocolError
from mrc_host.verbs.remote import protocol
from mrc_host.verbs.remote.codec import CodecError, parse_bytes
from mrc_host.wire import control, encap, headers, pause
from tests.mrc_host.test_nic_fuzz import FRAMES

Decode = Callable[[bytes], object]
BYTES: dict[str, tuple[Decode, type[Exception] | None]] = {
    "sack": (lambda data: control.parse_sack(data, 0), struct.error),
    "nack": (lambda data: control.parse_nack(data, 0), struct.error),
    "reliability probe": (lambda data: control.parse_probe(data, 0), struct.error),
    "endpoint request": (lambda data: control.parse_endpoint_request(data, 0), struct.error),
    "endpoint response": (lambda data: control.parse_endpoint_response(data, 0), struct.error),
    "data": (lambda data: headers.data_ts_imm.unpack_from(data), struct.error),
    "prefix": (lambda data: encap.read_prefix(data, None), None),
    "pause": (pause.parse, None),
    "agent: header": (protocol.unpack_header, ProtocolError),
    "agent: JSON": (protocol.unpack_json, ProtocolError),
    "agent: posts": (lambda data: protocol.unpack_posts(memoryview(data)), ProtocolError),
    "agent: inline posts": (lambda data: protocol.unpack_inline_post(memoryview(data)), ProtocolError),
    "agent: completions": (lambda data: protocol.unpack_completions(memoryview(data)), ProtocolError),
    "agent: credits": (lambda data: protocol.unpack_credits(memoryview(data)), ProtocolError),
}
TEXTS: dict[str, tuple[Callable[[str], object], type[Exception]]] = {
    "endpoint": (Endpoint.parse, MrcError),
    "remote memory": (RemoteMemory.parse, MrcError),
    "address": (parse_bytes, ValueError),
    "configuration": (parse_config, CodecError),
}
json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
PLAN: dict[str, Any] = {
    "sizes": [2],
    "iterations": 1,
    "seconds": None,
    "qps": 1,
    "depth": 1,
    "both": False,
    "kind": "mrc",
    "attributes": {},
}


@pytest.mark.parametrize(("decode", "error"), BYTES.values(), ids=BYTES)
@given(st.binary(max_size=120))
def test_decoders_of_arbitrary_bytes_return_a_value_or_their_error(
    decode: Decode, error: type[Exception] | None, data: bytes
) -> None:
    with contextlib.suppress(*([error] if error else [])):
        decode(data)


@pytest.mark.parametrize(("decode", "error"), TEXTS.values(), ids=TEXTS)
@given(
    st.one_of(
        st.text(max_size=40),
        st.text("[]:/+0123456789abcdef.", max_size=60),
        st.tuples(st.text("0123456789abcdef:", max_size=12), st.text("\u0660\u0661" + "0123456789", max_size=12)).map(
            lambda parts: f"[{parts[0]}]:{parts[1]}/{parts[1]}+{parts[1]}:{parts[1]}"
        ),
        json_data.map(json.dumps),
    )
)
def test_decoders_of_arbitrary_text_return_a_value_or_their_error(
    decode: Callable[[str], object], error: type[Exception], text: str
) -> None:
    with contextlib.suppress(error):
        decode(text)


@given(st.dictionaries(st.sampled_from(sorted(PLAN)), json_data) | st.dictionaries(st.text(max_size=5), json_data))
def test_tool_plans_decode_or_are_refused(changes: dict[str, Any]) -> None:
    with contextlib.suppress(session.ToolError):
        session.from_wire({**PLAN, **changes})


@given(st.lists(st.binary(max_size=30) | json_data.map(lambda data: json.dumps(data).encode()), max_size=4))
def test_arbitrary_trace_files_are_read_or_refused(lines: list[bytes]) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"\n".join(lines) + b"\n")
        file.flush()
        with contextlib.suppress(session.ToolError):
            list(trace.read(file.name))


@given(st.sampled_from([frame for _port, frame in FRAMES]), st.data())
def test_scapy_layers_accept_arbitrary_bytes(frame: bytes, data: st.DataObject) -> None:
    changed = bytearray(frame[: data.draw(st.integers(60, len(frame)))])
    for _ in range(data.draw(st.integers(0, 6))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    packet = Ether(bytes(changed))
    packet.summary()
    layer = packet.getlayer(scapy_layers.MrcBTH)
    while layer:
        assert layer.fields is not None
        layer = layer.payload
