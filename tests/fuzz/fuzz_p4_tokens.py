"""P4 programs with tokens deleted, swapped, repeated or put in from others: a positioned error, or JSON that loads."""

from __future__ import annotations

import contextlib
import random
import re
import time

import p4compiler
from p4runtime_shim.errors import Unsupported
from p4runtime_shim.program.loader import load_program
from tests.p4compiler.compiled import SOURCES

SLOWEST_S = 20.0  # a case on a busy machine; what the compiler itself allows is bounded by its limits
MOST_CHANGES = 4
_TOKENS = re.compile(r"\s+|//[^\n]*|/\*.*?\*/|#[^\n]*|\w+|\"[^\"]*\"|.", re.DOTALL)


def text_of(name: str) -> str:
    """A program in one text, with the files beside it that it includes."""
    path = SOURCES[name]
    text = path.read_text()
    while match := re.search(r'^#include "([^"]+)"$', text, re.MULTILINE):
        text = text.replace(match[0], (path.parent / match[1]).read_text())
    return text


class Fuzzer:
    """Each case changes a program in a few places."""

    def __init__(self) -> None:
        self._programs = [_TOKENS.findall(text_of(name)) for name in sorted(SOURCES)]

    def case(self, chance: random.Random) -> None:
        tokens = list(chance.choice(self._programs))
        for _ in range(chance.randint(1, MOST_CHANGES)):
            self._change(tokens, chance)
        check("".join(tokens))

    def _change(self, tokens: list[str], chance: random.Random) -> None:
        place = chance.randrange(len(tokens))
        kind = chance.randrange(5)
        if kind == 0:
            del tokens[place]
        elif kind == 1:
            other = chance.randrange(len(tokens))
            tokens[place], tokens[other] = tokens[other], tokens[place]
        elif kind == 2:
            tokens[place:place] = tokens[place : place + chance.randint(1, 30)]
        elif kind == 3:
            tokens[place] = chance.choice(tokens)
        else:
            donor = chance.choice(self._programs)
            start = chance.randrange(len(donor))
            tokens[place:place] = donor[start : start + chance.randint(1, 10)]

    def close(self) -> None:
        pass


def check(text: str) -> bool:
    """Compile a program; True if it compiles. Anything but JSON that loads or a positioned error raises."""
    start = time.monotonic()
    try:
        compiled = p4compiler.compile_text(text)
    except p4compiler.P4Error as error:
        errors = [item for item in error.diagnostics if item.severity == "error"]
        assert errors, "an error without an error"
        assert errors[0].span is not None, f"an error without a place: {errors[0]}"
        for item in error.diagnostics:
            str(item)
            item.as_json()
        return False
    finally:
        taken = time.monotonic() - start
        assert taken < SLOWEST_S, f"{taken:.0f} s"
    with contextlib.suppress(Unsupported):  # by the embedded switch, as header unions
        load_program(compiled.json)
    return True
