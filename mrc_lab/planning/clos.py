"""Parts of a Clos with full bisection, and the cost of one's failure: pure arithmetic.

A NIC's speed is divided over the planes; every plane is a Clos of one, two or three tiers by itself, made of the same
switch chip, which has `radix` ports at the speed of one lane and fewer, faster ones when lanes are joined. So narrower
links mean a larger radix, and a larger radix fewer tiers (docs/protocol.md §6).

Switches have as many ports up as down. Where a fabric is not full, NICs are spread evenly over the T0s, T0s evenly
over the pods, and ports that are left over join the same pair of switches by parallel links, so that fewer T1s or T2s
do. Optics are counted as whole transceivers of `optic_speed` that are split into links of a plane, as NICs' are.

The cost of a failure is that at full load, when all traffic leaves its T0 and its pod, and follows from MRC loading
its planes equally: bandwidth lost in one plane is lost in all. Only a plane without any way left, because a NIC's
port is down or its switches are, is given up, and costs no more than its own share.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_TIERS = 3


@dataclass(frozen=True, slots=True)
class Request:
    """What is wanted, and of which chip. Speeds in b/s."""

    nics: int
    port_speed: int
    radix: int
    lane_speed: int
    optic_speed: int


@dataclass(frozen=True, slots=True)
class BandwidthLoss:
    """What one failed part takes away: `share` (0 to 1) of the bandwidth of `nics` NICs."""

    part: str
    share: float
    nics: int


@dataclass(frozen=True, slots=True)
class Design:
    """A fabric. `t0`, `t1`, `t2` count switches over all planes, `links` are of one plane's width.

    `longest_path` counts switches. `paths` are the ways up that a packet between far NICs can take, `neighbours` the
    NICs that share a T0. `most_nics` is what the same tiers and planes could carry.
    """

    tiers: int
    planes: int
    link_speed: int
    radix: int
    t0: int
    t1: int
    t2: int
    links: int
    optics: int
    longest_path: int
    paths: int
    neighbours: int
    most_nics: int
    losses: tuple[BandwidthLoss, ...]

    @property
    def switches(self) -> int:
        """All of them."""
        return self.t0 + self.t1 + self.t2

    @property
    def name(self) -> str:
        """Tiers and planes in words."""
        return _in_words(self.tiers, self.planes)


@dataclass(frozen=True, slots=True)
class Impossible:
    """Tiers and planes that do not make a fabric of this size, and why."""

    tiers: int
    planes: int
    reason: str

    @property
    def name(self) -> str:
        """Tiers and planes in words."""
        return _in_words(self.tiers, self.planes)


def _in_words(tiers: int, planes: int) -> str:
    return f"{tiers} tier{'s' * (tiers > 1)}, {planes} plane{'s' * (planes > 1)}"


@dataclass(frozen=True, slots=True)
class _Plane:
    """One plane. `up` and `up1` are uplinks of a T0 and a T1; `pod` is how many NICs share a pod."""

    t0: int
    t1: int
    t2: int
    below: int
    up: int
    up1: int
    pods: int
    pod: int
    t1_share: float
    t2_share: float


def design(request: Request, tiers: int, planes: int) -> Design | Impossible:
    """The design with so many tiers (1 to 3) and planes, or why there is none."""
    link_speed = request.port_speed // planes
    if link_speed * planes != request.port_speed or link_speed < request.lane_speed:
        return Impossible(tiers, planes, "its links would not be a whole number of lanes wide")
    if request.optic_speed < link_speed:
        return Impossible(tiers, planes, "its links would be faster than a transceiver")
    radix = request.radix // -(-link_speed // request.lane_speed)
    most = most_nics(radix, tiers)
    if request.nics > most:
        return Impossible(tiers, planes, f"carries {most:,} NICs at most")
    plane = _PLANES[tiers](request.nics, radix)
    if plane is None:
        return Impossible(tiers, planes, "a tier less does the same")
    stages = (plane.t0 * plane.up if tiers > 1 else 0, plane.t0 * plane.up if tiers > 2 else 0)
    per_optic = request.optic_speed // link_speed
    optics = request.nics * -(-planes // per_optic)
    for ports in (request.nics + stages[0], stages[0] + stages[1], stages[1]):  # of T0s, T1s and T2s of one plane
        optics += planes * -(-ports // per_optic)
    return Design(
        tiers=tiers,
        planes=planes,
        link_speed=link_speed,
        radix=radix,
        t0=plane.t0 * planes,
        t1=plane.t1 * planes,
        t2=plane.t2 * planes,
        links=planes * (request.nics + sum(stages)),
        optics=optics,
        longest_path=2 * tiers - 1,
        paths=planes * max(1, plane.up) * max(1, plane.up1),
        neighbours=plane.below,
        most_nics=most,
        losses=tuple(_losses(request.nics, tiers, planes, plane)),
    )


def most_nics(radix: int, tiers: int) -> int:
    """NICs that a plane carries: all ports of one switch, or 2 (radix/2)^tiers."""
    return radix if tiers == 1 else 2 * (radix // 2) ** tiers


def _one_tier(nics: int, _radix: int) -> _Plane | None:
    return _Plane(1, 0, 0, nics, 0, 0, 1, nics, 0, 0)


def _two_tiers(nics: int, radix: int) -> _Plane | None:
    t0 = -(-nics // (radix // 2))
    if t0 < 2:
        return None
    up = below = -(-nics // t0)
    parallel = min(up, radix // t0)
    return _Plane(t0, -(-up // parallel), 0, below, up, 0, 1, nics, parallel / up, 0)


def _three_tiers(nics: int, radix: int) -> _Plane | None:
    half = radix // 2
    pods = -(-nics // half**2)
    if pods < 2:
        return None
    each = -(-nics // (half * pods))  # T0s of a pod
    t0 = each * pods
    up = below = -(-nics // t0)
    parallel = min(up, half // each)
    t1_each = -(-up // parallel)
    up1 = each * parallel
    parallel1 = min(up1, radix // pods)
    t2_each = -(-up1 // parallel1)  # T2s that a T1 reaches; T1s of the same number in every pod reach the same
    t2_share = parallel / up * parallel1 / up1
    return _Plane(
        t0, t1_each * pods, t2_each * t1_each, below, up, up1, pods, min(nics, each * below), parallel / up, t2_share
    )


_PLANES = {1: _one_tier, 2: _two_tiers, 3: _three_tiers}


def _losses(nics: int, tiers: int, planes: int, plane: _Plane) -> list[BandwidthLoss]:
    losses = [BandwidthLoss("NIC port", 1 / planes, 1), BandwidthLoss("T0", 1 / planes, min(nics, plane.below))]
    if tiers > 1:
        losses.insert(1, BandwidthLoss("T0-T1 link", _at_worst_a_plane(1 / plane.up, planes), min(nics, plane.below)))
        losses.append(BandwidthLoss("T1", _at_worst_a_plane(plane.t1_share, planes), plane.pod))
    if tiers > 2:
        losses.insert(2, BandwidthLoss("T1-T2 link", 1 / (plane.up * (plane.t0 // plane.pods)), plane.pod))
        losses.append(BandwidthLoss("T2", _at_worst_a_plane(plane.t2_share, planes), nics))
    return losses


def _at_worst_a_plane(share: float, planes: int) -> float:
    return 1 / planes if share == 1 else share
