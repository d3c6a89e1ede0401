"""Header unions, and stacks of them, on the engine: random programs compared with a plain model."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from p4runtime_shim.errors import InvalidProgram
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program import load_program
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim.builder import Builder, Json, call, const, expression, field, header, send_to, wrapped

DEPTH = 3
MEMBERS = {"b": 8, "s": 16, "w": 40}  # bits of the one field of each
SINGLE, STACKS = ("u", "v"), ("x", "y")
NAMES = (*SINGLE, *(f"{stack}[{place}]" for stack in STACKS for place in range(DEPTH)))
TAGS = ("tag_u", "tag_v", *(f"tag_{place}" for place in range(DEPTH + 1)))
RESULTS = 6  # one-byte fields for what a program finds out
STACK_OUT_OF_BOUNDS = 3


def unions() -> Builder:
    """A program with two unions and two stacks of unions, and a header that says what the packet has."""
    builder = Builder()
    for member, bits in MEMBERS.items():
        builder.header_type(f"{member}_t", [("n", bits)])
    data = builder.data
    data["header_union_types"].append({"name": "U", "id": 0, "headers": [[name, f"{name}_t"] for name in MEMBERS]})
    for number, name in enumerate(NAMES):
        ids = [builder.header(f"{name}.{member}", f"{member}_t") for member in MEMBERS]
        data["header_unions"].append({"name": name, "id": number, "union_type": "U", "header_ids": ids})
    for number, stack in enumerate(STACKS):
        ids = [NAMES.index(f"{stack}[{place}]") for place in range(DEPTH)]
        item = {"name": stack, "id": number, "union_type": "U", "size": DEPTH, "header_union_ids": ids}
        data["header_union_stacks"].append(item)
    results = [f"r{number}" for number in range(RESULTS)]
    builder.header_type("k_t", [(name, 8) for name in (*TAGS, "index", *results)])
    builder.header("k", "k_t")
    return builder


def parsed(builder: Builder) -> None:
    """Parser states that extract, for each tag in turn, one member into u, into v, or into the next of x."""
    first = [{"op": "extract", "parameters": [{"type": "regular", "value": "k"}]}]
    for number, tag in enumerate(TAGS):
        following = TAGS[number + 1] if number + 1 < len(TAGS) else None
        cases = [(f"0x0{place}", None, f"{tag}_{member}") for place, member in enumerate(MEMBERS)]
        builder.state(tag, first, key=[field("k", tag)], transitions=cases, default=following)
        first = []
        for member in MEMBERS:
            kind, place = ("union_stack", ["x", member]) if number > 1 else ("regular", f"{SINGLE[number]}.{member}")
            extraction = {"op": "extract", "parameters": [{"type": kind, "value": place}]}
            builder.state(f"{tag}_{member}", [extraction], default=following)
    builder.emit("k", *(f"{name}.{member}" for name in NAMES for member in MEMBERS))


def parsing() -> str:
    """The program with its parser, as JSON."""
    builder = unions()
    parsed(builder)
    return builder.text()


class Model:
    """The unions of a packet: for each the valid member and its value."""

    def __init__(self) -> None:
        self.unions: dict[str, tuple[str, int] | None] = dict.fromkeys(NAMES)
        self.counts = dict.fromkeys(STACKS, 0)
        self.results = [0] * RESULTS
        self.index = 0

    def has(self, name: str, member: str) -> bool:
        found = self.unions[name]
        return found is not None and found[0] == member

    def copy_member(self, to: str, source: str, member: str) -> None:
        if self.has(source, member):
            self.unions[to] = self.unions[source]
        elif self.has(to, member):
            self.unions[to] = None

    def stack(self, name: str) -> list[tuple[str, int] | None]:
        return [self.unions[f"{name}[{place}]"] for place in range(DEPTH)]

    def move(self, name: str, items: list[tuple[str, int] | None], count: int) -> None:
        for place in range(DEPTH):
            self.unions[f"{name}[{place}]"] = items[place]
        self.counts[name] = min(max(count, 0), DEPTH)


Operation = tuple[Json, Callable[[Model], None]]


def union(name: str) -> Json:
    return {"type": "header_union", "value": name}


def stack(name: str) -> Json:
    return {"type": "header_union_stack", "value": name}


def element(name: str) -> Json:
    """The union of a stack at the index that the packet has."""
    return expression("dereference_union_stack", stack(name), wrapped(field("k", "index")))


def found_out(number: int, condition: Json) -> Json:
    return call("assign", field("k", f"r{number}"), wrapped(expression("b2d", None, condition)))


def random_operation(rng: random.Random) -> Operation:
    """A primitive, and what it does to the model."""
    a, b, member, name = rng.choice(NAMES), rng.choice(NAMES), rng.choice(list(MEMBERS)), rng.choice(STACKS)
    value, count, number = rng.getrandbits(8), rng.randint(0, DEPTH + 1), rng.randrange(RESULTS)

    def add(model: Model) -> None:
        if not model.has(a, member):
            model.unions[a] = (member, 0)

    def remove(model: Model) -> None:
        if model.has(a, member):
            model.unions[a] = None

    def store(model: Model) -> None:
        if model.has(a, member):
            model.unions[a] = (member, value)

    def copy(model: Model) -> None:
        model.unions[a] = model.unions[b]

    def to_element(model: Model) -> None:
        if model.index < DEPTH:
            model.unions[f"{name}[{model.index}]"] = model.unions[a]

    def from_element(model: Model) -> None:
        model.unions[a] = model.unions[f"{name}[{model.index}]"] if model.index < DEPTH else None

    def add_to_element(model: Model) -> None:
        if model.index < DEPTH and not model.has(f"{name}[{model.index}]", member):
            model.unions[f"{name}[{model.index}]"] = (member, 0)

    def push(model: Model) -> None:
        model.move(name, ([None] * count + model.stack(name))[:DEPTH], model.counts[name] + count)

    def pop(model: Model) -> None:
        model.move(name, (model.stack(name) + [None] * (DEPTH + 1))[count:][:DEPTH], model.counts[name] - count)

    def copy_stack(model: Model) -> None:
        model.move("y", model.stack("x"), model.counts["x"])

    def valid(model: Model) -> None:
        model.results[number] = model.unions[a] is not None

    def equal(model: Model) -> None:
        model.results[number] = model.unions[a] is not None and model.unions[a] == model.unions[b]

    def last(model: Model) -> None:
        place = model.counts["x"] - 1
        model.results[number] = place >= 0 and model.has(f"x[{place}]", member)

    place = list(MEMBERS).index(member)
    at = {"type": "expression", "value": expression("access_union_header", element(name), None)}
    at["value"]["value"]["right"] = place
    last_valid = {"type": "union_stack_field", "value": ["x", member, "$valid$"]}
    return rng.choice(
        [
            (call("add_header", header(f"{a}.{member}")), add),
            (call("remove_header", header(f"{a}.{member}")), remove),
            (call("assign", field(f"{a}.{member}", "n"), const(value)), store),
            (
                call("assign_header", header(f"{a}.{member}"), header(f"{b}.{member}")),
                lambda model: model.copy_member(a, b, member),
            ),
            (call("assign_union", union(a), union(b)), copy),
            (call("assign_union", element(name), union(a)), to_element),
            (call("assign_union", union(a), element(name)), from_element),
            (call("add_header", at), add_to_element),
            (call("push", stack(name), const(count)), push),
            (call("pop", stack(name), const(count)), pop),
            (call("assign_union_stack", stack("y"), stack("x")), copy_stack),
            (found_out(number, expression("valid_union", None, union(a))), valid),
            (found_out(number, expression("==", union(a), union(b))), equal),
            (found_out(number, expression("d2b", None, last_valid)), last),
        ]
    )


def received(rng: random.Random, model: Model) -> tuple[bytes, bytes, bytes]:
    """A packet's tags, what follows them, and what of that is payload; the model gets what is parsed."""
    model.index = rng.randrange(DEPTH + 1)
    tags = [rng.choice([0, 1, 2, 9]) for _ in TAGS]
    body, members = b"", list(MEMBERS.items())
    for number, tag in enumerate(tags):
        if tag == 9:
            continue
        if number > 1 and model.counts["x"] == DEPTH:
            return bytes([*tags, model.index]), body, b"rest"  # StackOutOfBounds ends the parser
        member, bits = members[tag]
        value = rng.getrandbits(bits)
        body += value.to_bytes(bits // 8, "big")
        name = SINGLE[number] if number < len(SINGLE) else f"x[{model.counts['x']}]"
        model.unions[name] = (member, value)
        model.counts["x"] += number >= len(SINGLE)
    return bytes([*tags, model.index]), body, b"rest"


def emitted(model: Model) -> bytes:
    found = [model.unions[name] for name in NAMES]
    return b"".join(item[1].to_bytes(MEMBERS[item[0]] // 8, "big") for item in found if item is not None)


@pytest.mark.parametrize("seed", range(10))
def test_random_programs_do_what_a_model_does(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    builder = unions()
    parsed(builder)
    operations = [random_operation(rng) for _ in range(rng.choice([4, 25, 40]))]
    builder.run(builder.action("work", [*(primitive for primitive, _ in operations), send_to(1)]))
    with EmbeddedSwitch(Pipeline.load(builder.text()), ports=(0, 1), seed=0) as switch:
        for _ in range(100):
            model = Model()
            tags, body, payload = received(rng, model)
            for _, apply in operations:
                apply(model)
            switch.receive(0, tags + bytes(RESULTS) + body + payload, 0)
            expected = tags + bytes(model.results) + emitted(model) + payload
            assert switch.transmit(1, 0) == expected


def test_a_full_stack_of_unions_is_out_of_bounds_and_extracts_nothing() -> None:
    builder = unions()
    parsed(builder)
    report = call("assign", field("k", "r0"), field("standard_metadata", "parser_error"))
    builder.run(builder.action("report", [report, send_to(1)]))
    with EmbeddedSwitch(Pipeline.load(builder.text()), ports=(0, 1), seed=0) as switch:
        tags = bytes([9, 9, 0, 0, 0, 0, 0])
        switch.receive(0, tags + bytes(RESULTS) + b"1234", 0)
        assert switch.transmit(1, 0) == tags + bytes([STACK_OUT_OF_BOUNDS, 0, 0, 0, 0, 0]) + b"1234"


def _other_type(builder: Builder) -> None:
    builder.data["header_unions"][0]["header_ids"].reverse()


def _no_type(builder: Builder) -> None:
    builder.data["header_unions"][0]["union_type"] = "V"


def _twice(builder: Builder) -> None:
    builder.data["header_unions"][1]["header_ids"] = builder.data["header_unions"][0]["header_ids"]


def _in_two_stacks(builder: Builder) -> None:
    stacks = builder.data["header_union_stacks"]
    stacks[1]["header_union_ids"] = stacks[0]["header_union_ids"]


def _empty_stack(builder: Builder) -> None:
    builder.data["header_union_stacks"][0]["header_union_ids"] = []


def _no_member(builder: Builder) -> None:
    builder.state("start", [{"op": "extract", "parameters": [{"type": "union_stack", "value": ["x", "q"]}]}])


def _no_stack(builder: Builder) -> None:
    builder.state("start", [{"op": "extract", "parameters": [{"type": "union_stack", "value": ["u", "b"]}]}])


def _no_union(builder: Builder) -> None:
    builder.action("a", [call("assign_union", union("u"), union("w"))])


def _no_such_place(builder: Builder) -> None:
    tree = expression("access_union_header", union("u"), None)
    tree["value"]["right"] = 3
    builder.action("a", [call("add_header", tree)])


CHANGES = [
    _other_type,
    _no_type,
    _twice,
    _in_two_stacks,
    _empty_stack,
    _no_member,
    _no_stack,
    _no_union,
    _no_such_place,
]


@pytest.mark.parametrize("change", CHANGES)
def test_unions_that_cannot_be_are_refused(change: Callable[[Builder], None]) -> None:
    builder = unions()
    load_program(builder.text())
    change(builder)
    with pytest.raises(InvalidProgram):
        load_program(builder.text())
