"""The part of the agent's protocol that is C: its records and numbers, as a header that the libraries include.

The build writes it beside what it compiles (``build``), so there is nothing to keep in step by hand.
"""

from __future__ import annotations

from collections.abc import Iterable

from mrc_host import verbs_types
from mrc_host.verbs.remote import binary_records, protocol

NAME = "agent_records.h"
_RECORDS = (binary_records.HEADER, binary_records.POST, binary_records.COMPLETION, binary_records.CREDIT)
_LIMITS = ("VERSION", "MAX_MESSAGE", "PENDING_LIMIT", "CLIENT_PENDING_LIMIT")
_FLAGS = ("SIGNALED", "HAS_IMM", "SOLICITED", "PIECE")
_NIC_LIMITS = ("MAX_SGE", "MAX_INLINE", "MAX_RECEIVES")


def header() -> str:
    """The text of the header."""
    lines = ["#include <stdint.h>"]
    lines += _enum((f"AGENT_{name}", getattr(protocol, name)) for name in _LIMITS)
    lines += _enum([("AGENT_HEADER", protocol.HEADER.size)])
    lines += _enum((f"AGENT_{kind.name}", kind) for kind in protocol.MessageKind)
    lines += _enum((f"POST_{name}", getattr(protocol, name)) for name in _FLAGS)
    lines += _enum((name, getattr(verbs_types, name)) for name in _NIC_LIMITS)
    for record in _RECORDS:
        fields = " ".join(f"uint{bits}_t {name};" for name, bits in record.fields)
        lines.append(f"struct agent_{record.name} {{ {fields} }} __attribute__((packed));")
    return "\n".join(lines) + "\n"


def _enum(constants: Iterable[tuple[str, int]]) -> list[str]:
    return [f"enum {{ {', '.join(f'{name} = {int(value)}' for name, value in constants)} }};"]
