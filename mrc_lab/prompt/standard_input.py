"""Standard input of the prompt, and what commands may read of it.

On a terminal everybody shares it, as in a shell: a command in a host reads what is typed while it runs, and what it
leaves is the prompt's next line. Where commands are piped in, or come from a file, every line is a command of the
prompt. So only the prompt has that input (:func:`owned`); whatever it starts finds an empty one.
"""

from __future__ import annotations

import os
import shlex
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

from mrc_lab.errors import ExperimentError

_MAX_BYTES: Final = 4095  # n_tty(4)'s longest line, which is how a command reaches a node's shell
_STDIN: Final = 0


@contextmanager
def owned() -> Iterator[IO[str]]:
    """Standard input for this process alone: no process started inside can read it, unless it is a terminal."""
    if sys.stdin and sys.stdin.isatty():
        yield sys.stdin
        return
    with open(os.devnull, "rb") as nothing:
        given, inherited = os.dup(sys.stdin.fileno() if sys.stdin else nothing.fileno()), os.dup(_STDIN)
        os.dup2(nothing.fileno(), _STDIN)
    with open(given, errors="replace") as commands, open(inherited, "rb", 0):
        try:
            yield commands
        finally:
            os.dup2(inherited, _STDIN)


def terminal_of(stdin: IO[str]) -> str:
    """The file of the terminal that `stdin` is; an empty string where it is none."""
    return os.ttyname(stdin.fileno()) if stdin.isatty() else ""


@contextmanager
def terminal_restored(stdin: IO[str]) -> Iterator[None]:
    """Give a terminal its settings back at the end, as a command may leave others. What was typed is kept."""
    if not stdin.isatty():
        yield
        return
    before = termios.tcgetattr(stdin)
    try:
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)


def shell_line(command: str, terminal: str) -> str:
    """The line that has a node's shell carry out `command`, with what is typed on `terminal` as its input.

    The shell gets the command as one word, so that a quote that is left open is an error there; the lines after it
    would become part of the command otherwise. A background command has no input: it would take keys from the prompt.
    Raises ExperimentError for a command that is too long for a shell's terminal, which would cut it off.
    """
    given = os.devnull if command.endswith("&") else terminal or os.devnull
    line = f"eval {shlex.quote(command)} <{shlex.quote(given)}"
    if len(line.encode(errors="surrogateescape")) > _MAX_BYTES:
        raise ExperimentError(
            f"this command has {len(command)} characters, and a node's shell reads at most {_MAX_BYTES} in a line",
            "Put it into a file and run that: h1 sh FILE",
        )
    return line
