"""Instances: of extern objects, and of parsers and controls with what is declared in them."""

from __future__ import annotations

from collections.abc import Sequence

from p4compiler import tree
from p4compiler.check.result import ResolvedCall
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate.elaborator import Elaborator
from p4compiler.elaborate.expressions import evaluate, known_number
from p4compiler.elaborate.frames import Frame
from p4compiler.elaborate.values import (
    ActionValue,
    BlockInstance,
    ExternInstance,
    TableValue,
    Value,
    ValueSetValue,
)
from p4compiler.types import SetType, substitute


def instantiate(
    e: Elaborator,
    node: tree.InstanceDeclaration | tree.CallExpression,
    name: str,
    annotations: tree.Annotations,
    path: str,
) -> ExternInstance | BlockInstance:
    """The instance that a declaration or an expression makes in the instance called `path`."""
    e.count_instance(node.span)
    call = e.checked.calls[node]
    assert call.object_type is not None
    declaration = call.object_type.declaration
    types = tuple(substitute(item, e.frame.types) for item in call.object_type.arguments)
    label = tree.Declaration(node.span, name or declaration.name, annotations)
    full = e.control_name(label, path)
    arguments = _arguments(e, call, full)
    if isinstance(declaration, tree.ExternDeclaration):
        made = ExternInstance(declaration.name, full, name, types, arguments, annotations, node.span)
        if made.kind == "register" and made.number("size") == 0:
            text = f"register {name!r} has no cells: direct registers are not supported on this target"
            raise Refusal(text, node.span)
        e.found.externs.append(made)
        return made
    assert isinstance(declaration, tree.ParserDeclaration | tree.ControlDeclaration)
    frame = Frame(e.globals, dict(zip(declaration.type_parameters, types, strict=False)))
    for parameter, _ in call.arguments:
        frame.values[parameter] = arguments[parameter.name]
    instance = BlockInstance(declaration, full, name, frame)
    _declare_locals(e, instance, declaration.locals)
    return instance


def _arguments(e: Elaborator, call: ResolvedCall, path: str) -> dict[str, Value]:
    """The arguments of a constructor; what they make has the name of its parameter, in the new instance."""
    out: dict[str, Value] = {}
    for parameter, node in call.arguments:
        if isinstance(node, tree.CallExpression) and e.checked.calls[node].kind == "constructor":
            out[parameter.name] = instantiate(e, node, parameter.name, (), path)
        elif node is not None:
            out[parameter.name] = evaluate(e, node)
    return out


def _declare_locals(e: Elaborator, instance: BlockInstance, declarations: Sequence[tree.Declaration]) -> None:
    values, path = instance.frame.values, instance.name
    with e.within(instance.frame):
        for item in declarations:
            if isinstance(item, tree.InstanceDeclaration):
                made = instantiate(e, item, item.name, item.annotations, path)
                values[item] = made
                if isinstance(made, BlockInstance):
                    instance.inner.append(made)
            elif isinstance(item, tree.ActionDeclaration):
                values[item] = ActionValue(item, e.control_name(item, path))
            elif isinstance(item, tree.TableDeclaration):
                values[item] = TableValue(item, e.control_name(item, path))
            elif isinstance(item, tree.ConstantDeclaration):
                values[item] = evaluate(e, item.value)
            elif isinstance(item, tree.ValueSetDeclaration):
                kind = e.declared(item)
                assert isinstance(kind, SetType)
                values[item] = ValueSetValue(item, e.control_name(item, path), known_number(e, item.size), kind.item)
