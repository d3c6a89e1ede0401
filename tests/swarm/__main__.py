"""``python -m tests.swarm``: ``command``, on the compiled transport where there is one (``mrc_host.compiled``).

``python -m tests.swarm.command`` does the same, to the byte, on the plain one.
"""

from __future__ import annotations

import sys

from mrc_common.run_module import forget_current_folder

if __name__ == "__main__":
    forget_current_folder()

    from mrc_host import compiled

    if not compiled.use() and (outdated := compiled.outdated()):  # before anything imports the transport
        print(outdated, file=sys.stderr, flush=True)

    from tests.swarm.command import main

    main()
