"""The command line: nccl-tests' flags, and which hosts take part.

Flags of nccl-tests that have no meaning here are known, and rejected unless they ask for what is done
anyway.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mrc_common.argument_types import seconds, size, whole_number
from mrc_host.verbs_types import QpAttributes, QpType
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.find_fabric import the_one
from mrc_lab.perf.cases import CASES
from mrc_lab.perf.plan import DATATYPES, Average, PerfPlan
from mrc_lab.workloads.collectives.reduction import ReduceOp
from mrc_lab.workloads.collectives.settings import CHUNK_BYTES, SLOTS, StreamSettings
from topologies.errors import FabricError

_MAX_SIZES = 10_000
_RANKS = "one rank runs on each host; choose hosts with --hosts"
_NO_GPU = "there is no GPU here"
_REFUSED = {
    ("-t", "--nthreads"): ("1", _RANKS),
    ("-g", "--ngpus"): ("1", _RANKS),
    ("-m", "--agg_iters"): ("1", "operations are run one by one"),
    ("-p", "--parallel_init"): ("0", "every rank is a process of its own"),
    ("-z", "--blocking"): ("01", "an operation ends when its last byte is there"),
    ("-y", "--stream_null"): ("01", _NO_GPU),
    ("-S", "--report_timestamps"): ("0", "the lines of the table have no timestamps"),
    ("-I", "--per_iter_timing"): ("0", "a series is timed as a whole"),
    ("-K", "--per_iter_skip"): ("0", "a series is timed as a whole"),
    ("-u", "--unalign"): ("0", "arrays are aligned"),
    ("-M", "--memory"): ("0", _NO_GPU),
    ("-x", "--cta_policy"): ("0", _NO_GPU),
    ("-D", "--device_implementation"): ("0", _NO_GPU),
    ("-V", "--device_cta_count"): ("", _NO_GPU),
    ("-G", "--cudagraph"): ("0", _NO_GPU),
    ("-C", "--report_cputime"): ("0", _NO_GPU),
    ("-R", "--local_register"): ("0", "memory is registered once, when the ranks join"),
}  # flag -> the values (one digit each) that change nothing, why others are refused


@dataclass(frozen=True, slots=True)
class Options:
    """`step` is how sizes grow; `fabric` is None for the only one that is up, `hosts` None for all hosts."""

    plan: PerfPlan
    step: str
    fabric: str | None
    hosts: tuple[str, ...] | None
    output: Path | None


def parse(case: str, arguments: Sequence[str]) -> Options:
    """Options of ``<case>_perf``; ends the program with status 2 and a message if they are invalid."""
    flags = parser(case)
    given = flags.parse_args(arguments)
    step = f"{given.stepfactor}(factor)" if given.stepfactor else f"{given.stepbytes}(bytes)"
    given.maxbytes = given.maxbytes or given.minbytes
    if given.maxbytes < given.minbytes:
        flags.error(f"the largest size (-e {given.maxbytes}) is below the smallest (-b {given.minbytes})")
    try:
        fabric = the_one([*([] if given.fabric is None else [given.fabric]), *given.by_option])
    except (ExperimentError, FabricError) as error:
        flags.error(str(error))
    if given.root < -1:
        flags.error("-r takes the number of a rank, or all")
    try:
        streams = StreamSettings(
            chunk_bytes=given.chunk,
            slots=given.slots,
            tail_bytes=given.mtu,
            qp_type=QpType(given.transport),
            attributes=QpAttributes(path_mtu=given.mtu, retry_count=given.retries),
        )
    except ValueError as error:
        flags.error(str(error))
    plan = PerfPlan(
        case=case,
        sizes=_sizes(flags, given),
        datatypes=given.datatype,
        reductions=given.op,
        root=given.root,
        iterations=given.iters,
        warmup=given.warmup_iters,
        checks=given.check,
        cycles=given.run_cycles,
        average=Average(given.average),
        timeout=given.timeout,
        streams=streams,
    )
    return Options(plan, step, fabric, given.hosts, given.output_file)


class UsageError(ExperimentError):
    """The command line asks for what nobody can do with as many ranks as there are."""


def check_sizes(plan: PerfPlan, world: int) -> None:
    """UsageError if an element type has no operation among `world` ranks that is as small as the largest size."""
    most = max(plan.sizes)
    for name in plan.datatypes:
        least = CASES[plan.case].smallest(np.dtype(DATATYPES[name]), world)
        if most < least:
            raise UsageError(
                f"the largest size is {most} bytes, but the smallest {plan.case} of {name} among {world} ranks "
                f"has {least}: use -b {least} or more"
            )


def parser(case: str) -> argparse.ArgumentParser:
    """The flags of ``<case>_perf``."""
    flags = argparse.ArgumentParser(
        prog=f"{case}_perf",
        description=f"Measure and verify {case} over MRC between the hosts of an emulated fabric. {CASES[case].about}",
        epilog="Start a fabric first, with 'make run' or 'mrc shell'. "
        f"Example, at its prompt or as root beside it: {case}_perf -b 64K -e 1M -f 4 -n 5",
        allow_abbrev=False,
    )
    _nccl_flags(flags.add_argument_group("as in nccl-tests"))
    own = flags.add_argument_group("of this testbed")
    add = own.add_argument
    add(
        "fabric",
        nargs="?",
        help="name or .yaml file of the fabric (default: the only one that is up)",
    )
    add("--fabric", dest="by_option", metavar="FABRIC", action="append", default=[], help="the same")
    add("--hosts", type=_names, metavar="H,H,...", help="hosts that take part, in rank order (default: all)")
    add("--transport", choices=[kind.value for kind in QpType], default="mrc", help="MRC, or a baseline")
    add("--mtu", type=whole_number(1), default=4096, help="path MTU in bytes (default %(default)s)")
    add("--chunk", type=size, default=CHUNK_BYTES, help=f"unit of pipelining in bytes (default {CHUNK_BYTES >> 10}K)")
    add("--slots", type=whole_number(1), default=SLOTS, help="chunks under way to one peer (default %(default)s)")
    add("--retries", type=whole_number(), default=255, help="timeouts in a row until a QP fails, 255: never (default)")
    return flags


def _nccl_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("-b", "--minbytes", type=size, default=1 << 20, help="smallest size (default 1M)")
    add("-e", "--maxbytes", type=size, default=None, help="largest size (default: the smallest)")
    add("-i", "--stepbytes", type=size, default=1 << 20, help="bytes between sizes (default 1M)")
    add("-f", "--stepfactor", type=_factor, default=0, help="factor between sizes, instead of -i")
    add("-n", "--iters", type=whole_number(1), default=20, help="timed operations of each size (default %(default)s)")
    add("-w", "--warmup_iters", type=whole_number(), default=5, help="operations before those (default %(default)s)")
    add(
        "-c",
        "--check",
        type=whole_number(),
        default=1,
        help="operations whose result is compared (default %(default)s)",
    )
    add("-o", "--op", type=_reductions, default="sum", help="reduction: sum, prod, min, max, avg or all")
    add("-d", "--datatype", type=_datatypes, default="float", help=f"{', '.join(DATATYPES)} or all (default float)")
    add("-r", "--root", type=_root, default=0, help="root of a broadcast, or all (default 0)")
    add(
        "-a",
        "--average",
        type=int,
        choices=list(map(int, Average)),
        default=1,
        help="time of: 0 rank 0, 1 mean, 2 min, 3 max",
    )
    add("-N", "--run_cycles", type=whole_number(1), default=1, help="repeat everything (default once)")
    add("-T", "--timeout", type=seconds(), default=0.0, help="seconds one size may take (default: no limit)")
    add("-J", "--output_file", type=Path, metavar="FILE", help="write the results there as JSON too")
    for flags, (neutral, why) in _REFUSED.items():
        add(*flags, action=_Refuse, neutral=neutral, why=why, help=argparse.SUPPRESS)


class _Refuse(argparse.Action):
    """A flag whose value can only be what is done anyway."""

    def __init__(self, *args: Any, neutral: str, why: str, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._neutral, self._why = neutral, why

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, flag: str | None = None
    ) -> None:
        if values not in tuple(self._neutral):
            parser.error(f"{flag} {values} is not supported: {self._why}")


def _sizes(flags: argparse.ArgumentParser, given: argparse.Namespace) -> tuple[int, ...]:
    sizes: list[int] = []
    following = given.minbytes
    while following <= given.maxbytes:
        if len(sizes) >= _MAX_SIZES:
            flags.error(
                f"more than {_MAX_SIZES} sizes from {given.minbytes} to {given.maxbytes}: use -f, or a larger -i"
            )
        sizes.append(following)
        following = following * given.stepfactor if given.stepfactor else following + given.stepbytes
    return tuple(sizes)


def _factor(text: str) -> int:
    value = whole_number()(text)
    if value < 2:
        raise argparse.ArgumentTypeError("sizes grow by a factor of 2 at least")
    return value


def _root(text: str) -> int:
    return -1 if text == "all" else whole_number()(text)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name for name in text.split(",") if name)
    if not names or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different hosts such as h1,h3")
    return names


def _datatypes(text: str) -> tuple[str, ...]:
    if text == "all":
        return tuple(DATATYPES)
    if text not in DATATYPES:
        raise argparse.ArgumentTypeError(f"there is no type {text!r} here: choose {', '.join(DATATYPES)} or all")
    return (text,)


def _reductions(text: str) -> tuple[ReduceOp, ...]:
    names = [op.value for op in ReduceOp]
    if text == "all":
        return tuple(ReduceOp)
    if text not in names:
        raise argparse.ArgumentTypeError(f"there is no reduction {text!r} here: choose {', '.join(names)} or all")
    return (ReduceOp(text),)
