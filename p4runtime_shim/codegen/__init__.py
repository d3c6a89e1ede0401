"""A Program to C: one translation unit that exports `sw_program` (engine/core.h)."""

from p4runtime_shim.codegen.module import generate

__all__ = ["generate"]
