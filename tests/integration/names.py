"""Names of fabrics for the tests of one process, so that two test runs on one machine leave each other in peace.

Fabrics whose tags are the same cannot be up together, and there are 33,696 tags. So the processes that pytest-xdist
runs side by side share out their first letters, no two names of one process have the same tag, and none has that of
interfaces that are there already, as of another run on this machine.
"""

from __future__ import annotations

import itertools
import os
import socket

from topologies import addressing

_SHARES = 4  # of the letters
_names: dict[str, str] = {}  # by what they are for
_tags: set[str] = set()


def own(what: str) -> str:
    """A fabric's name for `what` that no other test process uses; always the same in this one."""
    if what not in _names:
        share = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _SHARES
        tried = (f"it-{what}-{os.getpid():x}{suffix}" for suffix in itertools.chain([""], map(str, itertools.count())))
        name = next(name for name in tried if _fits(addressing.tag(name), share))
        _names[what] = name
        _tags.add(addressing.tag(name))
    return _names[what]


def _fits(tag: str, share: int) -> bool:
    if ord(tag[0]) % _SHARES != share or tag in _tags:
        return False
    return not any(name.startswith(f"{tag}-") for _, name in socket.if_nameindex())
