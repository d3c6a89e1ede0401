"""The faults of a controller in a file, so that the one after it knows them, however this one ended.

It holds a ListFaultsResponse of the service as JSON: all faults, and the one cleared of the highest number, which is
not used again. It is rewritten whenever a fault changes. What does not make sense in it is nobody's fault but the
disk's, and is passed over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from google.protobuf import json_format

from controller import messages
from controller.errors import ControllerError
from controller.proto import controller_v1_pb2 as pb
from mrc_common import named_files
from mrc_common.written_files import write_text
from topologies.errors import FabricError
from topologies.faults.record import FaultRecord


def save(path: Path, records: Iterable[FaultRecord]) -> None:
    """Write the file, or remove it if there is nothing to write; OSError if that fails."""
    message = pb.ListFaultsResponse(faults=[messages.pack(record, pb.Fault) for record in records])
    if not message.faults:
        path.unlink(missing_ok=True)
        return
    write_text(path, json_format.MessageToJson(message))


def load(path: Path) -> list[FaultRecord]:
    """The faults in the file; none if there is no file."""
    try:
        message = json_format.Parse(named_files.read_text(path), pb.ListFaultsResponse())
    except (OSError, UnicodeError, json_format.ParseError):
        return []
    found = []
    for fault in message.faults:
        with contextlib.suppress(FabricError, ControllerError):
            found.append(messages.unpack(fault, FaultRecord))
    return found
