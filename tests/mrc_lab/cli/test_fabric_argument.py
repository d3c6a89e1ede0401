"""The fabric that a command is about, and what is printed about one that came up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from mrc_lab.cli import fabric_argument
from mrc_lab.cli.fault import _fabric_before
from mrc_lab.cli.main import group
from mrc_lab.cli.shell import _up_already
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric import find_fabric
from tests.soak_kill.__main__ import main as soak
from topologies.clos import multi_plane_clos
from topologies.emulation.run_directory import FabricState, RunDirectory
from topologies.errors import FabricError


def test_a_rate_beyond_the_machines_capacity_causes_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrc_lab.fabric.link_rate.carried_rate", lambda hosts, planes: 25_000_000)
    assert fabric_argument.link_rate(None, 4, 2) == 25_000_000
    assert fabric_argument.link_rate(20_000_000, 4, 2) == 20_000_000
    assert capsys.readouterr().err == ""
    assert fabric_argument.link_rate(400_000_000_000, 4, 2) == 400_000_000_000
    assert "Warning: this machine carries about 25 Mb/s per link with 4 hosts" in capsys.readouterr().err


def test_messages_use_singular_and_plural_correctly() -> None:
    one = multi_plane_clos("lab", planes=1, t0=1, t1=2, hosts=1, rate_bps=40_000_000)
    text = "fabric lab: 1 plane, 3 switches, 1 host, 40 Mb/s per link, up and verified in 1.50 s"
    assert fabric_argument.came_up(one, 1.5) == text
    assert ": 2 planes," in fabric_argument.came_up(multi_plane_clos(planes=2), 1.0)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "other.yaml"
    path.write_text("{name: lab, planes: 3, t0: 1, t1: 2, hosts: 2, rate: 7M}")
    return str(path)


@click.command()
@fabric_argument.fabric_to_make("demo")
@fabric_argument.fabric_options
def making(fabric: str | None, switch: str, wire: str, **sizes: Any) -> None:
    wanted = fabric_argument.made(fabric, "demo", sizes)
    click.echo(f"{wanted.name} {wanted.planes} {len(wanted.nics)}")


@click.command()
@fabric_argument.fabric_name("none")
def using(name: str | None) -> None:
    click.echo(name)


def printed(command: click.Command, *words: str) -> str:
    return CliRunner().invoke(command, words, catch_exceptions=False).output


def test_arguments_ending_in_yaml_are_files_and_others_names(file: str) -> None:
    for way in ([file], ["--fabric", file], ["--name", file]):
        assert printed(making, *way) == "lab 3 2\n"
        assert printed(using, *way) == "lab\n"
    for way in (["some"], ["--fabric", "some"], ["--name", "some"]):
        assert printed(making, *way, "--planes", "1") == "some 1 4\n"
        assert printed(using, *way) == "some\n"
    assert printed(making) == "demo 2 4\n"


@pytest.mark.parametrize("words", [[""], ["--fabric", ""], ["lab", "--name", ""]])
def test_an_empty_name_does_not_select_the_only_running_fabric(words: list[str]) -> None:
    for command in (making, using):
        assert "the fabric's name is empty: say which, or leave it out" in printed(command, *words)


def test_a_fabric_may_be_given_twice_but_not_two_fabrics(file: str) -> None:
    assert printed(using, "lab", "--fabric", "lab") == "lab\n"
    assert printed(using, file, "--fabric", "lab") == "lab\n"
    assert "two fabrics are named, lab and two: give one" in printed(using, "lab", "--fabric", "two")
    assert "two fabrics are named" in printed(making, file, "--fabric", "lab"), "one of them says its sizes"


def commands(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below one, with the words that call it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from commands(inner, *path, name)


NEEDED = {
    "exec": ["h1"],
    "fault add": ["h1@p0", "down"],
    "fault clear": ["all"],
    "run": ["x.yaml"],
    "train": [__file__],
}
OF_A_FABRIC = {
    " ".join(path): command
    for path, command in [*commands(group), (("soak",), soak)]
    if any("--fabric" in option.opts for option in command.params)
}


@pytest.mark.parametrize("name", OF_A_FABRIC)
def test_every_command_refuses_two_fabrics(name: str) -> None:
    command, needed = OF_A_FABRIC[name], NEEDED.get(name, [])
    lines = [
        ["--fabric", "a!", "--name", "b!"],
        ["--fabric=a!", "--fabric=b!"],
        ["--name=a!", "--name=b!", "--name=a!"],
    ]
    if any(parameter.name == "by_argument" for parameter in command.params):
        lines.append(["a!", "--fabric", "b!"])
    for words in lines:  # of fabrics that no command can make or find
        result = CliRunner().invoke(command, [*words, *needed])
        assert result.output.endswith("Error: two fabrics are named, a! and b!: give one\n"), words
        assert result.exit_code == 2


def test_the_list_of_fabric_commands_is_complete() -> None:
    assert {"up", "down", "shell", "demo", "clean", "map", "run", "soak", "fault list", "fault add"} <= set(OF_A_FABRIC)


@pytest.mark.parametrize(
    "words", [["lab", "--name", "lab"], ["--fabric", "lab", "--name", "lab"], ["--fabric", "FILE", "--name", "lab"]]
)
def test_the_same_fabric_can_be_given_in_several_ways(file: str, words: list[str]) -> None:
    assert printed(using, *(file if word == "FILE" else word for word in words)) == "lab\n"


def test_sizes_cannot_be_given_with_a_file(file: str) -> None:
    assert "--planes does not apply to a fabric file" in printed(making, file, "--planes", "1")
    assert printed(making, file, "--switch", "bmv2") == "lab 3 2\n"


def test_missing_and_invalid_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(FabricError, match=r"nowhere\.yaml: cannot be read"):
        printed(using, "nowhere.yaml")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("planes: many")
    for command in (making, using):
        with pytest.raises(FabricError, match=r"wrong\.yaml, line 1: "):
            printed(command, str(wrong))


@pytest.fixture
def up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the fabrics that are up."""
    names: list[str] = []

    def find(name: str | None) -> SimpleNamespace:
        if name in names or (name is None and len(names) == 1):
            return SimpleNamespace(name=name or names[0])
        raise ExperimentError(f"not one: {name}")

    monkeypatch.setattr(find_fabric, "find_fabric", find)
    monkeypatch.setattr(find_fabric, "in_state", lambda state: tuple(names))
    monkeypatch.setattr(RunDirectory, "state", lambda self: FabricState.UP if self.name in names else FabricState.DOWN)
    monkeypatch.setattr(find_fabric, "existing", lambda root: tuple(names))
    return names


@pytest.mark.parametrize(
    ("there", "words", "attached"),
    [
        ([], [], None),
        (["lab"], [], "lab"),
        (["lab"], ["--planes", "1"], None),
        (["lab", "two"], [], ExperimentError),
        (["lab", "two"], ["--hosts", "2"], None),
        (["lab", "two"], ["two"], "two"),
        (["lab"], ["--fabric", "lab"], "lab"),
        (["lab"], ["lab", "--switch", "bmv2"], click.UsageError),
        (["lab"], ["lab", "--wire", "ring"], click.UsageError),
        (["lab"], ["--wire", "ring"], None),
        ([], ["FILE", "--wire", "ring"], None),
        (["lab"], ["new"], ExperimentError),
        (["lab"], ["new", "--planes", "1"], None),
        ([], ["FILE"], None),
        (["lab"], ["FILE"], "lab"),
        (["lab"], ["FILE", "--rate", "1M"], click.UsageError),
    ],
)
def test_the_prompt_joins_a_running_fabric_or_brings_one_up(
    up: list[str], file: str, there: list[str], words: list[str], attached: Any
) -> None:
    up += there
    found: list[str | None] = []

    @click.command()
    @fabric_argument.fabric_to_make("")
    @fabric_argument.fabric_options
    def command(fabric: str | None, **_: Any) -> None:
        found.append(_up_already(fabric))

    arguments = [file if word == "FILE" else word for word in words]
    if isinstance(attached, type):
        with pytest.raises(attached):
            command.main(arguments, standalone_mode=False)
    else:
        command.main(arguments, standalone_mode=False)
        assert found == [attached]


@pytest.mark.parametrize(
    ("words", "fabric", "rest"),
    [
        ("lab h1@p0 down", "lab", "h1@p0 down"),
        ("h1@p0 down", None, "h1@p0 down"),
        ("h1 port_down 0", None, "h1 port_down 0"),
        ("h1 h1 port_down 0", "h1", "h1 port_down 0"),
        ("path 0x402", None, "path 0x402"),
        ("lab path 0x402", "lab", "path 0x402"),
        ("f1", None, "f1"),
        ("lab f1 f2", "lab", "f1 f2"),
        ("all", None, "all"),
        ("lab all", "lab", "all"),
    ],
)
def test_the_fabric_of_a_fault_may_come_first(
    up: list[str], file: str, words: str, fabric: str | None, rest: str
) -> None:
    up += ["lab", "h1", "path", "all"]
    assert _fabric_before([file, *rest.split()], "lab") == ("lab", tuple(rest.split()))
    assert _fabric_before(words.split(), None) == (fabric, tuple(rest.split()))
    assert _fabric_before(words.split(), fabric) == (fabric, tuple(rest.split()))
    if fabric:
        with pytest.raises(click.UsageError, match=f"two fabrics are named, {fabric} and other"):
            _fabric_before(words.split(), "other")
