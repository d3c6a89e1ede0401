import pytest

from mrc_host.verbs.local import LocalProvider


@pytest.fixture
def buffers(monkeypatch):
    """All memory that was registered, in order: of each end, what it sends from and what it is written to."""
    registered = []
    honest = LocalProvider.register_memory

    def remember(self, pd, length, access):
        info, buffer = honest(self, pd, length, access)
        registered.append(buffer)
        return info, buffer

    monkeypatch.setattr(LocalProvider, "register_memory", remember)
    return registered
