"""What event_wait.c offers."""

def wait(epoll: int, wait_ns: int) -> list[tuple[int, int]]:
    """Wait until an event of the epoll instance is ready, for `wait_ns` at most (negative: without limit).

    Descriptors and their event masks, 64 at most; none after the time has passed or a signal was handled. OSError with
    ENOSYS before Linux 5.11.
    """
