"""What signal_holder.c offers; it is compiled with the transport (scripts/compile_transport.py).

All of it is called in the main thread. Holders may be within others, also of other NICs.
"""

def hold(numbers: tuple[int, ...], bell: int) -> None:
    """From now on those of these signals whose handlers are Python functions are noted, and `bell` (an eventfd) rings.

    With the first of several holders only.
    """

def release() -> None:
    """Undo `hold`; with the last holder handlers are back and run for what came, and what they raise is raised."""

def forget() -> None:
    """Nothing is held any more, and what came is forgotten: in a forked child it is the parent's."""

def noted() -> bool:
    """Whether a signal has come."""

def silence(bell: int) -> None:
    """Ring this bell no more; it is about to be closed."""
