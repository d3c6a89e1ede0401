"""No code of the project starts a process but ``mrc_common.children``: every file's syntax tree is looked through.

Refused are calls that start a program (subprocess, asyncio, os, pty, multiprocessing and pools that do not fork), the
path of the interpreter, and the names under which they could be imported unseen. Exceptions are whole expressions, each
with its reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_common.run_module import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
THE_PLACE = ROOT / "mrc_common" / "children.py"
STARTERS = {
    "subprocess": {"Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput", "run"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "os": {"fork", "forkpty", "popen", "posix_spawn", "posix_spawnp", "startfile", "system"}
    | {f"{kind}{form}" for kind in ("exec", "spawn") for form in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")},
    "pty": {"fork", "spawn"},
    "sys": {"executable", "_base_executable"},
    "multiprocessing": {"Pool", "Process", "Manager", "set_executable", "set_start_method", "get_context"},
    "concurrent.futures": {"ProcessPoolExecutor"},
}
METHODS = {"subprocess_exec", "subprocess_shell"}  # of an event loop
ALLOWED = {
    # The command takes the place of this process: nothing is started.
    "mrc_lab/cli/exec.py": {"os.execvpe"},
    # Where the shell that is recorded finds the testbed's programs: no process.
    "scripts/record_terminal.py": {"sys.executable"},
    # Where the tools lie that a host's shell is to find: no process.
    "mrc_lab/prompt/perf_commands.py": {"sys.executable"},
}


def violations(source: str, allowed: frozenset[str] | set[str] = frozenset()) -> Iterator[str]:
    """Each place in `source` where a process could be started, as `line: expression`."""
    tree = ast.parse(source)
    modules, names = {}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                modules[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = (node.module, alias.name)
                modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    wanted = {_normal(expression) for expression in allowed}
    expressions = [node for node in ast.walk(tree) if wanted and isinstance(node, ast.expr)]
    passed = [node for node in expressions if ast.unparse(node) in wanted]
    passed += [types for node in ast.walk(tree) for types in _annotations(node)]
    excused = {id(inner) for node in passed for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in excused:
            continue
        if isinstance(node, ast.Attribute):
            owner = _dotted(node.value, modules)
            if node.attr in STARTERS.get(owner, set()) | METHODS:
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
            module, name = names[node.id]
            if name in STARTERS.get(module, set()):
                yield f"{node.lineno}: {node.id}"
        elif isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            yield f"{node.lineno}: {ast.unparse(node)}"


def _annotations(node: ast.AST) -> list[ast.expr]:
    """Types that are only read."""
    fields = (getattr(node, name, None) for name in ("annotation", "returns"))
    return [field for field in fields if isinstance(field, ast.expr)]


def _dotted(node: ast.expr, modules: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return modules.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, modules)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def _normal(expression: str) -> str:
    return ast.unparse(ast.parse(expression, mode="eval"))


def files() -> list[Path]:
    return sorted(file for package in PACKAGES - {"tests"} for file in (ROOT / package).rglob("*.py"))


def test_package_list_matches_installed_packages_and_checkout():
    lines = (ROOT / "pyproject.toml").read_text().partition("include = [")[2].partition("]")[0].split(",")
    installed = {line.strip().strip('"').rstrip("*") for line in lines if line.strip()}
    assert installed | {"benchmarks", "scripts", "tests"} == PACKAGES


@pytest.mark.parametrize("package", sorted(PACKAGES - {"tests"}))
def test_no_module_starts_processes_except_through_children(package: str):
    found = [
        f"{file.relative_to(ROOT)}:{each}"
        for file in files()
        if file.is_relative_to(ROOT / package) and file != THE_PLACE
        for each in violations(file.read_text(), ALLOWED.get(str(file.relative_to(ROOT)), set()))
    ]
    assert not found, f"start processes through mrc_common.children: {found}"


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_every_allowed_exception_still_exists(name: str):
    source = (ROOT / name).read_text()
    assert len(list(violations(source))) > len(list(violations(source, ALLOWED[name])))


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\nsubprocess.run(['python', 'x'])",
        "import subprocess as s\ns.Popen([])",
        "from subprocess import Popen as P\nP([])",
        "from subprocess import *",
        "import asyncio\nasyncio.create_subprocess_exec('x')",
        "import asyncio.subprocess\nasyncio.create_subprocess_shell('x')",
        "import asyncio\nasyncio.get_event_loop().subprocess_exec(None)",
        "import os\nos.execvp('x', [])",
        "import os\nf = os.system\n",
        "from os import posix_spawn\nposix_spawn('x', [], {})",
        "import sys\nCommand((sys.executable, '-m', 'x'))",
        "from sys import executable\nprint(executable)",
        "import multiprocessing as mp\nmp.get_context('spawn').Process()",
        "import multiprocessing\nmultiprocessing.get_context('fork')",
        "from concurrent.futures import ProcessPoolExecutor\nProcessPoolExecutor(2)",
        "import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor(2)",
        "from concurrent import futures\nfutures.ProcessPoolExecutor(2)",
    ],
)
def test_ways_to_start_a_process_are_detected(source: str):
    assert list(violations(source))


def test_similar_looking_code_is_not_reported():
    assert not list(
        violations(
            "import subprocess, os\nfrom mrc_common import children\nsubprocess.DEVNULL\nchildren.run(['x'])\nrun()\n"
            "os.environ\ndef f(p: subprocess.Popen[str]) -> subprocess.Popen[str]: self.run()\n"
        )
    )
