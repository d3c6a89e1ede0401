"""The passes in order."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from p4compiler import bmv2_json, p4info, v1model
from p4compiler.check import check
from p4compiler.diagnostics import Diagnostic, Diagnostics, P4Error
from p4compiler.parser import parse
from p4compiler.preprocessor import Preprocessor
from p4compiler.sources import MAX_FILE_BYTES, Includes, NotReadableError, SourceText, read

_RECURSION_LIMIT = 20_000  # what the parser's limit on nesting needs, in every pass


@dataclass(frozen=True)
class Compiled:
    """A compiled program: BMv2's JSON, P4Info as protobuf text, and the warnings."""

    json: str
    p4info: str
    warnings: tuple[Diagnostic, ...] = ()


def compile(  # noqa: A001 (the package's main verb)
    path: str | os.PathLike[str],
    include: Sequence[str | os.PathLike[str]] = (),
    defines: Mapping[str, str] | None = None,
) -> Compiled:
    """Compile the program in a file.

    `include` are folders for ``#include``, searched in this order; `defines` are macros. Raises P4Error with all
    errors, also for a file that cannot be read.
    """
    try:
        source = read(os.fspath(path))
    except NotReadableError as error:
        raise P4Error([Diagnostic("error", str(error), None)]) from None
    return _compile(source, Includes(include), defines or {})


def compile_text(text: str, name: str = "program.p4", defines: Mapping[str, str] | None = None) -> Compiled:
    """Compile a program that comes from elsewhere: it may include nothing but core.p4 and v1model.p4."""
    if len(text) > MAX_FILE_BYTES:
        raise P4Error([Diagnostic("error", f"a program of more than {MAX_FILE_BYTES >> 20} MiB", None)])
    return _compile(SourceText(name, text), Includes(local=False), defines or {})


def _compile(source: SourceText, includes: Includes, defines: Mapping[str, str]) -> Compiled:
    diagnostics = Diagnostics()
    with deep_recursion():
        program = parse(Preprocessor(includes, defines, diagnostics).run(source), diagnostics)
        lowered = v1model.lower(check(program, diagnostics), diagnostics)
        info = p4info.write(lowered, diagnostics)
        return Compiled(bmv2_json.write(lowered, source.name, diagnostics), info, tuple(diagnostics.all()))


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Inside it every pass may recurse as deeply as the parser lets programs be nested."""
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(max(old, _RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(old)
