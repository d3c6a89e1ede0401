"""Frozen dataclasses that are made quickly, for values of which each message takes one or two.

A frozen dataclass refuses assignments, so its constructor writes each attribute by a call of ``object.__setattr__``.
This constructor has the object belong to a class with the same slots that allows assignments, while it makes them: in
two fifths of the time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as quick_dataclass
else:

    def quick_dataclass(*, frozen, slots):
        """As ``dataclass(frozen=True, slots=True)``, for plain fields: TypeError for what else a dataclass may have."""

        def decorate(cls):
            made = dataclasses.dataclass(frozen=True, slots=True)(cls)
            fields = dataclasses.fields(made)
            plain = all(f.init and not f.kw_only and f.default_factory is dataclasses.MISSING for f in fields)
            if not (frozen and slots and plain) or made.__bases__ != (object,) or hasattr(made, "__post_init__"):
                raise TypeError(f"{cls.__qualname__} is not a plain dataclass, frozen and with slots.")
            made.__init__ = _constructor(made, fields)
            return made

        return decorate


__all__ = ["quick_dataclass"]


def _constructor(cls: Any, fields: tuple[dataclasses.Field[Any], ...]) -> Callable[..., None]:
    names = tuple(field.name for field in fields)
    open_class = type(cls.__name__, (), {"__slots__": names})  # the same without its refusal
    lines = [
        f"def __init__(self, {', '.join(names)}):",
        "    if self.__class__ is not own:",  # a subclass, which may have more than these slots
        f"        return plain(self, {', '.join(names)})",
        "    assign(self, '__class__', open_class)",
        *(f"    self.{name} = {name}" for name in names),
        "    self.__class__ = own",
    ]
    known = {"own": cls, "plain": cls.__init__, "assign": object.__setattr__, "open_class": open_class}
    exec("\n".join(lines), known)
    made: Any = known["__init__"]
    made.__defaults__ = cls.__init__.__defaults__
    made.__annotations__ = cls.__init__.__annotations__
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    return made  # type: ignore[no-any-return]
