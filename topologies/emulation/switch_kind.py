"""Kinds of software that run the switches of an emulated fabric, by the words that `--switch` takes.

A kind is for all switches. Chosen ones can be the kernel's instead: ``t1-0@p0=kernel``, with a name or pattern before
the sign. Several words are given as one text with commas between them, and a later one adds to those before it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from topologies.emulation.errors import EmulationError
from topologies.fabric import Fabric

DEFAULT = "embedded"
OLD_NAMES = {"shim": "embedded", "shim-each": "embedded-per-process"}
"""Names of earlier releases, still understood by `SwitchKind(name)`."""


class SwitchKind(enum.Enum):
    """The data plane of a fabric's switches."""

    EMBEDDED = "embedded"  # the embedded switch, all switches in one process
    EMBEDDED_PER_PROCESS = "embedded-per-process"  # the embedded switch, one process per switch
    BMV2 = "bmv2"  # simple_switch_grpc, one process per switch
    KERNEL = "kernel"  # Linux's own SRv6, no process

    @classmethod
    def _missing_(cls, value: object) -> SwitchKind | None:
        return cls(OLD_NAMES[value]) if isinstance(value, str) and value in OLD_NAMES else None


@dataclass(frozen=True, slots=True)
class SwitchSelection:
    """What runs the P4 program, and names and patterns of switches that are the kernel's."""

    program: SwitchKind = SwitchKind.EMBEDDED
    kernel: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> SwitchSelection:
        """The selection that words say, as ``embedded,t1-0@p0=kernel``; EmulationError for one that says nothing."""
        chosen = cls()
        for word in text.split(","):
            pattern, sign, name = word.rpartition("=")
            kind = _kind(name)
            if not sign:
                chosen = cls(SwitchKind.EMBEDDED, ("*",)) if kind is SwitchKind.KERNEL else cls(kind)
            elif kind is not SwitchKind.KERNEL or not pattern:
                raise EmulationError(
                    f"{word!r} is no choice of switches: a single one can only be the kernel's, as in t1-0@p0=kernel."
                )
            else:
                chosen = cls(chosen.program, (*chosen.kernel, pattern))
        return chosen

    def applied(self, fabric: Fabric) -> Fabric:
        """The fabric with these switches as the kernel's; FabricError if a pattern matches none."""
        return fabric.with_kernel_switches(self.kernel)


def program_of(text: str) -> SwitchKind:
    """What runs the P4 program by the words of `--switch`."""
    return SwitchSelection.parse(text).program


def _kind(name: str) -> SwitchKind:
    try:
        return SwitchKind(name)
    except ValueError:
        known = ", ".join(kind.value for kind in SwitchKind)
        raise EmulationError(f"There is no switch {name!r}: choose one of {known}.") from None
