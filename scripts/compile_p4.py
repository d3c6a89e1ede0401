"""Compile p4src/ with p4c into p4src/build/: BMv2 JSON, P4Info, and a manifest of what they were made from.

The products are committed, so nobody needs p4c to run the testbed. The manifest holds the SHA-256 of every P4 source;
a test compares it with the tree, so products that are stale are noticed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

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


def main() -> int:
    """Compile the fabric program and write the manifest."""
    output = P4_DIRECTORY / "build"
    try:
        version = compile_p4(P4_DIRECTORY / MAIN, output)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError:
        return 1
    manifest = {"compiler": f"p4c-bm2-ss {version}", "sources": source_hashes()}
    (output / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    print(f"p4src/build/ made with p4c {version}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
