"""``python -m mrc_lab.perf all_reduce_perf ...`` and the console scripts of the same names."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mrc_host.errors import MrcError
from mrc_lab.errors import ExperimentError
from mrc_lab.perf.cases import CASES
from mrc_lab.perf.launch import launch
from mrc_lab.perf.options import UsageError, parse
from topologies.errors import FabricError

WRONG, USAGE, CANNOT, INTERRUPTED = 1, 2, 3, 130
TESTS = tuple(f"{name}_perf" for name in CASES)


def run(test: str, arguments: Sequence[str]) -> int:
    """One test's command line; 0 if every byte was right, 1 if not, 2 if it made no sense, 3 if it could not be."""
    try:
        options = parse(test.removesuffix("_perf"), arguments)
        report = launch(options, lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        return INTERRUPTED
    except UsageError as error:
        print(f"{test}: error: {error}", file=sys.stderr)
        return USAGE
    except ExperimentError as error:
        print(f"{test}: {error}", *filter(None, [error.hint]), sep="\n", file=sys.stderr)
        return CANNOT
    except (FabricError, MrcError, OSError) as error:
        print(f"{test}: {error}", file=sys.stderr)
        return CANNOT
    return WRONG if report.wrong else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The first argument names the test."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] not in TESTS:
        print(f"usage: python -m mrc_lab.perf {{{','.join(TESTS)}}} ...", file=sys.stderr)
        return USAGE
    return run(words[0], words[1:])


def all_reduce_perf() -> int:
    """Console script."""
    return run("all_reduce_perf", sys.argv[1:])


def all_gather_perf() -> int:
    """Console script."""
    return run("all_gather_perf", sys.argv[1:])


def reduce_scatter_perf() -> int:
    """Console script."""
    return run("reduce_scatter_perf", sys.argv[1:])


def alltoall_perf() -> int:
    """Console script."""
    return run("alltoall_perf", sys.argv[1:])


def sendrecv_perf() -> int:
    """Console script."""
    return run("sendrecv_perf", sys.argv[1:])


def broadcast_perf() -> int:
    """Console script."""
    return run("broadcast_perf", sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
