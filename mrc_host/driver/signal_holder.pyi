"""What signal_holder.c offers; it is compiled with the transport (scripts/compile_transport.py).

All of it is called in the main thread. Holders may be within others, also of other NICs.
"""

def hold(numbers: tuple[int, ...]) -> int:
    """From now on those of these signals whose handlers are Python functions are noted, and the bell rings.

    Of several holders the first one's `numbers` count. Returns what `noted` takes.
    """

def release() -> None:
    """Undo `hold`; with the last holder handlers are back and run for what came, and what they raise is raised."""

def forget() -> None:
    """Nothing is held any more, and what came is forgotten: in a forked child it is the parent's."""

def noted(since: int) -> bool:
    """Whether a signal has come since `hold` returned that."""

def fileno() -> int:
    """The bell, an eventfd, which is waited for edge-triggered and never read or closed."""
