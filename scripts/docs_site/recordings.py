"""Recordings of the terminal on the site, played by the vendored asciinema player.

A page shows one as ``[![what one sees](recordings/x.svg)](recordings/x.cast)``: an animated picture that links to the
recording, which is what a reader of the repository gets. Here it becomes a player. Browsers read no file beside a page
that comes from disk, but run scripts there, so a recording becomes a script that hands it to assets/site.js.
"""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

SUFFIX = ".cast"
_SHOWN = re.compile(r"^\[!\[(?P<alt>[^\]]*)\]\((?P<still>[^)\s]+\.svg)\)\]\((?P<cast>[^)\s]+)\.cast\)$")


def player(line: str) -> str | None:
    """The player for a line that shows a recording; None for any other line."""
    match = _SHOWN.match(line)
    if match is None:
        return None
    alt, still, cast = (html.escape(match[name]) for name in ("alt", "still", "cast"))
    return (
        f'<div class="mrc-recording" role="figure" aria-label="{alt}" data-recording="{cast}.js">'
        f'<noscript><img alt="{alt}" src="{still}"></noscript></div>'
    )


def script(cast: Path) -> str:
    """The script that hands a recording to the player."""
    text = json.dumps(cast.read_text("utf-8")).replace("</", "<\\/")
    return f"mrcRecording({json.dumps(cast.stem)}, {text});\n"
