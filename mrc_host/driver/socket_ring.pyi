"""What socket_ring.c offers."""

from typing_extensions import Buffer  # a stub may, whatever the Python

from mrc_host.wire.encap import Flow

class SocketRing:
    """What a packet socket receives, in memory that it shares with the kernel (packet(7), PACKET_RX_RING)."""

    def __init__(self, fd: int, slots: int, longest: int) -> None:
        """For at least `slots` frames of up to `longest` bytes. OSError when the kernel has no rings, or no memory.

        What the socket has received until then is lost, and it may receive nothing more if the interface comes up
        meanwhile: so bind it afterwards.
        """

    def receive_into(self, buffer: Buffer) -> int:
        """Copy out the next frame; its length, 0 if there is none. One longer than `longest` is cut behind that."""

    def carry_to(self, receiver: object, carry_frame: object, port: int) -> None:
        """Who carries the frames of `port` from now on: those of ``transport.native_datapath``."""

    def carry(self, limit: int) -> tuple[int, int, tuple[int, int, int, Flow] | None]:
        """Carry up to `limit` frames, until one is for Python or makes an answer due; count, bytes, and that."""

    def stamp(self) -> int:
        """When the kernel received the frame that `receive_into` took last (CLOCK_REALTIME, ns); at first 0."""

    def send(self, frame: Buffer) -> int:
        """Send a frame through the socket; errors are those of ``socket.send``."""

    def discard(self) -> None:
        """Take out all that is there."""

    def close(self) -> None:
        """Let go of all, before the socket is closed; nothing is received or sent any more. Twice is no error."""
