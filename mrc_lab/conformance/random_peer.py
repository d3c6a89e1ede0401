"""Peers that nobody wrote down: random traffic in both directions, and what must hold of any."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from mrc_host.config import NicConfig
from mrc_host.errors import MrcError
from mrc_host.verbs.errors import AgentLostError
from mrc_lab.conformance.nic_under_test import NicUnderTest
from mrc_lab.conformance.player import MTU, RuleVerdict, Scene, ScriptError
from mrc_lab.conformance.random_receiver import random_receiver
from mrc_lab.conformance.random_sender import random_sender
from mrc_lab.conformance.wires import Wire

PEERS: dict[Callable[[Scene, Random], None], str] = {random_sender: "R2.3", random_receiver: "R2.14"}
"""Each with the rule that most of what it checks belongs to; a failure names the rule that was broken."""


def play_random(wire: Wire, nic: NicUnderTest, config: NicConfig, destination: bytes, seed: int) -> list[RuleVerdict]:
    """Play both peers once."""
    return [_play(peer, rule, wire, nic, config, destination, seed) for peer, rule in PEERS.items()]


def _play(
    peer: Callable[[Scene, Random], None],
    rule: str,
    wire: Wire,
    nic: NicUnderTest,
    config: NicConfig,
    destination: bytes,
    seed: int,
) -> RuleVerdict:
    name = peer.__name__
    rng = Random(f"{seed} {name}")
    scene = Scene(wire, nic, config, destination, rng)
    reason = ""
    try:
        scene.connect(path_mtu=MTU)
        peer(scene, rng)
    except AgentLostError:
        raise
    except (ScriptError, MrcError) as error:
        reason = f"seed {seed}: {error}"
    finally:
        nic.disconnect()
    title = (peer.__doc__ or "").partition(".")[0]
    return RuleVerdict(name, rule, title[:1].lower() + title[1:], reason, tuple(scene.frames))
