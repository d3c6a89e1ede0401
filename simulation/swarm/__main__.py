"""``python -m simulation.swarm``: ``command``, on the compiled transport where there is one (``mrc_host.compiled``).

``python -m simulation.swarm.command`` does the same, to the byte, on the plain one.
"""

from __future__ import annotations

from mrc_host import compiled

if __name__ == "__main__":
    compiled.use()  # before anything imports the transport

    from simulation.swarm.command import main

    main()
