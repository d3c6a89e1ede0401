"""The checker: gives every name its declaration and every expression its type, in all code, used or not.

Its parts, each a module, share one :class:`~p4compiler.check.checker.Checker`, which has the scopes and the results.
After an error a part goes on with a type that fits everything, so that each mistake is reported once.
"""

from p4compiler import tree
from p4compiler.check.calls import check_call
from p4compiler.check.checker import Checker
from p4compiler.check.declarations import check_program
from p4compiler.check.expressions import check_expression
from p4compiler.check.result import Checked
from p4compiler.diagnostics import Diagnostics


def check(program: tree.SyntaxTree, diagnostics: Diagnostics) -> Checked:
    """Check a program; raises P4Error if there were errors."""
    checker = Checker(program, diagnostics, check_expression, check_call)
    check_program(checker)
    diagnostics.stop_on_errors()
    return checker.checked
