from typing import Any

import pytest
from finsy.proto import p4r, rpc_code

from mrc_common.p4_match import Exact, Lpm, Optional, Range, Ternary
from p4runtime_shim.server import entry_codec, p4info
from p4runtime_shim.server.rpc_errors import RpcError
from tests.p4runtime_shim.server import sample

TABLE = p4info.build(sample.p4info()).tables[sample.KINDS]


def fm(id_: int, **kind: Any) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=id_, **kind)


E = fm(1, exact={"value": b"\x07"})


def test_match_fields_are_ordered_as_in_the_table() -> None:
    match = entry_codec.decode_match(
        TABLE,
        [
            fm(5, optional={"value": b"\x01\x00"}),
            fm(4, range={"low": b"\x05", "high": b"\x09"}),
            fm(3, lpm={"value": b"\x0a\x00\x00\x00", "prefix_len": 8}),
            fm(2, ternary={"value": b"\x01", "mask": b"\x0f"}),
            E,
        ],
    )
    assert match == (Exact(7), Lpm(0x0A000000, 8), Ternary(1, 15), Range(5, 9), Optional(256))
    assert entry_codec.decode_match(TABLE, entry_codec.encode_match(TABLE, match)) == match


def test_omitted_fields_are_dont_care_and_omitted_again_when_read() -> None:
    match = entry_codec.decode_match(TABLE, [E])
    assert match == (Exact(7), Lpm(0, 0), Ternary(0, 0), Range(0, 65535), Optional(None))
    assert entry_codec.encode_match(TABLE, match) == [E]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ([], "missing"),
        ([E, E], "twice"),
        ([E, fm(6, exact={"value": b"\x01"})], "no match field 6"),
        ([fm(1, lpm={"value": b"\x01", "prefix_len": 1})], "exact, not lpm"),
        ([fm(1)], "unset"),
        ([E, fm(3, lpm={"value": b"\x00", "prefix_len": 0})], "prefix length 0"),
        ([E, fm(3, lpm={"value": b"\x00", "prefix_len": 33})], "prefix length 33"),
        ([E, fm(3, lpm={"value": b"\x00", "prefix_len": -1})], "prefix length -1"),
        ([E, fm(3, lpm={"value": b"\x0a\x00\x00\x01", "prefix_len": 8})], "behind its prefix"),
        ([E, fm(2, ternary={"value": b"\x00", "mask": b"\x00"})], "mask is 0"),
        ([E, fm(2, ternary={"value": b"\x03", "mask": b"\x01"})], "outside its mask"),
        ([E, fm(4, range={"low": b"\x09", "high": b"\x05"})], "above high"),
        ([E, fm(4, range={"low": b"\x00", "high": b"\xff\xff"})], "every value"),
    ],
)
def test_invalid_keys_are_invalid_arguments(fields: list[p4r.FieldMatch], word: str) -> None:
    with pytest.raises(RpcError, match=word) as caught:
        entry_codec.decode_match(TABLE, fields)
    assert caught.value.code == rpc_code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "field",
    [
        fm(1, exact={"value": b"\x01\x00"}),
        fm(1, exact={"value": b""}),
        fm(2, ternary={"value": b"\x00", "mask": b"\x10\x00"}),
        fm(4, range={"low": b"\x00", "high": b"\x01\x00\x00"}),
        fm(5, optional={"value": b"\x02\x00"}),
    ],
)
def test_values_too_large_are_out_of_range(field: p4r.FieldMatch) -> None:
    with pytest.raises(RpcError) as caught:
        entry_codec.decode_match(TABLE, [field] if field.field_id == 1 else [E, field])
    assert caught.value.code == rpc_code.OUT_OF_RANGE
