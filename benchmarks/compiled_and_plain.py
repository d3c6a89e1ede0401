"""Measurements that depend on how the transport runs, compiled or as plain Python: each kind in a process of its own.

A process has either the compiled modules or the plain ones (``mrc_host.compiled``), so a benchmark that measures both
starts itself again for each, with the kind as its only argument, and passes on what the two print.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.report import Measurement, read
from mrc_common import children
from mrc_host import compiled

COMPILED, PLAIN = "compiled", "plain"


def measure_each(module: str) -> Iterator[Measurement]:
    """What ``python -m module KIND`` prints, for each kind; RuntimeError when it fails.

    Only the plain kind, with a remark, where the transport is not compiled.
    """
    for kind in (COMPILED, PLAIN):
        if kind == COMPILED and not compiled.available():
            print(
                "The transport is not compiled (scripts/compile_transport.py): plain measurements only.",
                file=sys.stderr,
            )
            continue
        yield from _measure(module, kind)


def measure_compiled(module: str) -> Iterator[Measurement]:
    """The same for the compiled kind alone; nothing, with a remark, where the transport is not compiled."""
    if compiled.available():
        yield from _measure(module, COMPILED)
    else:
        print(f"The transport is not compiled (scripts/compile_transport.py): no {module}.", file=sys.stderr)


def _measure(module: str, kind: str) -> Iterator[Measurement]:
    command = children.python(module, kind)
    with children.popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield from map(read, process.stdout)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed")
