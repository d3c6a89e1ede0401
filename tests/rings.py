"""The two rings of tests: `make test` runs the first, `make test-all` the second.

The first is what a newcomer and every change needs: units, devices, one fabric of each shape, programs of others. The
second has what takes long and seldom breaks: the demo, commands on pages, wheels, browsers, PyTorch, BMv2, scripts of
the virtual machine, long random runs. A test is of the second ring if its file is below :data:`SECOND` or it is marked
``second_ring``. With ``--ring`` pytest takes the tests of one ring, without it all.

`python -m tests.rings 1 FILE...` prints those of the files that have tests of that ring, for `scripts/test`: pytest
imports each file that it is given by name.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
FIRST, SECOND_RING = 1, 2
SECOND: Final = (
    # commands on pages and in examples, the demo, chores
    "benchmarks",
    "docs/test_on_fabric.py",
    "examples",
    "integration/test_demo.py",
    "scripts",
    # what is installed: wheels, the virtual machine, the plugin for tests of others
    "mrc_lab/pytest_plugin/test_fixtures.py",
    "mrc_lab/test_wheel.py",
    "vagrant",
    # browsers, terminals, Prometheus
    "integration/test_demo_web.py",
    "integration/test_telemetry.py",
    "integration/test_web.py",
    "mrc_lab/top/test_app.py",
    "mrc_lab/web/test_page.py",
    "mrc_lab/web/test_player_page.py",
    "mrc_lab/web/test_result_recording.py",
    # PyTorch
    "integration/test_demo_pytorch.py",
    "integration/test_torch.py",
    "integration/test_torch_elastic.py",
    "integration/test_torch_faults.py",
    "integration/test_torch_reconfigure.py",
    "integration/test_torch_ring.py",
    "integration/test_train_faults.py",
    "integration/test_torchft.py",
    "mrc_lab/torch",
    "mrc_lab/torch_jobs/test_installation.py",
    "mrc_lab/torch_jobs/train_faults/test_reference.py",
    "rank_faults",
    # Wireshark
    "integration/test_captures.py",
    "mrc_host/captures/test_agreement.py",
    "mrc_host/captures/test_dissector.py",
    "mrc_host/captures/test_nic_traffic.py",
    # BMv2 and other implementations
    "integration/test_bmv2.py",
    "integration/test_nccl_plugin.py",
    "integration/test_nccl_plugin_faults.py",
    "integration/test_ptf.py",
    "integration/test_soft_roce.py",
    "mrc_host/libibverbs/test_hostile_agents.py",
    "mrc_host/libibverbs/test_rdma_core_tests.py",
    "p4compiler/test_random_code_on_bmv2.py",
    "p4runtime_shim/differential/test_bmv2.py",
    # long runs
    "fuzz",
    "integration/test_soak.py",
    "mrc_host/transport/test_floor.py",
    "mrc_lab/conformance/test_examination.py",
    "mrc_lab/paper/test_published.py",
    "mrc_lab/paper/test_reproduction.py",
    "mrc_lab/path_map_trials/test_calibration.py",
    "mrc_lab/sweeps/test_local_processes.py",
    "p4runtime_shim/server/test_read_limits.py",
    "simulation/test_burst_loss.py",
    "simulation/test_limping_link.py",
)
_MARK: Final = "second_ring"


@functools.cache
def below_second(file: Path) -> bool:
    """Whether all tests of a file are of the second ring."""
    return any(file.is_relative_to(ROOT / "tests" / name) for name in SECOND)


@functools.cache
def rings_of(file: Path) -> frozenset[int]:
    """The rings of which a file has tests."""
    if below_second(file):
        return frozenset({SECOND_RING})
    return frozenset({FIRST, SECOND_RING}) if f"mark.{_MARK}" in file.read_text() else frozenset({FIRST})


def of_ring(ring: int, files: Iterable[str]) -> list[str]:
    """Those of the files that have tests of the ring; folders stay, since pytest looks into them."""
    return [name for name in files if (ROOT / name).is_dir() or ring in rings_of(ROOT / name)]


def pytest_addoption(parser: pytest.Parser) -> None:
    rings = (FIRST, SECOND_RING)
    parser.addoption("--ring", type=int, choices=rings, help="only the tests of this ring (tests/rings.py)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    ring = config.getoption("ring")
    if ring is None or not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    return None if ring in rings_of(collection_path) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ring = config.getoption("ring")
    if ring is None:
        return
    chosen = [item for item in items if _ring(item) == ring]
    config.hook.pytest_deselected(items=[item for item in items if _ring(item) != ring])
    items[:] = chosen


def _ring(item: pytest.Item) -> int:
    second = below_second(item.path) or item.get_closest_marker(_MARK) is not None
    return SECOND_RING if second else FIRST


if __name__ == "__main__":
    print(*of_ring(int(sys.argv[1]), sys.argv[2:]), sep="\n")
