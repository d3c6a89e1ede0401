from __future__ import annotations

from pathlib import Path

import finsy
import pytest

from controller import translate
from mrc_common.p4_match import Exact, Lpm, MemberRef, Ternary
from topologies.clos import multi_plane_clos
from topologies.entries import SwitchEntries, TableAction, TableEntry, switch_entries

BUILD = Path(__file__).parents[2] / "p4src" / "build"


@pytest.fixture(scope="module")
def schema() -> finsy.P4Schema:
    return finsy.P4Schema(BUILD / "fabric.p4info.txtpb", BUILD / "fabric.json")


def _as_read(entries: SwitchEntries, schema: finsy.P4Schema) -> SwitchEntries:
    """Encode to protobuf messages and decode those again."""
    decoded = []
    for entry in (*entries.members, *entries.groups, *entries.entries):
        entity = translate.encode(entry, schema)
        decoded.append(type(entity).decode(entity.encode(schema), schema))
    return translate.decode_all(entries.switch, decoded, schema)


@pytest.mark.parametrize("number", [0, 2, -1])
def test_entries_fit_the_p4_program_and_survive_encoding(schema: finsy.P4Schema, number: int) -> None:
    fabric = multi_plane_clos()
    entries = switch_entries(fabric, fabric.switches[number])
    assert _as_read(entries, schema) == entries


def test_a_prefix_of_length_zero_survives_encoding(schema: finsy.P4Schema) -> None:
    default_route = TableEntry("ipv6_route", (Lpm(0, 0),), MemberRef(1))
    entries = SwitchEntries("t0-0@p0", (), (), (default_route,))
    assert _as_read(entries, schema) == entries


@pytest.mark.parametrize("key", [Ternary(0, 0), Ternary(3, 0x1FF)])
def test_ternary_keys_and_priorities_survive_encoding(schema: finsy.P4Schema, key: Ternary) -> None:
    fault = TableEntry(
        "arrival_fault", (key,), TableAction("impair", (("loss_ppb", 7), ("corrupt_ppb", 0))), priority=2
    )
    entries = SwitchEntries("t0-0@p0", (), (), (fault,))
    assert _as_read(entries, schema) == entries


def test_wildcard_reads_cover_every_written_table(schema: finsy.P4Schema) -> None:
    fabric = multi_plane_clos()
    wanted = translate.wildcards(schema)
    tables = {entity.table_id for entity in wanted if isinstance(entity, finsy.P4TableEntry)}
    assert tables >= {entry.table for entry in switch_entries(fabric, fabric.switches[0]).entries}
    assert tables >= {"arrival_fault", "departure_fault", "path_fault"}
    assert any(isinstance(entity, finsy.P4ActionProfileMember) for entity in wanted)
    assert any(isinstance(entity, finsy.P4ActionProfileGroup) for entity in wanted)


def test_default_entries_are_ignored(schema: finsy.P4Schema) -> None:
    default = finsy.P4TableEntry("usid_next", action=finsy.P4TableAction("no_neighbour"), is_default_action=True)
    assert translate.decode_all("s", [default], schema) == SwitchEntries("s", (), (), ())


def test_names_missing_from_the_p4_program_are_reported(schema: finsy.P4Schema) -> None:
    with pytest.raises(ValueError, match="no action fly"):
        translate.encode(TableEntry("usid_next", (Exact(1),), TableAction("fly")), schema)
    with pytest.raises(ValueError, match="1 key fields, not 2"):
        translate.encode(TableEntry("usid_next", (Exact(1), Exact(2)), TableAction("set_egress")), schema)
