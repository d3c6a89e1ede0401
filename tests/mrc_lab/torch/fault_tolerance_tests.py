"""Run PyTorch's own tests of backends that reconfigure on the backend mrc, each with three ranks on NICs in memory.

They are in no wheel: PYTORCH_PATH is the path of a checkout of PyTorch in the version that is installed, which has them
in ``test/distributed/test_c10d_fault_tolerance.py``. That file makes a class of tests for each of its backends, and
here one for mrc.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.mrc_lab.torch.foreign_suite import ForkedRanks, Suite, serve

VARIABLE = "PYTORCH_PATH"
FILE = Path("test", "distributed", "test_c10d_fault_tolerance.py")


def missing() -> str | None:
    """What it takes to run them and is not here."""
    if any(importlib.util.find_spec(name) is None for name in ("torch", "expecttest")):
        return "PyTorch or expecttest is not installed: pip install '.[torch]' expecttest"
    import torch
    import torch.distributed as dist

    if not hasattr(dist, "_reconfigure"):
        return f"PyTorch {torch.__version__} knows no backends that reconfigure: 2.14 does"
    if not (VARIABLE in os.environ and _file().exists()):
        return f"PyTorch's tests are not here: {VARIABLE} is the path of a checkout of PyTorch {torch.__version__}"
    return None


SUITE = Suite("tests.mrc_lab.torch.fault_tolerance_tests", 3, "training-faults.md", missing)


def cases(folder: Path) -> dict[str, Any]:
    """All tests by class and name."""
    theirs = _module()

    class OnMrc(ForkedRanks, theirs._make_fault_tolerance_test_class("mrc", "cpu")):  # type: ignore[misc]
        nics = folder

    classes = {"MrcFaultToleranceTest": OnMrc, "ReconfigureContractTest": theirs.ReconfigureContractTest}
    return {
        f"{name}.{test}": functools.partial(case, test)
        for name, case in classes.items()
        for test in unittest.TestLoader().getTestCaseNames(case)
    }


def _file() -> Path:
    return Path(os.environ[VARIABLE]) / FILE


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location(FILE.stem, _file())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    serve(cases)
