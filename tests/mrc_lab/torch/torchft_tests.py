"""Run torchft's own tests of process groups with ProcessGroupMrc in place of ProcessGroupGloo.

They are in torchft's wheel. Replicas are threads there, each of which gets a NIC of its own.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import re
import threading
import unittest
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.mrc_lab.torch.foreign_suite import Suite, serve

LONG = timedelta(seconds=60)
# Those of the wheel's modules whose tests make process groups; the others have mocks or none.
MODULES = (
    "checkpointing.pg_transport_test",
    "collectives_test",
    "diloco_regression_test",
    "fsdp_test",
    "lighthouse_test",
    "local_sgd_integ_test",
    "manager_integ_test",
    "parameter_server_test",
    "process_group_test",
    "torchcomms_test",
)
# Words of errors that the tests expect of gloo or NCCL, and those of MRC.
WORDS = {
    "Connection closed by peer": "has left the group",
    "aborted": "has left the group",
    "timeout after 10ms": r"Timed out after 0\.01 s",
}
_NUMBERED = re.compile(r"(?<=^test_collective)(_with_resiliency)?_\d+")  # in the order of a set, another one each time


def missing() -> str | None:
    """What it takes to run them and is not here."""
    absent = any(importlib.util.find_spec(name) is None for name in ("torch", "torchft", "parameterized"))
    return (
        "PyTorch, torchft or parameterized is not installed: pip install '.[torch,torchft]' parameterized"
        if absent
        else None
    )


SUITE = Suite("tests.mrc_lab.torch.torchft_tests", 12, "training-faults.md", missing)


def put_mrc_in_place_of_gloo(folder: Path) -> None:
    """Before torchft's tests are imported: they name gloo's class where they make a group."""
    import torchft
    import torchft.process_group

    from tests.mrc_lab.torch.own_nic import OnNic

    numbers = itertools.cycle(range(SUITE.nics))  # more than there are groups at a time

    class OnNextNic(OnNic):
        def __init__(self, timeout: timedelta = LONG) -> None:
            patience = LONG if timeout >= timedelta(seconds=1) else timeout  # a busy machine takes longer
            super().__init__(folder / f"h{next(numbers) + 1}.sock", patience)

        def __del__(self) -> None:
            """A replica that has crashed here is a thread that has ended; its process would have taken all with it."""
            if self._pg is not None:
                threading.Thread(target=self._pg.abort, daemon=True).start()

    torchft.ProcessGroupGloo = torchft.process_group.ProcessGroupGloo = OnNextNic


def accept_what_mrc_says(case: Any) -> None:
    """Where the tests of a class expect the words of gloo or NCCL, those of MRC will do."""
    theirs = case.assertRaisesRegex

    @functools.wraps(theirs)
    def ours(self: Any, kind: Any, pattern: str, *arguments: Any) -> Any:
        accepted = [pattern, *(words for given, words in WORDS.items() if given in pattern)]
        return theirs(self, kind, "|".join(accepted), *arguments)

    case.assertRaisesRegex = ours


def cases(folder: Path) -> dict[str, Any]:
    """All tests by module, class and name."""
    put_mrc_in_place_of_gloo(folder)
    from torchft.process_group_test import MultiPgBaseTest, ProcessGroupTest

    accept_what_mrc_says(MultiPgBaseTest)
    accept_what_mrc_says(ProcessGroupTest)
    found: dict[str, Any] = {}
    for module in MODULES:
        imported = importlib.import_module(f"torchft.{module}")
        for case in vars(imported).values():
            if isinstance(case, type) and issubclass(case, unittest.TestCase) and case.__module__ == imported.__name__:
                for test in unittest.TestLoader().getTestCaseNames(case):
                    name = _NUMBERED.sub(r"\1", test)
                    found[f"{module}.{case.__name__}.{name}"] = functools.partial(case, test)
    return found


if __name__ == "__main__":
    serve(cases)
