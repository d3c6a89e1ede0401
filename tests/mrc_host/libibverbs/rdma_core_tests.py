"""Run rdma-core's own tests, those of pyverbs, on our libibverbs and two NICs in memory.

    python -m tests.mrc_host.libibverbs.rdma_core_tests FOLDER [NAME...]

FOLDER is a checkout of rdma-core in the version that pyverbs has here; Debian's python3-pyverbs brings its tests.
Each test has its outcome in a line. ``rdma_core_child.py`` runs them; the table ``rdma_core_tests.yaml`` says what is
expected of each.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from mrc_host.libibverbs import build
from tests.mrc_host.nics_in_memory import nics_in_memory
from tests.outcomes import Outcome, read_table

PACKAGED = Path("/usr/share/doc/rdma-core")  # where Debian has the tests
TABLE = Path(__file__).with_suffix(".yaml")
_CHILD = Path(__file__).with_name("rdma_core_child.py")


def checkout() -> Path | None:
    """Where rdma-core's tests are: RDMA_CORE_PATH, or those of Debian's package; None if they are not here."""
    folder = Path(os.environ.get("RDMA_CORE_PATH", PACKAGED))
    return folder if (folder / "tests" / "run_tests.py").exists() else None


def missing() -> str | None:
    """What it takes to run them and is not here; None if all is."""
    if not build.is_current():
        return f"libibverbs is not built: {build.missing() or 'python -m mrc_host.libibverbs'}"
    if importlib.util.find_spec("pyverbs") is None:
        return "this Python has no pyverbs: apt-get install python3-pyverbs"
    if checkout() is None:
        return "rdma-core's tests are not here: RDMA_CORE_PATH is the path of a checkout of rdma-core"
    return None


def expected(test: str) -> Outcome | None:
    """What the table says of a test, by its module, class and name; None if it does not have it."""
    short = test.removeprefix("test_").replace(".test_", ".")
    return next((outcome for pattern, outcome in read_table(TABLE).items() if fnmatchcase(short, pattern)), None)


def run(source: Path, scratch: Path, tests: Sequence[str] = ()) -> Iterator[Outcome]:
    """Outcomes of all tests of the checkout `source`, or of those named, as they come; NICs are in `scratch`."""
    with nics_in_memory(scratch, 2):
        yield from run_between(source, scratch, (scratch / "h1.sock", scratch / "h2.sock"), tests)


def run_between(source: Path, scratch: Path, sockets: tuple[Path, Path], tests: Sequence[str]) -> Iterator[Outcome]:
    """The same on the two NICs whose agents' sockets are given."""
    unpack(source / "tests", scratch / "tests")
    command = [sys.executable, str(_CHILD), str(scratch), *map(str, sockets), *tests]
    variables = {**os.environ, "LD_LIBRARY_PATH": str(build.folder())}
    with (
        open(scratch / "log", "w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=variables) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            yield Outcome(**json.loads(line))
    assert process.returncode == 0, (scratch / "log").read_text()[-2000:]


def unpack(source: Path, target: Path) -> None:
    """Copy the tests; Debian has compressed the larger ones."""
    target.mkdir(exist_ok=True)
    for file in source.iterdir():
        if file.suffix == ".gz":
            (target / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        elif file.is_file():
            shutil.copy(file, target)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: python -m tests.mrc_host.libibverbs.rdma_core_tests FOLDER [NAME...]")
    os.environ["RDMA_CORE_PATH"] = sys.argv[1]
    if reason := missing():
        sys.exit(f"{reason}.")
    with tempfile.TemporaryDirectory() as scratch:
        for outcome in run(Path(sys.argv[1]), Path(scratch), sys.argv[2:]):
            print(outcome.outcome, outcome.test, outcome.reason, flush=True)


if __name__ == "__main__":
    main()
