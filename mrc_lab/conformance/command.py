"""``mrc conform``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrc_lab.cli.options import SEEDS

if TYPE_CHECKING:
    from mrc_lab.conformance.examine import Setting
    from mrc_lab.conformance.player import RuleVerdict
    from mrc_lab.conformance.script import Script

_PATH = click.Path(path_type=Path)


@click.command(epilog="Example: sudo mrc conform --interface eth1 --interface eth2 --application ./my_nic.py")
@click.option("--interface", "interfaces", multiple=True, metavar="NAME", help="Interface of a port; one for each.")
@click.option("--agent", type=_PATH, help="Socket of the agent that is the NIC under test.")
@click.option("--application", metavar="COMMAND", help="Program that speaks for the NIC under test.")
@click.option("--config", type=_PATH, help="Configuration of the NIC that the kit plays. [default: back to back]")
@click.option("--destination", default="", metavar="NAME", help="The NIC under test, in the configuration.")
@click.option("--script", "places", multiple=True, type=_PATH, help="Play these scripts, or folders of them, instead.")
@click.option("--rule", "rules", multiple=True, metavar="RULE", help="Only scripts of this rule, as in R2.8.")
@click.option(
    "--seeds",
    type=SEEDS,
    default="1-3",
    show_default=True,
    help="Seeds of random peers: how many, or which, as in 2-5.",
)
@click.option("--results", type=_PATH, help="Folder for verdicts.json and the packets of each script as pcapng.")
@click.option("--list", "only_list", is_flag=True, help="Only list the scripts.")
def conform(
    interfaces: tuple[str, ...],
    agent: Path | None,
    application: str | None,
    config: Path | None,
    destination: str,
    places: tuple[Path, ...],
    rules: tuple[str, ...],
    seeds: tuple[int, ...],
    results: Path | None,
    only_list: bool,
) -> int:
    """Examine whether a NIC keeps the rules of MRC that can be seen from outside.

    The kit plays the peer of the NIC: scripts for one rule each, then random traffic. Without --interface, the NIC is
    one of this project in memory. The exit status is 1 when a rule is broken.
    """
    from mrc_lab.conformance import report
    from mrc_lab.conformance.collection import load_scripts
    from mrc_lab.conformance.examine import examine
    from mrc_lab.errors import ExperimentError

    scripts = _chosen(load_scripts(places), rules)
    if only_list:
        for script in scripts:
            click.echo(f"{script.rule:<6} {script.title} ({script.name})")
        return 0
    if not interfaces and (agent or application or config):
        raise ExperimentError(
            "--agent, --application and --config are for a NIC at interfaces", "Name them with --interface."
        )
    if len(set(interfaces)) < len(interfaces):
        raise ExperimentError("an interface is named twice", "Each port of the NIC has one of its own.")
    if interfaces and (agent is None) == (application is None):
        raise ExperimentError(
            "a NIC at interfaces needs an application beside it", "Give either --agent SOCKET or --application COMMAND."
        )

    verdicts: list[RuleVerdict] = []
    with _setting(interfaces, agent, application, config, destination) as setting:
        try:
            for verdict in examine(setting, scripts, () if rules else seeds):
                verdicts.append(verdict)
                click.echo(report.line(verdict))
        finally:  # what was found until the NIC, or an interface, was gone is kept
            if results is not None and verdicts:
                report.write(results, verdicts, len(setting.peer.ports))
                click.echo(f"packets: {results}")
    click.echo(report.totals(verdicts))
    return 0 if all(verdict.kept for verdict in verdicts) else 1


def _chosen(scripts: list[Script], rules: tuple[str, ...]) -> list[Script]:
    from mrc_lab.errors import ExperimentError

    known = {script.rule for script in scripts}
    for rule in rules:
        if rule not in known:
            raise ExperimentError(f"no script is for rule {rule}", "'mrc conform --list' lists them.")
    return [script for script in scripts if not rules or script.rule in rules]


@contextmanager
def _setting(
    interfaces: tuple[str, ...], agent: Path | None, application: str | None, config: Path | None, destination: str
) -> Iterator[Setting]:
    from mrc_host import verbs
    from mrc_host.agent.config_file import load_config
    from mrc_host.back_to_back import nic_config
    from mrc_lab.conformance.examine import Setting, destination_of, in_memory
    from mrc_lab.conformance.external import ExternalNic
    from mrc_lab.conformance.nic_under_test import NicUnderTest, VerbsNic
    from mrc_lab.conformance.wires import SocketWire
    from mrc_lab.errors import ExperimentError

    if not interfaces:
        with in_memory() as setting:
            yield setting
        return
    peer = nic_config(1, planes=len(interfaces)) if config is None else load_config(config)
    if len(peer.ports) != len(interfaces):
        raise ExperimentError(
            f"the configuration has {len(peer.ports)} ports, and {len(interfaces)} interfaces are named"
        )
    with ExitStack() as stack:
        wire = stack.enter_context(SocketWire(interfaces))
        nic: NicUnderTest
        if application is not None:
            nic = stack.enter_context(ExternalNic(application))
        else:
            assert agent is not None
            nic = VerbsNic(stack.enter_context(verbs.open(agent)))
        yield Setting(wire, nic, destination_of(peer, destination), peer)
