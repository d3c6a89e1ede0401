"""Connect to the Ray cluster that the command line names, and end (see ``ray_connection``)."""

from __future__ import annotations

import sys


def main(address: str) -> None:
    """Connect; ends with status 1 and one line that begins with ``refused:`` if Ray does not let us in."""
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level="critical")
    except Exception as error:
        sys.exit("refused: " + str(error).strip().partition("\n")[0])


if __name__ == "__main__":
    main(sys.argv[1])
