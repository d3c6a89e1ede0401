"""Errors and warnings: collected during a run, shown with the line and a caret, or as JSON.

A pass calls :meth:`Diagnostics.error` and goes on where it can, so that one run shows several errors. Between passes
:meth:`Diagnostics.stop_on_errors` ends the run by raising :class:`P4Error`, which holds everything found.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from p4compiler.sources import SourceSpan

MAX_ERRORS = 20
_MAX_SHOWN_LINE = 200  # characters
_MAX_SHOWN_BITS = 256
_MAX_COMPARED_NAME = 64  # characters
_MAX_COMPARED = 500  # names, for a hint


@dataclass(frozen=True)
class Note:
    """A second place that explains an error."""

    message: str
    span: SourceSpan


@dataclass(frozen=True)
class Diagnostic:
    """An error or a warning (`severity`) at a place; `code` names the kind of a warning."""

    severity: str
    message: str
    span: SourceSpan | None
    notes: tuple[Note, ...] = ()
    code: str = ""

    def __str__(self) -> str:
        label = f"{self.severity}: {self.message}" + (f" [{self.code}]" if self.code else "")
        if self.span is None:
            return label
        parts = [f"{_place(self.span)}: {label}", _excerpt(self.span)]
        if self.span.origin is not None:
            parts += [f"{_place(self.span.origin)}: note: in the macro defined here", _excerpt(self.span.origin)]
        for note in self.notes:
            parts += [f"{_place(note.span)}: note: {note.message}", _excerpt(note.span)]
        return "\n".join(parts)

    def as_json(self) -> dict[str, Any]:
        """The fields that an editor needs; lines and columns from 1, `end_column` after the last character."""
        out: dict[str, Any] = {"severity": self.severity, "message": self.message}
        if self.code:
            out["code"] = self.code
        if self.span is not None:
            out |= _span_json(self.span)
        notes = [{"message": note.message, **_span_json(note.span)} for note in self.notes]
        if self.span is not None and self.span.origin is not None:
            notes.insert(0, {"message": "in the macro defined here", **_span_json(self.span.origin)})
        if notes:
            out["notes"] = notes
        return out


def _place(span: SourceSpan) -> str:
    return f"{span.source.name}:{span.line}:{span.column}"


def _span_json(span: SourceSpan) -> dict[str, Any]:
    line, column = span.source.place(span.start)
    end_line, end_column = span.source.place(span.end)
    return {"file": span.source.name, "line": line, "column": column, "end_line": end_line, "end_column": end_column}


def _excerpt(span: SourceSpan) -> str:
    """The line of a span, and below it a caret and tildes under its characters."""
    text = span.source.line(span.line)
    column = span.column - 1
    length = max(1, min(span.end - span.start, len(text) - column))
    if len(text) > _MAX_SHOWN_LINE:
        cut = max(0, column - _MAX_SHOWN_LINE // 2)
        text, column = text[cut : cut + _MAX_SHOWN_LINE], column - cut
        length = max(1, min(length, len(text) - column))
    indent = "".join("\t" if char == "\t" else " " for char in text[:column])
    return f"    {_printable(text)}\n    {indent}^{'~' * (length - 1)}"


def _printable(text: str) -> str:
    return "".join(char if char == "\t" or char.isprintable() else "?" for char in text)


class P4Error(Exception):
    """A program that cannot be compiled; `diagnostics` holds all errors and warnings in the order of their places."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(str(item) for item in self.diagnostics))


class Refusal(Exception):  # noqa: N818 (control flow inside the compiler; users see P4Error)
    """One error that ends what a pass is at; the pass, or the one that called it, records it and goes on."""

    def __init__(self, message: str, span: SourceSpan | None, *notes: Note) -> None:
        self.diagnostic = Diagnostic("error", message, span, notes)
        super().__init__(message)


class Diagnostics:
    """What one run has found so far."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, SourceSpan | None], Diagnostic] = {}  # each once
        self._errors = 0

    def error(self, message: str, span: SourceSpan | None, *notes: Note) -> None:
        """Record an error; raises P4Error when there are too many to go on."""
        self.add(Diagnostic("error", message, span, notes))

    def warning(self, code: str, message: str, span: SourceSpan, *notes: Note) -> None:
        """Record a warning, unless it is about the standard files."""
        if not span.source.standard:
            self.add(Diagnostic("warning", message, span, notes, code))

    def add(self, item: Diagnostic) -> None:
        """Record an error or a warning."""
        key = (item.severity, item.message, item.span)
        if key in self._found:
            return
        self._found[key] = item
        if item.severity == "error":
            self._errors += 1
            if self._errors >= MAX_ERRORS:
                raise P4Error([*self.all(), Diagnostic("error", "too many errors; the rest is not checked", None)])

    def all(self) -> list[Diagnostic]:
        """Everything found; inside a file in the order of places."""
        files: dict[str, int] = {}
        for item in self._found.values():
            if item.span is not None:
                files.setdefault(item.span.source.name, len(files))
        return sorted(
            self._found.values(),
            key=lambda item: (files[item.span.source.name], item.span.start) if item.span else (len(files), 0),
        )

    def has_errors(self) -> bool:
        """Whether there was an error."""
        return self._errors > 0

    def stop_on_errors(self) -> None:
        """Raise P4Error if there was an error."""
        if self._errors:
            raise P4Error(self.all())


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` where a known name is like `name`, else nothing."""
    if len(name) > _MAX_COMPARED_NAME:
        return ""
    similar = list(islice((item for item in known if abs(len(item) - len(name)) <= 1 + len(name) // 4), _MAX_COMPARED))
    other_case = [item for item in similar if item.lower() == name.lower()]
    close = other_case or difflib.get_close_matches(name, similar, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def shown(number: int) -> str:
    """A number for a message: its digits, or how long it is."""
    bits = number.bit_length()
    return str(number) if bits <= _MAX_SHOWN_BITS else f"of {bits:,} bits"


def counted(number: int, noun: str) -> str:
    """``1 argument``, ``2 arguments``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
