"""Seeds of tenants, so that what one draws does not depend on which others there are."""

from __future__ import annotations

from mrc_lab.experiments.files.model import Tenant
from simulation.seeds import derive


def tenant_seed(seed: int, tenant: Tenant) -> int:
    """The seed of what is random in a tenant's workload, in a run with `seed`."""
    return derive(seed, "tenant", tenant.name) if tenant.name else seed
