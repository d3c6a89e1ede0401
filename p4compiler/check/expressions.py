"""Expressions: the type of each, and where a value is converted without a cast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from p4compiler import arithmetic, tree
from p4compiler.check import constants, type_nodes
from p4compiler.check.checker import Checker
from p4compiler.check.conversions import casts, comparable, converts
from p4compiler.diagnostics import Refusal, did_you_mean, shown
from p4compiler.types import (
    ANYTHING,
    BOOL,
    ERROR,
    INTEGER,
    INVALID,
    MATCH_KIND,
    STRING,
    UNKNOWN,
    AppliedType,
    BitsType,
    CallableType,
    EnumType,
    NamedType,
    NewType,
    ObjectType,
    RecordType,
    StackType,
    TableType,
    TupleType,
    Type,
    TypeItself,
    base_of,
    number_type,
)

HEADER_METHODS = ("isValid", "setValid", "setInvalid")
SIZE_METHODS = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")
STACK_METHODS = ("push_front", "pop_front")


def check_expression(checker: Checker, node: tree.Expression) -> Type:
    """The type of an expression; UNKNOWN after an error, which is recorded."""
    types = checker.checked.types
    if node in types:
        return types[node]
    try:
        kind = _CHECKS[type(node)](checker, node)
        types[node] = kind
        if kind in (BOOL, INTEGER) or isinstance(kind, BitsType):
            constants.value(checker, node)
    except Refusal as refusal:
        checker.diagnostics.add(refusal.diagnostic)
        kind = UNKNOWN
    types[node] = kind
    return kind


def check_value(checker: Checker, node: tree.Expression, want: Type) -> None:
    """Check an expression of which a value of type `want` is needed."""
    convert(checker, node, check_expression(checker, node), want)


def convert(checker: Checker, node: tree.Expression, have: Type, want: Type) -> None:
    """Have the value of an expression converted where its type is another; an error where that cannot be."""
    if have == want or UNKNOWN in (have, want) or want == ANYTHING:
        return
    if not converts(have, want):
        checker.error(mismatch(have, want), node.span)
        return
    checker.checked.conversions[node] = want
    known = checker.checked.constants.pop(node, None)
    bits = base_of(want)
    if isinstance(bits, BitsType) and have == INTEGER and isinstance(known, int):
        if not arithmetic.fits(known, bits) and not (known < 0 and arithmetic.fits(known, BitsType(bits.width, True))):
            text = f"value {shown(known)} does not fit {want}: it becomes {shown(arithmetic.fit(known, want))}"
            checker.diagnostics.warning("overflow", text, node.span)
        constants.value(checker, node)


def mismatch(have: Type, want: Type) -> str:
    """The message for a value of a wrong type."""
    if isinstance(have, TupleType) and isinstance(want, RecordType) and len(have.items) != len(want.fields):
        return f"{len(have.items)} values for the {len(want.fields)} fields of {want}"
    if isinstance(have, NamedType) and isinstance(want, RecordType):
        for name in have.names:
            if name not in want.fields:
                return type_nodes.no_field(want, name)
        missing = [name for name in want.fields if name not in have.names]
        if missing and not have.rest:
            return f"no value for field {missing[0]!r} of {want}"
    hint = "; a cast is needed" if casts(have, want) else ""
    if isinstance(have, TypeItself) and isinstance(have.type, ObjectType) and isinstance(want, ObjectType):
        hint = f"; an instance of it is written {have.type.declaration.name}()"
    return f"{have} where {want} is expected{hint} (cannot implicitly convert)"


# --- leaves ---


def _number(checker: Checker, node: tree.NumberLiteral) -> Type:
    if node.width is None:
        return INTEGER
    if node.width == 0 and node.signed:
        raise Refusal("a signed number has at least 1 bit", node.span)
    kind = BitsType(node.width, node.signed)
    if not arithmetic.fits(node.value, kind):
        value = arithmetic.fit(node.value, kind)
        checker.diagnostics.warning(
            "overflow", f"{node.text}: value does not fit in {node.width} bits: it becomes {shown(value)}", node.span
        )
    return kind


def _name(checker: Checker, node: tree.Name) -> Type:
    if node.name in checker.checked.match_kinds and checker.scope.find(node.name) is None:
        return MATCH_KIND
    declaration = checker.lookup(node.name, node.span, absolute=node.absolute)
    if declaration is None:
        return UNKNOWN
    checker.checked.names[node] = declaration
    named = type_nodes.type_of(checker, declaration)
    if named is not None:
        return TypeItself(named)
    if isinstance(declaration, tree.TableDeclaration):
        return TableType(declaration)
    if isinstance(declaration, tree.ActionDeclaration | tree.FunctionDeclaration | tree.Prototype):
        return CallableType(node.name)
    if isinstance(declaration, tree.Names):
        return TypeItself(ERROR)
    return checker.checked.declared.get(declaration, UNKNOWN)


def _type(checker: Checker, node: tree.TypeExpression) -> Type:
    return TypeItself(type_nodes.resolve(checker, node.type))


# --- parts of values ---


def _member(checker: Checker, node: tree.MemberExpression) -> Type:
    base = check_expression(checker, node.base)
    name = node.name
    if base == UNKNOWN:
        return UNKNOWN
    if isinstance(base, TypeItself):
        return _member_of_type(checker, base.type, node)
    if isinstance(base, RecordType):
        if name in base.fields:
            return base.fields[name]
        methods = HEADER_METHODS if base.kind == "header" else ("isValid",) if base.kind == "header_union" else ()
        if name in methods or name in SIZE_METHODS:
            return CallableType(name)
        raise Refusal(type_nodes.no_field(base, name), node.name_span)
    if isinstance(base, StackType):
        return _member_of_stack(checker, base, node)
    if isinstance(base, AppliedType) and not base.runs and name in ("hit", "miss"):
        return BOOL
    if isinstance(base, AppliedType) and not base.runs and name == "action_run":
        return AppliedType(base.declaration, True)
    if isinstance(base, TableType) and name == "apply":
        return CallableType(name)
    if isinstance(base, ObjectType) and _has_method(base, name):
        return CallableType(name)
    if name in SIZE_METHODS and (number_type(base) or base_of(base) == BOOL):
        return CallableType(name)
    known = (
        [item.name for item in base.declaration.methods]
        if isinstance(base, ObjectType) and isinstance(base.declaration, tree.ExternDeclaration)
        else []
    )
    raise Refusal(f"{base} has no member {name!r}{did_you_mean(name, known)}", node.name_span)


def _has_method(kind: ObjectType, name: str) -> bool:
    if isinstance(kind.declaration, tree.ExternDeclaration):
        return any(item.name == name and item.returns is not None for item in kind.declaration.methods)
    return name == "apply" and not isinstance(kind.declaration, tree.PackageDeclaration)


def _member_of_type(checker: Checker, kind: Type, node: tree.MemberExpression) -> Type:
    if kind == ERROR:
        if node.name not in checker.checked.errors:
            raise Refusal(
                f"error {node.name!r} is not declared{did_you_mean(node.name, checker.checked.errors)}", node.name_span
            )
        return ERROR
    if isinstance(kind, EnumType):
        if node.name not in kind.positions:
            hint = did_you_mean(node.name, kind.positions)
            raise Refusal(f"enum {kind} has no value {node.name!r}{hint}", node.name_span)
        return kind
    if node.name in SIZE_METHODS or (isinstance(kind, ObjectType) and node.name == "apply"):
        return CallableType(node.name)
    raise Refusal(f"Cannot extract field {node.name!r} from type {kind}", node.name_span)


def _member_of_stack(checker: Checker, base: StackType, node: tree.MemberExpression) -> Type:
    name = node.name
    if name == "size":
        return BitsType(32)
    if name in ("next", "last", "lastIndex"):
        if checker.place.kind not in ("state", "function", "top"):
            raise Refusal(f"{name!r} of a header stack can be used in a parser only", node.name_span)
        return BitsType(32) if name == "lastIndex" else base.element
    if name in STACK_METHODS:
        return CallableType(name)
    raise Refusal(
        f"a header stack has no member {name!r}{did_you_mean(name, ('next', 'last', *STACK_METHODS))}", node.name_span
    )


def _index(checker: Checker, node: tree.IndexExpression) -> Type:
    base = check_expression(checker, node.base)
    index = check_expression(checker, node.index)
    if UNKNOWN in (base, index):
        return UNKNOWN
    if index != INTEGER and number_type(index) is None:
        raise Refusal(f"an index is a number, not {index}", node.index.span)
    known = constants.value(checker, node.index)
    if isinstance(base, StackType):
        if isinstance(known, int):
            if known < 0:
                raise Refusal(f"Negative array index {shown(known)}", node.index.span)
            if known >= base.size:
                raise Refusal(
                    f"index {shown(known)} of a stack of {base.size} elements (outside the bounds)", node.index.span
                )
        return base.element
    if isinstance(base, TupleType):
        if not isinstance(known, int):
            raise Refusal("the index of a tuple is not known at compile time", node.index.span)
        if not 0 <= known < len(base.items):
            raise Refusal(f"index {shown(known)} of a tuple of {len(base.items)} values", node.index.span)
        return base.items[known]
    raise Refusal(f"{base} has no elements; header stacks and tuples have", node.base.span)


def _slice(checker: Checker, node: tree.SliceExpression) -> Type:
    base = check_expression(checker, node.base)
    first = constants.number(checker, node.high, "the bound of a slice")
    second = constants.number(checker, node.low, "the bound of a slice")
    if base == UNKNOWN or first is None or second is None:
        return UNKNOWN
    bits = number_type(base)
    if bits is None and base != INTEGER:
        raise Refusal(f"bits of {base}; only numbers have", node.base.span)
    high, low = (first + second - 1, first) if node.from_low else (first, second)
    if low < 0 or high < low:
        raise Refusal(
            f"bits {shown(high)}:{shown(low)}: the first must be the greater, and none is negative", node.span
        )
    if bits is not None and high >= bits.width:
        raise Refusal(f"Bit index {shown(high)} greater than width {bits.width}", node.high.span)
    return BitsType(high - low + 1)


# --- operators ---


def _unary(checker: Checker, node: tree.UnaryExpression) -> Type:
    if node.op == "!":
        check_value(checker, node.operand, BOOL)
        return BOOL
    kind = check_expression(checker, node.operand)
    if kind == UNKNOWN:
        return UNKNOWN
    bits = _as_number(checker, node.operand, kind)
    if bits is None or (bits == INTEGER and node.op == "~"):
        raise Refusal(f"{node.op!r} of {kind}", node.span)
    return bits


def _as_number(checker: Checker, node: tree.Expression, kind: Type) -> Type | None:
    """The number type of an operand, which is converted if it is an enum; None if it is no number."""
    if kind == INTEGER or isinstance(kind, BitsType):
        return kind
    if isinstance(kind, EnumType) and kind.base is not None:
        convert(checker, node, kind, kind.base)
        return kind.base
    return None


def _binary(checker: Checker, node: tree.BinaryExpression) -> Type:
    op = node.op
    if op in ("&&", "||"):
        check_value(checker, node.left, BOOL)
        check_value(checker, node.right, BOOL)
        return BOOL
    left, right = check_expression(checker, node.left), check_expression(checker, node.right)
    if UNKNOWN in (left, right):
        return BOOL if op in arithmetic.COMPARISONS else UNKNOWN
    if op in ("==", "!="):
        return _equal(checker, node, left, right)
    a, b = _as_number(checker, node.left, left), _as_number(checker, node.right, right)
    if op in ("<<", ">>"):
        return _shift(checker, node, left, right, a, b)
    if a is None or b is None:
        raise Refusal(f"{op!r} of {left} and {right}", node.span)
    if op == "++":
        if not (isinstance(a, BitsType) and isinstance(b, BitsType)):
            raise Refusal(f"'++' of {left} and {right}: please specify a width for the operands", node.span)
        return BitsType(a.width + b.width, a.signed)
    kind = _common(checker, node, a, b)
    if op in arithmetic.COMPARISONS:
        return BOOL
    if op in ("/", "%"):
        _divide(checker, node, kind)
    if op in ("|+|", "|-|") and kind == INTEGER:
        raise Refusal(f"{op!r} needs operands of a width", node.span)
    return kind


def _common(checker: Checker, node: tree.BinaryExpression, a: Type, b: Type) -> Type:
    """The type of both operands, after the conversion of a number without width."""
    if a == INTEGER and b != INTEGER:
        convert(checker, node.left, a, b)
        return b
    if b == INTEGER and a != INTEGER:
        convert(checker, node.right, b, a)
        return a
    if a != b:
        raise Refusal(f"{node.op!r} of {a} and {b}: cast one of them", node.span)
    return a


def _divide(checker: Checker, node: tree.BinaryExpression, kind: Type) -> None:
    if isinstance(kind, BitsType) and kind.signed:
        raise Refusal(f"{node.op!r} of signed numbers", node.span)
    if constants.value(checker, node.right) == 0:
        raise Refusal(f"{'division' if node.op == '/' else 'modulo'} by zero", node.right.span)


def _shift(
    checker: Checker, node: tree.BinaryExpression, left: Type, right: Type, a: Type | None, b: Type | None
) -> Type:
    known = constants.value(checker, node.right) if b is not None else None
    if a is None:
        raise Refusal(f"{node.op!r} of {left} and {right}", node.span)
    unsigned = isinstance(b, BitsType) and not b.signed
    if not unsigned and not (isinstance(known, int) and b == INTEGER and known >= 0):
        if isinstance(known, int) and known < 0:
            raise Refusal(f"{node.op!r} by a negative number", node.right.span)
        text = "the right operand of a shift is an expression of type bit<S> or a known non-negative number"
        raise Refusal(f"{text}, not {right}", node.right.span)
    if a == INTEGER and (known is None or constants.value(checker, node.left) is None):
        text = "shift result type is arbitrary-precision int, but right operand is not constant"
        raise Refusal(f"{text}; width of left operand of shift needs to be specified", node.span)
    if isinstance(a, BitsType) and isinstance(known, int) and known >= a.width > 0:
        checker.diagnostics.warning("overflow", f"shift of {a} by {shown(known)} bits", node.span)
    return a


def _equal(checker: Checker, node: tree.BinaryExpression, left: Type, right: Type) -> Type:
    if left == right:
        if not comparable(left):
            raise Refusal(f"{node.op!r} of {left}", node.span)
    elif INTEGER in (left, right) and any(isinstance(kind, NewType) for kind in (left, right)):
        raise Refusal(f"{node.op!r} of {left} and {right}: cast one of them", node.span)
    elif converts(right, left):
        convert(checker, node.right, right, left)
    elif converts(left, right):
        convert(checker, node.left, left, right)
    else:
        a, b = number_type(left), number_type(right)
        if not (
            isinstance(left, EnumType | BitsType)
            and isinstance(right, EnumType | BitsType)
            and a is not None
            and a == b
        ):
            raise Refusal(f"{node.op!r} of {left} and {right}", node.span)
        _as_number(checker, node.left, left)
        _as_number(checker, node.right, right)
    for side, kind in ((node.left, left), (node.right, right)):
        if isinstance(kind, TypeItself | CallableType | AppliedType | TableType):
            raise Refusal(f"{kind} is not a value", side.span)
    return BOOL


def _choice(checker: Checker, node: tree.ChoiceExpression) -> Type:
    check_value(checker, node.condition, BOOL)
    yes, no = check_expression(checker, node.yes), check_expression(checker, node.no)
    if UNKNOWN in (yes, no):
        return yes if no == UNKNOWN else no
    if yes == INTEGER and no == INTEGER and constants.value(checker, node.condition) is None:
        raise Refusal("please specify a width for at least one of the values of '?'", node.span)
    if yes == no:
        return yes
    if converts(no, yes) and yes != INTEGER:
        convert(checker, node.no, no, yes)
        return yes
    if converts(yes, no):
        convert(checker, node.yes, yes, no)
        return no
    raise Refusal(f"the values of '?' are of types {yes} and {no}", node.span)


def _cast(checker: Checker, node: tree.CastExpression) -> Type:
    want = type_nodes.resolve(checker, node.type)
    have = check_expression(checker, node.operand)
    if UNKNOWN in (have, want):
        return want
    if not casts(have, want):
        base, bits = number_type(have), number_type(want)
        hint = ""
        if base is not None and bits is not None:
            hint = ": change width and sign in two steps"
        raise Refusal(f"{have} cannot be cast to {want}{hint}", node.span)
    if isinstance(have, TupleType | NamedType) or have in (INVALID, ANYTHING):
        checker.checked.conversions[node.operand] = want
    return want


# --- literals ---


def _list(checker: Checker, node: tree.ListLiteral) -> Type:
    return TupleType(tuple(check_expression(checker, item) for item in node.items), node.rest)


def _record(checker: Checker, node: tree.RecordLiteral) -> Type:
    seen: set[str] = set()
    for item in node.fields:
        if item.name in seen:
            checker.error(f"{item.name!r} is there twice (duplicates declaration)", item.span)
        seen.add(item.name)
    kinds = tuple(check_expression(checker, item.value) for item in node.fields)
    return NamedType(tuple(item.name for item in node.fields), kinds, node.rest)


def _call(checker: Checker, node: tree.CallExpression) -> Type:
    return checker.call(node)


def _not_here(checker: Checker, node: tree.Expression) -> Type:
    raise Refusal("a set of values is no expression", node.span)


_CHECKS: dict[type, Callable[[Checker, Any], Type]] = {
    tree.NumberLiteral: _number,
    tree.BooleanLiteral: lambda checker, node: BOOL,
    tree.StringLiteral: lambda checker, node: STRING,
    tree.Name: _name,
    tree.TypeExpression: _type,
    tree.MemberExpression: _member,
    tree.IndexExpression: _index,
    tree.SliceExpression: _slice,
    tree.UnaryExpression: _unary,
    tree.BinaryExpression: _binary,
    tree.ChoiceExpression: _choice,
    tree.CastExpression: _cast,
    tree.CallExpression: _call,
    tree.ListLiteral: _list,
    tree.RecordLiteral: _record,
    tree.InvalidHeader: lambda checker, node: INVALID,
    tree.DefaultLiteral: lambda checker, node: ANYTHING,
    tree.AnyValue: _not_here,
    tree.MaskExpression: _not_here,
    tree.RangeExpression: _not_here,
    tree.SetTuple: _not_here,
}


# --- what can be written ---


def check_writable(checker: Checker, node: tree.Expression) -> None:
    """Refuse an expression that nothing can be assigned to."""
    root = node
    while isinstance(root, tree.MemberExpression | tree.IndexExpression | tree.SliceExpression):
        if isinstance(root, tree.MemberExpression):
            base = checker.checked.types.get(root.base)
            if isinstance(base, StackType) and root.name in ("lastIndex", "size"):
                raise Refusal(f"{root.name!r} of a stack cannot be written", node.span)
        root = root.base
    declaration = checker.checked.names.get(root) if isinstance(root, tree.Name) else None
    if isinstance(declaration, tree.VariableDeclaration):
        checker.written.add(declaration)
        return
    if isinstance(declaration, tree.Parameter) and declaration.direction in ("out", "inout"):
        return
    if checker.checked.types.get(root) == UNKNOWN:
        return
    what = "this"
    if isinstance(declaration, tree.Parameter):
        what = f"parameter {declaration.name!r}, which is {declaration.direction or 'without a direction'},"
    elif isinstance(declaration, tree.ConstantDeclaration):
        what = f"constant {declaration.name!r}"
    raise Refusal(f"{what} cannot be written (left value expected)", node.span)
