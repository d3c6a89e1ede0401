"""What the prompt's `fault` command understands: words to a request to the controller, and the answer as a sentence.

    fault LINK down|up                      fault t0-0:t1-2@p1 down
    fault LINK loss PERCENT [TOWARDS]       fault h1@p0 loss 1% h1
    fault LINK corrupt PERCENT [TOWARDS]    fault t0-*:t1-0@p0 corrupt 0.1%
    fault SWITCH silent                     fault t1-0@p1 silent
    fault path EV [PERCENT [FROM [TO]]]     fault path 0x402 100% h1 h3
    fault list
    fault clear ID|all

Names may be patterns. Loss, corruption and silence are made by the P4 program and stay until they are cleared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.client import ControllerClient
from controller.values import Fault, FaultKind
from experiments.errors import ExperimentError
from topologies.fault_entries import ALWAYS, LinkFault, PathLoss

VERBS = ("down", "up", "loss", "corrupt", "silent")
_EXAMPLES = "fault t0-0:t1-2@p1 down, ... loss 1%, fault t1-0@p1 silent, fault path 0x402, fault list, fault clear all"


def carry_out(controller: ControllerClient, words: Sequence[str]) -> str:
    """Do what the words after `fault` say; returns what to tell. ExperimentError if they say nothing sensible."""
    if list(words) == ["list"]:
        return "\n".join(map(describe, controller.faults())) or "no faults"
    if len(words) < 2:
        raise ExperimentError(f"use it like this: {_EXAMPLES}")
    first, verb, *more = words
    if first == "clear":
        return _clear(controller, verb, more)
    if first == "path":
        return _path(controller, verb, more)
    if verb not in VERBS:
        raise ExperimentError(
            f"a link goes 'down' or 'up', has 'loss' or is 'corrupt', a switch is 'silent': not {verb!r}"
        )
    if verb in ("loss", "corrupt"):
        return _lossy(controller.lose if verb == "loss" else controller.corrupt, first, more)
    _at_most(more, 0)
    if verb == "up":
        links = controller.link_up(first).links
        return f"up: {', '.join(links)}" if links else "nothing was down"
    return describe(controller.link_down(first) if verb == "down" else controller.silence(first))


def describe(fault: Fault) -> str:
    """A fault in one line."""
    where = ", ".join(fault.links or fault.switches)
    effect = fault.effect
    if fault.kind is FaultKind.LINK_DOWN:
        what = "down"
    elif isinstance(effect, LinkFault):
        share = effect.loss if fault.kind is FaultKind.LOSS else effect.corruption
        what = f"{'loss' if fault.kind is FaultKind.LOSS else 'corrupt'} {_percent(share)} towards {effect.towards}"
    elif isinstance(effect, PathLoss):
        what = f"loss {_percent(effect.loss)} on path {effect.ev:#x} from {effect.source} to {effect.destination}"
    else:
        what = "silent"
    return f"fault {fault.id}: {where} {what}"


def _clear(controller: ControllerClient, which: str, more: Sequence[str]) -> str:
    _at_most(more, 0)
    cleared = controller.clear_all() if which == "all" else controller.clear(which)
    return f"cleared: {', '.join(fault.id for fault in cleared.faults)}" if cleared.faults else "there was no fault"


def _path(controller: ControllerClient, ev: str, more: Sequence[str]) -> str:
    _at_most(more, 3)
    try:
        number = int(ev, 0)
    except ValueError:
        raise ExperimentError(f"an entropy value is a number such as 0x402 (see 'evs h1'), not {ev!r}") from None
    if not 0 <= number < 1 << 32:
        raise ExperimentError(f"an entropy value has 32 bits, which {ev} has not")
    share, source, destination = [*more, *("100%", "", "")[len(more) :]]
    return describe(controller.lose_on_path(number, parse_share(share), source=source, destination=destination))


def _lossy(make: Callable[..., Fault], link: str, more: Sequence[str]) -> str:
    if not more:
        raise ExperimentError("say how much, as in: fault h1@p0 loss 1%")
    _at_most(more, 2)
    return describe(make(link, parse_share(more[0]), towards=more[1] if len(more) > 1 else ""))


def parse_share(text: str) -> float:
    """A probability from 0 to 1 out of text such as ``0.1%`` or ``0.001``."""
    number, factor = (text[:-1], 100) if text.endswith("%") else (text, 1)
    try:
        share = float(number) / factor
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ExperimentError(f"a share is 0% to 100%, not {text!r}")
    return share


def _percent(parts: int) -> str:
    return f"{parts / ALWAYS:.7%}".rstrip("%").rstrip("0").rstrip(".") + "%"


def _at_most(more: Sequence[str], count: int) -> None:
    if len(more) > count:
        raise ExperimentError(f"{more[count]!r} is one word too many; use it like this: {_EXAMPLES}")
