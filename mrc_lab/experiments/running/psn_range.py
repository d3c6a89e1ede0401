"""The range of PSNs (MPR) of an experiment's queue pairs: chosen from the bandwidth-delay product, or warned about.

A queue pair has at most MPR packets in flight. Where that is less than the NIC's ports carry in a round trip, what is
measured is the range and not the fabric. A file that names no `mpr` gets one that suffices, as far as the protocol
allows it: 255 x 128 packets. A window that is short nevertheless is reported before the run and in the report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mrc_common import units
from mrc_host.transport.psn_range import MAX_MPR, UNIT, mpr_for, range_bytes
from mrc_host.verbs_types import QpAttributes, QpType
from mrc_lab.experiments.files.model import Case, Tenant
from mrc_lab.experiments.files.transport import attributes_given
from mrc_lab.experiments.files.workloads import Ranks, Replayed, SizedFlows
from mrc_lab.experiments.running.flows import plan
from topologies.fabric import Fabric
from topologies.round_trip import bandwidth_delay_product


def with_psn_range(given: Mapping[str, Any], fabric: Fabric) -> dict[str, Any]:
    """`given` attributes and MPR of both directions: where only one is given the other follows, else both fit `fabric`.

    Both ends of a queue pair have the same attributes. The fabric says its base RTT among its transport settings.
    """
    fitted = mpr_for(_bdp(fabric), given.get("path_mtu", QpAttributes().path_mtu))
    mpr = given.get("mpr", given.get("mpr_dest", fitted))
    return {"mpr": mpr, "mpr_dest": mpr, **given}


def psn_range_warnings(case: Case, fabric: Fabric) -> Iterator[str]:
    """One sentence for each tenant, but those of RC, whose queue pairs together cannot fill a NIC's ports."""
    bdp = _bdp(fabric)
    for tenant in case.tenants:
        if tenant.transport.kind is not QpType.RC:
            attributes = QpAttributes(**with_psn_range(attributes_given(tenant), fabric))
            yield from _warning(tenant, _fewest_qps(tenant, fabric), attributes, bdp)


def _fewest_qps(tenant: Tenant, fabric: Fabric) -> int:
    """Queue pairs of the flow that has the fewest; a flow of writes may have its own number."""
    if isinstance(tenant.workload, Ranks | Replayed | SizedFlows):
        return tenant.transport.qps
    return min(flow.qps for flow in plan(tenant, fabric, seed=0))  # who writes to whom makes no difference


def _bdp(fabric: Fabric) -> int:
    return bandwidth_delay_product(fabric, fabric.settings.transport.base_rtt)


def _warning(tenant: Tenant, qps: int, attributes: QpAttributes, bdp: int) -> Iterator[str]:
    mtu = attributes.path_mtu
    mpr = min(attributes.mpr, attributes.mpr_dest)
    reach = qps * range_bytes(mpr, mtu)
    if reach >= bdp:
        return
    fitted = mpr_for(bdp, mtu)
    if mpr < fitted and qps * range_bytes(fitted, mtu) >= bdp:
        cure = f"leave mpr out, or give at least {fitted}"
    else:
        enough = -(-bdp // range_bytes(MAX_MPR, mtu))
        cure = f"{MAX_MPR} is the most, so give each flow at least {enough} queue pairs (qps), or a larger path_mtu"
    of = f"{tenant.name}: " if tenant.name else ""
    yield (
        f"{of}a flow reaches at most {100 * reach / bdp:.0f} % of its NIC's rate:"
        f" an MPR of {mpr} lets {qps} queue pair{'s' * (qps != 1)} have {mpr * UNIT:,} packets of {mtu} bytes in flight"
        f" each, but a round trip holds {units.show_size(bdp)}: {cure}"
    )
