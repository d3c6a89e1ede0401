"""NICs of this project with one rule broken each: the rule, a module of the transport, and the text to replace in it.

Run as a program with a mutant's number, this file plays the kit's scripts to it and prints, as JSON, the rules that it
breaks. The modules must not have been imported before, so each mutant needs a process of its own.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parents[3]
SEEDS = (1, 2)


@dataclass(frozen=True)
class Mutant:
    """`old`, which occurs in `module`, becomes `new`."""

    rule: str
    module: str
    old: str
    new: str

    def text(self) -> str:
        """The module's source with the rule broken."""
        source = ROOT.joinpath(*self.module.split(".")).with_suffix(".py").read_text("utf-8")
        assert self.old in source, f"{self.module} has changed: {self.old!r}"
        return source.replace(self.old, self.new, 1)


T = "mrc_host.transport"
_RECEIVES = "        found: object = nic.datapath.receive(port, frame)\n"
_MENDS_ICRC = (
    "        from mrc_host import datapath\n        from mrc_host.wire.encap import read_prefix\n"
    "        frame = bytes(frame)\n        prefix = read_prefix(frame, None)\n"
    "        if prefix is not None and len(frame) >= prefix.start + 16:\n"
    "            right = datapath.load().icrc(frame[prefix.inner : prefix.start], frame[prefix.start : -4])\n"
    "            frame = frame[:-4] + right.to_bytes(4, 'little')\n"
)
_OWN = "self.encapsulation = Encapsulation(config)"
_MACS = "ports=tuple(dataclasses.replace(port, mac={}) for port in config.ports)"


def _from_another(change: str) -> str:
    """Packets are built as by a NIC whose configuration differs."""
    return f"import dataclasses\n        self.encapsulation = Encapsulation(dataclasses.replace(config, {change}))"


MUTANTS = (
    Mutant("R1.2", f"{T}.demux", _RECEIVES, _MENDS_ICRC + _RECEIVES),
    Mutant("R1.4", f"{T}.ack_generator", "_Trigger(psn, flow.ev, stamp, self._mark_of(flow), -1, again)",
           "_Trigger(psn, 0, stamp, self._mark_of(flow), -1, again)"),
    Mutant("R1.6", f"{T}.data_packets", "segment: int = record.kind", "segment: int = record.kind % 4"),
    Mutant("R1.7", f"{T}.demux", "if pkey & _PARTITION != _PARTITION:", "if False:"),
    Mutant("R1.8", f"{T}.outgoing_messages", "if wqe.with_imm:\n            self._wimm += 1", "self._wimm += 1"),
    Mutant("R1.9", f"{T}.ack_generator", "trigger.stamp,", "trigger.stamp + 1 & 0xFFFF,"),
    Mutant("R1.10", f"{T}.data_packets", "        template = self._frames",
           "        wqe.address -= offset\n        self.begin(wqe)\n        wqe.address += offset\n"
           "        template = self._frames"),
    Mutant("R1.10", f"{T}.memory", "region = self._by_rkey.get(rkey)\n        if region is None",
           "region = next((one for one in self._by_rkey.values() if one.remote_write), None)\n"
           "        if region is None"),
    Mutant("R1.12", f"{T}.ack_generator", "size, flow.units, word", "size, flow.units // 2, word"),
    Mutant("R1.13", f"{T}.ack_generator", "return self._mark_for(flow.ev)", "return control.MARK_NONE"),
    Mutant("R1.15", f"{T}.ack_generator", "control.NACK_TRIMMED_LASTHOP if lasthop else", ""),
    Mutant("R1.15", f"{T}.ack_processing",
           "        if nack.reason == control.NACK_UNEXP_EVENT:\n            return _UNEXPECTED\n", ""),
    Mutant("R1.16", f"{T}.ack_generator", "trigger.probe_id, trigger.mark", "-1, trigger.mark"),
    Mutant("R1.17", f"{T}.demux", "if request.op > control.OP_EV_PROBE:", "if request.op >= control.OP_EV_PROBE:"),
    Mutant("R1.18", f"{T}.endpoint_answers", "EndpointResponse(op, stamp, took", "EndpointResponse(op, 0, took"),
    Mutant("R1.19", f"{T}.peer_frames", "ecn = 0 if kind == CONTROL else ECT0", "ecn = ECT0"),
    Mutant("R1.20", f"{T}.peer_frames", "(dscp.trimmable, dscp.retransmit, dscp.control, dscp.no_trim)[kind]",
           "(dscp.trimmable, dscp.trimmable, dscp.control, dscp.no_trim)[kind]"),
    Mutant("R1.21", f"{T}.demux", "        if isinstance(found, Flow):",
           "        if isinstance(found, Flow) and found.trimmed:\n            return Drop.ICRC\n"
           "        if isinstance(found, Flow):"),
    Mutant("R1.24", f"{T}.nic_context", _OWN, _from_another("address=config.address[:-1] + bytes((0xEE,))")),
    Mutant("R1.24", f"{T}.nic_context", _OWN, _from_another(_MACS.format("bytes((2, 9, 9, 9, 9, 9))"))),
    Mutant("R1.24", f"{T}.nic_context", _OWN, _from_another(_MACS.format("bytes((port.mac[0] | 1,)) + port.mac[1:]"))),
    Mutant("R1.24", f"{T}.nic_context", "self.datapath = NativeDatapath(config)",
           "made = self.datapath = NativeDatapath(config)\n"
           "        def from_a_group(whole):\n"
           "            return lambda *given: (frame := whole(*given))[:22] + bytes((0xFF, 2)) + frame[24:]\n"
           "        made.frame, made.data_frame = from_a_group(made.frame), from_a_group(made.data_frame)"),
    Mutant("R2.1", f"{T}.demux", "        if opcode not in opcodes.OF_MRC and opcode not in opcodes.OF_RC:",
           "        if opcode == 0xC0:\n            opcode = 0xCA\n"
           "        if opcode not in opcodes.OF_MRC and opcode not in opcodes.OF_RC:"),
    Mutant("R2.3", f"{T}.responder", "        offset = ((word & MASK) - expected) & MASK\n        if offset",
           "        offset = ((word & MASK) - expected) & MASK\n        if offset == 1:\n"
           "            return None\n        if offset"),
    Mutant("R2.4", f"{T}.responder", "        if not offset and message.last < received.next_psn:\n",
           "        if offset and message.with_imm:\n            self._owner.complete_receive(length, imm, solicited)\n"
           "        elif not offset and message.last < received.next_psn:\n"),
    Mutant("R2.5", f"{T}.responder", "if self._max_wimm <= (rqmsn - self._wimm_done) & 0xFFFF < 0x8000:", "if False:"),
    Mutant("R2.5", f"{T}.responder", "if self._max_wimm <= (rqmsn", "if self._max_wimm - 1 <= (rqmsn"),
    Mutant("R2.6", f"{T}.responder", "max(attributes.mpr, attributes.dynamic_mpr) * 128 - 1",
           "max(attributes.mpr, attributes.dynamic_mpr) * 256 - 1"),
    Mutant("R2.7", f"{T}.send_window", "self.psn_range = attributes.mpr_dest * 128 - 1",
           "self.psn_range = attributes.mpr_dest * 128 + 1"),
    Mutant("R2.8", f"{T}.ack_generator",
           "            self._paths.doubt_reverse_paths()\n            self._sack_again(psn, flow, stamp)\n"
           "        return None\n\n    def out",
           "            self._paths.doubt_reverse_paths()\n        return None\n\n    def out"),
    Mutant("R2.8", f"{T}.responder",
           "            self.acks.duplicate(psn, word, stamp, flow)\n            return None\n",
           "            self.acks.duplicate(psn, word, stamp, flow)\n"),
    Mutant("R2.8", f"{T}.ack_generator",
           "            self._paths.doubt_reverse_paths()\n        self._sack_again(psn, flow, stamp)\n",
           "            self._paths.doubt_reverse_paths()\n"),
    Mutant("R2.9", f"{T}.responder", "        if due:\n", "        if due and not word & headers.RTX:\n"),
    Mutant("R2.10", f"{T}.ack_generator", "return self._pack(trigger, base)", "return self._pack(trigger, base + 64)"),
    Mutant("R2.11", f"{T}.ack_generator", "syndrome, self.completed_msn)", "syndrome, self.completed_msn + 1)"),
    Mutant("R2.12", f"{T}.timeouts",
           "        self._probes.request(mask, self._data.open_planes(), again)\n",
           "        pass\n"),
    Mutant("R2.13", f"{T}.loss_detection", "    def _overtaken(",
           "    def _overtaken(self, *_: object) -> bool:\n        return False\n\n    def _unused("),
    Mutant("R2.14", f"{T}.requester", "            word |= headers.RTX\n", "            pass\n"),
    Mutant("R2.15", f"{T}.retransmission_timer", "        base = max(self.ack_timeout, ",
           "        base = 99_999 * max(self.ack_timeout, "),
    Mutant("R2.16", f"{T}.retry_policy", "return self._limit == _UNLIMITED or retries <= self._limit", "return True"),
    Mutant("R2.16", f"{T}.retry_policy", "retries <= self._limit", "retries < self._limit"),
    Mutant("R2.17", f"{T}.ack_generator", "self._remote_qpn, psn, syndrome, self.completed_msn)",
           "self._remote_qpn, psn, syndrome & 0x60, self.completed_msn)"),
    Mutant("R3.1", f"{T}.paths", "    def next(self, plane: int, avoid: int) -> int:",
           "    def next(self, plane: int, avoid: int) -> int:\n"
           "        ring = self._rings.active[plane]\n"
           "        return ring[0] if ring else self._last_resort(plane, avoid)\n\n"
           "    def unused(self, plane: int, avoid: int) -> int:"),
    Mutant("R3.5", f"{T}.paths", "path.state == GOOD and not self._oblivious",
           "path.state == GOOD and reason is PathReason.TRIMMED"),
    Mutant("R3.6", f"{T}.paths", "path.state == GOOD and not self._oblivious",
           "path.state == GOOD and reason is not PathReason.TRIMMED"),
    Mutant("R3.9", f"{T}.ack_processing",
           "self._paths.retire(self._paths.path(value), PathReason.PEER_SKIP, None, now, True)",
           "self._paths.skip(value)"),
    Mutant("R3.11", f"{T}.probe_schedule", "return 0 if self._successes >= self._needed else ", "return "),
    Mutant("R3.17", f"{T}.peer", "        if changed > 0:\n            self._planes_changed(now)\n        elif",
           "        if"),
)  # fmt: skip


class _Loader(importlib.abc.InspectLoader):
    """Loads one module from another text."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def get_source(self, fullname: str) -> str:
        return self._mutant.text()

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.get_source(fullname), f"<mutant of {fullname}>", "exec")

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), module.__dict__)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the mutant instead of its module."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        return importlib.util.spec_from_loader(fullname, _Loader(self._mutant))


def broken_by(mutant: Mutant) -> dict[str, str]:
    """The rules that the kit finds broken, each with a reason. The datapath in C takes no packets from Python."""
    sys.meta_path.insert(0, _Finder(mutant))
    from mrc_lab.conformance.collection import load_scripts
    from mrc_lab.conformance.examine import examine, in_memory
    from tests.mrc_host.datapath.module import leaving_all_to_python, native, used

    with used(leaving_all_to_python(native())), in_memory() as setting:
        verdicts = list(examine(setting, load_scripts(), SEEDS))
    return {verdict.rule: verdict.reason for verdict in verdicts if not verdict.kept}


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    print(json.dumps(broken_by(MUTANTS[int(sys.argv[1])])))
