"""`python -m p4runtime_shim`: see cli.py."""

import sys

from mrc_common.run_module import forget_current_folder

if __name__ == "__main__":
    forget_current_folder()

    from p4runtime_shim.cli import main

    sys.exit(main())
