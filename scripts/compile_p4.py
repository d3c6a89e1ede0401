"""Compile p4src/ with p4c into p4src/build/: BMv2 JSON, P4Info, and a manifest of what they were made from.

The products are committed, since p4c's are what the project's own compiler is tested against. The manifest holds the
SHA-256 of every P4 source; a test compares it with the tree, so products that are stale are noticed. Nothing but p4c
needs to be installed for this.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import p4compiler
from mrc_common import children
from p4src import NO_COMPILER, SOURCES, source_hashes

P4_DIRECTORY = SOURCES
MAIN = "fabric.p4"


def compile_p4(source: Path, output: Path) -> str:
    """Compile `source` to `output`/<stem>.json and .p4info.txtpb; returns the compiler's version.

    Raises FileNotFoundError without p4c and subprocess.CalledProcessError when it finds an error.
    """
    compiler = shutil.which("p4c-bm2-ss")
    if compiler is None:
        raise FileNotFoundError(NO_COMPILER)
    output.mkdir(parents=True, exist_ok=True)
    program = output / f"{source.stem}.json"
    command = [compiler, "--std", "p4-16", "--arch", "v1model", "-o", str(program)]
    command += ["--p4runtime-files", str(output / f"{source.stem}.p4info.txtpb"), source.name]
    children.run(command, check=True, cwd=source.parent)
    drop_local_paths(program)
    shown = children.run([compiler, "--version"], check=True, capture_output=True, text=True)
    found = re.search(r"Version\s+([\d.]+)", shown.stdout + shown.stderr)
    return found.group(1) if found else "unknown"


def drop_local_paths(program: Path) -> None:
    """The compiler writes the path it was called with into the JSON; keep only the file's name."""
    content = json.loads(program.read_text())
    content["program"] = Path(content["program"]).name
    program.write_text(json.dumps(content, indent=2) + "\n")


def compile_without_p4c(source: Path, output: Path) -> str:
    """Compile likewise with the project's own compiler; returns its name. Raises p4compiler.P4Error."""
    compiled = p4compiler.compile(source)
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{source.stem}.json").write_text(compiled.json + "\n")
    (output / f"{source.stem}.p4info.txtpb").write_text(compiled.p4info)
    return "p4compiler"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile the fabric program and write the manifest."""
    parser = argparse.ArgumentParser(prog="make p4", description="Compile p4src/ with p4c into p4src/build/.")
    parser.add_argument("--force", action="store_true", help="without p4c, take the project's own compiler")
    own = parser.parse_args(arguments).force and shutil.which("p4c-bm2-ss") is None
    output = P4_DIRECTORY / "build"
    try:
        if own:
            compiler = compile_without_p4c(P4_DIRECTORY / MAIN, output)
        else:
            compiler = f"p4c-bm2-ss {compile_p4(P4_DIRECTORY / MAIN, output)}"
    except (FileNotFoundError, p4compiler.P4Error) as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError:
        return 1
    manifest = {"compiler": compiler, "sources": source_hashes()}
    (output / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    print(f"p4src/build/ made with {compiler}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
