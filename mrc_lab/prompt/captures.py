"""Captures that run in the background of the prompt, each a process of ``topologies.emulation.link_capture``."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mrc_common import children, strict_json
from mrc_lab.errors import ExperimentError
from topologies import addressing
from topologies.emulation.bring_up import Emulation
from topologies.emulation.link_capture import CaptureEnd, Job
from topologies.emulation.processes import pdeathsig
from topologies.fabric import Link, LinkEnd

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class RunningCapture:
    """A capture that runs."""

    link: Link
    file: Path
    process: subprocess.Popen[str]

    def __str__(self) -> str:
        with contextlib.suppress(OSError):
            return f"{self.link.name} -> {self.file}, {self.file.stat().st_size} bytes so far"
        return f"{self.link.name} -> {self.file}"


class Captures:
    """The captures of a prompt."""

    def __init__(self, emulation: Emulation) -> None:
        self._emulation = emulation
        self.running: list[RunningCapture] = []

    def start(self, name: str, path: str) -> RunningCapture:
        """Start to capture a link. Raises ExperimentError if that fails."""
        link = self._emulation.fabric.link(name)
        file = own_path(path)
        self._check(link, file)
        comment = f"link {link.name} of fabric {self._emulation.fabric.name}"
        ends = self._end(link.lower, link.upper), self._end(link.upper, link.lower)
        dscp = self._emulation.fabric.settings.dscp
        run = self._emulation.run
        counters = tuple(map(str, run.path.glob(run.wire_counters("*").name)))
        trimmed = dscp.trimmed, dscp.trimmed_lasthop
        job = Job(str(file), ends, comment, invoking_user(), trimmed, counters)
        process = children.popen(
            pdeathsig(children.python("topologies.emulation.link_capture", job.to_json())),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            output = process.stdout.readline().strip()
        except BaseException:  # Ctrl-C
            process.kill()
            process.communicate()
            raise
        if output != "capturing":
            process.wait(_TIMEOUT_S)
            process.stdout.close()
            raise ExperimentError(output or "the capture did not start")
        self.running.append(RunningCapture(link, file, process))
        return self.running[-1]

    def stop(self, name: str | None = None) -> list[str]:
        """Stop the capture of a link, or all captures; returns a message for each."""
        links = None if name is None else {self._emulation.fabric.link(name)}
        ending = [capture for capture in self.running if links is None or capture.link in links]
        if not ending:
            raise ExperimentError("no capture runs there" if name else "no capture runs")
        return [self._end_one(capture) for capture in ending]

    def close(self) -> list[str]:
        """Stop all captures."""
        return self.stop() if self.running else []

    def _end_one(self, capture: RunningCapture) -> str:
        self.running.remove(capture)
        capture.process.terminate()
        output, _ = capture.process.communicate(timeout=_TIMEOUT_S)
        try:
            counts = strict_json.loads(output.splitlines()[-1])
        except (ValueError, IndexError):
            return f"{capture.file}: {output.strip() or 'the capture had ended before'}"
        lost = f", {counts['lost']} lost because the machine was too slow" if counts["lost"] else ""
        return f"{capture.file}: {counts['packets']} packets of {capture.link.name}{lost}"

    def _check(self, link: Link, file: Path) -> None:
        if any(capture.link == link for capture in self.running):
            raise ExperimentError(
                f"{link.name} is being captured already", f"End that with 'capture stop {link.name}'."
            )
        if any(capture.file == file for capture in self.running):
            raise ExperimentError(f"{file} is being captured to already")
        if file.is_dir() or not file.parent.is_dir():
            why = "is a folder" if file.is_dir() else "is in a folder that does not exist"
            raise ExperimentError(f"{file} {why}: give a file, as in 'capture {link.name} /tmp/link.pcapng'")

    def _end(self, end: LinkEnd, other: LinkEnd) -> CaptureEnd:
        fabric = self._emulation.fabric
        own = end.node in fabric.nic_names or fabric.is_kernel(end.node)  # a namespace
        pid = self._emulation.net[end.node].pid if own else None
        sender = "" if other.node in fabric.nic_names else other.node
        return CaptureEnd(end.node, addressing.interface_name(fabric, end), pid, sender)


def own_path(text: str) -> Path:
    """A path as the user means it: ``~`` is the home of the user who ran sudo."""
    user = os.environ.get("SUDO_USER")
    if user and (text == "~" or text.startswith("~/")):
        with contextlib.suppress(KeyError):
            text = pwd.getpwnam(user).pw_dir + text[1:]
    return Path(text).expanduser().absolute()


def invoking_user() -> tuple[int, int] | None:
    """User and group of the user who ran sudo."""
    user, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    return (int(user), int(group)) if user.isdecimal() and group.isdecimal() else None
