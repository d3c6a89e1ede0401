"""Patterns and typos in the names of experiment files: refused, or what they came to mean is counted as it should be.

A case takes one of the published files or examples and writes into one of its names (of hosts, links or switches, in
workloads and faults) a pattern that it has built itself, so that what it means is known by construction, or one that
nobody may take for granted, or a typo in a key. An unreadable pattern, a misspelt key, and numbers that are not there
have to be refused with a message; whatever is accepted must come to mean exactly the hosts and links that it was built
to mean, in the extent that runs, ``--check`` and reports show.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

import examples
import mrc_lab.paper
from mrc_lab.experiments.files import FileError, load_text
from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.files.model import Case, Experiment
from mrc_lab.experiments.files.schema import schema
from mrc_lab.experiments.running.extent import Extent, extent_of

HOSTS = ("hosts", "sources")
LINKS = ("link",)
ON_LINKS = ("link_down", "loss", "corruption", "rate", "delay", "flap", "reordering")
FREE = ("links", "ports", "settings", "attributes", "profile", "arguments")  # mappings whose keys are the file's own
UNREADABLE = (
    "h[12]", "h[0-", "h]", "h{1,2}", "h{1..4}", "h[a-c]", "h[!1]", "h[]", "h[4-1]", "h[1]2", "h1[0-9]", "h[01-04]",
    "{h1,h2}", "h[1,]", "h[1][2]", "t0-{0,1}:t1-0@p0", "h[1-2", "h1-4", "h1..4", "h1,h2", "H1", "h(1-4)", "h1|h2",
)  # fmt: skip

Meaning = Callable[[str], bool]


class Fuzzer:
    """Begins from the files of the published experiments and examples."""

    def __init__(self) -> None:
        folders = Path(mrc_lab.paper.__path__[0]), Path(examples.__path__[0])
        paths = [path for folder in folders for path in sorted(folder.glob("*.yaml"))]
        self._files = [(path, text) for path in paths if _loads(text := path.read_text("utf-8"), path)]
        self._keys = set(_properties(schema()))

    def case(self, chance: random.Random) -> None:
        path, text = chance.choice(self._files)
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
        if chance.randrange(4) == 0:
            self._misspell(chance, node, path)
        else:
            self._replace(chance, node, path)

    def close(self) -> None:
        pass

    def _misspell(self, chance: random.Random, node: yaml.Node, path: Path) -> None:
        keys = list(_keys_of(node))
        key = chance.choice(keys)
        before = key.value
        key.value = _typo(chance, before)
        if key.value in self._keys:
            return  # another key, by chance
        found = _read(node, path)
        assert found is None, f"{path}: {before} was written as {key.value}, and nothing was said"

    def _replace(self, chance: random.Random, node: yaml.Node, path: Path) -> None:
        """Write a pattern into a field, and compare what it came to mean."""
        places = list(_name_fields(node))
        if not places:
            return
        field, owner, values = chance.choice(places)
        pattern, meaning = _pattern(chance, field)
        values[:] = [yaml.ScalarNode("tag:yaml.org,2002:str", pattern, style='"')]
        found = _read(node, path)
        if found is None:
            return
        assert meaning is not None, f"{path}: {field}: {pattern!r} was accepted"
        seen = [_compare(case, owner, pattern, meaning) for case in found.cases]
        assert seen


def _read(node: yaml.Node, path: Path) -> Experiment | None:
    """The experiment, or None if it was refused with a message."""
    message = "accepted"
    found = None
    try:
        found = load_text(yaml.serialize(node), source=str(path), name="fuzz")
    except FileError as error:
        message = str(error)
    assert 0 < len(message) < 2000, "no message, or one that nobody reads"
    return found


def _compare(case: Case, owner: str, pattern: str, meaning: Meaning) -> bool:
    """AssertionError unless what was written is shown for what it means; whether it is in this case at all."""
    fabric = build_fabric(case.fabric)
    extent = extent_of(case, fabric)
    assert all(line.strip() for line in extent.lines())
    if owner == "fault":
        wanted = {link.name for link in fabric.links if meaning(link.name)}
        for planned, shown in zip(case.faults, extent.faults, strict=True):
            if getattr(planned.fault, "link", None) == pattern and shown.kind in ON_LINKS:
                links = set(shown.links)
                assert links == wanted or (getattr(planned.fault, "towards", None) and links < wanted), (links, wanted)
                return True
        return False
    hosts = {name for name in fabric.nic_names if meaning(name)}
    return _compare_hosts(case, extent, pattern, hosts)


def _compare_hosts(case: Case, extent: Extent, pattern: str, hosts: set[str]) -> bool:
    for tenant, shown in zip(case.tenants, extent.tenants, strict=True):
        load = tenant.workload
        if getattr(load, "sources", None) == (pattern,):
            beside = {pair.pair.split(">")[0].strip() for pair in getattr(load, "victim", ())}
            assert set(shown.senders) == hosts | beside, (shown.senders, hosts)
            return True
        if getattr(load, "hosts", None) == (pattern,) and shown.workload not in ("goal", "chakra", "own"):
            assert set(shown.senders) == hosts, (shown.senders, hosts)
            return True
    return False


def _pattern(chance: random.Random, field: str) -> tuple[str, Meaning | None]:
    """A pattern for a field, and which names it means; None if it must be refused."""
    if chance.randrange(4) == 0:
        return chance.choice(UNREADABLE), None
    if field in HOSTS:
        return _numbered(chance, "h", 12)
    kind = chance.randrange(3)
    if kind == 0:
        text, meaning = _numbered(chance, "h", 12)
        return f"{text}@p*", lambda name: "@p" in name and meaning(name.partition("@")[0])
    lower, of_lower = _numbered(chance, "t0-", 3)
    upper, of_upper = _numbered(chance, "t1-", 5)

    def means(name: str) -> bool:
        ends = name.partition("@")[0].split(":")
        return len(ends) == 2 and of_lower(ends[0]) and of_upper(ends[1])

    return (f"{upper}:{lower}@p*" if kind == 1 else f"{lower}:{upper}@p*"), means


def _numbered(chance: random.Random, prefix: str, most: int) -> tuple[str, Meaning]:
    """A pattern of names with a number behind `prefix`, which mean a random set of them."""
    if chance.randrange(5) == 0:
        return f"{prefix}*", lambda name: name.startswith(prefix)
    numbers: set[int] = set()
    parts = []
    for _ in range(chance.randint(1, 3)):
        low = chance.randint(prefix == "h", most)
        high = min(most, low + chance.randrange(6))
        numbers |= set(range(low, high + 1))
        parts.append(str(low) if low == high else f"{low}-{high}")
    if len(parts) == 1 and parts[0].isdigit():
        return f"{prefix}{parts[0]}", lambda name: name == f"{prefix}{parts[0]}"
    names = {f"{prefix}{number}" for number in numbers}
    return f"{prefix}[{','.join(parts)}]", lambda name: name in names


def _name_fields(node: yaml.Node, kind: str = "") -> Iterator[tuple[str, str, list[yaml.Node]]]:
    """Fields with names or patterns: key, ``fault`` or ``workload``, and the list that the value is put into."""
    if isinstance(node, yaml.SequenceNode):
        for part in node.value:
            yield from _name_fields(part, kind)
    if not isinstance(node, yaml.MappingNode):
        return
    for place, (key, value) in enumerate(node.value):
        name = key.value
        if kind in ("workload", "workloads") and name in HOSTS:
            yield name, "workload", _Slot(node, place)
        elif kind == "faults" and name in LINKS:
            yield name, "fault", _Slot(node, place)
        elif name in ("variants", "axis", "workload", "workloads", "faults"):
            yield from _name_fields(value, name)


class _Slot(list[yaml.Node]):
    """The value of a key: what is put into it goes to the file."""

    def __init__(self, node: yaml.MappingNode, place: int) -> None:
        super().__init__()
        self._node, self._place = node, place

    def __setitem__(self, where: object, values: object) -> None:
        key, _ = self._node.value[self._place]
        (value,) = list(values)  # type: ignore[call-overload]
        self._node.value[self._place] = (key, value)


def _keys_of(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.SequenceNode):
        for part in node.value:
            yield from _keys_of(part)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            if key.value not in FREE:
                yield from _keys_of(value)


def _typo(chance: random.Random, word: str) -> str:
    at = chance.randrange(len(word))
    kind = chance.randrange(4)
    if kind == 0:
        return word[:at] + word[at + 1 :] + ("x" if len(word) == 1 else "")
    if kind == 1:
        return word[:at] + word[at] * 2 + word[at + 1 :]
    if kind == 2:
        return word[:at] + chance.choice("aeinrstx_") + word[at:]
    return word.capitalize()


def _properties(part: object) -> Iterator[str]:
    """Every key that a schema knows."""
    if isinstance(part, dict):
        for name, inner in part.items():
            if name == "properties" and isinstance(inner, dict):
                yield from inner
            yield from _properties(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _properties(inner)


def _loads(text: str, path: Path) -> bool:
    """Whether a file is an experiment, which needs no other beside it."""
    try:
        load_text(text, source=str(path), name="fuzz")
    except FileError:
        return False
    return True
