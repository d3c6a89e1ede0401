"""A capture of a real run, with faults on, opens in tshark with every MRC packet decoded and none malformed."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter

import pytest

from mrc_host.wire import opcodes
from mrc_lab.commands import fault_command
from mrc_lab.fabric.emulation import running
from mrc_lab.prompt.captures import Captures
from tests.integration.names import own
from tests.integration.wire_kinds import WIRES
from tests.mrc_host.captures import tshark
from topologies.clos import multi_plane_clos
from topologies.queues import QueueProfile

DUMPCAP = shutil.which("dumpcap")
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(DUMPCAP is None, reason="dumpcap is not installed: apt-get install tshark"),
    tshark.needs_tshark,
]

NAME = own("capture")
COMMENTED = "commented.pcapng"
SHALLOW = QueueProfile(least_frames=4, trim_lasthop=10)  # of two packets that meet on the last hop one is cut
MAX_ROUNDS = 20


def trimmed_for_h3(controller, plane):
    """Packets that the last switch before h3 has trimmed for its port there."""
    (switch,) = controller.counters(f"t0-1@p{plane}")
    (port,) = (port for port in switch.ports if port.link == f"h3@p{plane}")
    return sum(count.packets for count in port.counts if count.name == "trimmed_packets")


@contextlib.contextmanager
def captured(host, interfaces, file):
    """Capture on a host's interfaces into `file` meanwhile."""
    chosen = [word for name in interfaces for word in ("-i", name)]
    with host.popen([DUMPCAP, "-q", *chosen, "-w", str(file)], stderr=subprocess.PIPE, text=True) as dumpcap:
        for line in dumpcap.stderr:
            if line.startswith("File:"):  # it has begun
                break
        else:
            pytest.fail("dumpcap did not begin")
        try:
            yield
        finally:
            dumpcap.send_signal(signal.SIGINT)
            output = dumpcap.stderr.read()
    assert "dropped" in output, output  # its last words say how many: "0 dropped" would need a quiet machine


@pytest.fixture(scope="module", params=WIRES)
def capture(request, tmp_path_factory):
    """What h3 sent and received while three hosts wrote to each other over links that lose frames, one of them slow."""
    file = tmp_path_factory.mktemp("capture") / "h3.pcapng"
    fabric = multi_plane_clos(NAME, planes=2, t0=2, t1=2, hosts=4, rate_bps=20_000_000, queues=SHALLOW)
    with running(fabric, wire=request.param) as world:
        with world.controller() as controller:
            fault_command.execute(controller, ["t0-*:t1-*@p*", "loss", "3%"])
            # Much that waits is trimmed: on links that are slower than a NIC sends however busy the machine is.
            fault_command.execute(controller, ["h3@p0", "rate", "1M", "h3"])
            fault_command.execute(controller, ["h3@p1", "rate", "2M", "h3"])
        ports = [f"h3-eth{plane}" for plane in range(fabric.planes)]
        commented = Captures(world.emulation)
        commented.start("h3@p1", str(file.with_name(COMMENTED)))
        with contextlib.closing(commented), captured(world.emulation.host("h3"), ports, file):
            command = [sys.executable, "-m", "mrc_lab.perf", "alltoall_perf", "--fabric", NAME]
            command += ["--hosts", "h1,h2,h3", "-b", "256K", "-n", "1", "-w", "0"]
            with world.controller() as controller:
                for _ in range(MAX_ROUNDS):  # until packets have met on the last hop, as few do on a busy machine
                    done = subprocess.run(command, capture_output=True, text=True, check=False)
                    assert done.returncode == 0, done.stdout + done.stderr
                    if trimmed_for_h3(controller, plane=1):
                        break
            pinged = world.emulation.host("h3").cmd(
                f"{sys.executable} -m mrc_lab.perf.ping --fabric {NAME} h3 h1 -c 2 -i 0.1 -q"
            )
            assert "8 probes sent" in pinged
    return file


def test_every_captured_mrc_packet_is_dissected_and_none_is_malformed(capture):
    to_mrc = "(udp.dstport == 4791 || udp.dstport == 4971)"
    assert tshark.run(capture, "-Y", f"{to_mrc} && !mrc") == ""
    assert tshark.run(capture, "-Y", "_ws.malformed && !mrc.trimmed") == ""
    assert tshark.run(capture, "-Y", "mrc.bad_length || mrc.bad_opcode || mrc.bad_icrc || mrc.bad_roce") == ""


def test_the_captured_run_contains_losses_and_control_packets(capture):
    packets = tshark.fields(capture, ["mrc.bth.opcode", "mrc.bth.rtx", "mrc.trimmed"], "-Y", "mrc")
    seen = Counter(tshark.number(packet["mrc.bth.opcode"][0]) for packet in packets)
    print(dict(seen), sum("mrc.trimmed" in packet for packet in packets), "trimmed")
    kinds = {opcodes.WRITE_FIRST, opcodes.WRITE_MIDDLE, opcodes.SACK, opcodes.NACK}
    assert seen.keys() >= kinds | {opcodes.ENDPOINT_REQUEST, opcodes.ENDPOINT_RESPONSE}
    assert sum("mrc.trimmed" in packet for packet in packets) > 0
    assert sum(tshark.number(packet["mrc.bth.rtx"][0]) for packet in packets) > 0


def test_trimmed_packets_have_a_comment_that_names_the_switch_and_others_have_none(capture):
    file = capture.with_name(COMMENTED)
    fields = ("-T", "fields", "-e", "ipv6.tclass.dscp", "-e", "frame.comment", "-E", "occurrence=f")
    arrived = tshark.run(file, "-Y", "mrc.trimmed", *fields).splitlines()
    assert arrived
    for line in arrived:
        dscp, comment = line.split("\t")
        exact = "trimmed by t0-1@p1: its queue towards this link was too long"
        earlier = "trimmed: a queue was too long at t0-1@p1 or at a switch before it"
        assert comment.split("; marked: ")[0] == {"16": exact, "12": earlier}[dscp]
    assert tshark.run(file, "-Y", "frame.comment && !mrc.trimmed && ipv6.tclass.ecn != 3") == ""
