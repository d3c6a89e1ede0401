"""The fabric of a case with the transport settings that fit it, for backends whose times are those of the file."""

from __future__ import annotations

from dataclasses import replace

from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.experiments.files.model import Case
from mrc_lab.experiments.files.transport import fitted_settings
from topologies.fabric import Fabric


def fitted_fabric(case: Case) -> Fabric:
    """The file's fabric with the transport settings of its NICs. Raises InvalidArgumentError."""
    fabric = build_fabric(case.fabric)
    settings = fitted_settings(case.transport, fabric, case.fabric.delay, case.timing)
    return fabric.with_settings(replace(fabric.settings, transport=settings))
