"""The command `fault` of the prompt and of ``mrc``: from its words to a request to the controller, and the output.

    fault [add] LINK|SWITCH WORD ... [at +TIME] [for TIME] [owner NAME]    fault h1@p0 down at +2s for 500ms
    fault LINK up
    fault kinds
    fault list [all] [--json]
    fault clear ID...|all|owner NAME|link NAME

WORD is the keyword of a kind (`topologies.faults`), followed by its parameters; the command for a kind that has no link
or switch begins with its keyword. Names may be patterns. A fault lasts until it is cleared, its time is over, or its
owner's lease ends.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from controller.client import ControllerClient
from controller.values import Cleared, Event, MachineClock
from mrc_common.suggestions import did_you_mean
from mrc_common.units import parse_time
from mrc_lab.commands import fault_listing
from mrc_lab.commands.fault_completion import OPTIONS, kind_of_word
from mrc_lab.commands.listing import clock_text, wanted_as_json
from mrc_lab.errors import ExperimentError
from topologies.faults import KINDS, BackendKind, Fault, FaultKind, FaultState, renamed
from topologies.faults.parameters import FaultPlace, is_flag, place_of
from topologies.faults.record import FaultRecord

_EXAMPLES = (
    "fault t0-0:t1-2@p1 down, ... loss 1%, fault t1-0@p1 blackhole, fault path 0x402, fault list, fault clear all"
)
WHEN = "... [at +TIME] [for TIME] [owner NAME]"
_LONGEST_NS = 1 << 62
_NOTHING = ("0", "0%", "0.0", "0.0%")


@dataclass(frozen=True, slots=True)
class FaultRequest:
    """A fault to inject after `after_ns`, for `duration_ns` (0: until cleared), on behalf of `owner`."""

    fault: Fault
    after_ns: int = 0
    duration_ns: int = 0
    owner: str = ""
    note: str = ""  # for the user, such as a renamed keyword


def execute(controller: ControllerClient, words: Sequence[str]) -> str:
    """Execute the words after `fault` and return the output. Raises ExperimentError if they are invalid."""
    first, *more = words or [""]
    if first == "kinds" and not more:
        return kinds()
    if first == "list":
        more, as_json = wanted_as_json(more)
        return show_list(controller, more, as_json=as_json)
    if first == "clear":
        return clear(controller, more)
    if len(more) == 1 and more[0] == "up":
        return bring_up(controller, first)
    request = parse(words[1:] if first == "add" else words)
    clock = controller.clock()
    added = describe(add(controller, request), clock)
    return "\n".join(filter(None, [added, request.note and f"note: {request.note}"]))


def add(controller: ControllerClient, request: FaultRequest) -> FaultRecord:
    """Inject a fault."""
    return controller.inject(
        request.fault, after_ns=request.after_ns, duration_ns=request.duration_ns, owner=request.owner
    )


def show_list(controller: ControllerClient, more: Sequence[str], *, as_json: bool = False) -> str:
    """Faults, one per line or as JSON; with `all` including those that have been cleared."""
    if list(more) not in ([], ["all"]):
        raise ExperimentError("use it like this: fault list, or fault list all")
    found, clock = controller.faults(cleared=bool(more)), controller.clock()
    if as_json:
        return fault_listing.FAULTS.json(fault_listing.faults(found, clock))
    return "\n".join(describe(fault, clock, since=True) for fault in found) or "no faults"


def bring_up(controller: ControllerClient, link: str) -> str:
    """Clear all faults on links and bring the links up, whatever took them down."""
    return describe_cleared(controller.link_up(link))


def describe_cleared(cleared: Cleared) -> str:
    """What clearing the faults of links did, in one line."""
    parts = [f"up: {', '.join(cleared.links)}"] if cleared.links else []
    parts += [f"cleared: {', '.join(fault.id for fault in cleared.faults)}"] if cleared.faults else []
    parts += [f"{fault.id} stays on {', '.join(fault.links)}" for fault in cleared.remaining]
    return "; ".join(parts) or "nothing was down"


def clear(controller: ControllerClient, which: Sequence[str]) -> str:
    """Clear faults by id, those of an owner, those on links, or all."""
    check_clear(which)
    if which[0] == "link":
        return bring_up(controller, which[1])
    if which[0] == "all":
        cleared = controller.clear_all().faults
    elif which[0] == "owner":
        cleared = controller.clear_owner(which[1]).faults
    else:
        cleared = tuple(fault for name in which for fault in controller.clear(name).faults)
    return f"cleared: {', '.join(fault.id for fault in cleared)}" if cleared else "there was no fault"


def check_clear(which: Sequence[str]) -> None:
    """Raises ExperimentError if the words are no valid arguments of `clear`."""
    lengths = {"all": 1, "owner": 2, "link": 2}
    if not which or len(which) != lengths.get(which[0], len(which)):
        raise ExperimentError(
            "use it like this: fault clear f1, fault clear all, fault clear owner NAME, fault clear link h1@p0"
        )


def with_owner(request: FaultRequest, owner: str) -> FaultRequest:
    """The same request with another owner."""
    return replace(request, owner=owner)


def parse_duration(text: str) -> int:
    """A time such as ``60s`` in ns. Raises ExperimentError if `text` is no time."""
    return _time(text)


def kinds(columns: int = 100) -> str:
    """The syntax and meaning of every kind that the controller can inject, in lines of at most `columns` characters."""
    known = [kind for kind in KINDS.values() if BackendKind.EMULATION in kind.backends]
    width = max(len(kind.usage) for kind in known) + 2
    lines = []
    for kind in known:
        first, *more = textwrap.wrap(kind.summary, columns - width)
        lines += [f"{kind.usage:<{width}}{first}", *(" " * width + line for line in more)]
    return "\n".join(lines)


# From words to a fault


def parse(words: Sequence[str]) -> FaultRequest:
    """The requested fault with its options. Raises ExperimentError if the words describe none."""
    words, options = _options(list(words))
    if not words:
        raise ExperimentError(f"use it like this: {_EXAMPLES}")
    kind = kind_of_word(words[0])
    place, word = ([], words[0]) if kind and not kind.target else (words[:1], words[1] if len(words) > 1 else "")
    if not word:
        raise ExperimentError(f"use it like this: {_EXAMPLES}")
    kind = kind_of_word(word)
    if kind is None or len(place) != (kind.target is not None):
        known = sorted(name for one in KINDS.values() for name in (one.word, one.name))
        hint = did_you_mean(word, known, most=1, cutoff=0.6) or "'fault kinds' lists all"
        raise ExperimentError(f"{word!r} is no kind of fault; {hint}")
    if BackendKind.EMULATION not in kind.backends:
        raise ExperimentError(f"emulation cannot make the fault {kind.name}: only simulation has it")
    fault = _fault(kind, place, words[len(place) + 1 :])
    after = options.get("at", "+0s")
    if not after.startswith("+"):
        raise ExperimentError(f"'at' takes a time from now, as in 'at +2s', not {after!r}")
    lasts = _time(options["for"]) if "for" in options else 0
    if "for" in options and not lasts:
        raise ExperimentError(
            "a fault 'for 0s' would be none: give a longer time, or leave it out to last until cleared"
        )
    return FaultRequest(fault, _time(after[1:]), lasts, options.get("owner", ""), renamed(word, kind, kind.word))


def _options(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Take ``at``, ``for`` and ``owner`` with the word after each off the end."""
    found: dict[str, str] = {}
    while len(words) > 2 and words[-2] in OPTIONS and words[-2] not in found:
        found[words[-2]] = words[-1]
        del words[-2:]
    if words and words[-1] in OPTIONS and len(words) > 1:
        raise ExperimentError(f"say what comes after {words[-1]!r}, as in: at +2s for 500ms owner me")
    return words, found


def _fault(kind: FaultKind, place: Sequence[str], words: Sequence[str]) -> Fault:
    """A fault of a kind, at `place`, with what the words behind its own say in request."""
    given: dict[str, object] = {kind.target.name: place[0]} if kind.target else {}
    left = list(kind.further)
    try:
        for word in words:
            if flag := next((p for p in left if is_flag(p.type) and p.name == word), None):
                if any(parameter.required for parameter in left[: left.index(flag)]):
                    break  # reported below as missing
                given[flag.name] = True
                del left[: left.index(flag) + 1]
            elif not left or is_flag(left[0].type):
                raise ExperimentError(f"{word!r} is one word too many; use it like this: fault {kind.usage}")
            else:
                parameter = left.pop(0)
                given[parameter.name] = parameter.parse(word)
        if missing := next((parameter for parameter in left if parameter.required), None):
            raise ExperimentError(f"say {missing.name} ({missing.doc}), as in: fault {kind.example}")
        return kind.make(given)
    except ValueError as error:
        end = f": to end a fault use 'fault {place[0]} up' or 'fault clear'" if place and words[0] in _NOTHING else ""
        raise ExperimentError(f"{error}{end}") from None


def _time(text: str) -> int:
    try:
        found = parse_time(text)
    except (ValueError, ArithmeticError) as error:
        raise ExperimentError(str(error)) from None
    if not 0 <= found < _LONGEST_NS:
        raise ExperimentError(f"a time must be at least 0 and less than a century, not {text!r}")
    return found


# Output


def describe(record: FaultRecord, clock: MachineClock | None = None, *, since: bool = False) -> str:
    """One line about a fault, with `since` when it began; times are those of `clock`, by default this machine's."""
    clock = clock or MachineClock.here()
    parts = [f"fault {record.id}:", ", ".join(record.links or record.switches), _what(record)]
    if record.state is FaultState.PENDING:
        begins = clock_text(clock.epoch_of(record.starts_at_ns))
        parts.append(f"(pending, begins {begins}, in {_seconds(record.starts_at_ns - clock.monotonic_ns)})")
    elif record.state is FaultState.CLEARED:
        parts.append("(cleared)")
    else:
        began, ends = record.began_at_ns, record.ends_at_ns
        times = [f"since {clock_text(clock.epoch_of(began))}"] if since and began else []
        times += [f"for another {_seconds(ends - clock.monotonic_ns)}"] if ends is not None else []
        parts += [f"({', '.join(times)})"] if times else []
    if record.owner:
        parts.append(f"[{record.owner}]")
    if record.problem:
        parts.append(f"- {record.problem}")
    return " ".join(parts)


def describe_event(event: Event, clock: MachineClock | None = None) -> str:
    """One line about an event: the time of day by `clock` (default: this machine's), kind, subject, details."""
    clock = clock or MachineClock.here()
    what = describe(event.fault, clock) if event.fault is not None else event.name
    lost = f" ({event.dropped} events lost so far)" if event.dropped else ""
    detail = f": {event.detail}" if event.detail and event.fault is None else ""
    at = clock_text(clock.epoch_of(event.at_ns), microseconds=True)
    return f"{at} {event.kind.value} {what}{detail}{lost}".replace("  ", " ").rstrip()


def _what(record: FaultRecord) -> str:
    """The fault's keyword and values, and its place unless the list of links or switches already shows that."""
    fault, target = record.fault, record.fault.kind.target
    named = target is not None and place_of(target.type) is not FaultPlace.LINK and bool(record.links)
    place = getattr(fault, target.name) if target is not None and named else ""
    return " ".join(filter(None, [fault.kind.word, place, fault.values_text()]))


def _seconds(ns: int) -> str:
    return f"{max(0, ns) / 1e9:.1f} s"
