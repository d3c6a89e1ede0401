"""Binary records of the agent's protocol, field by field: Python's structs and the C libraries' header come from here.

``protocol`` packs and unpacks them, ``mrc_host.libibverbs.agent_records`` writes the header.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

_LETTERS: Final = {8: "B", 16: "H", 32: "I", 64: "Q"}


@dataclass(frozen=True)
class RecordLayout:
    """A record in host byte order, without gaps: its fields in order, each a name and its bits (8, 16, 32 or 64)."""

    name: str
    fields: tuple[tuple[str, int], ...]

    def struct(self) -> struct.Struct:
        """A struct that packs values in the order of the fields."""
        return struct.Struct("=" + "".join(_LETTERS[bits] for _, bits in self.fields))


HEADER: Final = RecordLayout("header", (("kind", 8), ("flags", 8), ("zero", 16), ("request", 32)))
POST: Final = RecordLayout(
    "post",
    (
        ("wr_id", 64),
        ("qpn", 32),
        ("opcode", 8),  # place in WrOpcode
        ("flags", 8),
        ("zero", 16),
        ("imm", 32),
        ("local_address", 64),
        ("lkey", 32),
        ("length", 32),
        ("remote_address", 64),
        ("rkey", 32),
    ),
)
COMPLETION: Final = RecordLayout(
    "completion",
    (
        ("cq", 32),
        ("wr_id", 64),
        ("qpn", 32),
        ("opcode", 8),  # place in CompletionOpcode
        ("flags", 8),
        ("zero", 16),
        ("imm", 32),
        ("length", 32),
    ),
)
CREDIT: Final = RecordLayout("credit", (("cq", 32), ("taken", 32)))
