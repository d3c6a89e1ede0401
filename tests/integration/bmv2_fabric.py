"""A fabric on BMv2 or another switch, for test_bmv2.py, which runs this in a network namespace of its own.

Brings the demo fabric up with the controller and agents, checks that every switch is verified, that hosts reach each
other by plain IPv6, that a verified write uses every plane and every T0-T1 link, and that faults of the P4 program are
ridden out.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from mininet.log import setLogLevel

from controller.client import ControllerClient
from controller.command_line import companion
from mrc_host import verbs
from mrc_lab.workloads.verified_write import Transfer
from tests.integration.names import own
from topologies.addressing import entropy_value
from topologies.clos import multi_plane_clos
from topologies.emulation.bring_up import emulated
from topologies.faults.blackhole import Blackhole
from topologies.faults.corruption import Corruption
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss


def main(switch: str) -> int:
    setLogLevel("error")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    fabric = multi_plane_clos(own("bmv2"), rate_bps=20_000_000)
    with emulated(fabric, switch=switch, companions=[companion]) as emulation:
        print(f"up in {emulation.bring_up_s:.2f} s: {emulation.phases}")
        with ControllerClient(emulation.controller_socket) as controller:
            status = controller.status()
            assert status.ready, status.problems
            assert len(status.switches) == len(fabric.switches)
            print(f"{sum(switch.entries for switch in status.switches)} entries verified")
            host = emulation.host("h1")
            for target in ("h2", "h3"):
                peer = emulation.host(target)
                for port in peer.kernel_ports.values():
                    out = host.cmd(f"ping -6 -c 2 -i 0.2 -W 2 {port.address}")
                    assert "2 received" in out, out
            source, sink = (verbs.open(emulation.socket(name)) for name in ("h1", "h3"))
            transfer = Transfer(source, sink)
            report = transfer.write(2_000_000)
            print(f"{report.bits_per_second / 1e6:.1f} Mb/s, {report.counters}")
            assert report.wrong_bytes == 0
            assert set(report.paths) == set(range(fabric.planes)), report.paths
            carried = {link.name: link.upward.packets for link in controller.links("t0-0:t1-*@p*")}
            assert all(packets > 20 for packets in carried.values()), carried
            faults = (
                controller.inject(Loss("t0-0:t1-1@p0", 1.0, "t1-1@p0")),
                controller.inject(Corruption("h1@p1", 0.02)),
                controller.inject(Blackhole("t1-3@p1")),
                controller.inject(PathLoss(entropy_value(0, 2), source="h1", destination="h3")),
            )
            assert controller.faults() == list(faults)
            hurt = transfer.write(2_000_000)
            print(f"with faults {hurt.bits_per_second / 1e6:.1f} Mb/s, {hurt.counters}")
            assert hurt.wrong_bytes == 0
            assert hurt.counters.lost >= 3
            assert hurt.counters.retransmitted >= 3
            status = controller.reconcile()
            assert status.ready, status.problems
            assert sum(switch.repaired for switch in status.switches) == 0
            assert [fault.id for fault in controller.clear_all().faults] == [fault.id for fault in faults]
            assert controller.faults() == []
            assert transfer.write(500_000).wrong_bytes == 0
            transfer.close()
            source.close()
            sink.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
