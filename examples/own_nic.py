"""A ping-pong between two applications that run their hosts' NICs themselves (docs/verbs.md, "A NIC of your own").

One waits in the first host, the other names that host. They exchange endpoints over the management network. As root:

    mrc up lab --own-nic h1 --own-nic h3
    mrc exec lab h1 -- .venv/bin/python examples/own_nic.py /run/mrc/lab/h1.json &
    mrc exec lab h3 -- .venv/bin/python examples/own_nic.py /run/mrc/lab/h3.json h1
"""

import contextlib
import socket
import statistics
import sys
import time

from mrc_host import verbs
from mrc_host.own_nic import OwnNic

PORT = 18515
ROUNDS = 1000


def meet(peer: str | None) -> socket.socket:
    """A connection to the other application: to where it waits, or from there."""
    if peer is None:
        with socket.create_server(("", PORT)) as server:
            return server.accept()[0]
    connection = socket.socket()
    while connection.connect_ex((peer, PORT)):  # it has not started yet
        connection.close()
        time.sleep(0.1)
        connection = socket.socket()
    return connection


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit("usage: own_nic.py CONFIGURATION [OTHER_HOST]")
    config, peer = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    with meet(peer) as other, other.makefile() as lines, OwnNic.open(config) as nic:

        def exchange(text: str) -> str:
            other.sendall(f"{text}\n".encode())
            return lines.readline().strip()

        cq, domain = nic.context.create_cq(), nic.context.alloc_pd()
        memory = domain.alloc_mr(4096)
        qp = domain.create_qp(cq)
        far = verbs.Endpoint.parse(exchange(str(qp.endpoint(memory))))
        assert far.memory is not None
        qp.connect(far)
        exchange("connected")
        times = []
        for number in range(ROUNDS):
            start = time.perf_counter()
            if peer is None:
                verbs.check(cq.wait(timeout_s=10))
            qp.write(memory, far.memory, length=8, imm=number, signaled=False)
            if peer is not None:
                assert verbs.check(cq.wait(timeout_s=10)).imm == number
                times.append((time.perf_counter() - start) / 2 * 1e6)
        with contextlib.suppress(verbs.WaitTimeoutError):
            cq.wait(timeout_s=0.2)  # for the last acknowledgements: elsewhere a program's NIC does not work
        exchange("done")
        if times:
            print(f"{ROUNDS} messages and answers, {statistics.median(times):.0f} us one way (median)")


if __name__ == "__main__":
    main()
