"""EV profiles: which entropy values a queue pair may use (docs/protocol.md §3, §11.2).

A profile is resolved once, when its queue pair becomes ready to send; the resulting universe stays the same for the
queue pair's life. Every universe is spread equally over the planes that it reaches; random choices come from the NIC's
own generator.

Where the fabric's paths are enumerated (SRv6), a profile can only choose among the destination's entropy values. Where
switches hash (structured and UDP formats) any value is valid, so a profile may list or draw new ones; ``Paths.add``
makes them paths of the peer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, Protocol

from mrc_host.errors import InvalidArgumentError
from mrc_host.transport.entropy_values import EntropyValues
from mrc_host.verbs_types import EvMode, EvProfile

MAX_PATHS: Final = 4096  # in one universe
_DEFAULT_SIZE: Final = 256
_MAX_BITS: Final = 32
_TRIES: Final = 64  # draws per path wanted


class Paths(Protocol):
    """The entropy values and paths to one peer (``PeerPaths``)."""

    @property
    def values(self) -> EntropyValues:
        """Entropy values, by index."""

    @property
    def members(self) -> list[list[int]]:
        """Paths of each plane."""

    def add(self, ev: int) -> int:
        """Index of the path with a new entropy value; -1 where values are fixed, or if it is in no plane of ours."""


def check_profile(profile: EvProfile) -> None:
    """Check a profile; InvalidArgumentError says what is wrong."""
    explicit, generated = profile.mode is EvMode.EXPLICIT, profile.mode is EvMode.GENERATED
    if bool(profile.evs) != explicit:
        raise InvalidArgumentError("An EXPLICIT profile lists its entropy values, and only that one does.")
    if bool(profile.fields) != generated:
        raise InvalidArgumentError("A GENERATED profile has fields, and only that one does.")
    if len(set(profile.evs)) != len(profile.evs) or not all(0 <= ev < 1 << _MAX_BITS for ev in profile.evs):
        raise InvalidArgumentError("The entropy values of a profile differ from each other and have 32 bits.")
    if len(profile.evs) > MAX_PATHS:
        raise InvalidArgumentError(f"A profile has at most {MAX_PATHS} entropy values, not {len(profile.evs)}.")
    if profile.size is not None and (explicit or not 1 <= profile.size <= MAX_PATHS):
        raise InvalidArgumentError(f"size is 1 to {MAX_PATHS}, and follows from the list of an EXPLICIT profile.")
    if not 1 <= profile.ev_min_active <= MAX_PATHS:
        raise InvalidArgumentError(f"ev_min_active is 1 to {MAX_PATHS}, not {profile.ev_min_active}.")
    if sum(field.width for field in profile.fields) > _MAX_BITS:
        raise InvalidArgumentError("The fields of a profile have 32 bits together at the most.")
    for number, field in enumerate(profile.fields):
        full = (1 << field.width) - 1 if field.width > 0 else 0
        values = (field.init_val, field.minimum, field.maximum, field.mask)
        if field.width < 1 or not all(0 <= value <= full for value in values) or field.minimum > field.maximum:
            raise InvalidArgumentError(f"Field {number} has values that do not fit its width, or no room between them.")


def generates(profile: EvProfile, ev: int) -> bool:
    """Whether the fields of a GENERATED profile can produce `ev`."""
    for field in reversed(profile.fields):
        value = ev & (1 << field.width) - 1
        ev >>= field.width
        fixed = ~field.mask
        if value & fixed != field.init_val & fixed or not field.minimum <= value <= field.maximum:
            return False
    return ev == 0


def fill(profile: EvProfile, raw: int) -> int:
    """Entropy value whose masked bits, most significant first, are those of `raw`; the rest are init_val's."""
    left = sum(field.mask.bit_count() for field in profile.fields)
    ev = 0
    for field in profile.fields:
        value = field.init_val & ~field.mask
        for bit in range(field.width - 1, -1, -1):
            if field.mask >> bit & 1:
                left -= 1
                value |= (raw >> left & 1) << bit
        ev = ev << field.width | value
    return ev


def resolve(profile: EvProfile, paths: Paths, rng: random.Random) -> list[int]:
    """The universe of `profile` for one peer: indexes of entropy values; InvalidArgumentError when it is empty."""
    if profile.mode is EvMode.EXPLICIT:
        return [_path(paths, ev) for ev in profile.evs]
    if profile.mode is EvMode.AUTO:
        chosen = range(len(paths.values))
        return list(chosen) if profile.size is None else _equal_shares(paths, chosen, profile.size, rng)
    size = profile.size or _DEFAULT_SIZE
    matching = [index for index in range(len(paths.values)) if generates(profile, paths.values[index])]
    universe = _equal_shares(paths, matching, size, rng)
    if len(universe) < size:
        universe = _equal_shares(paths, [*matching, *_draw(profile, paths, size, rng)], size, rng)
    if not universe:
        raise InvalidArgumentError("The profile's fields make no entropy value that leads to this destination.")
    return universe


def in_planes(planes: int, universe: Sequence[int] | None, paths: Paths) -> list[int]:
    """Those of `universe` (None: of all values) in the mask `planes`; InvalidArgumentError when there are none."""
    count = sum(map(len, paths.members))
    inside = {path for plane, members in enumerate(paths.members) if planes >> plane & 1 for path in members}
    left = [value for value in (range(len(paths.values)) if universe is None else universe) if value % count in inside]
    if not left:
        raise InvalidArgumentError(f"None of the entropy values of the EV profile is in the planes {planes:#b}.")
    return left


def _path(paths: Paths, ev: int) -> int:
    index = paths.values.index(ev)
    if index < 0:
        index = paths.add(ev)
    if index < 0:
        raise InvalidArgumentError(f"No path to this destination has the profile's entropy value {ev:#x}.")
    return index


def _draw(profile: EvProfile, paths: Paths, size: int, rng: random.Random) -> list[int]:
    """Draw new paths, as many as are missing, where switches hash and any value is a path."""
    bits = sum(field.mask.bit_count() for field in profile.fields)
    drawn: list[int] = []
    for _ in range(_TRIES * size):
        if len(drawn) >= size:
            break
        ev = fill(profile, rng.getrandbits(bits) if bits else 0)
        if paths.values.index(ev) < 0 and generates(profile, ev):
            index = paths.add(ev)
            if index < 0 and not drawn:
                break
            if index >= 0:
                drawn.append(index)
    return drawn


def _equal_shares(paths: Paths, candidates: Sequence[int], size: int, rng: random.Random) -> list[int]:
    """`size` of the candidates, equally many from each plane that has some; fewer when a plane runs out.

    No second value of a path is among them as long as its plane has other paths.
    """
    count = sum(map(len, paths.members))
    by_path: dict[int, list[int]] = {}
    for value in candidates:
        by_path.setdefault(value % count, []).append(value)
    planes = [here for members in paths.members if (here := [i for i in members if i in by_path])]
    if not planes:
        return []
    share = min(max(1, size // len(planes)), *(sum(len(by_path[i]) for i in plane) for plane in planes))
    if size < len(planes):
        planes = rng.sample(planes, size)
    chosen: list[int] = []
    for plane in planes:
        found: list[int] = []
        turn = 0
        while len(found) < share:
            layer = [by_path[i][turn] for i in plane if turn < len(by_path[i])]
            rng.shuffle(layer)
            found += layer
            turn += 1
        chosen += found[:share]
    return chosen
