"""Agents on fake NICs, for tests that start real worker processes."""

from tests.mrc_host.agent.conftest import agents

__all__ = ["agents"]
