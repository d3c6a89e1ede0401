"""Entities of programs/families.p4 in shorthand, and a forwarding state that takes them."""

from __future__ import annotations

from typing import Any

import pytest
from finsy.proto import p4r

from p4runtime_shim.entities import ActionCall
from p4runtime_shim.server import p4info
from p4runtime_shim.server.forwarding_state import ForwardingState
from p4runtime_shim.server.rpc_errors import BatchError
from p4runtime_shim.server.switch_interface import SwitchInterface
from tests.p4runtime_shim.server import sample

SET = ActionCall("I.set", (3, 0x020000000001))
SCHEMA = p4info.build(sample.p4info())
ROLLBACK = p4r.WriteRequest.ROLLBACK_ON_ERROR


class Switch:
    """A forwarding state with shorthand; `under` is the switch under it."""

    def __init__(self, under: SwitchInterface) -> None:
        self.under = under
        self.state = ForwardingState(SCHEMA, under.control_plane)

    def write(self, *updates: p4r.Update, atomicity: int = 0) -> None:
        self.state.write(updates, atomicity)

    def refused(self, *updates: p4r.Update, atomicity: int = 0) -> list[int]:
        with pytest.raises(BatchError) as caught:
            self.state.write(updates, atomicity)
        return [0 if item is None else item.code for item in caught.value.results]

    def read(self, **entity: Any) -> list[Any]:
        (kind,) = entity
        return [getattr(item, kind) for item in self.state.read([p4r.Entity(**entity)])]

    def entries(self) -> list[p4r.TableEntry]:
        """All table entries but the constant ones."""
        return [item for item in self.read(table_entry={}) if not item.is_const]


def set_action(port: int = 3) -> p4r.Action:
    params = [{"param_id": 1, "value": b"\x02\x00\x00\x00\x00\x01"}, {"param_id": 2, "value": bytes([port])}]
    return p4r.Action(action_id=sample.SET, params=params)


def exact(mac: int = 1, **more: Any) -> p4r.TableEntry:
    more.setdefault("action", {"action": set_action()})
    return p4r.TableEntry(table_id=sample.EXACT, match=[{"field_id": 1, "exact": {"value": bytes([mac])}}], **more)


def kinds(e: int = 1, priority: int = 10, **more: Any) -> p4r.TableEntry:
    more.setdefault("action", {"action": {"action_id": sample.DROP}})
    match = [
        {"field_id": 1, "exact": {"value": bytes([e])}},
        {"field_id": 2, "ternary": {"value": b"\x01", "mask": b"\x0f"}},
    ]
    return p4r.TableEntry(table_id=sample.KINDS, match=match, priority=priority, **more)


def indirect(prefix: int, **action: Any) -> p4r.TableEntry:
    match = [{"field_id": 1, "lpm": {"value": bytes([prefix, 0, 0, 0]), "prefix_len": 8}}]
    return p4r.TableEntry(table_id=sample.INDIRECT, match=match, action=action)


def default(table: int, **more: Any) -> p4r.TableEntry:
    return p4r.TableEntry(table_id=table, is_default_action=True, **more)


def member(id_: int, port: int = 3, profile: int = sample.SELECTOR) -> p4r.ActionProfileMember:
    return p4r.ActionProfileMember(action_profile_id=profile, member_id=id_, action=set_action(port))


def group(id_: int, *members: int, max_size: int = 8, weight: int = 1) -> p4r.ActionProfileGroup:
    items = [{"member_id": item, "weight": weight} for item in members]
    return p4r.ActionProfileGroup(action_profile_id=sample.SELECTOR, group_id=id_, members=items, max_size=max_size)


def one_shot(*ports: int, weight: int = 1, **more: Any) -> dict[str, Any]:
    actions = [{"action": canonical_action(port), "weight": weight} for port in ports]
    return {"action_profile_action_set": {"action_profile_actions": actions, **more}}


def canonical_action(port: int) -> p4r.Action:
    params = [{"param_id": 2, "value": bytes([port])}, {"param_id": 1, "value": b"\x02\x00\x00\x00\x00\x01"}]
    return p4r.Action(action_id=sample.SET, params=params)
