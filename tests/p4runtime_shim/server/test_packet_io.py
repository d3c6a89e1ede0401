import pytest
from finsy.proto import p4r, rpc_code

from p4runtime_shim.server import p4info, packet_io
from p4runtime_shim.server.rpc_errors import RpcError
from tests.p4runtime_shim.server import sample

SCHEMA = p4info.build(sample.p4info())


def out(*metadata: tuple[int, bytes]) -> p4r.PacketOut:
    return p4r.PacketOut(payload=b"frame", metadata=[{"metadata_id": id_, "value": value} for id_, value in metadata])


def test_packet_out_metadata_is_encoded_as_the_header() -> None:
    message = out((2, b"\x03"), (1, b"\x01\x01"))
    assert packet_io.to_frame(SCHEMA.packet_out, message) == bytes([0b10000000, 0b10000011]) + b"frame"


def test_the_header_is_decoded_as_packet_in_metadata() -> None:
    message = packet_io.from_frame(SCHEMA.packet_in, bytes([0b10000000, 0b10000011]) + b"frame")
    assert message is not None
    assert message.payload == b"frame"
    assert [(item.metadata_id, item.value) for item in message.metadata] == [(1, b"\x01\x01"), (2, b"\x03")]


def test_without_a_header_the_frame_is_the_payload() -> None:
    assert packet_io.to_frame(None, p4r.PacketOut(payload=b"x")) == b"x"
    assert packet_io.from_frame(None, b"x") == p4r.PacketIn(payload=b"x")


def test_frames_shorter_than_their_header_give_no_packet_in() -> None:
    assert packet_io.from_frame(SCHEMA.packet_in, b"\x00") is None


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (out((1, b"\x01")), rpc_code.INVALID_ARGUMENT),
        (out((1, b"\x01"), (2, b"\x00"), (7, b"\x00")), rpc_code.INVALID_ARGUMENT),
        (out((1, b"\x01"), (1, b"\x01"), (2, b"\x00")), rpc_code.INVALID_ARGUMENT),
        (out((1, b"\x02\x00"), (2, b"\x00")), rpc_code.OUT_OF_RANGE),
    ],
)
def test_metadata_not_matching_the_p4info_is_refused(message: p4r.PacketOut, code: int) -> None:
    with pytest.raises(RpcError) as caught:
        packet_io.to_frame(SCHEMA.packet_out, message)
    assert caught.value.code == code


def test_metadata_for_a_program_without_packet_out_header_is_refused() -> None:
    with pytest.raises(RpcError):
        packet_io.to_frame(None, out((1, b"\x01")))
