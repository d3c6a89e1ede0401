"""What replica groups of torchft meet at: the lighthouse, and a store for each group, in a process of their own.

A child of ``mrc train --elastic torchft`` in the first host, whose sockets are on the management network. It prints a
line of JSON with the lighthouse's address and the stores' ports, which the system chooses, and runs until it is killed.
A store outlives the ranks of its group, as torchrun's does, since a rank that is restarted looks for it again.
"""

from __future__ import annotations

import sys
import threading

from mrc_common import strict_json

JOIN_TIMEOUT_MS = 10_000  # as in torchft's README: how long those that are alive are waited for


def main() -> None:
    """Arguments: how many stores, and how many groups a quorum needs, if there shall be a lighthouse."""
    import torch.distributed as dist

    count, *rest = sys.argv[1:]
    stores = [dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False) for _ in range(int(count))]
    address = None
    if rest:
        from torchft.coordination import LighthouseServer

        lighthouse = LighthouseServer("[::]:0", int(rest[0]), join_timeout_ms=JOIN_TIMEOUT_MS)
        address = lighthouse.address()
    print(strict_json.dumps({"lighthouse": address, "stores": [store.port for store in stores]}), flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
