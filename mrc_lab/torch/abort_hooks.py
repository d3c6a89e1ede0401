"""Functions of users that are called when a group fails or is aborted, as to record what was under way."""

from __future__ import annotations

from collections.abc import Callable

from mrc_lab.torch.callback_threads import CallbackThreads


class AbortHooks:
    """Hooks by number; they run on threads of `callbacks`."""

    def __init__(self, callbacks: CallbackThreads) -> None:
        self._callbacks = callbacks
        self._hooks: dict[int, Callable[[], None]] = {}

    def register(self, hook_id: int, hook: Callable[[], None]) -> None:
        """Have `hook` called, instead of another one of this number."""
        self._hooks[hook_id] = hook

    def unregister(self, hook_id: int) -> None:
        """Undo :meth:`register`; a number that is not there is no error."""
        self._hooks.pop(hook_id, None)

    def run(self) -> None:
        """Call all of them, each on a thread; returns at once."""
        for hook in tuple(self._hooks.values()):
            self._callbacks.run(hook)
