"""Runs our side: the product's ``mrc run`` on an experiment file, of which it reads ``flows.csv``."""

from __future__ import annotations

import csv
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crosscheck.htsim import Measured
from benchmarks.crosscheck.scenarios import (
    BELOW_T0,
    GBPS,
    HOSTS,
    LINK_NS,
    PAYLOAD,
    SLOW_SHARE,
    Constants,
    Scenario,
)
from mrc_common import children
from mrc_host.verbs_types import QpType
from topologies.clos import multi_plane_clos
from topologies.ideal_completion import PacketSizes
from topologies.queues import ETHERNET_BYTES

_LONGEST = 1800.0  # seconds
_COUNTED = 4352  # bytes that a window counts for a full packet (docs/congestion.md)
_MTU = 4500  # IPv6, of links; a threshold in packets is one in bytes over this and Ethernet's header


@dataclass(frozen=True, slots=True)
class Transport:
    """One of ours: what its `transport` says, and the queues it has."""

    name: str
    kind: QpType
    text: str
    pfc: bool = False
    step: bool = False  # mark as DCQCN's switches do in htsim: all from one length on

    @property
    def wire(self) -> int:
        """Bytes of a full packet on the line, with all that is around it."""
        fabric = multi_plane_clos(planes=1, t0=2, t1=1, hosts=2)
        return PacketSizes.of(self.kind, PAYLOAD, fabric).frame(PAYLOAD)

    def experiment(self, scenario: Scenario) -> str:
        """The experiment file of a scenario."""
        constants = Constants(self.wire)
        words = {
            "round_trip": round(constants.round_trip),
            "target": round(constants.target_delay),
            "window": round(constants.window * _COUNTED),
        }
        links = f", links: {{'t0-*:t1-0@*': {{rate: {GBPS // SLOW_SHARE}G}}}}" * scenario.slow
        return (
            f"fabric: {{planes: 1, t0: {HOSTS // BELOW_T0}, t1: {scenario.t1s}, hosts: {HOSTS}, rate: {GBPS}G,"
            f" delay: {LINK_NS}ns, mtu: {_MTU}{links}, queues: {self._queues(constants)}}}\n"
            f"workload: {{kind: htsim, file: flows.cm, message: {scenario.packets * PAYLOAD}}}\n"
            f"transport: {{type: {self.kind.value}, {self.text.format(**words)}}}\n"
            "duration: 200ms\nmeasure: {bin: 1ms, links: false}\n"
        )

    def _queues(self, constants: Constants) -> str:
        """Thresholds in percent of a product that is as many packets as a queue holds, and a little more."""
        product = constants.queue * (_MTU + ETHERNET_BYTES) * 1.002
        low, high = (_percent(frames, constants.queue) for frames in (constants.ecn_low, constants.ecn_high))
        if self.step:
            low = _percent(constants.step, constants.queue)
            high = low + 1
        parts = [f"base_rtt_ns: {round(product * 8 / GBPS)}", f"least_frames: {constants.queue}"]  # of slow links, too
        parts += [f"ecn_low: {low}", f"ecn_high: {high}"]
        parts += ["ecn_lasthop: true", "trim: 100", "trim_lasthop: 100", "retransmissions_first: false"]
        if self.pfc:
            parts += ["pfc: true", "pfc_xoff: 100", "pfc_xon: 80", f"ecn: {'true' if self.step else 'false'}"]
        return f"{{{', '.join(parts)}}}"


def _percent(frames: int, of: int) -> int:
    """The least whole share that is `frames` of `of` packets."""
    return -(-100 * frames // of)


_NSCC = (
    "congestion: nscc, settings: {{nscc: {{base_rtt: {round_trip}ns, target_delay: {target}ns, max_cwnd: {window}}}}}"
)
UET = Transport("uet", QpType.UET, _NSCC)
MRC = Transport("mrc", QpType.MRC, _NSCC)
RC = Transport("rc", QpType.RC, "congestion: none", pfc=True)
RC_DCQCN = Transport(
    "rc, DCQCN",
    QpType.RC,
    "congestion: dcqcn, settings: {{dcqcn: {{additive_rate: 5G, hyper_rate: 10G, increase_bytes: 10000000,"
    " increase_interval: 55us, alpha_interval: 55us, cnp_interval: 50us, gain: 0.00390625, fast_steps: 5}}}}",
    pfc=True,
    step=True,
)


def measure(transport: Transport, scenario: Scenario, seed: int) -> Measured:
    """Run a scenario. Raises RuntimeError when a flow does not end."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "flows.cm").write_text(scenario.matrix(PAYLOAD).text())
        (folder / "crosscheck.yaml").write_text(transport.experiment(scenario))
        command = children.python(
            "mrc_lab", "run", f"{place}/crosscheck.yaml", "--seed", str(seed), "--results", f"{place}/results"
        )
        done = children.run(command, capture_output=True, text=True, check=False, timeout=_LONGEST)
        table = folder / "results" / "crosscheck" / "latest" / "flows.csv"
        if done.returncode or not table.exists():
            raise RuntimeError(f"mrc run: {(done.stderr or done.stdout).strip()[-500:]}")
        with table.open(newline="") as file:
            rows = list(csv.DictReader(file))
    if any(not row["fct_ns"] for row in rows):
        raise RuntimeError(f"{transport.name}: flows of {scenario.name} have not ended")
    return Measured(tuple(int(row["fct_ns"]) / 1000 for row in rows), sum(int(row["retransmitted"]) for row in rows))
