"""``mrc``, or ``python -m experiments``: on the compiled transport where there is one (``mrc_host.compiled``)."""

from __future__ import annotations

from mrc_host import compiled


def main() -> None:
    """Entry point of ``mrc``."""
    compiled.use()  # before anything imports the transport

    from experiments.cli.main import main

    main()


if __name__ == "__main__":
    main()
