"""The libraries in C speak the agent's version of the protocol, also on machines where they cannot be built."""

from __future__ import annotations

import re
from pathlib import Path

import mrc_host
from mrc_host.verbs.remote.protocol import VERSION


def test_the_libraries_speak_the_agents_version() -> None:
    header = (Path(mrc_host.__file__).parent / "libibverbs/agent.h").read_text()
    found = re.search(r"AGENT_VERSION = (\d+)", header)
    assert found is not None
    assert int(found[1]) == VERSION
