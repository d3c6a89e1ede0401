"""Random v1model programs for the engine's fuzzer: every primitive, headers that grow, loops, copies of all kinds.

Frames choose what happens: the first byte of a frame is the key of a table in either pipeline, whose entry runs one of
the random actions.
"""

from __future__ import annotations

import random

from tests.p4runtime_shim.builder import (
    Builder,
    Json,
    call,
    const,
    expression,
    extract,
    field,
    header,
    send_to,
    wrapped,
)

ACTIONS = 8  # of either pipeline
PORTS = 6
FIELDS = (
    ("c", "op", 8),
    ("c", "arg", 8),
    ("c", "value", 16),
    ("big", "all", 2048),
    ("odd", "a", 3),
    ("odd", "b", 13),
    ("odd", "c", 129),
    ("odd", "d", 7),
    ("m", "small", 9),
    ("m", "signed", 32),
    ("m", "word", 64),
    ("m", "double", 128),
    ("m", "wide", 300),
)
UNIONS = ("un", "us[0]", "us[1]")
MEMBERS = ("c", "odd", "opt")  # of a union: header types, by name
VARBITS = ("opt", "opt2", *(f"{union}.opt" for union in UNIONS))
HEADERS = ("c", "big", "odd", "st[0]", "st[1]", "st[2]", "opt", "opt2", *(f"{u}.{m}" for u in UNIONS for m in MEMBERS))
OPERATORS = ("+", "-", "*", "&", "|", "^", "/", "%", ">>")


class RandomProgram:
    """One program; `text` is its BMv2 JSON."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.builder = Builder()
        self._headers()
        self._state()
        self._parser()
        for pipeline in ("ingress", "egress"):
            actions = [self._action(f"{pipeline}_{number}", pipeline) for number in range(ACTIONS)]
            if pipeline == "ingress":
                self.builder.run(self.builder.action("forward", [send_to(chance.randrange(PORTS))]))
            self.builder.table(
                f"{pipeline}_t",
                [("exact", field("c", "op"))],
                actions,
                pipeline=pipeline,
                counters=True,
                support_timeout=chance.random() < 0.5,
            )
            if chance.random() < 0.3:
                self.builder.run(chance.choice(actions), pipeline=pipeline)
        self.text = self.builder.text()

    def _headers(self) -> None:
        b = self.builder
        for name in ("c", "big", "odd"):
            b.header_type(f"{name}_t", [(f, bits) for h, f, bits in FIELDS if h == name])
        b.header_type("m_t", [(f, bits, f == "signed") for h, f, bits in FIELDS if h == "m"])
        b.header_type("st_t", [("more", 8), ("label", 24)])
        for name in ("c", "big", "odd"):
            b.header(name, f"{name}_t")
        b.header("m", "m_t", metadata=True)
        b.stack("st", "st_t", 3)
        b.header_type("opt_t", [("n", 8), ("tail", 8)])
        b.data["header_types"][-1] |= {"fields": [["n", 8], ["v", "*"], ["tail", 8]], "max_length": 42}
        b.header("opt", "opt_t")
        b.header("opt2", "opt_t")
        kinds = [[name, f"{name}_t"] for name in MEMBERS]
        b.data["header_union_types"].append({"name": "un_t", "id": 0, "headers": kinds})
        for number, union in enumerate(UNIONS):
            ids = [b.header(f"{union}.{name}", kind) for name, kind in kinds]
            b.data["header_unions"].append({"name": union, "id": number, "union_type": "un_t", "header_ids": ids})
        item = {"name": "us", "id": 0, "union_type": "un_t", "size": 2, "header_union_ids": [1, 2]}
        b.data["header_union_stacks"].append(item)
        order = list(HEADERS)
        self.chance.shuffle(order)
        b.emit(*order)

    def _state(self) -> None:
        data = self.builder.data
        inputs = [{"type": "field", "value": [h, f]} for h, f, _ in self.chance.sample(FIELDS, 4)]
        inputs.append({"type": "field", "value": [self.chance.choice(VARBITS), "v"]})
        many = [{"type": "field", "value": ["big", "all"]}] * 24  # 6 KB before the payload
        for number, (algorithm, items) in enumerate(
            (("crc32", inputs), ("csum16", [*inputs, {"type": "payload"}]), ("crc16", [*many, {"type": "payload"}]))
        ):
            data["calculations"].append({"name": f"calc{number}", "id": number, "algo": algorithm, "input": items})
        data["counter_arrays"].append({"name": "count", "id": 0, "is_direct": False, "size": 4})
        data["register_arrays"].append(
            {"name": "cells", "id": 0, "size": 4, "bitwidth": self.chance.choice([8, 48, 200])}
        )
        meter = {"name": "meter", "id": 0, "is_direct": False, "size": 4, "rate_count": 2}
        data["meter_arrays"].append({**meter, "type": self.chance.choice(["bytes", "packets"])})
        fields = [{"type": "field", "value": ["m", "word"]}, {"type": "field", "value": ["m", "wide"]}]
        data["field_lists"].append({"id": 1, "name": "kept", "elements": fields})
        data["learn_lists"].append({"id": 1, "name": "digest", "elements": fields})
        if self.chance.random() < 0.3:
            checksum = {"name": "sum", "id": 0, "type": "generic", "target": ["c", "value"], "calculation": "calc1"}
            data["checksums"].append({**checksum, "verify": True, "update": True, "if_cond": None})

    def _parser(self) -> None:
        b = self.builder
        routes = [(hex(value), None, name) for value, name in enumerate(("big", "odd", "stack", "skip", "opt"), 1)]
        b.state("start", [extract("c")], key=[field("c", "op")], transitions=routes)
        b.data["parse_vsets"].append({"name": "set", "id": 0, "compressed_bitwidth": 16, "max_size": 100})
        by_set = {"type": "parse_vset", "value": "set", "mask": None, "next_state": "united"}
        length = {"type": "expression", "value": expression("*", field("c", "arg"), const(self.chance.choice([1, 8])))}
        kind, place = ("regular", "opt") if self.chance.random() < 0.5 else ("union_stack", ["us", "opt"])
        varying = {"op": "extract_VL", "parameters": [{"type": kind, "value": place}, length]}
        b.state("opt", [varying], key=[field("c", "op"), field("c", "arg")])
        b.data["parsers"][0]["parse_states"][-1]["transitions"].insert(0, by_set)
        united = [{"op": "extract", "parameters": [{"type": "union_stack", "value": ["us", "odd"]}]}, extract("un.c")]
        b.state("united", united, default=self.chance.choice([None, "united", "odd"]))
        b.state("big", [extract("big")], default=self.chance.choice([None, "odd", "stack"]))
        b.state("odd", [extract("odd")])
        more = {"type": "stack_field", "value": ["st", "more"]}
        again = [(hex(1), None, "stack")]
        next_one = {"op": "extract", "parameters": [{"type": "stack", "value": "st"}]}
        b.state("stack", [next_one], key=[more], transitions=again)
        bits = {"op": "advance", "parameters": [expression("*", field("c", "arg"), const(8))]}
        b.state("skip", [bits], default=self.chance.choice([None, "skip"]))

    # --- actions ---

    def _action(self, name: str, pipeline: str) -> int:
        primitives = [self._primitive(pipeline) for _ in range(self.chance.randrange(1, 6))]
        if self.chance.random() < 0.1:
            at = self.chance.randrange(len(primitives) + 1)
            jump = {"op": "_jump", "parameters": [const(at)]}
            if self.chance.random() < 0.5:
                jump = {"op": "_jump_if_zero", "parameters": [self._number(1), const(at)]}
            primitives.append(jump)
        return self.builder.action(name, primitives)

    def _number(self, depth: int) -> Json:
        if depth and self.chance.random() < 0.6:
            operator = self.chance.choice(OPERATORS)
            return expression(operator, self._number(depth - 1), self._number(depth - 1))
        if self.chance.random() < 0.4:
            return const(self.chance.choice([0, 1, 2, 255, 511, 2**31, 2**64 - 1, 2**130]))
        return field(*self.chance.choice(FIELDS)[:2])

    def _primitive(self, pipeline: str) -> Json:
        chance = self.chance
        target = field(*chance.choice(FIELDS)[:2])
        index = self._number(0)
        stack = {"type": "header_stack", "value": "st"}
        unions = [{"type": "header_union", "value": chance.choice(UNIONS)} for _ in range(2)]
        union_stack = {"type": "header_union_stack", "value": "us"}
        element = expression("dereference_union_stack", union_stack, index)
        varbits = [field(chance.choice(VARBITS), "v") for _ in range(2)]
        calculation = {"type": "calculation", "value": f"calc{chance.randrange(3)}"}
        both = [
            call("assign", target, self._number(2)),
            call("add_header", header(chance.choice(HEADERS))),
            call("add_header", header("big")),
            call("remove_header", header(chance.choice(HEADERS))),
            call("push", stack, const(chance.randrange(5))),
            call("pop", stack, index),
            call("assign_header", header("st[0]"), header("st[1]")),
            call("assign_VL", *varbits),
            call("assign", target, wrapped(expression("b2d", None, expression("==", *varbits)))),
            call("assign_header", header("opt"), header("opt2")),
            call("assign_union", *unions),
            call("assign_union", element, unions[0]),
            call("assign_union", unions[0], element),
            call("push", union_stack, const(chance.randrange(4))),
            call("pop", union_stack, index),
            call("truncate", chance.choice([index, const(chance.randrange(100))])),
            call("count", {"type": "counter_array", "value": "count"}, index),
            call("execute_meter", {"type": "meter_array", "value": "meter"}, index, field("m", "small")),
            call("register_write", {"type": "register_array", "value": "cells"}, index, self._number(1)),
            call("register_read", target, {"type": "register_array", "value": "cells"}, index),
            call("modify_field_rng_uniform", target, const(0), self._number(0)),
            call("modify_field_with_hash_based_offset", target, const(0), calculation, const(1 << 16)),
            call("log_msg", {"type": "string", "value": "{} of {}"}, {"type": "parameters_vector", "value": [index]}),
            call("mark_to_drop", header("standard_metadata")),
            call("exit"),
            call("assert", expression("d2b", None, index)),
        ]
        mine = [
            call("clone_ingress_pkt_to_egress", const(chance.randrange(4)), const(1)),
            call("resubmit", const(chance.randrange(2))),
            call("assign", field("standard_metadata", "mcast_grp"), const(chance.randrange(4))),
            call("generate_digest", const(1), const(1)),
            send_to(chance.choice([0, 1, 2, 3, 5, 77, 511])),
        ]
        if pipeline == "egress":
            recirculate = call("recirculate", const(1))
            mine = [call("clone_egress_pkt_to_egress", const(chance.randrange(4)), const(1)), recirculate, recirculate]
        return chance.choice(both if chance.random() < 0.6 else mine)
