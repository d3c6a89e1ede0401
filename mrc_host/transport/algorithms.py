"""The congestion controls there are, and the choice of one for a queue pair (docs/congestion.md).

A queue pair's own choice (`cc_profile`) has priority, then its fixed window, then the NIC's setting. An
:class:`Algorithm` creates controllers; whoever builds a ``Nic`` can add more, under new names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from mrc_host.config import TransportSettings
from mrc_host.errors import InvalidArgumentError
from mrc_host.transport.congestion import CongestionControl, LinkParameters
from mrc_host.transport.dcqcn import Dcqcn, DcqcnParameters
from mrc_host.transport.nscc import Nscc, NsccParameters
from mrc_host.verbs_types import CcProfile, QpAttributes

_UNLIMITED: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A congestion control: how to create a controller for a link, and which queue pairs may use it.

    With `shared`, one controller serves all MRC queue pairs to a destination. `mrc` and `rc` say which types of queue
    pair may use it. With `cnp`, the receiving end of an RC queue pair answers ECN marks with CNPs. With
    `receiver_limit`, a slow receiver's penalty limits the queue pair that it applies to.
    """

    make: Callable[[LinkParameters], CongestionControl]
    shared: bool = False
    mrc: bool = True
    rc: bool = True
    cnp: bool = False
    receiver_limit: bool = False


def _nscc(link: LinkParameters) -> CongestionControl:
    if not link.base_rtt:
        raise InvalidArgumentError(
            "NSCC has to know the unloaded round trip of this network: set base_rtt in the NIC's transport settings."
        )
    cc = Nscc(NsccParameters.for_line(link.rate_bps, link.base_rtt, link.mtu, link.trimming, link.nscc))
    cc.cwnd = max(cc.cwnd // link.share, link.mtu)
    return cc


def _dcqcn(link: LinkParameters) -> CongestionControl:
    return Dcqcn(DcqcnParameters.for_line(link.rate_bps, profile=link.dcqcn), link.window)


ALGORITHMS: Final[Mapping[str, Algorithm]] = MappingProxyType(
    {
        "nscc": Algorithm(_nscc, shared=True, rc=False, receiver_limit=True),
        "dcqcn": Algorithm(_dcqcn, mrc=False, cnp=True),
        "fixed": Algorithm(lambda link: CongestionControl(link.window)),
        "none": Algorithm(lambda link: CongestionControl(_UNLIMITED)),
    }
)


def choose(attributes: QpAttributes, settings: TransportSettings, mrc: bool) -> str:
    """Name of the congestion control of a queue pair of type MRC or, without `mrc`, RC."""
    if attributes.cc_profile:
        return attributes.cc_profile
    if not mrc:
        return settings.rc_congestion
    name = settings.congestion or ("nscc" if settings.base_rtt else "fixed")
    return "fixed" if attributes.congestion_window is not None and name != "none" else name


def find(known: Mapping[str, Algorithm], name: str, mrc: bool) -> Algorithm:
    """The algorithm called `name`; InvalidArgumentError if it does not exist, or not for this type of queue pair."""
    algorithm = known.get(name)
    if algorithm is not None and (algorithm.mrc if mrc else algorithm.rc):
        return algorithm
    fitting = [repr(other) for other, a in known.items() if (a.mrc if mrc else a.rc)]
    choices = f"{', '.join(fitting[:-1])} or {fitting[-1]}"
    if algorithm is None:
        raise InvalidArgumentError(f"Unknown congestion control {name!r}: use {choices}.")
    kind = "an MRC" if mrc else "an RC"
    raise InvalidArgumentError(f"Congestion control {name!r} is not for {kind} queue pair: use {choices}.")


def derived(known: Mapping[str, Algorithm], profile: CcProfile, settings: TransportSettings) -> Algorithm:
    """The algorithm that a profile describes; InvalidArgumentError if unknown, or a constant is out of range."""
    base = known.get(profile.algorithm)
    if base is None:
        names = ", ".join(map(repr, known))
        raise InvalidArgumentError(f"Unknown congestion control {profile.algorithm!r}: there are {names}.")
    if profile.window is not None and (base.shared or profile.window < 1):
        raise InvalidArgumentError(f"A window of {profile.window} bytes makes no sense with {profile.algorithm!r}.")

    def make(link: LinkParameters) -> CongestionControl:
        window = link.window if profile.window is None else profile.window
        return base.make(replace(link, nscc=profile.nscc, dcqcn=profile.dcqcn, window=window))

    make(_example(settings))
    return replace(base, make=make)


def _example(settings: TransportSettings) -> LinkParameters:
    return LinkParameters(
        base_rtt=settings.base_rtt, trimming=settings.trimming, nscc=settings.nscc, dcqcn=settings.dcqcn
    )


def check(
    known: Mapping[str, Algorithm],
    attributes: QpAttributes,
    settings: TransportSettings,
    mrc: bool,
    tried: dict[str, Algorithm],
) -> None:
    """InvalidArgumentError when no controller could be created for a queue pair with `attributes`.

    `tried` is empty at first, and later has those of `known` with which a controller was created under `settings`.
    """
    name = choose(attributes, settings, mrc)
    algorithm = find(known, name, mrc)
    if algorithm.shared and attributes.congestion_window is not None:
        raise InvalidArgumentError(
            f"congestion_window is a fixed window of one queue pair, and {name!r} is neither: leave one of them out."
        )
    if tried.get(name) is not algorithm:
        algorithm.make(_example(settings))
        tried[name] = algorithm
