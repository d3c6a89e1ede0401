"""Which software runs the switches of an emulated fabric, by the names that `--switch` takes."""

from __future__ import annotations

import enum

DEFAULT = "embedded"
OLD_NAMES = {"shim": "embedded", "shim-each": "embedded-per-process"}
"""Names of earlier releases, still understood by `SwitchKind(name)`."""


class SwitchKind(enum.Enum):
    """The data plane of a fabric's switches."""

    EMBEDDED = "embedded"  # the embedded switch, all switches in one process
    EMBEDDED_PER_PROCESS = "embedded-per-process"  # the embedded switch, one process per switch
    BMV2 = "bmv2"  # simple_switch_grpc, one process per switch

    @classmethod
    def _missing_(cls, value: object) -> SwitchKind | None:
        return cls(OLD_NAMES[value]) if isinstance(value, str) and value in OLD_NAMES else None
