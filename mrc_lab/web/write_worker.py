"""A write between two hosts as a process of its own: ``python -m mrc_lab.web.write_worker SOURCE DESTINATION BYTES``.

SOURCE and DESTINATION are the sockets of the hosts' agents. After each piece one line says how many bytes are done,
the seconds they took, and how many were wrong. Whoever has started this can end it at any time: the agents then release
all that it had. It also ends when nobody reads its lines any more.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_lab.errors import ExperimentError
from mrc_lab.workloads.verified_write import Transfer

_PIECE = 2 << 20  # bytes


def main(source: str, destination: str, nbytes: int) -> int:
    """Write and verify piece by piece; the last line says what went wrong if the result is not 0."""
    done, seconds, wrong = 0, 0.0, 0
    try:
        with ExitStack() as undo:
            near, far = (undo.enter_context(verbs.open(socket)) for socket in (source, destination))
            transfer = undo.enter_context(Transfer(near, far, memory=_PIECE))
            while done < nbytes:
                report = transfer.write(min(_PIECE, nbytes - done))
                done += report.nbytes
                seconds += report.seconds
                wrong += report.wrong_bytes
                print(done, seconds, wrong, flush=True)
    except (MrcError, ExperimentError) as error:
        print(error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
