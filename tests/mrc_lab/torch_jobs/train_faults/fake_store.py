"""A store of torch.distributed within one process."""

from __future__ import annotations

import threading
from collections.abc import Sequence


class FakeStore:
    """What TCPStore does, as far as it is used."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._lock = threading.Lock()

    def set(self, key: str, value: str) -> None:
        self._values[key] = value

    def get(self, key: str) -> bytes:
        return self._values[key].encode()

    def check(self, keys: Sequence[str]) -> bool:
        return all(key in self._values for key in keys)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        with self._lock:
            if self._values.get(key, "") == expected:
                self._values[key] = desired
            return self._values[key].encode()
