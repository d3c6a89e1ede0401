"""Replicas of torchft in threads of one process, each with a NIC of its own."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from mrc_lab.torch.torchft import ProcessGroupMrc
from topologies.emulation.host_environment import AGENT

_environment = threading.Lock()


class OnNic(ProcessGroupMrc):
    """On the NIC behind the socket `nic`."""

    def __init__(self, nic: Path, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._nic = nic

    def _create_pg(self, *arguments: Any) -> Any:
        with _environment:
            os.environ[AGENT] = str(self._nic)
            return super()._create_pg(*arguments)
