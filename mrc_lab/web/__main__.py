"""``python -m mrc_lab.web FABRIC beside|detached [TOKEN_FILE [RECORDING]]``: the page's server as its own process.

``mrc_lab.fabric.live_view`` starts it. It prints the page's address, or why there is none, as one line, and another
one when a browser has opened the page. It takes the usual port, or a free one if that is taken. Unless it is detached,
it ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from controller.errors import ControllerError
from mrc_common.grpc_endpoint import EndpointError, EndpointSettings, check_port_free
from mrc_lab.errors import ExperimentError
from mrc_lab.web.serve_fabric import DEFAULT_ADDRESS, serve
from topologies.emulation.run_directory import RunDirectory


def main(fabric: str, how: str, token_file: str = "", recording: str = "") -> int:
    """Serve the page of a fabric that is up."""
    try:
        check_port_free(DEFAULT_ADDRESS)
        address = DEFAULT_ADDRESS
    except EndpointError:
        address = "127.0.0.1:0"
    reports = None if how == "detached" else sys.stdin.fileno()
    settings = EndpointSettings(Path(token_file) if token_file else None)
    out = os.dup(1)

    def opened() -> None:
        with contextlib.suppress(OSError):  # nobody may read it any more
            os.write(out, b"opened\n")

    try:
        record = Path(recording) if recording else None
        serve(RunDirectory(fabric), address, settings, _print_address, reports, record, opened)
    except (ControllerError, EndpointError, ExperimentError) as error:
        print(error, flush=True)
        return 1
    return 0


def _print_address(text: str) -> None:
    """The last word, which is the address; nothing is printed after it, since nobody reads on."""
    print(text.split()[-1], flush=True)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
