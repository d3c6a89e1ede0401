"""The functions and objects of core.p4 and v1model.p4 that a program calls, as BMv2's primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from p4compiler import ir, tree
from p4compiler.check.result import Bound, ResolvedCall
from p4compiler.diagnostics import Refusal, counted, shown
from p4compiler.elaborate import operations
from p4compiler.elaborate.assignments import assign, copied, frozen
from p4compiler.elaborate.bits import bit_pieces, look
from p4compiler.elaborate.elaborator import Elaborator
from p4compiler.elaborate.expressions import evaluate, known_number, locate, may_change, scalar
from p4compiler.elaborate.values import (
    SCALARS,
    ExternInstance,
    HeaderValue,
    ListValue,
    Location,
    PacketValue,
    SliceTarget,
    StackValue,
    StructValue,
    UnionValue,
    Value,
    enum_name,
    scalars,
)
from p4compiler.sources import SourceSpan
from p4compiler.types import (
    INTEGER,
    BitsType,
    RecordType,
    Type,
    VarbitType,
    base_of,
    is_scalar,
    is_signed,
    number_type,
    substitute,
    width_of,
)

DROP_PORT = 511
_INDEX = BitsType(32)


class Arguments:
    """The arguments of a call, by the names of their parameters; evaluated from left to right when asked."""

    def __init__(self, e: Elaborator, node: tree.CallExpression, call: ResolvedCall) -> None:
        self.e = e
        self.span = node.span
        self._nodes = {parameter.name: item for parameter, item in call.arguments}
        self._types = {
            parameter.name: substitute(substitute(e.checked.declared[parameter], call.bindings), e.frame.types)
            for parameter, _ in call.arguments
        }
        self._values: dict[str, Value] = {}
        self._targets: dict[str, Location] = {}
        self.bound_types = {item.name: substitute(kind, e.frame.types) for item, kind in call.bindings.items()}
        self._evaluate(call.as_written(node.arguments))

    def _evaluate(self, arguments: Sequence[Bound]) -> None:
        """Evaluate what is read, and the places that are written, as they are before a later argument changes them."""
        for position, (parameter, node) in enumerate(arguments):
            if node is None:
                continue
            changes = any(item is not None and may_change(self.e, item) for _, item in arguments[position + 1 :])
            if parameter.direction in ("out", "inout"):
                place = locate(self.e, node)
                self._targets[parameter.name] = frozen(self.e, place, node.span) if changes else place
            else:
                value = evaluate(self.e, node)
                self._values[parameter.name] = copied(self.e, value, node.span) if changes else value

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def value(self, name: str) -> Value:
        """The value of an argument."""
        return self._values[name]

    def scalar(self, name: str) -> ir.Scalar:
        """A number or boolean; a number without a width gets that of the parameter, or 32 bits."""
        value = self._values[name]
        node = self._nodes[name]
        if not isinstance(value, SCALARS):
            assert node is not None
            value = scalar(self.e, node)
        want = self._types[name]
        if value.type == INTEGER:
            return operations.convert(value, want if number_type(want) else _INDEX)
        return value

    def number(self, name: str) -> int:
        """A number that is known."""
        node = self._nodes[name]
        assert node is not None
        return known_number(self.e, node)

    def choice(self, name: str) -> str:
        """The name of an enum's value."""
        value = self._values[name]
        if not isinstance(value, ir.ConstantValue):
            raise Refusal(f"argument {name!r} is not known at compile time", self.span)
        return enum_name(value)

    def target(self, name: str) -> Location:
        """The place of an argument that is written."""
        if name not in self._targets:
            made = self.e.variable(self._types[name], name, self.span)
            assert isinstance(made, ir.FieldValue | HeaderValue | StructValue | StackValue | UnionValue)
            return made
        return self._targets[name]

    def written(self, name: str, use: Callable[[ir.FieldValue], None]) -> None:
        """Have a primitive write a field, which is then copied to the place of the argument if that is no field.

        So is a signed one: what BMv2 writes to it would be read as a number without sign.
        """
        target = self.target(name)
        if isinstance(target, SliceTarget):
            kind: Type = BitsType(target.high - target.low + 1)
        elif isinstance(target, ir.FieldValue):
            kind = target.type
        else:
            raise Refusal(f"writing to a structure is not supported on this target (argument {name!r})", self.span)
        if isinstance(target, ir.FieldValue) and not is_signed(kind):
            use(target)
            return
        result = self.e.variable(BitsType(width_of(kind)), name, self.span)
        assert isinstance(result, ir.FieldValue)
        use(result)
        assign(self.e, target, operations.cast(result, kind), self.span)

    def fields(self, name: str, *, spill: bool = True) -> tuple[ir.Scalar, ...]:
        """All scalars in an argument, as fields or constants; others are copied to fields, if that is possible."""
        node = self._nodes[name]
        assert node is not None
        out: list[ir.Scalar] = []
        for item in scalars(self._values[name]) if spill else bit_pieces(self.e, node):
            if isinstance(item, ir.ConstantValue):
                if item.type == INTEGER:
                    raise Refusal("a number in a list of fields needs a width, as in 16w0", self.span)
                out.append(item)
            elif isinstance(item, ir.FieldValue) and isinstance(item.header, ir.HeaderName):
                out.append(item)
            elif spill:
                out.append(self.e.saved(item, self.span))
            else:
                raise Refusal("an expression in the fields of a checksum is not supported; use a field", self.span)
        return tuple(out)


# --- functions ---


def call_function(e: Elaborator, node: tree.CallExpression, call: ResolvedCall) -> Value | None:
    """A call of an extern function; its value if it has one."""
    declaration = call.declaration
    assert isinstance(declaration, tree.Prototype)
    e.found.calls_extern_function |= e.mode != "parser"
    handler = _FUNCTIONS.get(declaration.name)
    if handler is None:
        raise Refusal(f"extern function {declaration.name!r} is not known to this target", node.span)
    return handler(e, Arguments(e, node, call))


def _emit(a: Arguments, op: str, *arguments: ir.Argument) -> None:
    a.e.emit(ir.PrimitiveStep(op, arguments, a.span))


def _warn(a: Arguments, code: str, message: str) -> None:
    a.e.diagnostics.warning(code, message, a.span)


def _mark_to_drop(e: Elaborator, a: Arguments) -> None:
    if "standard_metadata" in a:
        target = a.target("standard_metadata")
        assert isinstance(target, StructValue)
        port = target.fields["egress_spec"]
        assert isinstance(port, ir.FieldValue)
        if port.header != ir.HeaderName("standard_metadata"):  # a copy
            assign(e, port, ir.ConstantValue(DROP_PORT, port.type), a.span)
            group = target.fields["mcast_grp"]
            assign(e, group, ir.ConstantValue(0, BitsType(16)), a.span)
            return
    _emit(a, "mark_to_drop", ir.HeaderArgument(ir.HeaderName("standard_metadata")))


def _verify(e: Elaborator, a: Arguments) -> None:
    if e.mode != "parser":
        raise Refusal("verify() is for parsers", a.span)
    _emit(a, "verify", a.scalar("check"), a.scalar("toSignal"))


def _random(e: Elaborator, a: Arguments) -> None:
    low, high = a.scalar("lo"), a.scalar("hi")
    if isinstance(low, ir.ConstantValue) and isinstance(high, ir.ConstantValue) and low.value > high.value:
        _warn(a, "undefined", f"no number is from {shown(low.value)} to {shown(high.value)}: the result is undefined")
    a.written("result", lambda field: _emit(a, "modify_field_rng_uniform", field, low, high))


def _hash(e: Elaborator, a: Arguments) -> None:
    base, top = a.scalar("base"), a.scalar("max")
    if isinstance(top, ir.ConstantValue) and top.value == 0:
        _warn(a, "no-effect", "the result is always the base, since 'max' (how many values it may have) is 0")
    calculation = ir.CalculationArgument(a.choice("algo"), a.fields("data"))
    op = "modify_field_with_hash_based_offset"
    a.written("result", lambda field: _emit(a, op, field, base, calculation, top))


def _digest(e: Elaborator, a: Arguments) -> None:
    """A message of the fields as they are now; the calls for one struct share fields, since it has one digest."""
    if e.pipeline == "egress":
        _warn(a, "no-effect", "digest() has no effect in egress")
    values = scalars(a.value("data"))
    name = _digest_name(e, a)
    if name not in e.found.digests:
        fields = [e.variable(item.type, "digest", a.span) for item in values]
        e.found.digests[name] = a.bound_types["T"], tuple(fields)
    for field, value in zip(e.found.digests[name][1], values, strict=True):
        assign(e, field, value, a.span)
    _emit(a, "generate_digest", a.scalar("receiver"), ir.DigestArgument(name))


def _digest_name(e: Elaborator, a: Arguments) -> str:
    kind = a.bound_types["T"]
    if not isinstance(kind, RecordType):
        return e.found.unnamed_digests.setdefault(a.span, f"digest_{len(e.found.unnamed_digests)}")
    name, number = kind.name, 0
    while e.found.digests.get(name, (kind,))[0] != kind:  # another instance of a generic struct
        name, number = f"{kind.name}_{number}", number + 1
    return name


def _clone(e: Elaborator, a: Arguments) -> None:
    _emit(a, _clone_op(e, a), a.scalar("session"), _field_list(e, a) if "index" in a else ir.FieldListArgument(None))


def _clone_op(e: Elaborator, a: Arguments) -> str:
    kind = a.choice("type")
    pipeline = {"I2E": "ingress", "E2E": "egress"}[kind]
    _only_in(e, a, pipeline, f"a clone of type {kind} is")
    return f"clone_{pipeline}_pkt_to_egress"


def _only_in(e: Elaborator, a: Arguments, pipeline: str, what: str) -> None:
    if e.pipeline != pipeline:
        raise Refusal(f"{what} only possible in {pipeline}", a.span)


def _field_list(e: Elaborator, a: Arguments) -> ir.FieldListArgument:
    number = a.number("index")
    if number != 0 and number not in e.found.field_lists:  # 0 is what programs call the list that has no fields
        _warn(a, "no-effect", f"no metadata is kept: no field of the user metadata has @field_list({number})")
    return ir.FieldListArgument(number)


def _preserving(op: str, pipeline: str) -> Callable[[Elaborator, Arguments], None]:
    def handler(e: Elaborator, a: Arguments) -> None:
        _only_in(e, a, pipeline, f"{op}_preserving_field_list() is")
        _emit(a, op, _field_list(e, a))

    return handler


def _with_data(op: str) -> Callable[[Elaborator, Arguments], None]:
    def handler(e: Elaborator, a: Arguments) -> None:
        if list(scalars(a.value("data"))):
            raise Refusal(f"{op}() with fields is not supported; use the function with a field list", a.span)
        if op == "clone3":
            _emit(a, _clone_op(e, a), a.scalar("session"), ir.FieldListArgument(None))
        else:
            _only_in(e, a, "ingress" if op == "resubmit" else "egress", f"{op}() is")
            _emit(a, op, ir.FieldListArgument(None))

    return handler


def _log_msg(e: Elaborator, a: Arguments) -> None:
    message = a.value("msg")
    if not isinstance(message, ir.TextArgument):
        raise Refusal("the message is not known at compile time", a.span)
    values = tuple(scalars(a.value("data"))) if "data" in a else ()
    _emit(a, "log_msg", message, ir.ValuesArgument(values))


def _checksum(verifies: bool, with_payload: bool) -> Callable[[Elaborator, Arguments], None]:
    def handler(e: Elaborator, a: Arguments) -> None:
        if e.mode != "checksum":
            raise Refusal("checksums are verified and updated in the controls for them", a.span)
        calculation = ir.CalculationArgument(a.choice("algo"), a.fields("data", spill=False), with_payload)
        target = a.value("checksum") if verifies else a.target("checksum")
        if not isinstance(target, ir.FieldValue):
            raise Refusal("the checksum must be a field", a.span)
        e.emit(ir.ChecksumStep(verifies, a.scalar("condition"), calculation, target, a.span))

    return handler


def _static_assert(e: Elaborator, a: Arguments) -> Value:
    if a.scalar("check") != operations.TRUE:
        message = a.value("message") if "message" in a else None
        text = f": {message.value}" if isinstance(message, ir.TextArgument) else ""
        raise Refusal(f"static_assert failed{text}", a.span)
    return operations.TRUE


_FUNCTIONS: dict[str, Callable[[Elaborator, Arguments], Value | None]] = {
    "mark_to_drop": _mark_to_drop,
    "verify": _verify,
    "random": _random,
    "hash": _hash,
    "digest": _digest,
    "clone": _clone,
    "clone_preserving_field_list": _clone,
    "clone3": _with_data("clone3"),
    "resubmit": _with_data("resubmit"),
    "recirculate": _with_data("recirculate"),
    "resubmit_preserving_field_list": _preserving("resubmit", "ingress"),
    "recirculate_preserving_field_list": _preserving("recirculate", "egress"),
    "truncate": lambda e, a: _emit(a, "truncate", a.scalar("length")),
    "assert": lambda e, a: _emit(a, "assert", a.scalar("check")),
    "assume": lambda e, a: _emit(a, "assume", a.scalar("check")),
    "log_msg": _log_msg,
    "verify_checksum": _checksum(True, False),
    "update_checksum": _checksum(False, False),
    "verify_checksum_with_payload": _checksum(True, True),
    "update_checksum_with_payload": _checksum(False, True),
    "static_assert": _static_assert,
}


# --- methods ---


def call_method(e: Elaborator, owner: Value, node: tree.CallExpression, call: ResolvedCall) -> Value | None:
    """A call of a method of a packet or an extern object; its value if it has one."""
    assert isinstance(call.declaration, tree.Prototype)
    name = call.declaration.name
    arguments = Arguments(e, node, call)
    if isinstance(owner, PacketValue):
        return _PACKET[name](e, arguments)
    assert isinstance(owner, ExternInstance)
    handler = _METHODS.get((owner.kind, name))
    if handler is None:
        raise Refusal(f"extern {owner.kind!r} is not known to this target", node.span)
    handler(e, owner, arguments)
    return None


def _extract(e: Elaborator, a: Arguments) -> None:
    if "hdr" in a:
        header = a.target("hdr")
        size: tuple[ir.Scalar, ...] = ()
    else:
        header = a.target("variableSizeHeader")
        size = (a.scalar("variableFieldSizeInBits"),)
    if not isinstance(header, HeaderValue):
        raise Refusal("only headers can be extracted", a.span)
    _refuse_part_of_byte(header, a.span)
    op = "extract_VL" if size else "extract"
    _emit(a, op, ir.HeaderArgument(header.ref), *size)


def _refuse_part_of_byte(header: HeaderValue, span: SourceSpan) -> None:
    bits = sum(width_of(item) for item in header.type.fields.values() if not isinstance(base_of(item), VarbitType))
    if bits % 8:
        raise Refusal(f"{header.type} has {bits} bits; this target parses and emits whole bytes", span)


def _lookahead(e: Elaborator, a: Arguments) -> Value:
    if e.mode != "parser":
        raise Refusal("lookahead() is for parsers", a.span)
    kind = a.bound_types["T"]
    made = e.variable(kind, "lookahead", a.span)
    look(e, made, kind, 0, a.span)
    return made


def _length(e: Elaborator, a: Arguments) -> Value:
    raise Refusal("packet.length() is not supported on this target; standard_metadata.packet_length is", a.span)


_PACKET: dict[str, Callable[[Elaborator, Arguments], Value | None]] = {
    "extract": _extract,
    "lookahead": _lookahead,
    "advance": lambda e, a: _emit(a, "advance", a.scalar("sizeInBits")),
    "length": _length,
    "emit": lambda e, a: _emit_headers(a, a.value("hdr")),
}


def _emit_headers(a: Arguments, value: Value) -> None:
    if isinstance(value, HeaderValue):
        _refuse_part_of_byte(value, a.span)
        _emit(a, "emit", ir.HeaderArgument(value.ref))
    elif isinstance(value, StructValue):
        for item in value.fields.values():
            _emit_headers(a, item)
    elif isinstance(value, StackValue):
        for element in value.items:
            _emit_headers(a, element)
    elif isinstance(value, UnionValue):
        for member in value.members.values():
            _emit_headers(a, member)
    elif isinstance(value, ListValue):
        for item in value.items:
            _emit_headers(a, item)
    else:
        raise Refusal("this cannot be emitted", a.span)


def _index(owner: ExternInstance, a: Arguments) -> ir.Scalar:
    """The index of a cell; beyond the last BMv2 does nothing."""
    index = a.scalar("index")
    size = owner.number("size")
    if isinstance(index, ir.ConstantValue) and index.value >= size:
        has = counted(size, "cell")
        _warn(a, "no-effect", f"index {shown(index.value)} of {owner.kind} {owner.short!r}, which has {has}")
    return index


def _count(e: Elaborator, owner: ExternInstance, a: Arguments) -> None:
    _emit(a, "count", ir.ExternArgument(owner), _index(owner, a))


def _direct_count(e: Elaborator, owner: ExternInstance, a: Arguments) -> None:
    """BMv2 counts by itself in a table that has a direct counter."""
    owner.calls.append((a.span, e.table))


def _execute_meter(e: Elaborator, owner: ExternInstance, a: Arguments) -> None:
    index = _index(owner, a)
    a.written("result", lambda field: _emit(a, "execute_meter", ir.ExternArgument(owner), index, field))


def _read_direct_meter(e: Elaborator, owner: ExternInstance, a: Arguments) -> None:
    """BMv2 writes the colour to one field, whichever action runs."""
    owner.calls.append((a.span, e.table))
    target = a.target("result")
    if not isinstance(target, ir.FieldValue):
        raise Refusal("the result of a direct meter must be a field", a.span)
    if owner.result is not None and owner.result != target:
        raise Refusal("all calls of read() of a direct meter need the same argument", a.span)
    owner.result = target


def _register_read(e: Elaborator, owner: ExternInstance, a: Arguments) -> None:
    _check_register(owner, a)
    index = _index(owner, a)
    a.written("result", lambda field: _emit(a, "register_read", field, ir.ExternArgument(owner), index))


def _register_write(e: Elaborator, owner: ExternInstance, a: Arguments) -> None:
    _check_register(owner, a)
    _emit(a, "register_write", ir.ExternArgument(owner), _index(owner, a), a.scalar("value"))


def _check_register(owner: ExternInstance, a: Arguments) -> None:
    if not is_scalar(owner.types[0]) or isinstance(base_of(owner.types[0]), VarbitType):
        raise Refusal(f"a register of {owner.types[0]}: writing to a structure is not supported on this target", a.span)


_METHODS: dict[tuple[str, str], Callable[[Elaborator, ExternInstance, Arguments], None]] = {
    ("counter", "count"): _count,
    ("direct_counter", "count"): _direct_count,
    ("meter", "execute_meter"): _execute_meter,
    ("direct_meter", "read"): _read_direct_meter,
    ("register", "read"): _register_read,
    ("register", "write"): _register_write,
}
