"""Two recordings of the live view in one page, on one time slider: before and after, or two fabrics.

Each is the page that a recording is, in a frame of its own that can reach nothing else. The page around them has the
player, and sends both the time to show. Only the records are taken from the files, never their markup or scripts.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from mrc_lab.web.recording import data, playable, read_recording, self_contained

_FRAMES = "<!-- frames -->"


def side_by_side(first: Path, second: Path) -> str:
    """One HTML file that plays two recordings together; ExperimentError if a file is not a recording."""
    files = (first, second)
    recordings = [read_recording(file) for file in files]
    page = self_contained("side_by_side.html", "side_by_side.js")
    page = page.replace("</body>", f"{data('times', [_compact(_times(records)) for records in recordings])}</body>")
    names = [str(file) if first.name == second.name else file.name for file in files]
    frames = [_frame(name, records) for name, records in zip(names, recordings, strict=True)]
    return page.replace(_FRAMES, "".join(frames))


def _times(records: list[dict[str, Any]]) -> list[list[Any]]:
    """Of each record its time, and its kind if it is an event, an empty word if it is a state."""
    return [[record["at"], _kind(record)] for record in records]


def _kind(record: dict[str, Any]) -> str:
    event = record.get("event")
    return str(event[0]) if isinstance(event, list) and event else ""


def _frame(name: str, records: list[dict[str, Any]]) -> str:
    page = html.escape(playable(map(_compact, records)).decode())
    title = html.escape(name)
    return (
        f'<figure><figcaption>{title}</figcaption><iframe sandbox="allow-scripts" title="{title}" srcdoc="{page}">'
        + ("</iframe></figure>")
    )


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
