"""The page that plays recordings, one or two at a time on one slider, and has the report that belongs to them.

Two variants of a run, MRC beside RC, before beside after: each recording is played by the page of the live view, in a
frame of its own that can reach nothing else. The page around them has the player, and sends both the time to show. Of
files only the records are taken, never their markup or scripts; a report is shown in a frame without scripts.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mrc_common import strict_json
from mrc_lab.web.recording import NamedRecording, data, read_recordings, self_contained
from mrc_lab.web.result_recording import result_recordings

_TITLE = "<!-- title -->"
_REPORT = '<iframe id="report"'
_RIGHT = '<div id="frames"'
_TIME_AND_KIND = re.compile(r'\{"at":([0-9.e+-]+),"(?:event":\["((?:[^"\\]|\\.)*)")?')


def player_page(title: str, recordings: Sequence[NamedRecording], report: str = "", right: int | None = None) -> str:
    """A self-contained HTML page. `right` is the number of the recording that is beside the first, if any.

    `report` is an HTML page of its own.
    """
    page = self_contained("player_page.html", "player_page.js").replace(_TITLE, html.escape(title))
    if report:
        page = page.replace(_REPORT, f'{_REPORT} srcdoc="{html.escape(report)}"')
    if right is not None:
        page = page.replace(_RIGHT, f'{_RIGHT} data-right="{right}"')
    parts = [
        data("times", [_compact(_overview(one)) for one in recordings]),
        data("recordings", [_compact(_as_script(one)) for one in recordings]),
        f'<script type="application/json" id="page">{_in_script(_compact(_frame()))}</script>\n',
    ]
    return page.replace("</body>", f"{''.join(parts)}</body>")


def side_by_side(first: Path, second: Path) -> str:
    """A page that plays two files, or a file and a result folder; ExperimentError if one has no recording in it."""
    found = [result_recordings(file) if file.is_dir() else read_recordings(file) for file in (first, second)]
    names = [str(file) if first.name == second.name else file.name for file in (first, second)]
    recordings = [
        NamedRecording(name if len(some) == 1 else f"{name}: {one.name}", one.records)
        for name, some in zip(names, found, strict=True)
        for one in some
    ]
    return player_page("Two recordings", recordings, right=len(found[0]))


def _frame() -> str:
    """The page of the live view, for a recording to be put in."""
    return self_contained("index.html", "main.js")


def _overview(recording: NamedRecording) -> list[Any]:
    """Its name, its times over those of its file, whether it was sampled, and of each record time and kind.

    The kind of a state is an empty word.
    """
    run = strict_json.loads(recording.records[0])["layout"].get("run")
    scale = run[1] if isinstance(run, list) and len(run) >= 2 and isinstance(run[1], int | float) and run[1] > 0 else 1
    return [recording.name, scale, run is None, list(map(_time_and_kind, recording.records))]


def _time_and_kind(record: str) -> list[Any]:
    found = _TIME_AND_KIND.match(record)
    assert found is not None, "every record begins with its time"
    return [strict_json.loads(found[1]), strict_json.loads(f'"{found[2] or ""}"')]


def _as_script(recording: NamedRecording) -> str:
    """Its records as the content of a script element."""
    return _in_script(f"[{','.join(recording.records)}]")


def _in_script(text: str) -> str:
    return text.replace("<", "\\u003c")


def _compact(value: Any) -> str:
    return strict_json.dumps(value)
