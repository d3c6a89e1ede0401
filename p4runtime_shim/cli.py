"""The command line, modelled on simple_switch_grpc.

    python -m p4runtime_shim -i 1@eth0 -i 2@eth1 --device-id 1 --grpc-server-addr 127.0.0.1:9559 program.json
    python -m p4runtime_shim --no-p4 -i 1@eth0 -- --cpu-port 255          # BMv2 takes some options after `--`
    python -m p4runtime_shim --config switches.yaml                      # many switches in one process
    ln -s "$(which p4runtime_shim)" ~/bin/simple_switch_grpc             # in place of BMv2
    python -m p4runtime_shim -i 1@eth0 --pcap captures --trace=trace.txt program.json

When clients can connect, one line is printed: `ready grpc=ADDRESS devices=1,2,3 pid=N`. Exit status: 0 after SIGTERM or
SIGINT, 1 if something cannot be opened or loaded, 2 if the command line or the configuration file is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from logging.handlers import RotatingFileHandler
from pathlib import Path

from mrc_common.grpc_endpoint import EndpointSettings
from p4runtime_shim.bmv2_options import add_options
from p4runtime_shim.config import (
    BMV2_ADDRESS,
    ConfigError,
    ProcessSettings,
    check,
    load_file,
    settings_from_options,
)
from p4runtime_shim.traffic_manager import QueueConfig

JSON_VERSION = "2.24"  # of BMv2 1.15.5
_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}
_PER_SWITCH = (
    "interface",
    "rate",
    "device_id",
    "cpu_port",
    "program",
    "ports_down",
    "priority_queues",
    "packet_in_rate",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a process of switches; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_bmv2 = arguments is None and Path(sys.argv[0]).name.startswith("simple_switch")
    try:
        options = argument_parser().parse_args([item for item in given if item != "--"])
        if as_bmv2:
            _behave_as_bmv2(options)
        settings = replace(_settings(options), bmv2_send_buffer=as_bmv2)
        _start_log(options)
    except ConfigError as error:
        return _fail(str(error), 2)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # we print its errors ourselves, as one line
    from p4runtime_shim import shutdown
    from p4runtime_shim.switch_process import StartError, SwitchProcess  # after the checks, since this import is slow

    def ready(address: str) -> None:
        devices = ",".join(str(switch.device_id) for switch in settings.switches)
        line = f"ready grpc={address} devices={devices} pid={os.getpid()}\n"
        if options.ready_fd is None:
            sys.stdout.write(line)
            sys.stdout.flush()
        else:
            os.write(options.ready_fd, line.encode())
            os.close(options.ready_fd)

    for message in options.without_effect:
        print(f"p4runtime_shim: without effect: {message}", file=sys.stderr)
    shutdown.exit_immediately()  # until there is something to shut down
    log = options.log_console or options.log_file is not None
    try:
        process = SwitchProcess(settings, cache=options.cache, log=log)
        written = (options.log_file, Path(settings.trace) if settings.trace not in (None, "-") else None)
        process.prepare(
            keep_privileges=options.keep_privileges, writes=[path.parent for path in written if path is not None]
        )
        asyncio.run(process.serve(ready))
    except StartError as error:
        return _fail(str(error), 1)
    return 0


def _behave_as_bmv2(options: argparse.Namespace) -> None:
    """Under BMv2's name: send through tc's queueing disciplines, and listen on TCP, but on loopback only.

    BMv2 listens on all addresses of the machine by default, and scripts say so explicitly (0.0.0.0:50051).
    """
    options.qdisc = True
    address = options.grpc_server_addr or ("" if options.config else BMV2_ADDRESS)
    host, _, port = address.rpartition(":")
    if host in ("0.0.0.0", "[::]", "::", "") and port and not _listening(options).tls_cert:
        address = f"127.0.0.1:{port}"
        message = f"listening on {address}; other addresses need --token-file, --tls-cert and --tls-key"
        options.without_effect = [*options.without_effect, f"--grpc-server-addr {options.grpc_server_addr}: {message}"]
    options.grpc_server_addr = address or None


def _listening(options: argparse.Namespace) -> EndpointSettings:
    """Access control of the address; BMv2 has a separate option to turn TLS on."""
    if options.grpc_server_ssl and options.tls_cert is None:
        raise ConfigError("--grpc-server-ssl needs --grpc-server-cert and --grpc-server-key")
    return EndpointSettings(
        options.token_file,
        options.tls_cert,
        options.tls_key,
        options.grpc_server_cacert,
        options.grpc_server_with_client_auth,
    )


def _start_log(options: argparse.Namespace) -> None:
    """Log to standard error, a file, or both; warnings always go to standard error."""
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    wanted = _LEVELS[options.log_level]
    if not options.log_console:
        handlers[0].setLevel(max(wanted, logging.WARNING))
    if options.log_file is not None:
        try:
            file = RotatingFileHandler(
                options.log_file, maxBytes=options.log_file_max_size, backupCount=options.log_file_max_files
            )
        except OSError as error:
            raise ConfigError(f"cannot write the log {options.log_file}: {error.strerror}") from None
        handlers.append(file)
    logs = options.log_console or options.log_file is not None
    logging.basicConfig(
        level=wanted if logs else max(wanted, logging.WARNING),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        handlers=handlers,
    )
    if not logs:  # gRPC logs a traceback for malformed messages; the client gets an error anyway
        logging.getLogger("grpc").setLevel(logging.CRITICAL)


def _fail(message: str, status: int) -> int:
    print(f"p4runtime_shim: {message}", file=sys.stderr)
    return status


def _settings(options: argparse.Namespace) -> ProcessSettings:
    if options.program is not None and options.no_p4:
        raise ConfigError("give either a program or --no-p4, not both")
    if options.config is not None:
        for name in _PER_SWITCH:
            if getattr(options, name) not in (None, []):
                raise ConfigError(f"--{name.replace('_', '-')} belongs in the file given by --config")
        settings = load_file(options.config)
        if options.grpc_server_addr is not None:
            settings = check(replace(settings, grpc_address=options.grpc_server_addr))
        if _listening(options) != EndpointSettings():
            settings = replace(settings, listen=_listening(options))
        if options.pcap is not None:
            settings = replace(settings, pcap=options.pcap, capturing=True)
        return replace(settings, qdisc=settings.qdisc or options.qdisc, trace=options.trace or settings.trace)
    if options.program is None and not options.no_p4:
        raise ConfigError("give a program (BMv2 JSON), or --no-p4 to wait for one over P4Runtime")
    queues = QueueConfig() if options.priority_queues is None else QueueConfig(queues=options.priority_queues)
    if not 1 <= queues.queues <= 8:
        raise ConfigError(f"--priority-queues is {queues.queues}; a port has 1 to 8 queues")
    return settings_from_options(
        interfaces=options.interface,
        rates=options.rate,
        device_id=options.device_id or 0,
        cpu_port=options.cpu_port,
        ports_down=options.ports_down,
        program=options.program,
        seed=options.seed,
        queues=queues,
        grpc_address=options.grpc_server_addr or "",
        listen=_listening(options),
        qdisc=options.qdisc,
        packet_in_rate=options.packet_in_rate,
        pcap=options.pcap,
        trace=options.trace,
    )


def argument_parser() -> argparse.ArgumentParser:
    """The options of ``p4runtime_shim``, with those of BMv2."""
    parser = argparse.ArgumentParser(
        prog="p4runtime_shim",
        description="A P4 switch (v1model) that runs BMv2 JSON and speaks P4Runtime, like simple_switch_grpc.",
        epilog="example: p4runtime_shim -i 1@eth0 -i 2@eth1 --device-id 1 --no-p4",
    )
    add = parser.add_argument
    add("program", nargs="?", type=Path, help="BMv2 JSON to start with")
    add("--no-p4", action="store_true", help="start without a program and wait for one over P4Runtime")
    add("-i", "--interface", action="append", default=[], metavar="PORT@IF", help="attach interface IF as port PORT")
    add(
        "--rate",
        action="append",
        default=[],
        metavar="[PORT=]RATE",
        help="port rate, like 100M or 1=2.5G; 0 = no limit",
    )
    add("--ports-down", action="append", default=[], type=int, metavar="PORT", help="hold a port down")
    add("--device-id", type=int, metavar="N", help="P4Runtime device id (default 0, as simple_switch_grpc)")
    add(
        "--grpc-server-addr",
        metavar="ADDRESS",
        help="HOST:PORT or unix:PATH (default: p4runtime_shim-DEVICE.sock in /run for root, else in $XDG_RUNTIME_DIR)",
    )
    add("--token-file", type=Path, metavar="FILE", help="file with the token that clients need (required off loopback)")
    add("--tls-cert", "--grpc-server-cert", type=Path, metavar="FILE", help="TLS certificate (required off loopback)")
    add("--tls-key", "--grpc-server-key", type=Path, metavar="FILE", help="its key")
    add("--grpc-server-ssl", action="store_true", help="require the two files; they turn TLS on in any case")
    add("--grpc-server-cacert", type=Path, metavar="FILE", help="CA certificates for client certificates")
    add("--grpc-server-with-client-auth", action="store_true", help="require a client certificate")
    add("--cpu-port", type=int, metavar="PORT", help="port number for packet-in and packet-out")
    add("--priority-queues", type=int, metavar="N", help="strict priority queues per port (default 8)")
    add(
        "--packet-in-rate", type=int, metavar="N", help="packets per second to controllers (default 5000; 0 = no limit)"
    )
    add(
        "--pcap",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="DIR",
        help="write what each port receives and sends to IF_in.pcap and IF_out.pcap (default: this folder)",
    )
    add("--trace", nargs="?", const="-", metavar="FILE", help="trace every packet to FILE or standard error (slow)")
    add(
        "--qdisc",
        action="store_true",
        help="send through the interfaces' queueing disciplines (tc) instead of bypassing them",
    )
    add("--config", type=Path, metavar="FILE", help="YAML or JSON file with the switches of this process")
    add("--seed", type=int, default=0, metavar="N", help="seed of the program's random numbers (default 0)")
    add(
        "--keep-privileges",
        action="store_true",
        help="keep root's capabilities, which are dropped at the start otherwise",
    )
    add("--cache", type=Path, metavar="DIR", help="folder for compiled programs")
    add("--log-console", action="store_true", help="log to standard error, including the program's log_msg()")
    add("--log-file", type=Path, metavar="FILE", help="log to a file, which is rotated")
    add("-L", "--log-level", choices=_LEVELS, default="trace", help="lowest level to log (default: all)")
    add(
        "--log-file-max-size",
        type=int,
        default=5 << 20,
        metavar="BYTES",
        help="maximum size of a log file (default 5 MB)",
    )
    add("--log-file-max-files", type=int, default=3, metavar="N", help="rotated log files to keep (default 3)")
    add("-v", "--version", action=_ShowVersion, nargs=0, help="show the version")
    add("--json-version", action="version", version=JSON_VERSION, help="show the newest supported BMv2 JSON version")
    add("--ready-fd", type=int, metavar="FD", help="write the ready line to this descriptor instead of standard output")
    add_options(parser)
    return parser


class _ShowVersion(argparse.Action):
    """argparse's own action wants the version when the parser is made, and to look it up takes a tenth of our start."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(_version())
        parser.exit()


def _version() -> str:
    from importlib import metadata

    try:
        return f"p4runtime_shim {metadata.version('mrc-testbed')}"
    except metadata.PackageNotFoundError:  # run from a folder that was not installed
        return "p4runtime_shim"


__all__ = ["main"]
