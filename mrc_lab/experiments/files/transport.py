"""The key ``transport`` of a file, as settings of NICs and attributes of queue pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mrc_host import plugins
from mrc_host.config import TransportSettings
from mrc_host.transport import algorithms
from mrc_host.transport.qp import check_attributes
from mrc_host.verbs_types import QpAttributes
from mrc_lab.experiments.files.fabric_part import FabricPart
from mrc_lab.experiments.files.model import Tenant, TransportPart
from simulation.hardware_timing import IDEAL, HardwareTiming
from simulation.transport_timers import timing
from simulation.world import default_queues
from topologies.fabric import Fabric


def settings_given(part: TransportPart) -> dict[str, Any]:
    """Fields of `mrc_host.config.TransportSettings` that the file sets."""
    given: dict[str, Any] = dict(part.settings)
    if part.congestion is not None:
        given["congestion" if part.kind.source_routed else "rc_congestion"] = part.congestion
    if part.spraying is not None:
        given["spraying"] = part.spraying
    if part.path_selection is not None:
        given["path_selection"] = part.path_selection
    return given


def attributes_given(tenant: Tenant) -> dict[str, Any]:
    """Fields of `mrc_host.verbs_types.QpAttributes` that the file sets for the queue pairs of a tenant.

    A tenant with a name may have another congestion control than the NICs that it shares.
    """
    part = tenant.transport
    given: dict[str, Any] = dict(part.attributes)
    if tenant.name and part.congestion is not None:
        given["cc_profile"] = part.congestion
    if part.paths is not None:
        given["active_paths"] = part.paths
    if part.planes is not None:
        given["planes"] = sum(1 << plane for plane in part.planes)
    if part.window is not None:
        given["congestion_window"] = part.window
    return given


def fitted_settings(
    part: TransportPart, fabric: Fabric, delay: int, hardware: HardwareTiming = IDEAL
) -> TransportSettings:
    """The settings that the simulation would fit to the fabric, with the file's own laid over them.

    InvalidArgumentError when one is out of range.
    """
    queues = default_queues(fabric)
    fitted = timing(fabric, delay, queues.max_packets or queues.buffer_packets, hardware)
    return replace(fitted.transport(fabric.settings.transport), **settings_given(part))


def check_transport(tenant: Tenant, nics: TransportPart, fabric_part: FabricPart, fabric: Fabric) -> None:
    """InvalidArgumentError for what a NIC would refuse of a tenant; `nics` has the settings of NICs."""
    settings = fitted_settings(nics, fabric, fabric_part.delay)
    if settings.path_selection:
        plugins.make_path_selection(settings.path_selection)
    attributes = replace(QpAttributes(), **attributes_given(tenant))
    check_attributes(attributes, fabric.mtu)
    known = {**algorithms.ALGORITHMS, **plugins.CONGESTION_CONTROLS}
    algorithms.check(known, attributes, settings, tenant.transport.kind.source_routed, {})
