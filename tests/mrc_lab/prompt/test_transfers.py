"""What the prompt's writes keep open, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_host.verbs import AgentLostError
from mrc_lab.prompt.transfers import Transfers
from tests.mrc_host.agent.conftest import Agents

pytestmark = pytest.mark.plain_transport  # its agents have fake NICs


@pytest.mark.filterwarnings("error")  # an exception that Python can only print
def test_a_transfer_whose_agent_exited_ends_silently(tmp_path: Path) -> None:
    agents = Agents(tmp_path)
    transfers = Transfers(lambda host: str(tmp_path / f"{host}.sock"))
    try:
        assert transfers.write("h1", "h2", 100_000).wrong_bytes == 0
        agents.call(agents.servers[0].close, 10)
        with pytest.raises(AgentLostError, match="is gone"):
            transfers.write("h2", "h1", 100_000)
        with pytest.raises(AgentLostError, match="No agent answers"):
            transfers.write("h1", "h2", 100_000)
    finally:
        transfers.close()
        agents.stop()
