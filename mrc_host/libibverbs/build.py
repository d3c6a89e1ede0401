"""Compile the library, and libmrc.so beside it, into the virtual environment of this Python, when sources have changed.

    python -m mrc_host.libibverbs

The installer runs it. It needs a C compiler and the headers of Debian's ``libibverbs-dev``; without them there is no
library, and programs inside hosts find the system's, which sees no device.

To be loaded in place of the system's library, ours must have every symbol that programs and their other libraries were
linked with, under the version it has there. So the list is taken from the system's library: what our sources do not
define is added as a function that refuses, which are those for drivers of hardware and what is newer than our sources.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mrc_common import children
from mrc_common.c_build import compiler
from mrc_common.c_build.compiler import Limits
from mrc_common.c_build.errors import CBuildError
from mrc_common.c_build.shared_object import LANGUAGE, digest
from mrc_host.libibverbs import agent_records
from mrc_host.verbs.installed_libibverbs import SONAME, folder, library

SOURCES = Path(__file__).parent
MRC_SOURCES = SOURCES.with_name("libmrc")
MRC_SONAME = "libmrc.so"
MRC_ALIASES = ("lib_mrc.so", "libnv_mrc.so")  # as the OCP's examples and Microsoft's plugin for NCCL name it
COMPILER = "cc"
_BUILT_FROM = "built-from"  # hash of the sources
_HEADER = "infiniband/verbs.h"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of the system's library and the version that programs link it with."""

    name: str
    version: str
    is_data: bool


FOR_LIBMRC = Symbol("mrc_verbs_for_libmrc", "MRC_PRIVATE", True)  # what libibverbs has for libmrc alone


def is_current() -> bool:
    """Whether the library has been built, and from these sources."""
    built_from = folder() / _BUILT_FROM
    return library() is not None and built_from.exists() and built_from.read_text() == _digest()


def _digest() -> str:
    return digest(sorted((*SOURCES.glob("*.[chp]*"), *MRC_SOURCES.glob("*.[ch]"))), agent_records.header())


def missing() -> str | None:
    """What it takes to build the library and is not here; None if all is."""
    try:
        _system_library()
    except CBuildError as error:
        return str(error)
    return None


def state() -> tuple[bool, str]:
    """Whether programs for RDMA find the NICs of hosts; and the library's path, or what it takes to build it."""
    path = library()
    if path is not None and is_current():
        return True, f"programs for RDMA, such as ib_write_bw, run in hosts: {path}"
    cost = "programs for RDMA, such as ib_write_bw, find no NIC in hosts"
    if path is not None:
        cost = "its sources have changed since it was built"
    return False, f"{cost}. {missing() or 'All it takes is here.'} Then: python -m mrc_host.libibverbs"


def build() -> Path:
    """The library, built unless these sources are; CBuildError. Programs that run keep theirs."""
    place = folder()
    if is_current():
        return place / SONAME
    sources = _digest()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place, prefix="making-") as name:
            compile_into(Path(name), ("-O2",))
            (Path(name) / _BUILT_FROM).write_text(sources)
            for product in (SONAME, MRC_SONAME, *MRC_ALIASES, _BUILT_FROM):
                os.replace(Path(name) / product, place / product)
    except OSError as error:
        raise CBuildError(f"{place} cannot be written ({error.strerror}).") from None
    return place / SONAME


def compile_into(scratch: Path, flags: Sequence[str]) -> Path:
    """Compile and link both libraries in the empty folder `scratch`; returns libibverbs there. CBuildError."""
    system = symbols(_system_library())
    files = sorted(str(file) for file in SOURCES.glob("*.c"))
    (scratch / agent_records.NAME).write_text(agent_records.header())
    _compile("the sources of libibverbs", ["-I.", "-c", *files], flags, scratch)
    objects = sorted(str(file) for file in scratch.glob("*.o"))
    ours = {symbol.name for symbol in symbols(*objects)}
    (scratch / "refused.c").write_text(refusals([one for one in system if one.name not in ours]))
    (scratch / "versions.map").write_text(version_map([*system, FOR_LIBMRC]))
    link = ["-shared", f"-Wl,-soname,{SONAME}", "-Wl,--version-script=versions.map", "-Wl,-Bsymbolic-functions"]
    _compile(SONAME, [*link, "-o", SONAME, "refused.c", *objects], flags, scratch)
    _link_libmrc(scratch, flags)
    return scratch / SONAME


def _link_libmrc(scratch: Path, flags: Sequence[str]) -> None:
    """Only the functions that are declared for applications are visible; they need the libibverbs beside it."""
    files = [*sorted(str(file) for file in MRC_SOURCES.glob("*.c")), str(SOURCES / "json.c")]
    link = ["-shared", "-fvisibility=hidden", f"-Wl,-soname,{MRC_SONAME}", "-Wl,-rpath,$ORIGIN"]
    _compile(MRC_SONAME, [*link, "-o", MRC_SONAME, *files, SONAME], flags, scratch)
    for alias in MRC_ALIASES:
        (scratch / alias).symlink_to(MRC_SONAME)


def symbols(*files: str) -> list[Symbol]:
    """What objects define; of a shared library with the version that new programs get."""
    dynamic = ["-D", "--with-symbol-versions"] if len(files) == 1 and ".so" in files[0] else []
    listing = _run(["nm", "--defined-only", *dynamic, *files])
    found = re.findall(r"^[0-9a-f]+ ([TWiBDRV]) (\w+)(?:@@(\w[\w.]*))?$", listing, re.MULTILINE)
    return [Symbol(name, version, kind in "BDRV") for kind, name, version in found if version or not dynamic]


def refusals(absent: Sequence[Symbol]) -> str:
    """C source of functions that refuse: those that make something return NULL, others the error. Data is zero."""
    lines = ["#include <errno.h>", "#include <stddef.h>"]
    for symbol in sorted(absent, key=lambda one: one.name):
        if symbol.is_data:
            lines.append(f"char {symbol.name}[64];")
            continue
        makes = re.match(r"ibv_(alloc|create|import|open|reg)_", symbol.name)
        kind, value = ("void *", "NULL") if makes else ("int ", "EOPNOTSUPP")
        lines += [f"{kind}{symbol.name}(void);", f"{kind}{symbol.name}(void) {{ errno = EOPNOTSUPP; return {value}; }}"]
    return "\n".join(lines) + "\n"


def version_map(system: Sequence[Symbol]) -> str:
    """The linker's version script: the nodes of the system's library, each depending on the one before."""
    nodes = sorted({one.version for one in system}, key=lambda node: [int(n) for n in re.findall(r"\d+", node)])
    nodes.sort(key=lambda node: "PRIVATE" in node)
    lines, before = [], ""
    for node in nodes:
        names = " ".join(sorted(f"{one.name};" for one in system if one.version == node))
        local = " local: *;" if node == nodes[-1] else ""
        lines.append(f"{node} {{ global: {names}{local} }}{before};")
        before = f" {node}"
    return "\n".join(lines) + "\n"


def _system_library() -> str:
    """Path of the system's library, whose headers are there as well; CBuildError."""
    try:
        found = _run([COMPILER, "-print-file-name=libibverbs.so"]).strip()
        headers = children.run(
            [COMPILER, "-E", "-x", "c", "-"],
            input=f"#include <{_HEADER}>\n",
            text=True,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise CBuildError(f"There is no {error.filename} here: apt-get install gcc.") from None
    if "/" not in found or headers.returncode:
        raise CBuildError("The headers of libibverbs are not installed: apt-get install libibverbs-dev.")
    return found


def _compile(what: str, arguments: Sequence[str], flags: Sequence[str], scratch: Path) -> None:
    compiler.run(COMPILER, [*LANGUAGE, *flags, *arguments], scratch, what, Limits())


def _run(command: Sequence[str]) -> str:
    done = children.run(list(command), cwd="/", capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).splitlines()
        first = next((line for line in lines if "error" in line), lines[0] if lines else "it failed")
        raise CBuildError(f"{command[0]} could not build it: {first.strip()}")
    return str(done.stdout)
