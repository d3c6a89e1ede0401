"""The exercises of p4lang's tutorials, from the checkout at TUTORIALS_PATH: they compile, and each solved one does what
its README says."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from scapy.all import IP, TCP, UDP, Ether, IPOption, Packet, Raw

import p4compiler
from p4runtime_shim.entities import CloneSession, Replica
from tests.p4compiler.corpus.tutorials import CPU_PORT, EXERCISES, Network, refused_lines, solution

pytestmark = [
    pytest.mark.second_ring,
    pytest.mark.skipif(not EXERCISES.is_dir(), reason="TUTORIALS_PATH does not name a checkout of p4lang's tutorials"),
]

_UNFINISHED = {"flowcache/flowcache.p4"}  # uses the fields that its reader is to declare
_PODS, _TRIANGLE = "pod-topo/topology.json", "topology.json"


def programs() -> list[Path]:
    """Every program, as it is given and solved."""
    return sorted(EXERCISES.glob("*/*.p4")) + sorted(EXERCISES.glob("*/solution/*.p4"))


def packet(network: Network, source: str, to: str, *upper: Packet, ttl: int = 64, **fields: object) -> bytes:
    """An IPv4 packet between hosts, as it leaves the first."""
    (mac, address), (_, wanted) = network.addresses[source], network.addresses[to]
    ether = Ether(src=mac.to_bytes(6, "big"), dst="08:00:00:00:00:01", type=0x800)
    frame = ether / IP(src=_dotted(address), dst=_dotted(wanted), ttl=ttl, **fields)
    for layer in upper or (UDP(sport=1, dport=2),):
        frame /= layer
    return bytes(frame / Raw(b"what is carried"))


def arrived(network: Network, host: str, frames: list[bytes], hops: int) -> Packet:
    """The one frame that came, which went to the host's own address over so many switches, with a right checksum."""
    (data,) = frames
    frame = Ether(data)
    assert int(frame.dst.replace(":", ""), 16) == network.addresses[host][0]
    assert frame[IP].ttl == 64 - hops
    unchecked = frame[IP].copy()
    del unchecked.chksum
    assert frame[IP].chksum == IP(bytes(unchecked)).chksum
    assert bytes(frame).endswith(b"what is carried")
    return frame


def _dotted(address: int) -> str:
    return ".".join(str(byte) for byte in address.to_bytes(4, "big"))


def test_programs_compile() -> None:
    assert len(programs()) == 26
    for path in programs():
        if str(path.relative_to(EXERCISES)) not in _UNFINISHED:
            p4compiler.compile(path)


def test_an_unfinished_program_is_refused_where_it_is_unfinished() -> None:
    (name,) = _UNFINISHED
    text = (EXERCISES / name).read_text().splitlines()
    assert refused_lines(EXERCISES / name)
    for line in refused_lines(EXERCISES / name):
        assert "hdr.packet_" in text[line - 1]


def test_basic_reaches_each_host_from_each() -> None:
    with Network(f"basic/{_PODS}", program=solution("basic")) as network:
        for source in network.addresses:
            for to in network.addresses:
                same_pod = {source, to} <= {"h1", "h2"} or {source, to} <= {"h3", "h4"}
                if source != to:
                    out = network.send(source, packet(network, source, to))
                    assert list(out) == [to]
                    arrived(network, to, out[to], 1 if same_pod else 3)


def test_the_unfinished_basic_lets_nothing_pass() -> None:
    with Network(f"basic/{_PODS}", program=EXERCISES / "basic/basic.p4") as network:
        assert network.send("h1", packet(network, "h1", "h2")) == {}


def test_basic_tunnel_goes_by_the_tunnel_and_not_by_the_address() -> None:
    with Network(f"basic_tunnel/{_TRIANGLE}", program=solution("basic_tunnel")) as network:
        plain = packet(network, "h1", "h2")
        out = network.send("h1", plain)
        arrived(network, "h2", out["h2"], 2)
        tunnelled = plain[:12] + struct.pack(">HHH", 0x1212, 0x800, 3) + plain[14:]
        assert network.send("h1", tunnelled) == {"h3": [tunnelled]}


@pytest.mark.parametrize(
    ("sign", "result"), [("+", 2**32 - 5), ("-", 1), ("&", 0xFFFFFFFC), ("|", 0xFFFFFFFF), ("^", 3), ("x", None)]
)
def test_calc_answers(sign: str, result: int | None) -> None:
    one, other = 0xFFFFFFFE, 0xFFFFFFFD
    with Network("calc/topology.json", program=solution("calc")) as network:
        head, question = (
            bytes.fromhex("080000000222 080000000111 1234"),
            struct.pack(">2sBcII", b"P4", 1, sign.encode(), one, other),
        )
        out = network.send("h1", head + question + bytes(4) + b"rest")
        if result is None:
            assert out == {}
        else:
            answer = head[6:12] + head[:6] + head[12:] + question + struct.pack(">I", result) + b"rest"
            assert out == {"h1": [answer]}


def test_ecn_marks_what_waits_behind_ten_others() -> None:
    with Network(f"ecn/{_TRIANGLE}", program=solution("ecn")) as network:
        network.switches["s1"].set_port_rate(3, 1_000_000)
        sent = [packet(network, "h1", "h2", tos=number % 4, id=number) for number in range(40)]
        found = [Ether(frame)[IP] for frame in network.send("h1", *sent)["h2"]]
    assert [header.id for header in found] == list(range(40))
    marked = {header.id for header in found if header.tos == 3} - {number for number in range(40) if number % 4 == 3}
    capable = [number for number in range(40) if number % 4 in (1, 2)]
    # All of them arrive before the first one leaves, so number 10 finds 10 in the queue: ECN_THRESHOLD.
    assert marked == {number for number in capable if number >= 10}
    assert all(header.tos == header.id % 4 for header in found if header.id not in marked)


def test_firewall_lets_in_only_what_answers() -> None:
    programs_of_others = dict.fromkeys(("s2", "s3", "s4"), EXERCISES / "basic/solution/basic.p4")
    with Network(f"firewall/{_PODS}", program=solution("firewall"), others=programs_of_others) as network:
        inward = packet(network, "h3", "h1", TCP(sport=80, dport=1234, flags="S"))
        assert network.send("h3", inward) == {}
        out = network.send("h1", packet(network, "h1", "h3", TCP(sport=1234, dport=80, flags="S")))
        arrived(network, "h3", out["h3"], 3)
        out = network.send("h3", packet(network, "h3", "h1", TCP(sport=80, dport=1234, flags="SA")))
        arrived(network, "h1", out["h1"], 3)
        assert network.send("h3", packet(network, "h3", "h1", TCP(sport=81, dport=1234, flags="SA"))) == {}
        out = network.send("h2", packet(network, "h2", "h1", TCP(sport=5, dport=6, flags="S")))
        arrived(network, "h1", out["h1"], 1)


def test_flowcache_asks_its_controller_for_flows_that_it_does_not_know() -> None:
    with Network(f"flowcache/{_TRIANGLE}", program=solution("flowcache")) as network:
        switch = network.switches["s1"]
        switch.control_plane.replication.session_set(57, CloneSession((Replica(CPU_PORT),)))
        frame = packet(network, "h1", "h2", TCP(flags="S"))
        unknown = struct.pack(">HBB", 1, 1, 0)  # the port that it came in by, FLOW_UNKNOWN, NO_OP
        assert network.send("h1", frame) == {"s1": [unknown + frame]}
        header = Ether(frame)[IP]
        network.add(
            "s1",
            "MyIngress.flow_cache",
            "MyIngress.cached_action",
            {"port": 2, "decrement_ttl": 1, "new_dscp": 5, "dst_eth_addr": "08:00:00:00:02:22"},
            {"hdr.ipv4.protocol": 6, "hdr.ipv4.srcAddr": header.src, "hdr.ipv4.dstAddr": header.dst},
        )
        network.switches["s2"].control_plane.replication.session_set(57, CloneSession((Replica(CPU_PORT),)))
        (seen,) = network.send("h1", frame)["s2"]
        forwarded = Ether(seen[4:])
        assert (seen[:4], forwarded[IP].ttl, forwarded[IP].tos) == (struct.pack(">HBB", 2, 1, 0), 63, 5 << 2)
        out = network.send_from_controller("s2", struct.pack(">BBI", 1, 0, 1) + frame)
        assert out == {"h2": [frame]}
        out = network.send_from_controller("s2", struct.pack(">BBI", 7, 0, 1) + frame)
        assert out == {"s2": [struct.pack(">HBB", CPU_PORT, 2, 0) + frame]}  # UNRECOGNIZED_OPCODE


def test_link_monitor_probes_bring_bytes_of_each_link() -> None:
    with Network(f"link_monitor/{_PODS}", program=solution("link_monitor")) as network:
        plain = packet(network, "h1", "h3")
        arrived(network, "h3", network.send("h1", plain)["h3"], 3)
        way = (3, 2, 4, 1, 1)  # the port at which it leaves s1, s3, s2, s3 and s1 again
        probe = bytes(12) + struct.pack(">HB", 0x812, 0) + bytes(way)
        (out,) = network.send("h1", probe).values()
    (data,) = out
    hops = data[14]
    assert hops == len(way)
    records = [struct.unpack(">BBI6s6s", data[15 + 18 * hop : 33 + 18 * hop]) for hop in range(hops)]
    assert [record[1] for record in records] == list(reversed(way))
    assert [record[0] >> 7 for record in records] == [0] * (hops - 1) + [1]
    assert records[-1][0] & 0x7F == 1  # the first switch
    assert records[-1][2] == len(plain) + len(probe)  # what left s1 by its port 3
    assert all(int.from_bytes(record[3]) == 0 for record in records)  # no probe before this one
    assert data[15 + 18 * hops :] == bytes(way)


def test_load_balance_spreads_flows_and_keeps_each_on_its_way() -> None:
    with Network(f"load_balance/{_TRIANGLE}", program=solution("load_balance")) as network:
        network.addresses["service"] = (0, 0x0A000001)
        chosen = {}
        for port in [*range(1000, 1100)] * 2:
            frame = packet(network, "h1", "service", TCP(sport=port, dport=80))
            ((host, frames),) = network.send("h1", frame).items()
            (data,) = frames
            assert Ether(data)[IP].dst == _dotted(network.addresses[host][1])
            assert chosen.setdefault(port, host) == host
    assert {*chosen.values()} == {"h2", "h3"}
    assert all(30 <= [*chosen.values()].count(host) <= 70 for host in ("h2", "h3"))


def test_mri_notes_each_switch_on_the_way() -> None:
    with Network(f"mri/{_TRIANGLE}", program=solution("mri")) as network:
        option = IPOption(b"\x1f\x04\x00\x00")
        out = network.send("h1", packet(network, "h1", "h2", options=[option]))
        (data,) = out["h2"]
    options = data[34:]
    assert (data[14] & 15, options[1], options[2:4]) == (6 + 2 * 2, 4 + 2 * 8, b"\x00\x02")
    assert struct.unpack(">4I", options[4:20]) == (2, 0, 1, 0)  # switch and depth of its queue, the last one first
    assert int.from_bytes(data[16:18], "big") == len(data) - 14
    assert data.endswith(b"what is carried")


def test_multicast_floods_what_it_does_not_know() -> None:
    with Network("multicast/sig-topo/topology.json", program=solution("multicast"), entries=False) as network:
        network.configure("s1", EXERCISES / "multicast/solution/s1-runtime.json")
        known = bytes.fromhex("080000000222 080000000111 0800") + b"known"
        assert network.send("h1", known) == {"h2": [known]}
        unknown = b"\xff" * 6 + known[6:]
        assert network.send("h1", unknown) == {host: [unknown] for host in ("h2", "h3", "h4")}


def test_p4runtime_tunnels_both_ways_and_counts() -> None:
    with Network(f"p4runtime/{_TRIANGLE}", program=solution("p4runtime")) as network:
        for first, last, tunnel, host in (("s1", "s2", 100, "h2"), ("s2", "s1", 200, "h1")):
            mac, address = network.addresses[host]
            network.add(
                first,
                "MyIngress.ipv4_lpm",
                "MyIngress.myTunnel_ingress",
                {"dst_id": tunnel},
                {"hdr.ipv4.dstAddr": [_dotted(address), 32]},
            )
            match = {"hdr.myTunnel.dst_id": tunnel}
            network.add(first, "MyIngress.myTunnel_exact", "MyIngress.myTunnel_forward", {"port": 2}, match)
            network.add(
                last, "MyIngress.myTunnel_exact", "MyIngress.myTunnel_egress", {"dstAddr": mac, "port": 1}, match
            )
        for source, to in (("h1", "h2"), ("h2", "h1")):
            frame = packet(network, source, to)
            mac = network.addresses[to][0].to_bytes(6, "big")
            assert network.send(source, frame) == {to: [mac + frame[6:]]}
        counts = {
            (name, counter, tunnel): network.switches[name]
            .control_plane.externs.counter_read(f"MyIngress.{counter}", tunnel)
            .packets
            for name in ("s1", "s2")
            for counter in ("ingressTunnelCounter", "egressTunnelCounter")
            for tunnel in (100, 200)
        }
    assert {key for key, packets in counts.items() if packets} == {
        ("s1", "ingressTunnelCounter", 100),
        ("s2", "egressTunnelCounter", 100),
        ("s2", "ingressTunnelCounter", 200),
        ("s1", "egressTunnelCounter", 200),
    }


@pytest.mark.parametrize(("upper", "class_of_traffic"), [(UDP(), 46), (TCP(), 44)])
def test_qos_marks_by_protocol(upper: Packet, class_of_traffic: int) -> None:
    with Network(f"qos/{_TRIANGLE}", program=solution("qos")) as network:
        frame = arrived(network, "h2", network.send("h1", packet(network, "h1", "h2", upper))["h2"], 2)
    assert frame[IP].tos == class_of_traffic << 2


def test_source_routing_follows_the_list_of_ports() -> None:
    with Network(f"source_routing/{_TRIANGLE}", program=solution("source_routing")) as network:
        frame = packet(network, "h1", "h2")
        for ports, host in (((2, 3, 2, 2, 1), "h2"), ((3, 1), "h3"), ((2, 1), "h2")):
            stack = b"".join(
                struct.pack(">H", (number == len(ports)) << 15 | port) for number, port in enumerate(ports, 1)
            )
            out = network.send("h1", frame[:12] + b"\x12\x34" + stack + frame[14:])
            (data,) = out[host]
            assert (data[12:14], Ether(data)[IP].ttl) == (b"\x08\x00", 64 - len(ports))
        assert network.send("h1", frame) == {}
