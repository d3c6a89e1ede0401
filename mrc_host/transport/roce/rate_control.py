"""Congestion control of one RoCE queue pair: its controller, and who answers ECN marks at the other end."""

from __future__ import annotations

from mrc_host.transport import algorithms
from mrc_host.transport.congestion import CongestionControl, LinkParameters
from mrc_host.transport.dcqcn import CnpGenerator, DcqcnParameters
from mrc_host.transport.queue_pair_interfaces import Connection
from mrc_host.transport.roce.path import RcPath


def link_parameters(connection: Connection, path: RcPath) -> LinkParameters:
    """What the controller of a queue pair on `path` is configured for."""
    attributes, settings = connection.attributes, connection.nic.transport
    window = settings.default_window if attributes.congestion_window is None else attributes.congestion_window
    return LinkParameters(
        path.rate_bps, settings.base_rtt, attributes.path_mtu, window, settings.trimming, dcqcn=settings.dcqcn
    )


def _algorithm(connection: Connection) -> algorithms.Algorithm:
    nic = connection.nic
    return algorithms.find(nic.algorithms, algorithms.choose(connection.attributes, nic.transport, False), False)


def controller(connection: Connection, path: RcPath) -> CongestionControl:
    """The controller of a queue pair; each has its own, because it is a single flow."""
    return _algorithm(connection).make(link_parameters(connection, path))


def cnp_generator(connection: Connection, path: RcPath) -> CnpGenerator | None:
    """What answers ECN marks; None if the congestion control does not ask for that."""
    if not _algorithm(connection).cnp:
        return None
    parameters = DcqcnParameters.for_line(path.rate_bps, profile=connection.nic.transport.dcqcn)
    return CnpGenerator(parameters.cnp_interval)
