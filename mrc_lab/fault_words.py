"""What `fault` understands at the prompt and on the command line: words to a request to the controller, and the answer.

    fault [add] LINK down [TOWARDS]              fault t0-0:t1-2@p1 down
    fault [add] LINK loss|corrupt SHARE [TOWARDS]    fault h1@p0 loss 1% h1
    fault [add] LINK rate RATE [TOWARDS]         fault t0-*:t1-0@p0 rate 2M
    fault [add] LINK delay TIME [TOWARDS]        fault h1@p0 delay 5ms
    fault [add] LINK flap PERIOD [DUTY] [random SEED]    fault t0-0:t1-*@p0 flap 2s 25% random 7
    fault [add] SWITCH silent|dead               fault t1-0@p1 silent
    fault [add] path EV [SHARE [FROM [TO]]]      fault path 0x402 100% h1 h3
        ... [at +TIME] [for TIME] [owner NAME]   fault h1@p0 down at +2s for 500ms
    fault LINK up
    fault list [all]
    fault clear ID...|all|owner NAME|link NAME

Names may be patterns. A fault stays until it is cleared, its time is over, or its owner's lease ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic_ns

from controller.client import ControllerClient
from controller.values import Event, FaultRecord
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.quantities import parse_rate, parse_time, show_rate, show_time
from mrc_lab.fault_completion import LINK_VERBS, SWITCH_VERBS
from topologies.fault_kinds import (
    Corruption,
    Delay,
    Fault,
    FaultState,
    Flap,
    LinkDown,
    Loss,
    PathLoss,
    PortDown,
    Rate,
    SwitchDead,
    SwitchSilent,
    kind_of,
)

VERBS = (*LINK_VERBS, *SWITCH_VERBS)
_EXAMPLES = "fault t0-0:t1-2@p1 down, ... loss 1%, fault t1-0@p1 silent, fault path 0x402, fault list, fault clear all"
_LONGEST_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class Order:
    """A fault to be made: after a time, for a time (0: until cleared), for somebody."""

    fault: Fault
    after_ns: int = 0
    duration_ns: int = 0
    owner: str = ""


def carry_out(controller: ControllerClient, words: Sequence[str]) -> str:
    """Do what the words after `fault` say; returns what to tell. ExperimentError if they say nothing sensible."""
    first, *more = words or [""]
    if first == "list":
        return show_list(controller, more)
    if first == "clear":
        return clear(controller, more)
    if len(more) == 1 and more[0] == "up":
        return take_up(controller, first)
    return describe(add(controller, parse(words[1:] if first == "add" else words)))


def add(controller: ControllerClient, order: Order) -> FaultRecord:
    """Make a fault."""
    return controller.inject(order.fault, after_ns=order.after_ns, duration_ns=order.duration_ns, owner=order.owner)


def show_list(controller: ControllerClient, more: Sequence[str]) -> str:
    """Faults, one a line; after `all` with those that have been cleared."""
    if list(more) not in ([], ["all"]):
        raise ExperimentError("use it like this: fault list, or fault list all")
    return "\n".join(map(describe, controller.faults(cleared=bool(more)))) or "no faults"


def take_up(controller: ControllerClient, link: str) -> str:
    """Take all faults off links and take them up, whatever took them down."""
    cleared = controller.link_up(link)
    parts = [f"up: {', '.join(cleared.links)}"] if cleared.links else []
    parts += [f"cleared: {', '.join(fault.id for fault in cleared.faults)}"] if cleared.faults else []
    parts += [f"{fault.id} stays on {', '.join(fault.links)}" for fault in cleared.remaining]
    return "; ".join(parts) or "nothing was down"


def clear(controller: ControllerClient, which: Sequence[str]) -> str:
    """Clear faults by id, those of an owner, those on links, or all."""
    check_clear(which)
    if which[0] == "link":
        return take_up(controller, which[1])
    if which[0] == "all":
        cleared = controller.clear_all().faults
    elif which[0] == "owner":
        cleared = controller.clear_owner(which[1]).faults
    else:
        cleared = tuple(fault for name in which for fault in controller.clear(name).faults)
    return f"cleared: {', '.join(fault.id for fault in cleared)}" if cleared else "there was no fault"


def check_clear(which: Sequence[str]) -> None:
    """ExperimentError if the words do not say what to clear."""
    lengths = {"all": 1, "owner": 2, "link": 2}
    if not which or len(which) != lengths.get(which[0], len(which)):
        raise ExperimentError(
            "use it like this: fault clear f1, fault clear all, fault clear owner NAME, fault clear link h1@p0"
        )


def of_owner(order: Order, owner: str) -> Order:
    """The same fault, somebody's."""
    return replace(order, owner=owner)


def parse_duration(text: str) -> int:
    """A time in ns out of text such as ``60s``; ExperimentError if it is none."""
    return _time(text)


# Words to a fault


def parse(words: Sequence[str]) -> Order:
    """The fault that words mean, with what may follow; ExperimentError if they mean none."""
    words, options = _options(list(words))
    if len(words) < 2:
        raise ExperimentError(f"use it like this: {_EXAMPLES}")
    first, verb, *more = words
    fault = _path(verb, more) if first == "path" else _fault(first, verb, more)
    after = options.get("at", "+0s")
    if not after.startswith("+"):
        raise ExperimentError(f"a fault begins after a time from now, as in 'at +2s', not {after!r}")
    return Order(fault, _time(after[1:]), _time(options.get("for", "0s")), options.get("owner", ""))


def _options(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Take ``at``, ``for`` and ``owner`` with the word after each off the end."""
    found: dict[str, str] = {}
    while len(words) > 3 and words[-2] in ("at", "for", "owner") and words[-2] not in found:
        found[words[-2]] = words[-1]
        del words[-2:]
    if words and words[-1] in ("at", "for", "owner") and len(words) > 2:
        raise ExperimentError(f"say what comes after {words[-1]!r}, as in: at +2s for 500ms owner me")
    return words, found


def _fault(name: str, verb: str, more: Sequence[str]) -> Fault:
    measured: Mapping[str, tuple[Callable[[str, str, str | None], Fault], str]] = {
        "loss": (lambda link, text, to: Loss(link, parse_share(text), to), "1%"),
        "corrupt": (lambda link, text, to: Corruption(link, parse_share(text), to), "0.1%"),
        "rate": (lambda link, text, to: Rate(link, _number(parse_rate, text), to), "2M"),
        "delay": (lambda link, text, to: Delay(link, _time(text), to), "5ms"),
    }
    if verb in measured:
        make, example = measured[verb]
        if not more:
            raise ExperimentError(f"say how much, as in: fault h1@p0 {verb} {example}")
        _at_most(more, 2)
        if verb in ("loss", "corrupt") and _is_nothing(more[0]):
            raise ExperimentError(f"a share is more than 0%: to end a fault use 'fault {name} up' or 'fault clear'")
        return make(name, more[0], more[1] if len(more) > 1 else None)
    if verb == "flap":
        return _flap(name, more)
    if verb == "down":
        _at_most(more, 1)
        return LinkDown(name, more[0] if more else None)
    if verb in ("silent", "dead"):
        _at_most(more, 0)
        return SwitchSilent(name) if verb == "silent" else SwitchDead(name)
    raise ExperimentError(
        f"a fault is of a kind that there is, not {verb!r}; use it like this: fault LINK {'|'.join(LINK_VERBS)} ...,"
        f" or fault SWITCH {'|'.join(SWITCH_VERBS)}"
    )


def _flap(name: str, more: Sequence[str]) -> Flap:
    if not more:
        raise ExperimentError("say how often and how much of it down, as in: fault h1@p0 flap 2s 25%")
    words = list(more)
    at_random, seed = "random" in words, 0
    if at_random:
        at = words.index("random")
        seed = _whole(words[at + 1], "a seed") if len(words) > at + 1 else 0
        _at_most(words[at:], 2)
        del words[at:]
    _at_most(words, 2)
    if not words:
        raise ExperimentError("say how often, as in: fault h1@p0 flap 2s 25% random 7")
    period = _time(words[0])
    down = round(period * parse_share(words[1] if len(words) > 1 else "50%"))
    if not 0 < down < period:
        raise ExperimentError("a link that flaps is down for more than 0% and less than 100% of the time")
    return Flap(name, down, period - down, at_random, seed)


def _path(ev: str, more: Sequence[str]) -> PathLoss:
    _at_most(more, 3)
    try:
        number = int(ev, 0)
    except ValueError:
        raise ExperimentError(f"an entropy value is a number such as 0x402 (see 'evs h1'), not {ev!r}") from None
    if not 0 <= number < 1 << 32:
        raise ExperimentError(f"an entropy value has 32 bits, which {ev} has not")
    share, source, destination = [*more, *("100%", "*", "*")[len(more) :]]
    return PathLoss(number, parse_share(share), source, destination)


def _is_nothing(share: str) -> bool:
    try:
        return float(share.removesuffix("%")) == 0
    except ValueError:
        return False


def parse_share(text: str) -> float:
    """A probability above 0 and at most 1 out of text such as ``0.1%`` or ``0.001``."""
    number, factor = (text[:-1], 100) if text.endswith("%") else (text, 1)
    try:
        share = float(number) / factor
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        meant = f": write {text}% for {text} in a hundred" if 1 < share <= 100 else ""
        raise ExperimentError(f"a share is more than 0% and at most 100%, not {text!r}{meant}")
    return share


def _time(text: str) -> int:
    found = _number(parse_time, text)
    if not 0 <= found < _LONGEST_NS:
        raise ExperimentError(f"a time is 0 or more and shorter than a century, not {text!r}")
    return found


def _number(parse_text: Callable[[str], int], text: str) -> int:
    try:
        return parse_text(text)
    except (ValueError, ArithmeticError) as error:
        raise ExperimentError(str(error) or f"{text!r} is not a number") from None


def _whole(text: str, what: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) >= 1 << 64:
        raise ExperimentError(f"{what} is a whole number, not {text!r}")
    return int(text)


def _at_most(more: Sequence[str], count: int) -> None:
    if len(more) > count:
        raise ExperimentError(f"{more[count]!r} is one word too many; use it like this: {_EXAMPLES}")


# Faults and events in words


def describe(record: FaultRecord) -> str:
    """A fault in one line."""
    now = monotonic_ns()
    parts = [f"fault {record.id}:", ", ".join(record.links or record.switches), _what(record.fault)]
    if record.state is FaultState.PENDING:
        parts.append(f"(pending, in {_seconds(record.starts_at_ns - now)})")
    elif record.state is FaultState.CLEARED:
        parts.append("(cleared)")
    elif record.ends_at_ns is not None:
        parts.append(f"(for another {_seconds(record.ends_at_ns - now)})")
    if record.owner:
        parts.append(f"[{record.owner}]")
    if record.problem:
        parts.append(f"- {record.problem}")
    return " ".join(parts)


def describe_event(event: Event) -> str:
    """An event in one line: seconds of CLOCK_MONOTONIC, what, of whom."""
    what = describe(event.fault) if event.fault is not None else event.name
    lost = f" ({event.dropped} events lost so far)" if event.dropped else ""
    detail = f": {event.detail}" if event.detail and event.fault is None else ""
    return f"{event.at_ns / 1e9:.6f} {event.kind.value} {what}{detail}{lost}".replace("  ", " ")


def _what(fault: Fault) -> str:
    towards = getattr(fault, "towards", None)
    end = f" towards {towards}" if towards else ""
    if isinstance(fault, LinkDown):
        return f"down{end}"
    if isinstance(fault, Loss | Corruption):
        return f"{'loss' if isinstance(fault, Loss) else 'corrupt'} {_percent(fault.probability)}{end}"
    if isinstance(fault, PathLoss):
        return f"loss {_percent(fault.probability)} on path {fault.ev:#x} from {fault.source} to {fault.destination}"
    if isinstance(fault, Rate):
        return f"rate {show_rate(fault.bits_per_second)}{end}"
    if isinstance(fault, Delay):
        return f"delay {show_time(fault.extra)}{end}"
    if isinstance(fault, Flap):
        chance = f" at random from {fault.seed}" if fault.at_random else ""
        return f"flaps, {show_time(fault.down)} down and {show_time(fault.up)} up{chance}"
    if isinstance(fault, PortDown):
        return f"down, port {fault.end.port} of {fault.end.node}"
    words = {"switch_silent": "silent", "switch_dead": f"down, {getattr(fault, 'switch', '')} dead"}
    return words.get(kind_of(fault), kind_of(fault))


def _seconds(ns: int) -> str:
    return f"{max(0, ns) / 1e9:.1f} s"


def _percent(share: float) -> str:
    return f"{share:.7%}".rstrip("%").rstrip("0").rstrip(".") + "%"
