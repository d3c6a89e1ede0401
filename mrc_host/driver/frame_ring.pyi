"""What frame_ring.c offers."""

from typing_extensions import Buffer  # a stub may, whatever the Python

from mrc_host.wire.encap import Flow

class FrameRing:
    """A NIC's end of the rings beside a link (mrc_common/frame_ring.h)."""

    sent: int
    """When the frame received last was sent, ns of CLOCK_MONOTONIC."""
    refused: int
    """Length of the frame for which there was no room, as long as `full` and `arm` find none; 0: there is."""
    broken: int
    """Times that the other end had written what makes no sense."""

    def __init__(self, memory: Buffer, receiving: int, bell: int, other_bell: int) -> None:
        """Discards what waits to be received; stands aside at first. ValueError: no memory of rings."""

    def connect(self, socket: int, longest: int) -> None:
        """The packet socket at the interface, -1 for none, and its longest frame in bytes."""

    def stand_aside(self, on: bool) -> None:
        """Have the frames of both directions pass through the interface, or not."""

    def send(self, frame: Buffer) -> int:
        """Write a frame, which goes with the next `flush`, or send it through the interface (OSError as from there).

        BlockingIOError: there is no room, until `full` is false.
        """

    def flush(self) -> None:
        """Pass on what was written, and wake the other end if it sleeps."""

    def receive_into(self, buffer: Buffer) -> int:
        """The next frame; its length, 0 if there is none."""

    def carry_to(self, receiver: object, carry_frame: object, port: int) -> None:
        """Who carries the frames of `port` from now on: those of ``transport.native_datapath``."""

    def carry(self, limit: int) -> tuple[int, int, tuple[int, int, int, Flow] | None]:
        """Carry up to `limit` frames, until one is for Python or makes an answer due; count, bytes, and that."""

    def release(self) -> None:
        """Give the room of the frames received back to the other end, as `receive_into` does when it finds no more."""

    def pending(self) -> bool:
        """Whether frames wait."""

    def full(self) -> bool:
        """Whether there is still no room for the frame that `send` refused; while so, the other end rings."""

    def arm(self) -> bool:
        """Before sleeping: have the other end ring; False if frames, or room for the one refused, came meanwhile."""

    def disarm(self) -> None:
        """Awake again."""

    def fileno(self) -> int:
        """The pipe that the other end rings; to be waited for edge-triggered."""

    def hear(self) -> bool:
        """After waking, before looking for frames: take what rang; False if not all, to give others their turn."""
