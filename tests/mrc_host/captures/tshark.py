"""Running tshark with the dissector, for tests. Tests that need it carry ``needs_tshark``."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import PcapWriter

from mrc_host.captures import DISSECTOR

TSHARK = shutil.which("tshark")
# a home without settings and plugins, so that only this dissector is loaded and with its defaults
_ENVIRONMENT = {"HOME": "/nonexistent", "PATH": os.defpath, "LC_ALL": "C.UTF-8"}
# newer versions run no scripts as root; in a user namespace root is somebody else who may read the same files
_NOT_AS_ROOT = ("unshare", "--user", "--map-user=65534", "--map-group=65534") if os.geteuid() == 0 else ()
needs_tshark = pytest.mark.skipif(TSHARK is None, reason="tshark is not installed: apt-get install tshark")


def start(*arguments: str) -> tuple[str, str]:
    """What a successful tshark prints on standard output and standard error."""
    assert TSHARK is not None
    command = [*_NOT_AS_ROOT, TSHARK, *arguments]
    done = subprocess.run(command, capture_output=True, check=False, env=_ENVIRONMENT)
    errors = done.stderr.decode(errors="replace")
    assert done.returncode == 0, errors
    return done.stdout.decode(errors="replace"), errors


def run(capture: Path, *arguments: str) -> str:
    """Output of tshark over a capture file; the test fails when tshark fails or Lua complains while it loads."""
    output, errors = start("-n", "-X", f"lua_script:{DISSECTOR}", "-r", str(capture), *arguments)
    assert "Lua" not in errors, errors
    return output


@functools.cache
def known_fields() -> tuple[str, ...]:
    """Every ``mrc.`` field that the dissector registers, expert infos excluded."""
    output, _ = start("-G", "fields", "-X", f"lua_script:{DISSECTOR}")
    rows = (line.split("\t") for line in output.splitlines() if line.startswith("F\t"))
    return tuple(sorted({row[2] for row in rows if row[4] == "mrc" and row[3] != "FT_NONE"}))


def fields(capture: Path, names: Sequence[str], *arguments: str) -> list[dict[str, list[str]]]:
    """For each packet, the values of those of `names` that it has."""
    wanted = [argument for name in names for argument in ("-e", name)]
    packets: list[dict[str, Any]] = json.loads(run(capture, "-T", "json", *wanted, *arguments))
    return [packet["_source"]["layers"] for packet in packets]


def write_capture(path: Path, frames: list[bytes], *, wire_lengths: list[int] | None = None) -> Path:
    """A pcap file of raw frames; `wire_lengths` are the lengths before the capture cut them."""
    writer = PcapWriter(str(path), linktype=1)
    writer.write_header(None)
    for number, frame in enumerate(frames):
        length = wire_lengths[number] if wire_lengths else len(frame)
        writer.write_packet(frame, sec=number, usec=0, caplen=len(frame), wirelen=length)
    writer.close()
    return path


def number(text: str) -> int:
    """A number as tshark prints it: decimal, hexadecimal with 0x, or a truth value."""
    truth = {"True": 1, "False": 0}
    return truth[text] if text in truth else int(text, 0)
