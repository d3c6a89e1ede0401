"""Give BMv2's ports deep queues: ``python -m benchmarks.bmv2_queues PORT...``, in the namespace of its Thrift server.

simple_switch_CLI would need a Python package that not every build has.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from topologies.emulation.bmv2 import ThriftClient

_THRIFT_PORT = 9090
_FRAMES = 4096


def main(ports: Iterable[str]) -> None:
    """Set the depth of the queues of each port."""
    with ThriftClient(_THRIFT_PORT) as client:
        for port in ports:
            client.set_queue_depth(int(port), _FRAMES)


if __name__ == "__main__":
    main(sys.argv[1:])
