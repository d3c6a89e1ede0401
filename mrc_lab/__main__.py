"""``mrc``, or ``python -m mrc_lab``: on the compiled transport where there is one (``mrc_host.compiled``)."""

from __future__ import annotations

import sys

from mrc_common.run_module import forget_current_folder

_RUNS_IT = {"demo", "paper", "run", "shell", "sweep", "up"}  # commands that take the transport's time


def main() -> None:
    """Entry point of ``mrc``."""
    try:
        from mrc_common import children, run_module

        run_module.open_standard_streams()
        children.secure_search_path()
        run_module.end_without_collecting()

        from mrc_host import compiled

        if not compiled.use():  # before anything imports the transport
            outdated = compiled.outdated() if _RUNS_IT & set(sys.argv[1:]) else None
            if outdated:
                print(outdated, file=sys.stderr, flush=True)

        from mrc_lab.cli.main import main

        main()
    except KeyboardInterrupt:  # while it imports, or at the very end
        sys.exit(130)


if __name__ == "__main__":
    forget_current_folder()
    main()
