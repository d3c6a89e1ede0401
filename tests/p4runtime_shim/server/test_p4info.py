import pytest
from finsy.proto import p4i, rpc_code
from google.protobuf import text_format

from p4runtime_shim.server import p4info
from p4runtime_shim.server.rpc_errors import RpcError
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.world import fabric_p4info


def test_the_sample_p4info_is_indexed() -> None:
    schema = p4info.build(sample.p4info())
    kinds = schema.tables[sample.KINDS]
    assert [(item.name, item.kind, item.width) for item in kinds.fields] == [
        ("e", "exact", 8),
        ("l", "lpm", 32),
        ("t", "ternary", 12),
        ("r", "range", 16),
        ("o", "optional", 9),
    ]
    assert kinds.needs_priority
    assert kinds.has_counter
    assert kinds.meter is not None
    assert not schema.tables[sample.LPM].needs_priority
    assert schema.tables[sample.LPM].const_default
    indirect = schema.tables[sample.INDIRECT]
    assert indirect.profile is schema.profiles[sample.SELECTOR]
    assert schema.profiles[sample.SELECTOR].action_ids == {sample.DROP, sample.SET}
    assert schema.counters[sample.COUNTER].size == 4
    assert schema.packet_out is not None
    assert schema.packet_out.size == 2


def test_the_projects_own_p4info_is_indexed() -> None:
    schema = p4info.build(fabric_p4info())
    assert {item.name.rpartition(".")[2] for item in schema.tables.values()} >= {
        "usid_local",
        "usid_next",
        "ipv6_route",
    }


def _refused(text: str) -> RpcError:
    with pytest.raises(RpcError) as caught:
        p4info.build(text_format.Parse(text, p4i.P4Info()))
    return caught.value


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('value_sets { preamble { id: 50331649 name: "pvs" } match { id: 1 match_type: EXACT } }', "bit width"),
        ('externs { extern_type_id: 129 extern_type_name: "Thing" }', "Thing"),
        (
            'tables { preamble { id: 33554433 name: "t" }'
            ' match_fields { id: 1 name: "f" match_type: EXACT type_name { name: "port_name_t" } } }',
            "bit width",
        ),
        ('actions { preamble { id: 16777217 name: "a" } params { id: 1 name: "p" } }', "bit width"),
        (
            'tables { preamble { id: 33554433 name: "t" } match_fields { id: 1 name: "f" bitwidth: 8 } }',
            "match type",
        ),
    ],
)
def test_unsupported_features_are_named(text: str, word: str) -> None:
    error = _refused(text)
    assert error.code == rpc_code.UNIMPLEMENTED
    assert word in error.message


@pytest.mark.parametrize(
    "text",
    [
        'tables { preamble { id: 33554433 name: "t" } action_refs { id: 5 } }',
        'tables { preamble { id: 33554433 name: "t" } implementation_id: 5 }',
        'counters { preamble { id: 5 name: "a" } } counters { preamble { id: 5 name: "b" } }',
        'counters { preamble { name: "a" } }',
        'value_sets { preamble { id: 50331649 name: "pvs" } size: -1 }',
        'controller_packet_metadata { preamble { id: 1 name: "packet_in" } metadata { id: 1 name: "p" bitwidth: 9 } }',
    ],
)
def test_an_inconsistent_p4info_is_refused(text: str) -> None:
    assert _refused(text).code == rpc_code.INVALID_ARGUMENT
