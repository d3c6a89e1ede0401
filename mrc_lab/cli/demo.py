"""``mrc demo``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mrc_lab.cli.fabric_argument import SIZES, fabric_options, fabric_to_make, made, web_option
from mrc_lab.command_table import TORCH_DEMO, load

if TYPE_CHECKING:
    from rich.console import Console

    from mrc_lab.demo.record import RunRecord
    from mrc_lab.demo.settings import DemoSettings
    from mrc_lab.fabric.emulation import EmulatedWorld
    from mrc_lab.fabric.live_view import LiveViewProcess, TrainingState
    from topologies.fabric import Fabric

TORCH_STEPS = 120
OPENED_S = 20.0  # for somebody to open the page
RECORDING = "live-view.html"


@click.command(epilog="Example: sudo mrc demo --hosts 8 --planes 4")
@fabric_to_make("demo")
@fabric_options
@web_option
@click.option(
    "--job",
    type=click.Choice(["digits", "torch"]),
    default="digits",
    show_default=True,
    help="What is trained: our own network on digits, or a GPT by PyTorch, which is an extra.",
)
@click.option(
    "--install-torch/--no-install-torch",
    default=True,
    show_default=True,
    help="With --job torch: install PyTorch first if it is missing, or end with how to.",
)
@click.option("--steps", type=int, help="Training steps per run. [default: as many as the faults need]")
@click.option("--fault-seconds", "fault_s", default=3.0, show_default=True, help="How long each link stays down.")
@click.option("--batch", default=64, show_default=True, help="Samples per step over all hosts.")
@click.option("--seed", default=1, show_default=True, help="Seed for initial weights and the order of samples.")
@click.option(
    "--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True, help="Folder for results."
)
def demo(fabric: str | None, web: bool, job: str, install_torch: bool, **options: Any) -> int:
    """Train over RoCE and over MRC while links are cut.

    Brings up a fabric, trains the same small network twice, cuts a T0-T1 link and a NIC's link in the middle of each
    run, and ends with a summary and a folder of results.
    """
    from mrc_lab.demo.settings import DemoSettings

    if job == "torch":
        _check_torch_options()
        options["steps"] = TORCH_STEPS if options["steps"] is None else options["steps"]
    elif _given("install_torch"):
        raise click.UsageError("--install-torch and --no-install-torch go with --job torch")
    wanted = made(fabric, "demo", {name: options.pop(name) for name in SIZES})
    settings = DemoSettings.with_enough_steps(
        name=wanted.name,
        hosts=len(wanted.nics),
        planes=wanted.planes,
        t0=wanted.t0_count,
        t1=wanted.t1_count,
        rate_bps=wanted.links[0].rate_bps,
        **options,
    )
    if job == "digits":
        return _train_digits(settings, wanted, web)
    return _train_gpt(settings, wanted, web, install_torch)


def _train_digits(settings: DemoSettings, fabric: Fabric, web: bool) -> int:
    from rich.console import Console

    from mrc_lab.demo.coordinator import Demo

    console = Console()
    pages: list[LiveViewProcess] = []

    def onlooker(record: RunRecord) -> None:
        for page in pages:
            page.training(record.transport, _training_state(record))

    return Demo(settings, console, partial(_world, settings, console, web, pages), fabric, onlooker).run()


def _training_state(record: RunRecord) -> TrainingState:
    """The last step that all ranks of a run have completed, for the live view."""
    from mrc_lab.fabric.live_view import TrainingState

    complete = [step for step, reports in record.steps.items() if len(reports) == len(record.hosts)]
    reports = record.steps[max(complete)].values()
    took_ns = max(report.end_ns for report in reports) - min(report.begin_ns for report in reports)
    loss = sum(report.loss for report in reports) / len(reports)
    return TrainingState(record.completed_steps, record.planned_steps, round(loss, 5), round(took_ns / 1e6, 1))


@contextmanager
def _world(
    settings: DemoSettings, console: Console, web: bool, pages: list[LiveViewProcess], fabric: Fabric, results: Path
) -> Iterator[EmulatedWorld]:
    """The fabric; with `web` also its page, added to `pages` and recorded, and a browser has had time to open it."""
    from mrc_lab.fabric.emulation import running
    from mrc_lab.fabric.live_view import web_beside

    with running(fabric, switch=settings.switch, wire=settings.wire) as world, ExitStack() as undo:
        if web:
            page = undo.enter_context(web_beside(fabric.name, recording=results / RECORDING))
            pages.append(page)
            console.print(f"Open the live view in a browser. The demo waits {OPENED_S:.0f} s for it:", highlight=False)
            console.print(page.address, highlight=False, soft_wrap=True)
            page.wait_until_opened(OPENED_S)
        yield world


def _train_gpt(settings: DemoSettings, fabric: Fabric, web: bool, install: bool) -> int:
    from rich.console import Console

    console = Console()
    run_demo = load(TORCH_DEMO)
    return int(run_demo(settings, fabric, console, partial(_world, settings, console, web, []), install=install))


def _check_torch_options() -> None:
    """UsageError for options of the other job."""
    for option in ("batch", "seed"):
        if _given(option):
            raise click.UsageError(f"--{option} does not apply to --job torch: examples/gpt.py has its own")


def _given(option: str) -> bool:
    """Whether an option stands on the command line."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE
