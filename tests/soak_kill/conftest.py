"""The agents on fake NICs carry the flows of these tests."""

from tests.mrc_host.agent.conftest import agents

__all__ = ["agents"]
