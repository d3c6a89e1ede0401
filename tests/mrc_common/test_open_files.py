"""How many files a process may have open."""

from __future__ import annotations

from pathlib import Path

from mrc_common import children

CODE = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from mrc_common.open_files import raise_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200))
raise_limit()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_is_raised_to_the_hard_limit() -> None:
    root = str(Path(children.__file__).parents[1])
    done = children.run(children.python_code(CODE, root), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["200", "200"]
