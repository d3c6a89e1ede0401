"""The ``mrc`` command: ``main`` runs it in this process, one file below is one subcommand."""

from __future__ import annotations

from mrc_lab.cli.main import main

__all__ = ["main"]
