"""The ``mrc`` command: ``main`` is its entry point, one file below is one subcommand."""

from __future__ import annotations

from experiments.cli.main import main

__all__ = ["main"]
