"""The ``mrc`` command: ``main`` runs it in this process; each other file is a subcommand of the core."""

from __future__ import annotations

from mrc_lab.cli.main import main

__all__ = ["main"]
