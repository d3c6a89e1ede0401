"""P4Data: values of P4 types, for registers and digests (P4Runtime spec, "Representation of Arbitrary P4 Types").

The switch represents a structured value by the unsigned ints of its leaves in order; the P4Info's type gives
them their shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from finsy.proto import p4d, p4t

from p4runtime_shim import limits
from p4runtime_shim.server import bytestrings
from p4runtime_shim.server.rpc_errors import invalid, unimplemented

_MAX_DEPTH = 16  # of nested types


def count_leaves(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo, what: str) -> int:
    """Number of ints in a value; an error if its type is unsupported, undefined, too large, or recursive."""
    return sum(_leaves(spec, types, what, 0, Counter()))


def _leaves(
    spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo, what: str, depth: int, seen: Counter[str]
) -> Iterator[int]:
    """1 for each leaf. `seen` limits the count, since nested types may have exponentially many members."""
    seen["members"] += 1
    if seen["members"] > limits.MAX_LEAVES:
        raise invalid(f"{what}: a value of its type has more than {limits.MAX_LEAVES} members")
    if depth > _MAX_DEPTH:
        raise invalid(f"{what}: its type is nested too deep")
    spec = resolve(spec, types)
    kind = spec.WhichOneof("type_spec")
    if kind in ("struct", "tuple"):
        for member in _members(spec, types, what):
            yield from _leaves(member, types, what, depth + 1, seen)
        return
    if kind == "bitstring":
        bits = spec.bitstring
        width = bits.bit.bitwidth if bits.WhichOneof("type_spec") == "bit" else bits.int.bitwidth
        if not 0 < width <= limits.MAX_VALUE_BITS:
            raise unimplemented(f"{what}: a value of {width} bits, or of varying width, is not supported")
    elif kind == "serializable_enum":
        if spec.serializable_enum.name not in types.serializable_enums:
            raise invalid(f"{what}: the P4Info does not define enum {spec.serializable_enum.name}")
    elif kind not in ("bool", "error"):
        raise unimplemented(f"{what}: values of type {kind} are not supported")
    yield 1


def _members(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo, what: str) -> Iterable[p4t.P4DataTypeSpec]:
    if spec.WhichOneof("type_spec") == "tuple":
        return spec.tuple.members
    if spec.struct.name not in types.structs:
        raise invalid(f"{what}: the P4Info does not define struct {spec.struct.name}")
    return (item.type_spec for item in types.structs[spec.struct.name].members)


def width_of(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo) -> int:
    """Bits of a simple value; 1 for types without a width."""
    spec = resolve(spec, types)
    if spec.WhichOneof("type_spec") != "bitstring":
        return 1
    bits = spec.bitstring
    return bits.bit.bitwidth if bits.WhichOneof("type_spec") == "bit" else bits.int.bitwidth


def resolve(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo) -> p4t.P4DataTypeSpec:
    """The type behind user-defined type names."""
    for _ in range(_MAX_DEPTH):
        if spec.WhichOneof("type_spec") != "new_type":
            return spec
        name = spec.new_type.name
        if name not in types.new_types:
            raise invalid(f"the P4Info does not define type {name}")
        new_type = types.new_types[name]
        if new_type.WhichOneof("representation") != "original_type":
            raise unimplemented(f"type {name}: translated types are not supported in data")
        spec = new_type.original_type
    raise invalid("a type of the P4Info is recursive")


def encode(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo, leaves: Iterator[int]) -> p4d.P4Data:
    """The value made of the next leaves."""
    spec = resolve(spec, types)
    kind = spec.WhichOneof("type_spec")
    if kind == "bitstring":
        return p4d.P4Data(bitstring=_encode_bits(spec.bitstring, next(leaves)))
    if kind == "bool":
        return p4d.P4Data(bool=bool(next(leaves)))
    if kind == "serializable_enum":
        return p4d.P4Data(enum_value=bytestrings.encode(next(leaves)))
    if kind == "struct":
        members = types.structs[spec.struct.name].members
        return p4d.P4Data(struct=p4d.P4StructLike(members=[encode(item.type_spec, types, leaves) for item in members]))
    if kind == "tuple":
        return p4d.P4Data(tuple=p4d.P4StructLike(members=[encode(item, types, leaves) for item in spec.tuple.members]))
    if kind == "error":
        names = types.error.members
        index = next(leaves)
        return p4d.P4Data(error=names[index] if index < len(names) else str(index))
    raise unimplemented(f"values of type {kind} are not supported")


def decode_leaf(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo, data: p4d.P4Data, what: str) -> int:
    """The unsigned int of a simple value; INVALID_ARGUMENT if `data` has another type."""
    spec = resolve(spec, types)
    kind = spec.WhichOneof("type_spec")
    given = data.WhichOneof("data")
    if kind == "bitstring" and given == "bitstring":
        return _decode_bits(spec.bitstring, data.bitstring, what)
    if kind == "bool" and given == "bool":
        return int(data.bool)
    if kind == "serializable_enum" and given == "enum_value":
        width = types.serializable_enums[spec.serializable_enum.name].underlying_type.bitwidth
        return bytestrings.decode(data.enum_value, width, what)
    raise invalid(f"{what}: the value is {given or 'missing'}, the P4Info says {kind}")


def _encode_bits(spec: p4t.P4BitstringLikeTypeSpec, value: int) -> bytes:
    if spec.WhichOneof("type_spec") == "int":
        width = spec.int.bitwidth
        return bytestrings.encode_signed(value - (1 << width) if value >> (width - 1) else value)
    return bytestrings.encode(value)


def _decode_bits(spec: p4t.P4BitstringLikeTypeSpec, data: bytes, what: str) -> int:
    kind = spec.WhichOneof("type_spec")
    if kind == "bit":
        return bytestrings.decode(data, spec.bit.bitwidth, what)
    if kind == "int":
        return bytestrings.decode_signed(data, spec.int.bitwidth, what) & ((1 << spec.int.bitwidth) - 1)
    raise unimplemented(f"{what}: values of type varbit are not supported")
