"""What processes inside a host find in their environment: which fabric and host they are in, and where its NIC is.

Other people's programs are started by the prompt, by ``mrc exec`` and by ``mrc train``; all give them these variables.
"""

from __future__ import annotations

from topologies.emulation.run_directory import RunDirectory

FABRIC, HOST, AGENT = "MRC_FABRIC", "MRC_HOST", "MRC_AGENT"


def variables(run: RunDirectory, host: str) -> dict[str, str]:
    """The fabric's name, the host's, and the path of its agent's socket, which may not be there yet."""
    return {FABRIC: run.name, HOST: host, AGENT: str(run.host_socket(host))}
