"""Generates C from a Program: one translation unit that exports `sw_program` (engine/pipeline/pipeline.h)."""

from p4runtime_shim.codegen.translation_unit import generate

__all__ = ["generate"]
