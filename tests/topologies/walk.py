"""Follow a packet through the static entries, as the P4 program would forward it, without a switch."""

from __future__ import annotations

from collections.abc import Iterator

from mrc_common.p4_match import Exact, GroupRef, Lpm, MemberRef
from topologies import addressing
from topologies.entries import ECMP, SwitchEntries, TableAction, TableEntry, switch_entries
from topologies.fabric import Fabric, LinkEnd
from topologies.ip_routes import NO_LINKS

ALL_ONES = (1 << 128) - 1


class Walker:
    """Tables of every switch of a fabric, ready to be walked."""

    def __init__(self, fabric: Fabric, without: frozenset[str] = NO_LINKS) -> None:
        self.fabric = fabric
        self.tables = {switch.name: switch_entries(fabric, switch, without) for switch in fabric.switches}

    def usid_path(self, at: LinkEnd, destination: int) -> tuple[list[str], LinkEnd, int]:
        """Nodes visited, the NIC port reached and the destination address there."""
        nodes = []
        while at.node not in self.fabric.nic_names:
            nodes.append(at.node)
            entries = self.tables[at.node]
            assert self._exact(entries, "usid_local", destination >> 80).name == "usid_shift"
            destination = shift(destination)
            at = self._hop(at.node, self._exact(entries, "usid_next", destination >> 80))
        return nodes, at, destination

    def routed_ends(self, at: LinkEnd, destination: int) -> Iterator[tuple[list[str], LinkEnd]]:
        """Every way that plain IPv6 may take over ECMP groups' members: nodes visited and the NIC port reached."""
        if at.node in self.fabric.nic_names:
            yield [], at
            return
        entries = self.tables[at.node]
        for action in self._lpm(entries, destination):
            for nodes, end in self.routed_ends(self._hop(at.node, action), destination):
                yield [at.node, *nodes], end

    def _hop(self, node: str, action: TableAction) -> LinkEnd:
        args = dict(action.args)
        own = LinkEnd(node, args["port"])
        peer = self.fabric.peer(own)
        assert peer is not None
        assert args["smac"].to_bytes(6, "big") == addressing.mac(self.fabric, own)
        assert args["dmac"].to_bytes(6, "big") == addressing.mac(self.fabric, peer)
        return peer

    @staticmethod
    def _exact(entries: SwitchEntries, table: str, key: int) -> TableAction:
        (target,) = (e.target for e in entries.entries if e.table == table and e.match == (Exact(key),))
        assert isinstance(target, TableAction)
        return target

    @staticmethod
    def _lpm(entries: SwitchEntries, destination: int) -> list[TableAction]:
        def covers(entry: TableEntry) -> bool:
            (key,) = entry.match
            assert isinstance(key, Lpm)
            mask = ALL_ONES ^ (ALL_ONES >> key.prefix_len)
            assert key.value & ~mask == 0, "bits below the prefix"
            return destination & mask == key.value

        found = [entry for entry in entries.entries if entry.table == "ipv6_route" and covers(entry)]
        if not found:
            return []
        target = max(found, key=lambda entry: entry.match[0].prefix_len).target  # type: ignore[union-attr]
        members = {member.member_id: member.action for member in entries.members if member.profile == ECMP}
        if isinstance(target, MemberRef):
            return [members[target.member_id]]
        assert isinstance(target, GroupRef)
        (group,) = (g for g in entries.groups if g.profile == ECMP and g.group_id == target.group_id)
        return [members[member_id] for member_id, weight in group.members if weight]


def shift(address: int) -> int:
    """Shift the uSID list: keep the 32-bit block, move the 80 bits behind the first uSID left by 16."""
    block, rest = address >> 96, address & ((1 << 80) - 1)
    return block << 96 | rest << 16
