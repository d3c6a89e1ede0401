"""perftest's flags: those that apply here, those that change nothing, and why the others are refused.

Users bring their command lines of `ib_write_bw` and `ib_write_lat`. Each flag is obeyed, or is the behaviour here
anyway (-F, -e), or is refused with the reason; none is silently ignored.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mrc_common import argument_types
from mrc_common.argument_types import seconds, whole_number
from mrc_host.errors import MrcError
from mrc_host.tools.session import DEFAULT_PORT, TransferPlan, check_amounts
from mrc_host.transport.qp import check_attributes
from mrc_host.verbs_types import QpAttributes, QpType

_ANY_MTU = (1 << 16) - 1
ALL_SIZES = tuple(1 << i for i in range(1, 24))

_NO_CM = "there is no RDMA CM; connection parameters go over the channel of -p"
_NO_GPU = "memory is the host's; there is no GPU here"
_WRITES = "MRC has WRITE and WRITE_WITH_IMM only"
_ONE_ADDRESS = "a NIC has one address, and MRC uses all its ports, one per plane, together"
_BACK_TO_BACK = "writes are posted one by one and each has its completion"
_REFUSED: dict[Sequence[str], tuple[int | str, str, str | None]] = {
    ("-A", "--atomic_type"): (1, _WRITES, None),
    ("-o", "--outs"): (1, _WRITES, None),
    ("-g", "--mcg"): (0, "MRC has no multicast", None),
    ("-M", "--MGID"): (1, "MRC has no multicast", None),
    ("-R", "--rdma_cm"): (0, _NO_CM, None),
    ("-z", "--comm_rdma_cm"): (0, _NO_CM, None),
    ("-T", "--tos"): (1, "the transport sets the traffic class of packets", None),
    ("--tclass",): (1, "the transport sets the traffic class of packets", None),
    ("-S", "--sl"): (1, "there are no service levels", "0"),
    ("-i", "--ib-port"): (1, _ONE_ADDRESS, "1"),
    ("-x", "--gid-index"): (1, _ONE_ADDRESS, None),
    ("-O", "--dualport"): (0, _ONE_ADDRESS, None),
    ("--report-per-port",): (0, _ONE_ADDRESS, None),
    ("--pkey_index",): (1, "there is one partition", "0"),
    ("-r", "--rx-depth"): (1, "a write takes no receive; there is no receive queue", None),
    ("--use-srq",): (0, "a write takes no receive; there is no receive queue", None),
    ("-I", "--inline_size"): (1, "data is always fetched from memory", "0"),
    ("-l", "--post_list"): (1, _BACK_TO_BACK, "1"),
    ("-Q", "--cq-mod"): (1, _BACK_TO_BACK, "1"),
    ("--write_with_imm",): (0, "write_lat measures WRITE_WITH_IMM", None),
    ("-f", "--margin"): (1, "the whole duration of -D is measured", "0"),
    ("--run_infinitely",): (0, "say how long with -D", None),
    ("--reversed",): (0, "start server and client the other way round", None),
    ("-X", "--vector"): (1, "there are no completion vectors", None),
    ("-W", "--report-counters"): (1, "`qps` at the prompt shows counters", None),
    ("-C", "--report-cycles"): (0, "times are in microseconds", None),
    ("--rate_limit",): (1, "congestion control decides how fast a NIC sends", None),
    ("--use_cuda",): (1, _NO_GPU, None),
    ("--use_rocm",): (1, _NO_GPU, None),
    ("--use_hugepages",): (0, "registered memory is an ordinary shared mapping", None),
    ("--odp",): (0, "registered memory is an ordinary shared mapping", None),
}  # flags -> how many values they take, why they are refused, and the value that changes nothing


def parser(prog: str, about: str, *, iterations: int, size: int, depth: int) -> argparse.ArgumentParser:
    """The flags that bandwidth and latency have in common."""
    example = f"Example, at a fabric's prompt: {prog} h1 h3 -n 100; or 'h3 {prog} &' and then 'h1 {prog} h3 -n 100'"
    arguments = argparse.ArgumentParser(prog=prog, description=about, epilog=example, allow_abbrev=False)
    add = arguments.add_argument
    add("peer", nargs="?", help="server's host name, address or unix:PATH; without it this is the server")
    add("-d", "--ib-dev", metavar="DEVICE", help="socket of this host's NIC agent; inside a fabric's host not needed")
    add("-p", "--port", default=str(DEFAULT_PORT), help="TCP port of the server, or unix:PATH (default %(default)s)")
    add("--bind", default="localhost", metavar="ADDRESS", help="where the server listens (default %(default)s)")
    add(
        "-s",
        "--size",
        type=argument_types.size,
        default=size,
        help="message size in bytes, or 64K, 8M (default %(default)s)",
    )
    add("-a", "--all", action="store_true", help="sizes from 2 to 2^23")
    add("-n", "--iters", type=whole_number(1), default=iterations, help="messages of each size (default %(default)s)")
    add("-D", "--duration", type=seconds(0.001), metavar="S", help="seconds per size, instead of a number of messages")
    add("-m", "--mtu", type=whole_number(1), default=4096, help="path MTU in bytes (default %(default)s)")
    add(
        "-c",
        "--connection",
        choices=[kind.name for kind in QpType],
        default="MRC",
        help="transport (default %(default)s)",
    )
    add("-u", "--qp-timeout", type=whole_number(1), default=14, help="ACK timeout 1.024 us * 2^N (default %(default)s)")
    add(
        "--retry_count",
        type=whole_number(),
        default=32,
        help="timeouts in a row until a queue pair fails (default %(default)s)",
    )
    add("-e", "--events", action="store_true", help="sleep until completions arrive (always done)")
    add("-F", "--CPU-freq", action="store_true", help="no warning about the CPU frequency (there is none)")
    add("--out_json_file", metavar="FILE", help="also write the results to this file as JSON")
    add("--out_json", action="store_const", dest="out_json_file", const="perftest_out.json", help="... to %(const)s")
    for flags, (values, why, neutral) in _REFUSED.items():
        add(*flags, action=_Refuse, nargs=0 if values == 0 else None, why=why, neutral=neutral, help=argparse.SUPPRESS)
    arguments.set_defaults(qp=1, tx_depth=depth, bidirectional=False)
    return arguments


def only_for(arguments: argparse.ArgumentParser, measure: str, *flags: Sequence[str]) -> None:
    """Refuse flags of perftest's other tool, which measures `measure` (bandwidth or latency)."""
    for names in flags:
        arguments.add_argument(
            *names, action=_Refuse, nargs="?", why=f"it is for {measure}", neutral=None, help=argparse.SUPPRESS
        )


def plan(options: argparse.Namespace) -> TransferPlan:
    """The plan that the client's flags describe; raises ToolError or InvalidArgumentError."""
    attributes = QpAttributes(path_mtu=options.mtu, timeout=options.qp_timeout, retry_count=options.retry_count)
    work = TransferPlan(
        sizes=ALL_SIZES if options.all else (options.size,),
        iterations=options.iters,
        seconds=options.duration,
        qps=options.qp,
        depth=options.tx_depth,
        both=options.bidirectional,
        kind=QpType[options.connection],
        attributes=attributes,
    )
    work = work if work.seconds is None else replace(work, iterations=0)
    check_amounts(work)
    check_attributes(attributes, _ANY_MTU)  # how large packets of its port may be the NIC says when it is asked
    return work


def parsed(arguments: argparse.ArgumentParser, words: Sequence[str] | None) -> argparse.Namespace:
    """The flags, with what they come to as `plan`; ends the program with status 2 if they make no sense."""
    options = arguments.parse_args(words)
    try:
        options.plan = plan(options)
    except MrcError as error:
        arguments.error(str(error))
    return options


class _Refuse(argparse.Action):
    """A flag of perftest that is refused, except with the value that changes nothing."""

    def __init__(self, *args: Any, why: str, neutral: str | None, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._why, self._neutral = why, neutral

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, flag: str | None = None
    ) -> None:
        if self._neutral is None or values != self._neutral:
            parser.error(f"{flag} is not supported: {self._why}")
