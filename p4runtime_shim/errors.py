# ruff: noqa: N818 - named after the gRPC status codes that they become
"""Errors of loading a program and writing to a switch; the messages are for users."""

from __future__ import annotations


class SwitchError(Exception):
    """Base of all errors of the embedded switch."""


class NotFound(SwitchError):
    """The named table, action, entry, member, group, counter... does not exist."""


class AlreadyExists(SwitchError):
    """The entry, member, group or session already exists."""


class InvalidArgument(SwitchError):
    """A value out of range, a match of the wrong kind, an action that the table does not have..."""


class ResourceExhausted(SwitchError):
    """The table, profile or group is full."""


class PermissionDenied(SwitchError):
    """The object is constant: const entries, const default action."""


class SwitchClosed(SwitchError):
    """The switch was closed."""


class BuildError(SwitchError):
    """The C compiler is missing or rejected the generated program."""


class InvalidProgram(SwitchError):
    """The file is not BMv2 JSON, or contradicts itself."""


class Unsupported(SwitchError):
    """The program uses something that this switch does not execute.

    `construct` names it, `file` and `line` say where it is in the P4 source (None and 0 if unknown).
    """

    def __init__(self, construct: str, file: str | None = None, line: int = 0) -> None:
        where = f" ({file}:{line})" if file and line else f" ({file}; p4c gives no line for it)" if file else ""
        super().__init__(f"not supported by the embedded switch: {construct}{where}")
        self.construct = construct
        self.file = file
        self.line = line
