"""Run the code cells of a notebook in a running event loop, as Jupyter does: ``python run_notebook.py FILE``.

Prints what the last expression of each cell shows: the text of its representation, and which of the richer ones it has.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import sys
from pathlib import Path
from typing import Any


def cells(file: Path) -> list[str]:
    """The source of each code cell."""
    found = json.loads(file.read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


async def run(sources: list[str]) -> None:
    """Execute the cells one after the other, each in a task that this loop runs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(sources, 1):
        tree = ast.parse(source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        await asyncio.create_task(_execute(tree, "exec", names, number))
        if isinstance(last, ast.Expr):
            value = await asyncio.create_task(_execute(ast.Expression(last.value), "eval", names, number))
            rich = [name for name in ("_repr_svg_", "_repr_html_") if hasattr(value, name) and getattr(value, name)()]
            print(number, *rich, repr(value)[:300])


async def _execute(tree: ast.Module | ast.Expression, mode: str, names: dict[str, Any], number: int) -> Any:
    code = compile(tree, f"<cell {number}>", mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    value = eval(code, names)
    return await value if inspect.iscoroutine(value) else value


if __name__ == "__main__":
    asyncio.run(run(cells(Path(sys.argv[1]))))
