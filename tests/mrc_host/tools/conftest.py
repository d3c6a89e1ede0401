"""The agents on fake NICs serve the tools too."""

from tests.mrc_host.agent.conftest import agents

__all__ = ["agents"]
