"""A P4_16 compiler for the v1model architecture: from a program to BMv2's JSON and P4Info.

The passes, in order: :mod:`preprocessor`, :mod:`parser`, :mod:`check` (types and names of all code), :mod:`v1model`
with :mod:`elaborate` (runs the program at compile time; what is left is :mod:`ir`), :mod:`bmv2_json` and :mod:`p4info`.
It needs nothing but Python's standard library.
"""

from p4compiler.compiler import Compiled, compile, compile_text  # noqa: A004 (the package's main verb)
from p4compiler.diagnostics import Diagnostic, P4Error

__all__ = ["Compiled", "Diagnostic", "P4Error", "compile", "compile_text"]
