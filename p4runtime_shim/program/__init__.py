"""BMv2 JSON to a typed, frozen Program."""

from p4runtime_shim.program.loader import load_program
from p4runtime_shim.program.model.program import Program

__all__ = ["Program", "load_program"]
