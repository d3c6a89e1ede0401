"""Notices that appear while a line is being typed: above the line, which is then drawn again as it was.

readline knows what is typed and where its cursor is. The rows that prompt and line occupy are cleared, the notice is
printed in their place, and readline draws its line afresh: it learns that the cursor is on a new line
(`rl_on_new_line`, which Python's module does not export but its library does) and asked to redisplay.
"""

from __future__ import annotations

import ctypes
import shutil
import textwrap
from typing import IO

try:
    import readline
except ImportError:  # a Python without it: lines are read by the terminal itself
    readline = None  # type: ignore[assignment]


def print_above(file: IO[str], prompt: str, notice: str) -> None:
    """Print `notice` above the line that is being typed after `prompt` on the terminal `file`."""
    width = shutil.get_terminal_size().columns
    library = _library()
    typed = readline.get_line_buffer() if readline is not None else ""
    point = ctypes.c_int.in_dll(library, "rl_point").value if library is not None else len(typed)
    file.write(clear_from(len(prompt) + point, width) + folded(notice, width) + "\n")
    file.flush()
    if library is None:
        file.write(prompt + typed)
        file.flush()
        return
    library.rl_on_new_line()
    library.rl_redisplay()


def clear_from(cursor: int, width: int) -> str:
    """Go back from column `cursor` of the line, which may fill several rows, to its beginning, and clear from there."""
    rows = cursor // max(1, width)
    return (f"\x1b[{rows}A" if rows else "") + "\r\x1b[J"


def folded(notice: str, width: int) -> str:
    """The notice in lines that fit a terminal; words, which may be paths to be copied, stay whole."""
    lines = notice.splitlines()
    return "\n".join(
        textwrap.fill(line, max(20, width), break_long_words=False, break_on_hyphens=False) for line in lines
    )


def _library() -> ctypes.CDLL | None:
    """The library behind Python's module; None where it cannot be reached, as where the module is built in."""
    try:
        library = ctypes.CDLL(readline.__file__)
        ctypes.c_int.in_dll(library, "rl_point")
        return library if library.rl_on_new_line and library.rl_redisplay else None
    except (AttributeError, OSError, TypeError, ValueError):
        return None
