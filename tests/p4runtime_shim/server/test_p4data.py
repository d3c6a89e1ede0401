import pytest
from finsy.proto import p4d, p4t, rpc_code
from google.protobuf import text_format

from p4runtime_shim.server import p4data
from p4runtime_shim.server.rpc_errors import RpcError

TYPES = text_format.Parse(
    """
    structs { key: "s" value {
      members { name: "a" type_spec { bitstring { bit { bitwidth: 20 } } } }
      members { name: "b" type_spec { new_type { name: "port" } } }
      members { name: "c" type_spec { tuple {
        members { bool {} } members { serializable_enum { name: "e" } } members { error {} } } } }
    } }
    new_types { key: "port" value { original_type { bitstring { int { bitwidth: 8 } } } } }
    new_types { key: "sdn" value { translated_type { uri: "x" sdn_bitwidth: 32 } } }
    serializable_enums { key: "e" value { underlying_type { bitwidth: 4 } } }
    error { members: "NoError" members: "Short" }
    """,
    p4t.P4TypeInfo(),
)


def spec(text: str) -> p4t.P4DataTypeSpec:
    return text_format.Parse(text, p4t.P4DataTypeSpec())


def test_structs_are_built_from_their_leaves() -> None:
    data = p4data.encode(spec('struct { name: "s" }'), TYPES, iter([0xABCDE, 0xFF, 1, 3, 1]))
    a, b, c = data.struct.members
    assert a.bitstring == b"\x0a\xbc\xde"
    assert b.bitstring == b"\xff"  # int<8> -1
    assert [item.WhichOneof("data") for item in c.tuple.members] == ["bool", "enum_value", "error"]
    assert c.tuple.members[2].error == "Short"


@pytest.mark.parametrize(
    ("type_spec", "data", "value"),
    [
        ("bitstring { bit { bitwidth: 20 } }", p4d.P4Data(bitstring=b"\x01"), 1),
        ("bitstring { int { bitwidth: 20 } }", p4d.P4Data(bitstring=b"\xff"), 0xFFFFF),
        ("bool {}", p4d.P4Data(bool=True), 1),
        ('serializable_enum { name: "e" }', p4d.P4Data(enum_value=b"\x03"), 3),
        ('new_type { name: "port" }', p4d.P4Data(bitstring=b"\x7f"), 127),
    ],
)
def test_simple_values_round_trip(type_spec: str, data: p4d.P4Data, value: int) -> None:
    assert p4data.decode_leaf(spec(type_spec), TYPES, data, "x") == value
    assert p4data.encode(spec(type_spec), TYPES, iter([value])) == data


@pytest.mark.parametrize(
    ("type_spec", "data", "code"),
    [
        ("bool {}", p4d.P4Data(bitstring=b"\x01"), rpc_code.INVALID_ARGUMENT),
        ("bool {}", p4d.P4Data(), rpc_code.INVALID_ARGUMENT),
        ('struct { name: "s" }', p4d.P4Data(bitstring=b"\x01"), rpc_code.INVALID_ARGUMENT),
        ('new_type { name: "sdn" }', p4d.P4Data(bitstring=b"\x01"), rpc_code.UNIMPLEMENTED),
        ("bitstring { varbit { max_bitwidth: 8 } }", p4d.P4Data(bitstring=b"\x01"), rpc_code.UNIMPLEMENTED),
        ('serializable_enum { name: "e" }', p4d.P4Data(enum_value=b"\x10"), rpc_code.OUT_OF_RANGE),
    ],
)
def test_values_of_another_type_are_refused(type_spec: str, data: p4d.P4Data, code: int) -> None:
    with pytest.raises(RpcError) as caught:
        p4data.decode_leaf(spec(type_spec), TYPES, data, "x")
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("type_spec", "count"),
    [("bool {}", 1), ('struct { name: "s" }', 5), ('new_type { name: "port" }', 1), ("tuple {}", 0)],
)
def test_leaves_are_counted(type_spec: str, count: int) -> None:
    assert p4data.count_leaves(spec(type_spec), TYPES, "x") == count


@pytest.mark.parametrize(
    "type_spec",
    [
        'struct { name: "itself" }',
        'new_type { name: "itself" }',
        'struct { name: "unknown" }',
        'new_type { name: "unknown" }',
        'serializable_enum { name: "unknown" }',
        "bitstring { bit { bitwidth: 2147483647 } }",
        "bitstring { bit {} }",
        "bitstring { varbit { max_bitwidth: 8 } }",
        'header { name: "h" }',
        "",
    ],
)
def test_impossible_types_are_refused(type_spec: str) -> None:
    types = text_format.Parse(
        """
        structs { key: "itself" value { members { name: "a" type_spec { struct { name: "itself" } } } } }
        new_types { key: "itself" value { original_type { new_type { name: "itself" } } } }
        """,
        p4t.P4TypeInfo(),
    )
    with pytest.raises(RpcError):
        p4data.count_leaves(spec(type_spec), types, "x")
