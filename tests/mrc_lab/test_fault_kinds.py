"""Every kind of fault in every form that follows from its declaration: a new one is tried here without a line more."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from controller import messages
from controller.fault_limits import EMULATION
from controller.proto import controller_v1_pb2 as pb
from mrc_common.declared.field_types import Integer
from mrc_common.declared.sections import SectionKey
from mrc_lab.commands.fault_command import kinds, parse
from mrc_lab.commands.fault_completion import next_words
from mrc_lab.errors import ExperimentError, FileError
from mrc_lab.experiments.files import schema
from mrc_lab.experiments.files.document import parse as parse_yaml
from mrc_lab.experiments.files.faults import FaultKinds
from mrc_lab.prompt.command_help import COMMANDS, describe
from simulation.fault_limits import SIMULATION
from simulation.world import SimulatedWorld
from tests.docs.blocks import DOCS
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError
from topologies.faults import KINDS, BackendKind, Fault, FaultKind, kind_named
from topologies.faults.parameters import is_flag
from topologies.faults.path_loss import PathLoss

FABRIC = multi_plane_clos("kinds", planes=2, t0=2, t1=4, hosts=4)
EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def spellings(kind: FaultKind) -> Iterator[tuple[SectionKey, ...]]:
    """The parameters of either way to say what a kind needs, with one that it does not need, in turn."""
    ways = [kind.parameters]
    if kind.spelling is not None:
        kept = tuple(p for p in kind.parameters if p.name not in kind.spelling.instead_of)
        ways.append((*kept, *kind.spelling.parameters))
    for way in ways:
        needed = tuple(parameter for parameter in way if parameter.required)
        yield needed
        yield from ((*needed, parameter) for parameter in way if not parameter.required)


def document(kind: FaultKind, way: tuple[SectionKey, ...]) -> dict[str, Any]:
    figures = {p.name: True if is_flag(p.type) else p.examples[0] for p in way}
    whole = {p.name: int(p.examples[0], 0) for p in way if isinstance(p.type, Integer)}
    return {"kind": kind.name, "at": "1us", "until": "2us", **figures, **whole}


def read(given: dict[str, Any]) -> Fault:
    planned = FaultKinds().read(parse_yaml(yaml.safe_dump(given), "x"))
    assert (planned.at, planned.until, planned.line) == (1000, 2000, 1)
    return planned.fault


def examples(kind: FaultKind) -> list[Fault]:
    return [read(document(kind, way)) for way in spellings(kind)]


@EVERY
def test_file_name_and_docstring_match_the_kind(kind: FaultKind) -> None:
    assert kind.fault.__module__ == f"topologies.faults.{kind.name}"
    assert kind.summary.endswith(".")
    assert all(parameter.doc and (parameter.examples or is_flag(parameter.type)) for parameter in kind.parameters)


@EVERY
def test_every_kind_is_read_from_a_file(kind: FaultKind) -> None:
    for fault in examples(kind):
        assert isinstance(fault, kind.fault)


@EVERY
def test_the_schema_has_the_keys_of_every_kind(kind: FaultKind) -> None:
    parts = json.loads(schema.PATH.read_text())["properties"]["faults"]["items"]["oneOf"]
    mine = [part["properties"] for part in parts if f'"{kind.name}"' in json.dumps(part["properties"]["kind"])]
    keys = {name for part in mine for name in part}
    chance = {"count", "share"} if kind.drawable else set()
    assert keys == {"kind", "name", "at", "until", *chance, *(parameter.name for parameter in kind.all_parameters)}


@EVERY
def test_every_kind_is_read_from_command_words(kind: FaultKind) -> None:
    words = kind.example.split()
    if BackendKind.EMULATION not in kind.backends:
        with pytest.raises(ExperimentError, match=f"emulation cannot make the fault {kind.name}"):
            parse(words)
        return
    assert parse(words).fault in examples(kind)
    for name in kind.names():
        assert parse([name if word == kind.word else word for word in words]).fault == parse(words).fault
    assert kind.usage in kinds()
    assert kind.usage in describe(COMMANDS["fault"])


@EVERY
def test_shell_and_prompt_complete_every_kind(kind: FaultKind) -> None:
    place = [kind.target.examples[0]] if kind.target else []
    assert (kind.word in next_words(FABRIC, place)) == (BackendKind.EMULATION in kind.backends)


@EVERY
def test_every_kind_survives_protobuf_encoding(kind: FaultKind) -> None:
    for fault in examples(kind):
        if BackendKind.EMULATION in kind.backends:
            assert messages.unpack_kind(messages.pack_kind(fault)) == fault
        else:
            with pytest.raises(FabricError, match=f"emulation cannot make the fault {kind.name}"):
                messages.pack_kind(fault)


@EVERY
def test_messages_with_values_of_the_wrong_type_are_refused(kind: FaultKind) -> None:
    for way in spellings(kind):
        for wrong in way:
            message = pb.FaultKind(kind=kind.name)
            for parameter in way:
                value = message.parameters[parameter.name]
                value.text = parameter.examples[0] if parameter.examples else ""
                if parameter is wrong:
                    value.flag = not is_flag(parameter.type)
            with pytest.raises(FabricError, match=r"must be|missing"):
                messages.unpack_kind(message)


@EVERY
def test_only_declared_backends_support_the_kind(kind: FaultKind) -> None:
    for fault in examples(kind):
        if BackendKind.SIMULATION in kind.backends:
            found = SIMULATION.effect_of(FABRIC, fault)
            assert found.down or found.tables or found.shapes or found.controller_down
        else:
            with pytest.raises(FabricError, match="simulation cannot make"):
                SIMULATION.effect_of(FABRIC, fault)
        fault = fault.scaled(times=10, rates=1)  # emulated links do not flap as fast
        if BackendKind.EMULATION in kind.backends:
            taken = EMULATION.effect_of(FABRIC, fault)
            assert taken.down or taken.tables or taken.shapes
        else:
            with pytest.raises(FabricError, match="emulation cannot make"):
                EMULATION.effect_of(FABRIC, fault)


@EVERY
def test_faults_scaled_to_almost_zero_remain_valid(kind: FaultKind) -> None:
    for fault in examples(kind):
        fault.scaled(times=1e-30, rates=1e-30).check()
        assert fault.scaled(times=1, rates=1) == fault


@EVERY
def test_the_simulation_has_a_method_for_every_kind(kind: FaultKind) -> None:
    if BackendKind.SIMULATION not in kind.backends:
        return
    fault = examples(kind)[0]
    with SimulatedWorld(FABRIC, seed=1) as world:
        assert kind.name in dir(world.faults)
        values = [getattr(fault, parameter.name) for parameter in kind.parameters]
        number = getattr(world.faults, kind.name)(*values, at=5, until=9)
        (record,) = world.faults.list()
    assert (record.id, record.fault, record.start, record.end) == (number, fault, 5, 9)


@EVERY
def test_old_names_are_accepted_with_a_note(kind: FaultKind) -> None:
    for old in kind.old:
        assert kind_named(old) is kind
        planned = FaultKinds().read(parse_yaml(yaml.safe_dump({**document(kind, kind.parameters), "kind": old}), "x"))
        assert isinstance(planned.fault, kind.fault)
        assert planned.note == f"x, line 1: {old} is called {kind.name} now"
        if BackendKind.EMULATION in kind.backends:
            order = parse([old if word == kind.word else word for word in kind.example.split()])
            assert order.note == f"{old} is called {kind.word} now"


@EVERY
def test_pages_name_every_kind(kind: FaultKind) -> None:
    kinds = section("faults.md", "Kinds")
    if BackendKind.EMULATION in kind.backends:
        row = rf"(?m)^\| `[^|]*\b{re.escape(kind.word)}\b[^|]*` \| `{kind.name}` \|(?: [^|]+ \|){{2}}$"
        assert re.search(row, kinds), f"add a row for {kind.name} to docs/faults.md (Kinds)"
    else:
        also = re.search(r"Simulation also has (.*?)\.", kinds, re.DOTALL)
        assert also, "docs/faults.md (Kinds) has a sentence 'Simulation also has ...'"
        assert f"`{kind.name}`" in also[1], f"add {kind.name} to what simulation also has in docs/faults.md (Kinds)"
    methods = section("simulation.md", "Faults").partition(". ")[0]
    assert f"`{kind.name}`" in methods, f"add {kind.name} to what world.faults has in docs/simulation.md (Faults)"
    (row,) = re.findall(r"(?m)^\| faults \| .*$", (DOCS / "experiments.md").read_text())
    assert f"`{kind.name}`" in row, f"add {kind.name} to the row of faults in docs/experiments.md"


def section(page: str, heading: str) -> str:
    return (DOCS / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_plane_and_uplink_give_the_entropy_value() -> None:
    assert read({"kind": "path_loss", "at": "1us", "until": "2us", "plane": 1, "uplink": 2}) == PathLoss(0x402)


@pytest.mark.parametrize(
    ("text", "expected_message"),
    [
        ("{kind: zzz, at: 1us}", f"'zzz' is unknown; known are {', '.join(KINDS)}"),
        ("{kind: los, at: 1us}", "'los' is unknown; did you mean loss"),
        ("{at: 1us}", "kind is missing"),
        ("{kind: loss, link: h1@p0, probability: 1%}", "at is missing: when it begins"),
        ("{kind: loss, at: 1us, link: h1@p0}", "probability is missing: probability for a frame"),
        ("{kind: loss, at: 1us, link: h1@p0, probability: 0}", "is 0, but must be above 0 % and at most 100 %"),
        (
            "{kind: loss, at: 1us, link: h1@p0, probability: 5}",
            "at most 100 %: write 5% for 5 in a hundred",
        ),
        ("{kind: loss, at: 1us, link: h1@p0, probabilty: 5%}", "unknown key; did you mean probability"),
        ("{kind: path_loss, at: 1us, plane: 1}", "uplink is missing: T0 uplink"),
        ("{kind: path_loss, at: 1us}", "ev .or plane and uplink. is missing"),
        ("{kind: path_loss, at: 1us, ev: 1, plane: 1, uplink: 2}", "ev says the same as plane: give one of them"),
        ("{kind: flap, at: 1us, link: h1@p0, period: 1ms, duty: 100%}", "less than 100 % of the time"),
    ],
)
def test_invalid_faults_in_a_file_are_reported(text: str, expected_message: str) -> None:
    with pytest.raises(FileError, match=expected_message):
        FaultKinds().read(parse_yaml(text, "x"))
