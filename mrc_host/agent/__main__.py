"""Run the agent of one host, with the compiled transport if there is one (``mrc_host.compiled``)."""

from __future__ import annotations

import sys

from mrc_common.run_module import forget_current_folder

if __name__ == "__main__":
    forget_current_folder()

    from mrc_host import compiled

    compiled.use()  # before anything imports the transport

    from mrc_host.agent.main import main

    sys.exit(main())
