"""Errors of compiling C; the messages are for users."""

from __future__ import annotations


class CBuildError(Exception):
    """Nothing was built: a compiler, headers or a place for the result are missing, or the compiler refused the C."""


class CBuildLimitError(CBuildError):
    """Compiling exceeded the compiler's limits."""
