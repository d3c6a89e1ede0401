"""The syntax tree: one class a construct, each with the span of its most telling tokens.

Nodes are compared by identity, so later passes keep what they learn of a node in dictionaries beside the tree.

`nodes` has what all others are kinds of, and its name ends most names: ``IfStatement``, ``TableDeclaration``. The rest
of the compiler says ``tree.IfStatement``, so each name is this package's.
"""

from p4compiler.tree.declarations import *  # noqa: F403
from p4compiler.tree.expressions import *  # noqa: F403
from p4compiler.tree.nodes import *  # noqa: F403
from p4compiler.tree.statements import *  # noqa: F403
from p4compiler.tree.tables import *  # noqa: F403
