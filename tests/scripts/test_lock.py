"""The lock files fit pyproject.toml, and pyproject.toml what is imported."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mrc_common.run_module import PACKAGES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
WANTED = {
    "runtime": [*PROJECT["dependencies"], *EXTRAS["compiled"]],
    "dev": [
        *PROJECT["dependencies"],
        *EXTRAS["compiled"],
        *EXTRAS["dev"],
    ],
}
# Of the system (scripts/install), of the builder of `make docs`, or for those who bring it: a cluster, fixtures for
# pytest, layers for scapy, PyTorch.
ELSEWHERE = {"griffe", "mininet", "pytest", "ray", "scapy", "torch", "torchft"}


def locked(kind: str) -> list[tuple[Requirement, int]]:
    """Each requirement of a lock file and how many hashes it has."""
    text = (ROOT / f"requirements/{kind}.txt").read_text()
    entries = re.split(r"\n(?=\S)", re.sub(r"(?m)^\s*#.*\n?", "", text).strip())
    return [(Requirement(entry.partition(" \\\n")[0]), entry.count("--hash=sha256:")) for entry in entries]


def versions(kind: str, python: str) -> dict[str, str]:
    """What a lock file installs on Linux with a version of Python, by name."""
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.4"}
    found: dict[str, str] = {}
    for requirement, _ in locked(kind):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            name = canonicalize_name(requirement.name)
            assert name not in found, f"two versions of {name} on {python}"
            (pin,) = requirement.specifier
            assert pin.operator == "=="
            found[name] = pin.version
    return found


@pytest.mark.parametrize("kind", ["runtime", "dev"])
@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_every_requirement_is_locked_to_an_allowed_version(kind: str, python: str) -> None:
    found = versions(kind, python)
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.4"}
    for requirement in map(Requirement, WANTED[kind]):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            version = found.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement} is not locked: run make lock"
            assert requirement.specifier.contains(version), f"{version} is no {requirement}: run make lock"


@pytest.mark.parametrize("kind", ["runtime", "dev"])
def test_every_locked_package_has_hashes_and_no_origin_comments(kind: str) -> None:
    assert all(hashes for _, hashes in locked(kind))
    text = (ROOT / f"requirements/{kind}.txt").read_text()
    assert not re.search(r"https?:|index|find-links|@|^-", text, re.MULTILINE)


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_the_development_lock_includes_the_runtime_lock(python: str) -> None:
    assert versions("runtime", python).items() <= versions("dev", python).items()


@pytest.mark.parametrize("python", ["3.10", "3.14"])
def test_all_grpc_packages_have_one_version(python: str) -> None:
    found = {name: version for name, version in versions("dev", python).items() if name.startswith("grpcio")}
    assert {"grpcio", "grpcio-health-checking", "grpcio-reflection", "grpcio-tools"} <= found.keys()
    assert len(set(found.values())) == 1, found


def test_the_lock_contains_no_very_large_packages() -> None:
    """Each was a hundred megabytes for one small use."""
    assert not {"pyarrow", "scipy", "scikit-learn", "pandas", "ray"} & versions("runtime", "3.13").keys()


def test_every_imported_package_is_declared() -> None:
    """By what is installed here: an import's name is that of a distribution among the requirements."""
    providers = packages_distributions()
    declared = {canonicalize_name(Requirement(line).name) for line in WANTED["runtime"]}
    for_checkouts = declared | {canonicalize_name(Requirement(line).name) for line in WANTED["dev"]}
    undeclared = set()
    for package in PACKAGES - {"tests"}:
        allowed = for_checkouts if package in ("benchmarks", "scripts") else declared
        for file in (ROOT / package).rglob("*.py"):
            for name in _imports(file) - PACKAGES - ELSEWHERE - sys.stdlib_module_names:
                if not allowed & {canonicalize_name(provider) for provider in providers.get(name, ())}:
                    undeclared.add(f"{file.relative_to(ROOT)} imports {name}")
    assert not undeclared


def _imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
