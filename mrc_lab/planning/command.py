"""``mrc plan``."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from mrc_lab.cli.options import COUNTS, RATE

_EXAMPLE = """Example: mrc plan --nics 65536 --port-speed 800G --radix 512 --set optic.cost=700

Example: mrc plan --result results/trial/latest --failures failures.yaml"""
_OF_RESULTS = ("results", "failures", "settings", "as_json")


@click.command(epilog=_EXAMPLE)
@click.option("--nics", "--hosts", type=click.IntRange(1, 10**9), help="NICs to connect.")
@click.option("--port-speed", type=RATE, default="800G", show_default=True, help="Speed of a NIC, all planes together.")
@click.option(
    "--radix", type=click.IntRange(2, 1 << 16), default=512, show_default=True, help="Ports of a switch at lane speed."
)
@click.option("--lane-speed", type=RATE, default="100G", show_default=True, help="Speed of the narrowest port.")
@click.option("--optic-speed", type=RATE, help="Speed of a transceiver. [default: that of a NIC]")
@click.option("--planes", type=COUNTS, default="1,2,4,8", show_default=True, help="Numbers of planes.")
@click.option("--tiers", type=COUNTS, default="1-3", show_default=True, help="Numbers of tiers.")
@click.option("--parts", "parts_file", type=click.Path(path_type=Path), help="YAML file with power and cost of parts.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Power or cost of one part, as in switch.power=900; with --result failures, as in t1s.rate=2/month.",
)
@click.option(
    "--result",
    "results",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Result of the scale backend: how many GPU hours a month do failures cost this job? May be repeated.",
)
@click.option(
    "--failures",
    type=click.Path(path_type=Path),
    help="YAML file, for --result: how often links, T1s and NIC ports fail, and for how long.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def plan(
    context: click.Context,
    nics: int | None,
    port_speed: int,
    radix: int,
    lane_speed: int,
    optic_speed: int | None,
    planes: tuple[int, ...],
    tiers: tuple[int, ...],
    parts_file: Path | None,
    settings: tuple[str, ...],
    results: tuple[Path, ...],
    failures: Path | None,
    as_json: bool,
) -> int:
    """Estimate the hardware for a fabric of a given size, with one to three tiers and any number of planes.

    Compares switches, optics, longest path, paths of a pair, the effect of one failed part, power and cost of every
    design that can be built, and says why the others cannot. The exit status is 3 if none can be built.

    With --result it says what failures cost a job: GPU hours a month, from how often parts fail and what the job lost
    in that run.
    """
    import json

    _check_options(context, nics, results, failures)
    if results:
        return _losses(results, failures, settings, as_json)
    assert nics is not None

    from mrc_lab.errors import ExperimentError
    from mrc_lab.planning import tables
    from mrc_lab.planning.clos import MAX_TIERS, Design, Impossible, Request, design
    from mrc_lab.planning.parts import load_parts
    from mrc_lab.terminal.console import console, show

    parts = load_parts(parts_file, settings)
    request = Request(nics, port_speed, radix, lane_speed, optic_speed or port_speed)
    if not set(tiers) <= set(range(1, MAX_TIERS + 1)):
        raise ExperimentError(f"a fabric has 1 to {MAX_TIERS} tiers", "Leave --tiers out to see them all.")
    found = [design(request, tier, plane) for tier in sorted(tiers, reverse=True) for plane in sorted(planes)]
    designs = [one for one in found if isinstance(one, Design)]
    rest = [one for one in found if isinstance(one, Impossible)]
    if as_json:
        click.echo(json.dumps(tables.as_values(request, parts, designs, rest), indent=1))
    elif designs:
        to = console()
        for table in tables.show(request, parts, designs):
            show(to, table, alike=True)
            to.print()
        to.print(
            f"With {parts.switch.power:g} W and {parts.switch.cost:,.0f} {parts.currency} a switch,"
            f" {parts.optic.power:g} W and {parts.optic.cost:,.0f} {parts.currency} an optic"
            f"{'' if parts_file or settings else ' (assumed: see --parts, --set)'}."
        )
    if not as_json:
        for one in rest:
            click.echo(f"not {one.name}: {one.reason}")
    if not designs and not as_json:
        raise ExperimentError(f"no such design carries {nics:,} NICs", "Try a larger --radix, or more --planes.")
    return 0 if designs else 3


def _check_options(context: click.Context, nics: int | None, results: tuple[Path, ...], failures: Path | None) -> None:
    """UsageError for options of a design beside those of a result, or neither."""
    if results:
        for name in context.params:
            if name not in _OF_RESULTS and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(
                    f"--{name.removesuffix('_file').replace('_', '-')} has no meaning with --result."
                )
    elif failures is not None:
        raise click.UsageError("--failures needs --result: a job that lost goodput.")
    elif nics is None:
        raise click.UsageError("Give --nics for a design, or --result for what failures cost a job.")


def _losses(results: tuple[Path, ...], failures: Path | None, settings: tuple[str, ...], as_json: bool) -> int:
    """Print what failures cost the jobs of some results."""
    import json

    from mrc_lab.errors import ExperimentError
    from mrc_lab.planning import tables
    from mrc_lab.planning.failure_rates import load_rates
    from mrc_lab.planning.job_losses import month_lost, read_results
    from mrc_lab.terminal.console import console, show

    rates = load_rates(failures, settings)
    kinds = [kind for kind, _ in rates.given()]
    jobs = [job for folder in results for job in read_results(folder, kinds)]
    if len({job.gpus for job in jobs}) > 1:
        raise ExperimentError("the results are of jobs of different sizes", "Give results of one file.")
    losses = [month_lost(job, rates) for job in jobs]
    if as_json:
        click.echo(json.dumps(tables.losses_as_values(rates, losses), indent=1))
        return 0
    to = console()
    show(to, tables.losses_table(rates, losses))
    to.print()
    click.echo("A month of 30 days, one GPU a NIC, and all GPUs wait for the slowest.")
    if "rc" not in {job.transport for job in jobs}:
        click.echo("No result is of rc: add a --result of flows with transport: {type: rc} for a job without MRC.")
    return 0
