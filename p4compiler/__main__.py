"""``python -m p4compiler PROGRAM``: the compiler on the command line, with the options of p4c-bm2-ss."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from p4compiler import Diagnostic, P4Error
from p4compiler.compiler import compile as compile_program

_IGNORED_FLAGS = ("--emit-externs", "--ndebug", "--testJson")  # of p4c-bm2-ss, without a meaning here
_WITH_OPTIONAL_VALUES = ("--Wdisable", "--Werror", "--Wwarn")
_IGNORED_VALUES = ("--target", "--Wwarn", "-b", "--top4", "--dump", "--pp", "-T")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile as the command line says; the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args([f"{word}=all" if word in _WITH_OPTIONAL_VALUES else word for word in given])
    if options.std not in ("p4-16", "p4_16", "16") or options.p4v not in ("16", "p4-16", "p4_16"):
        return _refuse("only P4_16 is supported (--std p4-16)")
    if options.arch not in ("v1model", "ss"):
        return _refuse(f"architecture {options.arch!r} is not supported; v1model is")
    files = [name for name in (options.p4runtime_files or "").split(",") if name]
    for name in files:
        if name.endswith((".json", ".bin")):
            return _refuse(f"{name!r}: P4Info is written as text only; name the file .txtpb")
    outputs = [name for name in (options.output, *files) if name]
    paths = [os.path.realpath(name) for name in (options.program, *outputs)]
    if any(path in paths[:at] and not path.startswith("/dev/") for at, path in enumerate(paths)):
        return _refuse("the program and the files to write need different names")
    try:
        compiled = compile_program(options.program, options.include, dict(_define(item) for item in options.define))
    except P4Error as error:
        _show(error.diagnostics, as_json=options.json)
        return 1
    warnings = [item for item in compiled.warnings if not _names(options.no_warnings, item)]
    _show(warnings, as_json=options.json)
    if any(_names(options.werror, item) for item in warnings):
        return 1
    texts = [compiled.json + "\n"] if options.output else []
    faults = map(_write, outputs, [*texts, *[compiled.p4info] * len(files)])
    return next((_refuse(fault) for fault in faults if fault), 0)


def _write(name: str, text: str) -> str | None:
    """Write a file; why that was not possible."""
    try:
        Path(name).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        return f"{name!r} cannot be written: {getattr(error, 'strerror', None) or error}"
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m p4compiler", description="Compile a P4_16 program for v1model to BMv2's JSON and P4Info."
    )
    parser.add_argument("program", metavar="PROGRAM", help="the P4 program")
    parser.add_argument("-o", "--output", metavar="FILE", help="write BMv2's JSON to FILE")
    parser.add_argument("--p4runtime-files", metavar="FILES", help="write P4Info as text to FILES (comma-separated)")
    parser.add_argument("--p4runtime-file", dest="p4runtime_files", help=argparse.SUPPRESS)
    parser.add_argument("--p4runtime-format", default="text", choices=("text",), help=argparse.SUPPRESS)
    parser.add_argument("-I", dest="include", metavar="FOLDER", action="append", default=[], help="search FOLDER")
    parser.add_argument("-D", dest="define", metavar="NAME[=VALUE]", action="append", default=[], help="define a macro")
    parser.add_argument("--std", default="p4-16", help="the language's version: p4-16")
    parser.add_argument("--p4v", default="16", help=argparse.SUPPRESS)
    parser.add_argument("--arch", default="v1model", help="the architecture: v1model")
    parser.add_argument("--json", action="store_true", help="print errors and warnings as JSON, to standard output")
    for name, dest, text in (
        ("--Wdisable", "no_warnings", "print no warnings, or none of a KIND"),
        ("--Werror", "werror", "a warning, or one of a KIND, makes the command fail"),
    ):
        parser.add_argument(name, dest=dest, metavar="[=KIND]", action="append", default=[], help=text)
    for name in _IGNORED_FLAGS:
        parser.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    for name in _IGNORED_VALUES:
        parser.add_argument(name, help=argparse.SUPPRESS)
    return parser


def _names(kinds: Sequence[str], warning: Diagnostic) -> bool:
    """Whether an option's values name a warning."""
    return "all" in kinds or warning.code in kinds


def _define(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    return name, value if equals else "1"


def _show(diagnostics: Iterable[Diagnostic], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([item.as_json() for item in diagnostics], indent=2))
        return
    for item in diagnostics:
        print(item, file=sys.stderr)


def _refuse(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # as by `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
