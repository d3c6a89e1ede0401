"""The one path of a connection as the way back of its acknowledgements, and as the way of its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc_host.transport.peer_frames import CONTROL, FrameTemplates
from mrc_host.transport.queue_pair_interfaces import AnswerPaths
from mrc_host.transport.roce.path import RcPath
from mrc_host.verbs_types import ALL_PLANES

if TYPE_CHECKING:
    from mrc_host.datapath import native


class OnePath(AnswerPaths, FrameTemplates):
    """Path 0 at the port of `path`, and no other."""

    __slots__ = ("_path",)

    def __init__(self, path: RcPath) -> None:
        self._path = path

    def port(self, anywhere: bool = False, among: int = ALL_PLANES) -> int:
        """Mask of the port."""
        return 1 << self._path.port & among

    def works(self, index: int, now: int) -> None:
        """Does nothing: there is no choice."""

    def reverse_path(self, plane: int, now: int) -> int:
        """Index of a path for an acknowledgement on `plane`; -1 when there is none."""
        return 0 if plane == self._path.port else -1

    def random_path(self, plane: int) -> int:
        """The same."""
        return 0 if plane == self._path.port else -1

    def acknowledging(self, now: int) -> None:
        """Does nothing."""

    def doubt_reverse_paths(self, probed: bool = False) -> None:
        """Does nothing."""

    def frame(self, index: int, kind: int, body: bytes) -> bytes:
        """The frame that carries `body`."""
        return self._path.control_frame(body)

    def template(self, index: int, kind: int) -> native.Template:
        """That of frames of class `kind`."""
        return self._path.template(kind == CONTROL)
