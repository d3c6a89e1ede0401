"""``mrc plan``."""

from __future__ import annotations

from pathlib import Path

import click

from mrc_lab.cli.options import COUNTS, RATE

_EXAMPLE = "Example: mrc plan --nics 65536 --port-speed 800G --radix 512 --set optic.cost=700"


@click.command(epilog=_EXAMPLE)
@click.option("--nics", "--hosts", type=click.IntRange(1, 10**9), required=True, help="NICs to connect.")
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
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Power or cost of one part, as in switch.power=900."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    nics: int,
    port_speed: int,
    radix: int,
    lane_speed: int,
    optic_speed: int | None,
    planes: tuple[int, ...],
    tiers: tuple[int, ...],
    parts_file: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> int:
    """Estimate the hardware for a fabric of a given size, with one to three tiers and any number of planes.

    Compares switches, optics, longest path, paths of a pair, the effect of one failed part, power and cost of every
    design that can be built, and says why the others cannot. The exit status is 3 if none can be built.
    """
    import json

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
