"""`python -m p4runtime_shim`: see cli.py."""

import sys

from p4runtime_shim.cli import main

sys.exit(main())
