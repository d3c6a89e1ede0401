import pytest
from finsy.proto import rpc_code
from hypothesis import given
from hypothesis import strategies as st

from p4runtime_shim.server import bytestrings
from p4runtime_shim.server.rpc_errors import RpcError


@pytest.mark.parametrize(
    ("width", "value", "data", "canonical"),
    [  # the examples of the specification
        (8, 99, b"\x63", True),
        (16, 99, b"\x00\x63", False),
        (16, 99, b"\x63", True),
        (16, 12388, b"\x30\x64", True),
        (16, 12388, b"\x00\x30\x64", False),
        (12, 99, b"\x00\x00\x63", False),
        (9, 0, b"\x00", True),
    ],
)
def test_unsigned_values_are_encoded_and_decoded(width: int, value: int, data: bytes, canonical: bool) -> None:
    assert bytestrings.decode(data, width, "x") == value
    assert (bytestrings.encode(value) == data) is canonical


@pytest.mark.parametrize(
    ("width", "value", "data", "canonical"),
    [
        (8, 99, b"\x63", True),
        (8, -99, b"\x9d", True),
        (8, -99, b"\xff\x9d", False),
        (12, -739, b"\xfd\x1d", True),
        (16, 0, b"\x00\x00", False),
        (16, 0, b"\x00", True),
    ],
)
def test_signed_values_are_encoded_and_decoded(width: int, value: int, data: bytes, canonical: bool) -> None:
    assert bytestrings.decode_signed(data, width, "x") == value
    assert (bytestrings.encode_signed(value) == data) is canonical


@pytest.mark.parametrize(
    ("width", "data"),
    [
        (8, b"\x01\x63"),
        (8, b""),
        (16, b"\x01\x00\x63"),
        (12, b"\x10\x63"),
        (12, b"\x01\x00\x63"),
        (12, b"\x00\x40\x63"),
    ],
)
def test_unsigned_values_out_of_range_are_refused(width: int, data: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        bytestrings.decode(data, width, "field x")
    assert caught.value.code == rpc_code.OUT_OF_RANGE
    assert "field x" in caught.value.message


@pytest.mark.parametrize(("width", "data"), [(8, b"\x00\x9d"), (12, b"\x8d\x1d"), (16, b"")])
def test_signed_values_out_of_range_are_refused(width: int, data: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        bytestrings.decode_signed(data, width, "x")
    assert caught.value.code == rpc_code.OUT_OF_RANGE


def test_an_oversized_value_has_a_short_message() -> None:
    with pytest.raises(RpcError) as caught:
        bytestrings.decode(b"\xff" * 100_000, 8, "x")
    assert len(caught.value.message) < 200


@given(st.integers(0, 2**2048 - 1))
def test_unsigned_round_trip(value: int) -> None:
    data = bytestrings.encode(value)
    assert bytestrings.decode(data, 2048, "x") == value
    assert len(data) == 1 or data[0] != 0


@given(st.integers(-(2**63), 2**63 - 1))
def test_signed_round_trip(value: int) -> None:
    assert bytestrings.decode_signed(bytestrings.encode_signed(value), 64, "x") == value
