"""Control headers: known bytes, lengths, and that parsing undoes packing for every value."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.wire import control
from mrc_host.wire.control import EndpointRequest, EndpointResponse, Nack, Probe, Sack

u16 = st.integers(0, 0xFFFF)
u24 = st.integers(0, 0xFFFFFF)
u32 = st.integers(0, 0xFFFFFFFF)
s16 = st.integers(-0x8000, 0x7FFF)
sacks: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "mark": st.integers(0, 3),
        "probe": st.booleans(),
        "ack_offset": s16,
        "entropy": u32,
        "source_id": u16,
        "destination_id": u16,
        "cack_psn": u24,
        "mpr": st.integers(0, 255),
        "bitmap_offset": s16,
        "bitmap": st.integers(0, (1 << 64) - 1),
        "timestamp": u16,
        "ooo_count": st.integers(0, 0x7FFF),
        "restore_cwnd": st.booleans(),
        "cwnd_penalty": st.integers(0, 127),
        "rcvd_units": u24,
    }
)


def test_a_sack_is_encoded_byte_for_byte() -> None:
    sack = Sack(
        mark=1, probe=True, ack_offset=-2, entropy=0xA1B2C3D4, source_id=0x1111, destination_id=0x2222,
        cack_psn=0x333333, mpr=8, bitmap_offset=1, bitmap=0x8000000000000001, timestamp=0x4444, ooo_count=5,
        restore_cwnd=True, cwnd_penalty=3, rcvd_units=0x777777,
    )  # fmt: skip
    assert control.pack_sack(0xABCDEF, sack) == bytes.fromhex(
        "dc00ffff00abcdef00333333"  # BTH, PSN = cack_psn
        "0022fffea1b2c3d41111222200333333"  # mark 1 at bits 6:5, pr at bit 1
        "00080001800000000000000144440005"
        "83777777"
    )


@given(u24, sacks)
def test_sacks_survive_encoding(qpn: int, fields: dict[str, Any]) -> None:
    packed = control.pack_sack(qpn, Sack(**fields))
    assert len(packed) == 12 + control.SACK_LENGTH == 48
    parsed = control.parse_sack(packed, 12)
    assert {name: getattr(parsed, name) for name in fields} == fields


@given(u24, st.builds(Nack, st.integers(0, 255), u32, u16, u16, u24, u16))
def test_nacks_survive_encoding(qpn: int, nack: Nack) -> None:
    packed = control.pack_nack(qpn, nack)
    assert len(packed) == 12 + control.NACK_LENGTH == 32
    assert packed[12 + 16] == 0x20, "cc_type 2"
    assert control.parse_nack(packed, 12) == nack


@given(u24, st.builds(Probe, u16, u16, u16, u16))
def test_probes_survive_encoding(qpn: int, probe: Probe) -> None:
    packed = control.pack_probe(qpn, probe)
    assert len(packed) == 12 + control.PROBE_LENGTH == 28
    assert packed[9:12] == bytes(3), "a probe consumes no PSN"
    assert control.parse_probe(packed, 12) == probe


@given(u16, st.builds(EndpointRequest, st.integers(0, 1), u32, u16))
def test_endpoint_requests_survive_encoding(request_id: int, request: EndpointRequest) -> None:
    packed = control.pack_endpoint_request(request_id, request)
    assert len(packed) == 12 + control.REQUEST_LENGTH == 28
    assert packed[5:8] == b"\0\0\2", "the reserved QPN"
    assert int.from_bytes(packed[10:12], "big") == request_id
    assert control.parse_endpoint_request(packed, 12) == request


@pytest.mark.parametrize("shift", [2, 4])
def test_the_operation_position_in_endpoint_responses_is_configurable(shift: int) -> None:
    packed = control.pack_endpoint_response(7, EndpointResponse(1, 0xBEEF), shift)
    assert len(packed) == 12 + control.RESPONSE_LENGTH == 48
    assert int.from_bytes(packed[12:14], "big") == 1 << shift
    assert packed[12 + 28 : 12 + 30] == b"\xbe\xef"
    assert control.parse_endpoint_response(packed, 12, shift) == EndpointResponse(1, 0xBEEF)


@given(st.builds(EndpointResponse, st.integers(0, 3), u16, u32))
def test_endpoint_responses_survive_encoding(response: EndpointResponse) -> None:
    packed = control.pack_endpoint_response(7, response)
    assert control.parse_endpoint_response(packed, 12) == response
    assert int.from_bytes(packed[12 + 32 : 12 + 36], "big") == response.service_time
