"""``mrc web``."""

from __future__ import annotations

from pathlib import Path

import click

from mrc_lab.cli.fabric_argument import ONLY_ONE, fabric_name

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False, resolve_path=True)


@click.command(epilog="Example: sudo mrc web lab")
@fabric_name(ONLY_ONE)
@click.option(
    "--listen", "address", default="127.0.0.1:8420", show_default=True, metavar="HOST:PORT", help="Where to serve it."
)
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False, resolve_path=True),
    metavar="FILE.html",
    help="Also record everything into a page that plays it, written at the end.",
)
@click.option("--token-file", type=_FILE, help="File with the token of the page's address. [default: a new one]")
@click.option("--tls-cert", type=_FILE, help="File with the certificate (PEM) for HTTPS.")
@click.option("--tls-key", type=_FILE, help="File with the private key (PEM) for HTTPS.")
def web(
    name: str | None,
    address: str,
    record: Path | None,
    token_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
) -> None:
    """Show a fabric that is up as a page, live, and inject faults and start transfers there.

    The printed address contains a token: whoever has it can do with the fabric what 'mrc fault' can. For any address
    but loopback a token and TLS must be given. The server runs until Ctrl-C, or until the fabric is taken down.

    A recording is one HTML file, which any browser plays from disk.
    """
    from mrc_common.grpc_endpoint import EndpointSettings
    from mrc_lab.fabric.find_fabric import find_controller
    from mrc_lab.web.serve_fabric import serve

    serve(find_controller(name), address, EndpointSettings(token_file, tls_cert, tls_key), click.echo, record=record)
