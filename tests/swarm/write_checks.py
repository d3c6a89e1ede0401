"""What must hold of every write, from its completion and from memory alone.

* It completes exactly once, in the order of posting; it is announced at most once, in order, with its length.
* When it is reported SUCCESS its bytes are in the memory that it was posted for, at that very moment.
* When a WRITE_WITH_IMM is announced, everything before it in its life is in memory too.
* Nothing else changes memory: neither what lies between targets, nor the target of a write whose receiver's life or
  memory region was over before (``ends.Life``), nor that of a write that nobody posted.
"""

from __future__ import annotations

from collections.abc import Callable

from mrc_host.verbs_types import Completion, CompletionOpcode, CompletionStatus
from tests.swarm.applications import Applications
from tests.swarm.queue_pair_ends import Posted, QueuePairEnd


class Ledger:
    """Hears every completion of a run: `progress` is called then, and `report` with what must not be."""

    def __init__(self, report: Callable[[str], None], now: Callable[[], int], progress: Callable[[], None]) -> None:
        self._report, self._now, self._progress = report, now, progress
        self.succeeded_bytes: dict[tuple[str, int], int] = {}  # by NIC and QPN

    def completed(self, applications: Applications, nic: str, completion: Completion) -> None:
        """A completion was taken from a queue of `nic`."""
        self._progress()
        end = applications.owners.get((nic, completion.qpn))
        if end is None:
            self._report(f"{nic} has a completion of QP {completion.qpn:#x}, which nobody made there")
        elif completion.opcode is CompletionOpcode.RECV_WRITE_WITH_IMM:
            self._announced(applications.other(end), end, completion)
        else:
            self._completed(end, completion)

    def _completed(self, end: QueuePairEnd, completion: Completion) -> None:
        if not 0 <= completion.wr_id < len(end.writes) or end.writes[completion.wr_id].life is None:
            self._report(f"write {completion.wr_id} from {end.nic} completed, but was never posted")
            return
        posted = end.writes[completion.wr_id]
        posted.completions.append(completion)
        if len(posted.completions) > 1:
            self._report(f"write {completion.wr_id} from {end.nic} completed twice")
            return
        posted.done_at = self._now()
        assert posted.life is not None
        if posted.life.qpn != completion.qpn:
            self._report(f"write {posted.number} from {end.nic} completed on another queue pair than it was posted to")
        waiting = [
            earlier.number
            for earlier in end.writes[: posted.number]
            if earlier.life is not None and not earlier.completions and not earlier.given_up
        ]
        if waiting:
            self._report(f"write {posted.number} from {end.nic} completed before {waiting}")
        if completion.status is CompletionStatus.SUCCESS:
            key = end.nic, completion.qpn
            self.succeeded_bytes[key] = self.succeeded_bytes.get(key, 0) + posted.plan.length
            if not arrived(end, posted):
                self._report(f"write {posted.number} from {end.nic} succeeded, but its bytes are not in memory")

    def _announced(self, sender: QueuePairEnd, receiver: QueuePairEnd, completion: Completion) -> None:
        number = -1 if completion.imm is None else completion.imm
        known = 0 <= number < len(sender.writes) and sender.writes[number]
        if not known or not known.plan.imm or known.life is None:
            self._report(
                f"{receiver.nic} got a completion for write {number} that {sender.nic} never posted with immediate"
            )
            return
        posted = sender.writes[number]
        posted.announced += 1
        if posted.announced > 1:
            self._report(f"write {number} from {sender.nic} was announced {posted.announced} times")
            return
        if receiver.announced and receiver.announced[-1] > number:
            self._report(f"write {number} from {sender.nic} was announced after {receiver.announced[-1]}")
        receiver.announced.append(number)
        if completion.byte_len != posted.plan.length:
            self._report(f"write {number} from {sender.nic} was announced with {completion.byte_len} bytes")
        for earlier in sender.writes[: number + 1]:
            if earlier.life is posted.life and not arrived(sender, earlier):
                self._report(f"write {number} from {sender.nic} was announced while {earlier.number} is not in memory")
                break

    # ---- at the end -----------------------------------------------------------------------------------------------

    def check_memory(self, applications: Applications) -> None:
        """Look at every byte of every target region there ever was."""
        for receiver, sender in applications.ends:
            for buffer in {id(life.buffer): life.buffer for life in receiver.lives}.values():
                self._check_buffer(sender, buffer)

    def _check_buffer(self, sender: QueuePairEnd, buffer: memoryview) -> None:
        at = 0
        for posted in sender.writes:
            if any(buffer[at : posted.offset]):
                self._report(f"bytes before the target of write {posted.number} from {sender.nic} have changed")
            at = posted.offset + posted.plan.length
            found = bytes(buffer[posted.offset : at])
            here = posted.life is not None and posted.life.peer is not None and posted.life.peer.buffer is buffer
            if not here:
                if any(found):
                    self._report(f"write {posted.number} from {sender.nic} changed memory that it was not posted for")
            elif posted.succeeded and found != sender.source_of(posted):
                self._report(f"write {posted.number} from {sender.nic} succeeded, but its bytes are wrong in the end")
            elif posted.frozen is not None and found != posted.frozen:
                self._report(
                    f"write {posted.number} from {sender.nic} changed memory after the life it was posted in, or the"
                    " memory region, was over"
                )
            elif not posted.succeeded and not _partly(found, sender.source_of(posted)):
                self._report(f"write {posted.number} from {sender.nic} left other bytes than its own")
        if any(buffer[at:]):
            self._report(f"bytes behind the last target of {sender.nic} have changed")


def arrived(sender: QueuePairEnd, posted: Posted) -> bool:
    """Whether a write's bytes are where they belong."""
    return bytes(posted.target()) == sender.source_of(posted)


def _partly(found: bytes, source: bytes) -> bool:
    """Whether each byte is the write's own or was never written; packets have a multiple of four bytes."""
    step = 64
    return all(
        found[at : at + step] == source[at : at + step]
        or all(a in (0, b) for a, b in zip(found[at : at + step], source[at : at + step], strict=True))
        for at in range(0, len(found), step)
    )
