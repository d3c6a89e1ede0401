"""What an experiment file says about the transport, as settings of NICs."""

from __future__ import annotations

from typing import Any

from experiments.files.model import TransportPart


def settings_given(part: TransportPart) -> dict[str, Any]:
    """Fields of `mrc_host.config.TransportSettings` that the file sets."""
    given: dict[str, Any] = dict(part.settings)
    if part.congestion is not None:
        given["congestion" if part.type == "mrc" else "rc_congestion"] = part.congestion
    if part.spraying is not None:
        given["oblivious"] = part.spraying == "oblivious"
    return given
