"""Run the agent of one host, on the compiled transport where there is one (``mrc_host.compiled``)."""

from __future__ import annotations

import sys

from mrc_host import compiled

if __name__ == "__main__":
    compiled.use()  # before anything imports the transport

    from mrc_host.agent.main import main

    sys.exit(main())
