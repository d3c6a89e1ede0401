"""Environment variables of processes inside a host: its fabric, its name, and where its NIC is.

Other people's programs are started by the prompt, by ``mrc exec`` and by ``mrc train``; all give them these variables.
"""

from __future__ import annotations

import os

from mrc_host.verbs.installed_libibverbs import library
from topologies.emulation.run_directory import RunDirectory

FABRIC, HOST, AGENT = "MRC_FABRIC", "MRC_HOST", "MRC_AGENT"
LIBRARIES = "LD_LIBRARY_PATH"
PLANE_DEVICES = {"MRC_PLANE_DEVICES": "1"}  # for libibverbs: a device for each plane beside the NIC's


def variables(run: RunDirectory, host: str) -> dict[str, str]:
    """The fabric's name, the host's, and the path of its agent's socket, which may not be there yet.

    Where the NIC's libibverbs is built, also the folders of shared libraries: that one first, then those of before.
    """
    known = {FABRIC: run.name, HOST: host, AGENT: str(run.host_socket(host))}
    verbs = library()
    if verbs is not None:
        ours = str(verbs.parent)
        others = [folder for folder in os.environ.get(LIBRARIES, "").split(":") if folder and folder != ours]
        known[LIBRARIES] = ":".join([ours, *others])
    return known
