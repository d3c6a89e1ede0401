"""Recordings of the terminal for pages and README: ``python -m scripts.record_terminal [SCENE...]``, as root.

Each scene of :data:`SCENES` is typed into a shell on a terminal of its own, at a person's pace, and everything the
commands print is recorded as an asciinema file (asciicast v2) in docs/recordings. Nothing is staged: a command
is typed when the one before has ended, which the shell, or the prompt of ``mrc``, says. Beside each recording
termtosvg-ng makes an animated picture of it, for readers of the repository; the site plays the recording itself.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mrc_common import children

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "recordings"
_SHELL_READY = "\x1b]9;ready\x07"  # an escape sequence that terminals ignore; it is not recorded
_MRC_READY = "mrc> "
_KEY_S = 0.045
_JOINED_S = 0.04
_READ_S = 1.2  # between the end of a command and the next one
_POSTER_MS = 3000  # of the end of a picture that it begins with
_LONGEST_S = 420.0  # a command
_TO_PICTURE = ("termtosvg-ng==1.4.1", "--", "python", "-m", "termtosvg", "render")
_THEME = {
    "fg": "#d5d9e0",
    "bg": "#17191e",
    "palette": (
        "#3b4048:#e06c75:#7fbf6a:#d9b45f:#6cb0f2:#c58ae0:#5fbcc4:#d5d9e0:"
        "#7d8590:#ff7b85:#96dc7e:#f0cb72:#8ac4ff:#dca5f5:#7ad7de:#ffffff"
    ),
}
_REDRAWN = re.compile(r"(?:\r\x1b\[2K[^\r\n]*)+(?=\r\x1b\[2K)")
_RC = """
PS1='\\[\\e[1;32m\\]$\\[\\e[0m\\] '
PROMPT_COMMAND='printf "\\033]9;ready\\007"'
sudo() { "$@"; }
bind 'set enable-bracketed-paste off'
unset HISTFILE
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is typed, line by line, and how long the picture of it is: `columns` by `rows`.

    Times between outputs are divided by `speed`, and none is longer than `longest_pause_s`.
    """

    name: str
    title: str
    lines: Sequence[str]
    columns: int = 92
    rows: int = 26
    speed: float = 1.0
    longest_pause_s: float = 2.0


SCENES = (
    Scene(
        "link-down",
        "A link goes down under a write: a few packets are lost, and their paths are out of use",
        (
            "sudo mrc shell tour --planes 2",
            "write h1 h3 8M",
            "fault t0-0:t1-2@p1 down",
            "write h1 h3 8M",
            "evs h1",
            "map",
            "fault clear all",
            "exit",
        ),
    ),
    Scene(
        "demo",
        "The demo, at twelve times its speed: the same training over RoCE and over MRC while links are cut",
        ("sudo mrc demo",),
        columns=80,
        rows=46,
        speed=12.0,
    ),
    Scene(
        "run",
        "An experiment in simulation: three ways to send the same workload",
        ("cat examples/plugins_run.yaml", "mrc run examples/plugins_run.yaml"),
    ),
)  # fmt: skip


class Terminal:
    """A shell on a pseudo-terminal whose output is read in pieces, each with its time."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self._scene = scene
        rc = folder / "rc"
        rc.write_text(_RC)
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", scene.rows, scene.columns, 0, 0))
        variables = {
            **os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8",
            "COLUMNS": str(scene.columns), "LINES": str(scene.rows),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }  # fmt: skip
        self._shell = children.popen(
            ["setsid", "--ctty", "bash", "--noprofile", "--rcfile", str(rc), "-i"],
            stdin=slave, stdout=slave, stderr=slave, env=variables, cwd=ROOT,
        )  # fmt: skip
        os.close(slave)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.pieces: list[tuple[float, str]] = []
        self._started = time.monotonic()

    def close(self) -> None:
        """End the shell and whatever it runs."""
        os.close(self._master)  # a hangup
        try:
            self._shell.wait(30)
        except subprocess.TimeoutExpired:
            self._shell.kill()
            self._shell.wait()

    def type(self, line: str) -> None:
        """Type a line, key by key, and read what the terminal shows of it."""
        for key in line:
            os.write(self._master, key.encode())
            self._read(_KEY_S)
        self._read(0.3)
        os.write(self._master, b"\n")

    def wait(self, *ends: str) -> None:
        """Read until one of `ends` comes; RuntimeError if none does."""
        seen = ""
        deadline = time.monotonic() + _LONGEST_S
        while not any(end in seen for end in ends):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._scene.name}: no prompt within {_LONGEST_S:g} s, only {seen[-300:]!r}")
            seen += "".join(self._read(0.2))

    def _read(self, seconds: float) -> list[str]:
        """What comes within `seconds`."""
        found: list[str] = []
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not select.select([self._master], [], [], left)[0]:
                break
            try:
                text = self._decode(os.read(self._master, 65536))
            except OSError:
                raise RuntimeError(f"{self._scene.name}: the shell has ended: {self.pieces[-1][1]!r}") from None
            found.append(text)
            self.pieces.append((time.monotonic() - self._started, text))
        return found


def record(scene: Scene, folder: Path) -> str:
    """Run a scene; returns it as an asciicast."""
    terminal = Terminal(scene, folder)
    try:
        terminal.wait(_SHELL_READY)
        for line in scene.lines:
            time.sleep(_READ_S)
            terminal.type(line)
            terminal.wait(_SHELL_READY, _MRC_READY)
    finally:
        terminal.close()
    header = {"version": 2, "width": scene.columns, "height": scene.rows, "title": scene.title, "theme": _THEME}
    events = [json.dumps([round(at, 3), "o", text], ensure_ascii=False) for at, text in _timed(scene, terminal.pieces)]
    return "\n".join([json.dumps(header), *events]) + "\n"


def _timed(scene: Scene, pieces: Sequence[tuple[float, str]]) -> Iterator[tuple[float, str]]:
    """Pieces with the scene's times from 0, without what only this machine has; close ones are joined."""
    now, last = 0.5, pieces[0][0]
    held: tuple[float, str] | None = None
    for at, text in pieces:
        now += min((at - last) / scene.speed, scene.longest_pause_s)
        last = at
        text = text.replace(_SHELL_READY, "").replace(f"{ROOT}/", "")
        if held and now - held[0] < _JOINED_S:
            held = held[0], _REDRAWN.sub("", held[1] + text)
            continue
        if held and held[1]:
            yield held
        held = now, text
    if held and held[1]:
        yield held
    yield now + 3.0, ""


def with_poster(picture: str) -> str:
    """An animated picture that begins with its last screen, for as long as somebody takes to look, and not with none.

    Frames lie below one another and are moved by the animation, which starts shortly before its end. Where pictures do
    not move, the last one is shown.
    """
    lasts, moves = re.search(r"--animation-duration: (\d+)ms", picture), re.findall(r"translateY\((-\d+)px\)", picture)
    if lasts is None or not moves:
        raise RuntimeError("termtosvg makes other pictures now: see with_poster")
    begin = f"animation-delay: {_POSTER_MS - int(lasts[1])}ms; transform: translateY({moves[-1]}px); "
    if begin in picture:
        return picture
    return picture.replace("animation-name:roll", f"{begin}animation-name:roll", 1)


def shown(cast: str) -> list[str]:
    """The commands that a recording shows being typed, at the shell's prompt and at that of mrc."""
    output = "".join(json.loads(line)[2] for line in cast.splitlines()[1:])
    text = re.sub(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)", "", output).replace("\r", "")
    return [line.strip() for line in re.findall(r"^(?:\$|mrc>) (.+)$", text, re.MULTILINE)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Record scenes; returns the exit status."""
    names = [scene.name for scene in SCENES]
    parser = argparse.ArgumentParser(prog="python -m scripts.record_terminal", description=__doc__.splitlines()[0])
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"{', '.join(names)} (default: all)")
    options = parser.parse_args(arguments)
    if unknown := set(options.scenes) - set(names):
        parser.error(f"there is no scene {sorted(unknown)[0]}: choose from {', '.join(names)}")
    FOLDER.mkdir(exist_ok=True)
    for scene in SCENES:
        if options.scenes and scene.name not in options.scenes:
            continue
        with tempfile.TemporaryDirectory() as folder:
            cast = record(scene, Path(folder))
        file = FOLDER / f"{scene.name}.cast"
        file.write_text(cast, "utf-8")
        picture = file.with_suffix(".svg")
        children.run(
            [ROOT / "scripts/with-tools", *_TO_PICTURE, file, picture, "--theme", "auto", "-D", "5000"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        picture.write_text(with_poster(picture.read_text("utf-8")).rstrip() + "\n", "utf-8")
        print(f"{scene.name}: {len(cast)} bytes, {json.loads(cast.splitlines()[-1])[0]:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
