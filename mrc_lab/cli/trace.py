"""``mrc trace``: record the event traces of a fabric that is up, and convert traces for ui.perfetto.dev."""

from __future__ import annotations

from pathlib import Path

import click

from mrc_common.units import counted
from mrc_lab.cli.fabric_argument import ONLY_ONE, fabric_name


@click.group(epilog="Example: mrc trace convert results/fig09a/latest --output fig09a.pftrace")
def trace() -> None:
    """Record event traces, and convert them to look at them in a browser."""


@trace.command(epilog="Example: mrc trace convert h1.jsonl h3.jsonl --profiler rank0.json.gz --output job.pftrace")
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="INPUT...")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="File to write.  [default: INPUT.pftrace]")
@click.option(
    "--profiler",
    "profiles",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A trace of the PyTorch profiler (JSON, also .gz), put beside by the time of day.",
)
def convert(inputs: tuple[Path, ...], output: Path | None, profiles: tuple[Path, ...]) -> None:
    """Convert to Perfetto's format, for ui.perfetto.dev.

    An INPUT is the event trace of a NIC (JSON lines), a folder of such traces, or a result folder of 'mrc run' or 'mrc
    demo'. There is a track for every queue pair, path, link and switch queue, with the steps of the job; arrows lead
    from packets over their loss to their retransmission.
    """
    from mrc_lab.reports.perfetto.convert import convert as convert_traces
    from mrc_lab.terminal.progress import progress

    first = inputs[0].absolute()
    name = first.stem if first.suffix == ".jsonl" else first.name
    with progress("reading traces") as line:
        done = convert_traces(inputs, output or Path(f"{name}.pftrace"), profiles, line.report)
    of = f" of {', '.join(done.hosts)}" if done.hosts else ""
    click.echo(f"{done.output}: {done.events} events{of}, {done.output.stat().st_size} bytes")
    click.echo("Open it at https://ui.perfetto.dev, which reads it in the browser and uploads nothing.")


@trace.command(epilog="Example: sudo mrc trace record lab --folder traces --seconds 5")
@fabric_name(ONLY_ONE)
@click.option(
    "--folder", type=click.Path(path_type=Path), default=Path("traces"), show_default=True, help="For the files."
)
@click.option("--seconds", type=click.FloatRange(0.001, 1e6), help="How long.  [default: until Ctrl-C]")
def record(name: str | None, folder: Path, seconds: float | None) -> None:
    """Record the event traces of all hosts of a fabric that is up, one file a host."""
    import threading

    from mrc_lab.fabric import event_traces
    from mrc_lab.fabric.find_fabric import find_controller
    from topologies import loader

    run = find_controller(name)
    sockets = {nic.name: str(run.host_socket(nic.name)) for nic in loader.load_file(run.fabric_file).nics}
    with event_traces.recorded(sockets, folder):
        click.echo(
            f"recording {counted(len(sockets), 'host')} to {folder}" + ("; Ctrl-C ends it" if seconds is None else "")
        )
        try:
            threading.Event().wait(seconds)
        except KeyboardInterrupt:
            click.echo()
    click.echo(f"Look at it: mrc trace convert {folder}")
