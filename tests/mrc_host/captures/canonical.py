"""One packet as a flat mapping ``mrc.<header>.<field>`` -> number, from each of the readers that must agree."""

from __future__ import annotations

from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from mrc_host.captures import scapy_layers as mrc
from mrc_host.captures.scapy_layers import MrcBTH
from mrc_host.wire import control, headers

_PREFIXES = {
    mrc.MrcBTH: "bth", mrc.METH: "meth", mrc.TSETH: "tseth", mrc.RETH: "reth", mrc.ImmDt: "immdt", mrc.SETH: "seth",
    mrc.CCState: "ccstate", mrc.NETH: "neth", mrc.PETH: "peth", mrc.ERTH: "erth", mrc.EETH: "eeth", mrc.AETH: "aeth",
}  # fmt: skip

# what lies around the operation of an endpoint response, whose place is disputed, is not shown by the dissector
_NOT_SHOWN = {"mrc.eeth.reserved", "mrc.eeth.reserved2"}


def scapy_fields(frame: bytes) -> dict[str, int | bytes]:
    """By the scapy layers."""
    found: dict[str, int | bytes] = {}
    layer: Packet = Ether(frame)[UDP].payload
    while layer:
        prefix = _PREFIXES.get(type(layer))
        for name in layer.fields if prefix else ():
            value = layer.getfieldval(name)
            if name == "icrc":
                if not mrc.is_trimmed(layer):
                    found["mrc.icrc"] = value
            elif value is not None:
                found[f"mrc.{prefix}.{name}"] = value
        layer = layer.payload
    return {name: value for name, value in found.items() if name not in _NOT_SHOWN}


def transport_of(frame: bytes) -> tuple[bytes, int]:
    """Everything after UDP, and its offset in the frame."""
    start = len(frame) - len(bytes(Ether(frame)[UDP].payload.original))
    return frame[start:], start


def codec_fields(body: bytes, *, trimmed: bool) -> dict[str, int]:
    """By the struct codec; `body` starts with the BTH and ends before the ICRC."""
    opcode, flags, pkey, qpn, word = headers.bth.unpack_from(body, 0)
    found = {
        "bth.opcode": opcode, "bth.m": flags >> 7, "bth.se": flags >> 6 & 1, "bth.tver": flags & 0xF,
        "bth.pad": flags >> headers.PAD_SHIFT & 3, "bth.pkey": pkey, "bth.dest_qp": qpn & 0xFFFFFF,
        "bth.reserved": qpn >> 24, "bth.ack_req": int(bool(word & headers.ACK_REQUEST)), "bth.psn": word & 0xFFFFFF,
        "bth.rtx": int(bool(word & headers.RTX)), "bth.ts": int(bool(word & headers.TS_PRESENT)),
    }  # fmt: skip
    if mrc.WRITE_FIRST <= opcode <= mrc.WRITE_ONLY_IMM:
        found |= _data_fields(body, opcode, bool(word & headers.TS_PRESENT), trimmed)
    else:
        found |= _control_fields(body, opcode)
    return {f"mrc.{name}": value for name, value in found.items()}


def _data_fields(body: bytes, opcode: int, with_ts: bool, trimmed: bool) -> dict[str, int]:
    names = ["meth.rqmsn", "meth.msn"]
    if with_ts:
        names += ["tseth.timestamp", "tick"]
    layout = headers.trimmed
    if not trimmed:
        names += ["reth.address", "reth.rkey", "reth.length"]
        with_imm = opcode in (mrc.WRITE_LAST_IMM, mrc.WRITE_ONLY_IMM)
        if with_imm:
            names.append("immdt.data")
        layout = {
            (True, True): headers.data_ts_imm, (True, False): headers.data_ts,
            (False, True): headers.data_plain_imm, (False, False): headers.data_plain,
        }[with_ts, with_imm]  # fmt: skip
    found = dict(zip(names, layout.unpack_from(body, 0)[5:], strict=True))
    if with_ts:
        tick = found.pop("tick")
        found |= {"tseth.unit": tick >> 15, "tseth.type": tick & 0xF, "tseth.reserved": tick >> 4 & 0x7FF}
    return found


def _control_fields(body: bytes, opcode: int) -> dict[str, int]:
    at = headers.BTH_LENGTH
    if opcode == mrc.SACK:
        sack = control.parse_sack(body, at)
        cause = {"seth.probe_id": sack.ack_offset & 0xFFFF} if sack.probe else {"seth.ack_psn_offset": sack.ack_offset}
        return cause | {
            "seth.m": sack.mark, "seth.pr": int(sack.probe), "seth.ev": sack.entropy, "seth.spdcid": sack.source_id,
            "seth.dpdcid": sack.destination_id, "seth.cack_psn": sack.cack_psn, "seth.mpr": sack.mpr,
            "seth.sack_offset": sack.bitmap_offset, "seth.bitmap": sack.bitmap, "ccstate.timestamp": sack.timestamp,
            "ccstate.ooo_count": sack.ooo_count, "ccstate.restore_cwnd": int(sack.restore_cwnd),
            "ccstate.rcv_cwnd_pen": sack.cwnd_penalty, "ccstate.rcvd_bytes": sack.rcvd_units,
        }  # fmt: skip
    if opcode == mrc.NACK:
        nack = control.parse_nack(body, at)
        return {
            "neth.reason": nack.reason, "neth.ev": nack.entropy, "neth.spdcid": nack.source_id,
            "neth.dpdcid": nack.destination_id, "neth.nack_psn": nack.psn, "neth.timestamp": nack.timestamp,
        }  # fmt: skip
    if opcode == mrc.PROBE:
        probe = control.parse_probe(body, at)
        return {
            "peth.probe_id": probe.probe_id, "peth.spdcid": probe.source_id, "peth.dpdcid": probe.destination_id,
            "peth.timestamp": probe.timestamp,
        }  # fmt: skip
    if opcode == mrc.ENDPOINT_REQUEST:
        request = control.parse_endpoint_request(body, at)
        return {
            "erth.operation": request.op, "erth.port_mask": request.port_mask, "erth.timestamp": request.timestamp,
        }  # fmt: skip
    if opcode == mrc.ENDPOINT_RESPONSE:
        response = control.parse_endpoint_response(body, at)
        return {
            "eeth.operation": response.op, "eeth.timestamp": response.timestamp,
            "eeth.service_time": response.service_time,
        }  # fmt: skip
    assert opcode == mrc.TRANSPORT_ACK, hex(opcode)
    syndrome_msn = headers.aeth.unpack_from(body, 0)[5]
    return {"aeth.syndrome": syndrome_msn >> 24, "aeth.msn": syndrome_msn & 0xFFFFFF}


def is_mrc(frame: bytes) -> bool:
    """Whether a frame carries MRC by scapy's judgement."""
    packet = Ether(frame)
    return packet.haslayer(MrcBTH) and not isinstance(packet[UDP].payload, Raw)
