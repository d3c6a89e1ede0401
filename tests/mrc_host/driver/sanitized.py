"""A plugin of pytest (`-p tests.mrc_host.driver.sanitized`): the driver's extensions in C run under sanitizers."""

from __future__ import annotations

from tests.fuzz.fuzz_datapath import FLAGS
from tests.mrc_host.driver import rings

rings.compiled_extension.__wrapped__.__defaults__ = (FLAGS,)
