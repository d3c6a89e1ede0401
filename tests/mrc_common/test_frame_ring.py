"""The rings of mrc_common/frame_ring.h, by a program in C with the sanitizers (frame_ring_check.c)."""

import secrets
import shutil
import subprocess
from pathlib import Path

import pytest

import mrc_common

SOURCE = Path(__file__).with_name("frame_ring_check.c")
FLAGS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror")

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("frame_ring") / "check"
    headers = Path(mrc_common.__file__).parent
    command = ["cc", *FLAGS, "-I", str(headers), "-o", str(made), str(SOURCE), "-pthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find" in done.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("model", id="what-is-put-is-taken-in-order"),
        pytest.param("hostile", id="the-other-end-may-write-anything"),
        pytest.param("wrap", id="nothing-leads-from-the-start-to-the-start"),
        pytest.param("full", id="who-waits-for-room-is-woken"),
        pytest.param("crash", id="either-end-is-killed-and-started-again"),
    ],
)
def test_rings(program: Path, mode: str) -> None:
    seed = secrets.randbits(32)
    print("seed", seed)
    done = subprocess.run([program, mode, str(seed)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
