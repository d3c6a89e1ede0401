"""P4Info and JSON as p4c writes them: what it removed from the JSON only, and keys of type error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from finsy.proto import p4i, p4r, rpc_code
from google.protobuf import text_format

from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.server.forwarding_state import ForwardingState
from p4runtime_shim.server.pipeline_config import PipelineConfig, PipelineConfigLoader
from p4runtime_shim.server.rpc_errors import BatchError, RpcError
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import programs
from tests.p4runtime_shim.server.world import delete, insert, modify

PORTS = (1, 2, 3)
ETHERNET = bytes(12)
WORD = bytes(4)


def p4info(name: str) -> p4i.P4Info:
    return text_format.Parse((programs.FOLDER / f"{name}.p4info.txtpb").read_text(), p4i.P4Info())


def realize(info: str, program: str) -> PipelineConfig:
    async def work() -> PipelineConfig:
        data = programs.text(program).encode()
        message = p4r.ForwardingPipelineConfig(p4info=p4info(info), p4_device_config=data)
        return await PipelineConfigLoader(Pipeline.load).realize(message)

    return asyncio.run(work())


class Running:
    """A switch with a program; tables and actions by the names in its control."""

    def __init__(self, name: str, config: PipelineConfig, switch: EmbeddedSwitch) -> None:
        info = p4info(name)
        items = (*info.tables, *info.actions, *info.action_profiles)
        self.ids = {item.preamble.name.removeprefix("MyIngress."): item.preamble.id for item in items}
        self.state = ForwardingState(config.schema, switch.control_plane)
        self._switch = switch

    def entry(self, table: str, *match: dict[str, Any], action: str = "forward", port: int = 2) -> p4r.TableEntry:
        call = {"action_id": self.ids[action], "params": [{"param_id": 1, "value": bytes([port])}]}
        key = [p4r.FieldMatch(field_id=number, **item) for number, item in enumerate(match, 1)]
        return p4r.TableEntry(table_id=self.ids[table], match=key, action={"action": call})

    def read(self, **entity: Any) -> list[p4r.Entity]:
        return list(self.state.read([p4r.Entity(**entity)]))

    def refused(self, update: p4r.Update) -> tuple[int, str]:
        with pytest.raises(BatchError) as caught:
            self.state.write([update])
        (result,) = caught.value.results
        assert result is not None
        return result.code, result.message

    def send(self, frame: bytes) -> set[int]:
        """The ports that it leaves by when it comes in by port 1."""
        self._switch.receive(1, frame, 0)
        return {port for port in PORTS if self._switch.transmit(port, 0) is not None}


@contextmanager
def running(name: str) -> Iterator[Running]:
    config = realize(name, name)
    with EmbeddedSwitch(config.pipeline, device_id=1, ports=PORTS, seed=1) as switch:
        yield Running(name, config, switch)


def exact(value: int, size: int = 1) -> dict[str, Any]:
    return {"exact": {"value": value.to_bytes(size, "big")}}


def test_a_program_whose_unreachable_tables_p4c_removed_runs() -> None:
    with running("unreachable") as on:
        on.state.write([insert(table_entry=on.entry("ports", exact(1)))])
        assert on.send(ETHERNET + b"\x00\x00") == {2}


def test_writes_to_removed_objects_are_refused_with_the_reason() -> None:
    with running("unreachable") as on:
        counted = on.entry("counted", exact(1), action="count")
        spread = on.ids["ways"]
        call = on.entry("ports", exact(1)).action.action
        default = p4r.TableEntry(table_id=on.ids["counted"], is_default_action=True)
        for update, name in (
            (insert(table_entry=counted), "MyIngress.counted"),
            (modify(table_entry=counted), "MyIngress.counted"),
            (delete(table_entry=counted), "MyIngress.counted"),
            (modify(table_entry=default), "MyIngress.counted"),
            (modify(direct_counter_entry={"table_entry": counted, "data": {}}), "MyIngress.counted"),
            (insert(action_profile_member={"action_profile_id": spread, "action": call}), "MyIngress.ways"),
            (insert(action_profile_group={"action_profile_id": spread, "group_id": 1}), "MyIngress.ways"),
        ):
            code, message = on.refused(update)
            assert code == rpc_code.FAILED_PRECONDITION
            assert name in message
            assert "p4c" in message


def test_wildcard_reads_skip_removed_objects() -> None:
    with running("unreachable") as on:
        on.state.write([insert(table_entry=on.entry("ports", exact(1)))])
        for entity in (
            {"table_entry": {"table_id": on.ids["counted"]}},
            {"table_entry": {"table_id": on.ids["counted"], "is_default_action": True}},
            {"direct_counter_entry": {"table_entry": {"table_id": on.ids["counted"]}}},
            {"direct_counter_entry": {"table_entry": {}}},
            {"action_profile_member": {"action_profile_id": on.ids["ways"]}},
            {"action_profile_group": {}},
        ):
            assert on.read(**entity) == []
        (found,) = on.read(table_entry={})
        assert found.table_entry.table_id == on.ids["ports"]
        assert len(on.read(table_entry={"is_default_action": True})) == 1
        assert len(on.state.entities(counts=True)) == 1


@pytest.mark.parametrize(
    ("info", "program"),
    [("errors", "unreachable"), ("unreachable", "errors"), ("errors", "forward"), ("state", "keys")],
)
def test_p4info_and_json_of_different_programs_are_refused(info: str, program: str) -> None:
    with pytest.raises(RpcError, match="use the two files of one compilation"):
        realize(info, program)


NO_ERROR, TOO_SHORT, ODD_TYPE = 0, 1, 7  # places in the P4Info's type_info.error
FRAMES = {
    NO_ERROR: ETHERNET + b"\x00\x02" + WORD,
    TOO_SHORT: ETHERNET + b"\x00\x02" + WORD[:3],
    ODD_TYPE: ETHERNET + b"\x00\x01" + WORD,
}


@pytest.mark.parametrize("size", [1, 4])
def test_parser_errors_work_as_exact_keys(size: int) -> None:
    with running("errors") as on:
        key = on.entry("exact_", exact(ODD_TYPE, size), exact(1))
        on.state.write([insert(table_entry=key)])
        assert {error: on.send(frame) for error, frame in FRAMES.items()} == {
            NO_ERROR: set(),
            TOO_SHORT: set(),
            ODD_TYPE: {2},
        }
        (found,) = on.read(table_entry={})
        assert found.table_entry == on.entry("exact_", exact(ODD_TYPE), exact(1))


def test_parser_errors_work_as_ternary_and_optional_keys() -> None:
    with running("errors") as on:
        odd_number = {"ternary": {"value": b"\x01", "mask": b"\x01"}}
        too_short = {"optional": {"value": bytes([TOO_SHORT])}}
        entries = [on.entry("ternary_", odd_number, port=2), on.entry("optional_", too_short, port=3)]
        for entry in entries:
            entry.priority = 1
        on.state.write([insert(table_entry=entry) for entry in entries])
        assert {error: on.send(frame) for error, frame in FRAMES.items()} == {
            NO_ERROR: set(),
            TOO_SHORT: {3},
            ODD_TYPE: {2},
        }


def test_numbers_out_of_the_range_of_errors_are_refused() -> None:
    with running("errors") as on:
        key = on.entry("exact_", {"exact": {"value": b"\x01\x00\x00\x00\x00"}}, exact(1))
        assert on.refused(insert(table_entry=key))[0] == rpc_code.OUT_OF_RANGE
