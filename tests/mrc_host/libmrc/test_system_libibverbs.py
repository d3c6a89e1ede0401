"""libmrc beside the system's libibverbs, as outside of hosts: it loads, and says that no device is an MRC NIC."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mrc_host.libibverbs import build
from tests.mrc_host.libibverbs.build_program import build_libraries, needs_libraries

pytestmark = needs_libraries

ASK = """
import ctypes, errno, sys
ctypes.CDLL("libibverbs.so.1", mode=ctypes.RTLD_GLOBAL)
mrc = ctypes.CDLL(sys.argv[1], use_errno=True)
device, attr, supported = ctypes.create_string_buffer(4096), ctypes.create_string_buffer(64), ctypes.c_int(7)
assert mrc.mrc_query_device(device, attr, ctypes.byref(supported)) == 0
assert supported.value == 0, supported
mrc.mrc_create_context.restype = ctypes.c_void_p
assert mrc.mrc_create_context(device, None) is None
assert ctypes.get_errno() == errno.EOPNOTSUPP
"""


def test_no_device_of_the_system_is_supported(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    shutil.copy(build_libraries(tmp_path_factory) / build.MRC_SONAME, tmp_path)  # without the libibverbs beside it
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(tmp_path / build.MRC_SONAME)],
        capture_output=True, text=True, check=False, env={"LD_BIND_NOW": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
