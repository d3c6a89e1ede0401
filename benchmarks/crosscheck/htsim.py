"""Runs htsim's programs, and reads what they print: when each flow ended, and packets sent again."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crosscheck.scenarios import ACK, GBPS, T1S, Constants, Scenario
from mrc_common import children

_FINISHED = re.compile(r"^Flow .* finished at ([0-9.e+]+)", re.MULTILINE)
_SENT_AGAIN = re.compile(r"^New: \d+ +Rtx: (\d+)", re.MULTILINE)
_LONGEST = 60.0  # seconds
_TELLING = ("Flow ", "New: ", "Unknown parameter", "Usage ")
_END_US = "20000"


@dataclass(frozen=True, slots=True)
class Measured:
    """Completion times of all flows, us, and packets sent again."""

    times: tuple[float, ...]
    sent_again: int


class SkippedError(Exception):
    """A program cannot run a scenario; the message says why."""


class TooSlowError(SkippedError):
    """A program comes to no end, and is not tried again."""


@dataclass(frozen=True, slots=True)
class Program:
    """A way to run one of htsim's programs. `header`: its packet size (``-mtu``) has the header in it.

    `slow` says whether it can have a T1 whose links are slow.
    """

    name: str
    binary: str
    options: tuple[str, ...]
    header: bool
    slow: bool = True

    def payload(self, wire: int) -> int:
        """Bytes of a flow in a packet of `wire` bytes."""
        return wire - ACK

    def command(self, folder: Path, constants: Constants, scenario: Scenario, seed: int) -> list[str]:
        """The command line, with packet numbers of the thresholds filled in; files are in the current folder.

        A topology is given only where the fabric is not what htsim makes by itself of two tiers: of uet-htsim's
        programs only one can read it.
        """
        words = {
            "queue": constants.queue,
            "low": constants.ecn_low,
            "high": constants.ecn_high,
            "xon": constants.queue * 4 // 5,
            "step": constants.step,
            "window": round(constants.window),
        }
        packet = constants.wire - (0 if self.header else ACK)
        fixed = ["-tm", "flows.cm", "-nodes", str(scenario.tree.nodes)]
        fixed += ["-tiers", "2", "-hop_latency", "1"] if scenario.t1s == T1S else ["-topo", "fabric.topo"]
        fixed += ["-linkspeed", str(GBPS * 1000), "-mtu", str(packet), "-end", _END_US, "-o", "log"]
        fixed += ["-seed", str(seed), *(word.format(**words) for word in self.options)]
        return [str((folder / self.binary).resolve()), *fixed, *(["-failed", "1"] if scenario.slow else [])]


_SPRAY = ("-strat", "ecmp_host", "-paths", "128")
_PFC = ("-queue_type", "lossless_input", "-pfc_thresholds", "{xon}", "{queue}", "-q", "10000", "-strat", "ecmp_host")
_EACH = ("-sack_threshold", "1")  # bytes: every packet is acknowledged, as by our `uet`
UEC = Program(
    "NSCC with REPS",
    "htsim_uec",
    ("-sender_cc_only", "-load_balancing_algo", "reps", *_SPRAY, "-q", "{queue}", "-ecn", "{low}", "{high}", *_EACH),
    header=True,
)
ROCE = Program("RoCE, PFC", "htsim_roce", (*_PFC, "-paths", "1"), header=False)
DCQCN = Program("DCQCN, PFC", "htsim_roce", (*_PFC, "-paths", "1", "-dcqcn", "{step}"), header=False)
EQDS = Program("EQDS", "htsim_eqds", (*_SPRAY, "-q", "{queue}", "-cwnd", "{window}"), header=True, slow=False)
NDP = Program("NDP", "htsim_ndp", (*_SPRAY, "-q", "{queue}", "-cwnd", "{window}"), header=False, slow=False)


def found(folder: Path) -> dict[str, Path]:
    """Htsim's programs in a folder, by name."""
    return {path.name: path for path in sorted(folder.glob("htsim_*")) if path.is_file() and os.access(path, os.X_OK)}


def version(folder: Path) -> str:
    """Which htsim it is: the commit of its checkout, or that it is not known."""
    command = ["git", "-C", str(folder), "log", "-1", "--format=%h of %cs"]
    try:
        said = children.run(command, capture_output=True, text=True, check=False, timeout=60).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        said = ""
    return f"commit {said}" if said else "a version that is not known, since it is no git checkout"


def measure(program: Program, folder: Path, scenario: Scenario, wire: int, seed: int) -> Measured:
    """Run a scenario. Raises SkippedError when the program is missing, or does not know an option or end all flows."""
    if not (folder / program.binary).exists():
        raise SkippedError(f"there is no {program.binary}")
    if scenario.slow and not program.slow:
        raise SkippedError(f"{program.binary} has no links that are slow (-failed)")
    constants = Constants(wire)
    with tempfile.TemporaryDirectory() as place:
        Path(place, "flows.cm").write_text(scenario.matrix(program.payload(wire)).text())
        Path(place, "fabric.topo").write_text(scenario.tree.text())
        command = program.command(folder, constants, scenario, seed)
        kept = _run(program.binary, command, place)
    return read_output(program.binary, kept, len(scenario.pairs), command[-2:] if scenario.slow else program.options)


def _run(name: str, command: Sequence[str], place: str) -> str:
    """What a program prints of flows, and the last line; some print gigabytes. It leaves files where it runs."""
    kept, last, end = [], "", time.monotonic() + _LONGEST
    try:
        with children.popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
            assert running.stdout is not None
            for line in running.stdout:
                last = line
                if line.startswith(_TELLING):
                    kept.append(line)
                if time.monotonic() > end:
                    running.kill()
                    raise TooSlowError(f"{name} has not ended after {_LONGEST:.0f} s")
    except OSError as error:
        raise SkippedError(f"{name} does not run: {error}") from None
    return "".join([*kept, last])


def read_output(name: str, output: str, flows: int, options: Sequence[str] = ()) -> Measured:
    """What a program has printed; SkippedError if that is not the end of all flows."""
    times = tuple(float(found) for found in _FINISHED.findall(output))
    again = _SENT_AGAIN.search(output)
    if unknown := re.search(r"^Unknown parameter (\S+)", output, re.MULTILINE):
        raise SkippedError(f"this {name} has no option {unknown[1]}")
    if re.search(r"^Usage ", output, re.MULTILINE):
        raise SkippedError(f"this {name} does not know all of the options: {' '.join(options)}")
    if len(times) != flows or again is None:
        said = output.strip().splitlines()
        last = said[-1][:120] if said else "nothing"
        raise SkippedError(f"{name} ended {len(times)} of {flows} flows; it printed last: {last}")
    return Measured(times, int(again[1]))
