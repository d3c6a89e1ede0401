"""The errors of this room; the messages are for users."""

from __future__ import annotations


class ControllerError(Exception):
    """The controller could not do what it was asked; the message says why and what to do."""


class BusyError(ControllerError):
    """There is too much of something already."""


class NoAgentsError(ControllerError):
    """What was asked for takes the hosts' agents, and this controller does not know them."""

    def __init__(self) -> None:
        super().__init__("This controller does not know where the hosts' agents listen: start it with --agents.")
