import pytest

from mrc_host.verbs.local import LocalProvider


@pytest.fixture
def buffers(monkeypatch):
    """All memory that was registered, in order: of each end, what it sends from and what it is written to."""
    registered = []
    honest = LocalProvider.allocate_memory

    def remember(self, pd, length, access, address):
        info, buffer = honest(self, pd, length, access, address)
        registered.append(buffer)
        return info, buffer

    monkeypatch.setattr(LocalProvider, "allocate_memory", remember)
    return registered
