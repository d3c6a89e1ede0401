"""The table of verbs: whatever is declared is there, and takes and gives what was declared."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from typing import Any

import pytest

from mrc_host.agent.operations import Operations
from mrc_host.nic import Nic
from mrc_host.transport.control_plane import NicControlPlane
from mrc_host.verbs import LocalProvider
from mrc_host.verbs.declaration import Verb, Verbs, declared_by, verb
from mrc_host.verbs.nic_verbs import NicVerbs
from mrc_host.verbs.remote.agent_verbs import VERBS, AgentVerbs

TABLE = declared_by(NicVerbs)


class Recorder(NicVerbs):
    """Notes what it is called with."""

    def call(self, verb: Verb, arguments: dict[str, Any]) -> Any:
        return verb.name, arguments


def commands(carried_out_by: type) -> list[str]:
    """The verbs that are left to the NIC's own command."""
    return [name for name in TABLE if name not in vars(carried_out_by)]


@pytest.mark.parametrize("name", sorted({*commands(LocalProvider), *commands(Operations)}))
def test_nic_commands_match_the_declared_verbs(name: str) -> None:
    command = getattr(Nic, name, None) or getattr(NicControlPlane, name)
    taken = typing.get_type_hints(command)
    result = taken.pop("return")
    assert (taken.pop("now", None) is int) == TABLE[name].timed
    declared = typing.get_type_hints(getattr(NicVerbs, name))  # without what Annotated adds
    assert _plain(declared.pop("return")) == _plain(result)
    optional = {"changes": Mapping[str, Any] | None}  # the NIC can do without them
    assert taken == {key: optional.get(key, kind) for key, kind in declared.items()}


def _plain(kind: Any) -> list[Any]:
    """A type and its arguments, a dict being a mapping."""
    origin = typing.get_origin(kind)
    return [Mapping if origin is dict else origin or kind, *(str(_plain(one)) for one in typing.get_args(kind))]


def test_the_agent_implements_every_verb() -> None:
    own = VERBS.keys() - TABLE.keys()
    assert [name for name in own if getattr(Operations, name) is getattr(AgentVerbs, name)] == []
    assert own


@pytest.mark.parametrize("name", sorted(VERBS))
def test_every_verb_declaration_is_valid(name: str) -> None:
    declared = VERBS[name]
    assert list(declared.parameters) == list(inspect.signature(declared.function).parameters)[1:]
    assert declared.result is not inspect.Signature.empty
    assert isinstance(declared.function.__doc__, str)


def test_calls_are_by_name_with_defaults() -> None:
    verbs = Recorder()
    assert verbs.hw_counters() == ("hw_counters", {"qpn": None})
    assert verbs.deny_path(bytes(16), ev=3, denied=True) == (
        "deny_path", {"peer": bytes(16), "ev": 3, "denied": True, "leased": False},
    )  # fmt: skip


@pytest.mark.parametrize(
    "call",
    [
        lambda verbs: verbs.qp_state(),
        lambda verbs: verbs.qp_state(1, 2),
        lambda verbs: verbs.qp_state(1, qpn=1),
        lambda verbs: verbs.qp_state(number=1),
    ],
)
def test_calls_with_wrong_arguments_are_type_errors(call: Any) -> None:
    with pytest.raises(TypeError):
        call(Recorder())


def test_declared_by_lists_verbs_of_both_classes_and_no_methods() -> None:
    class More(NicVerbs):
        @verb()
        def wave(self) -> int:
            """Wave."""

        def helper(self) -> None:
            """No verb."""

    assert declared_by(More).keys() == TABLE.keys() | {"wave"}
    assert "wave" not in declared_by(NicVerbs)


def test_a_class_missing_verbs_cannot_be_instantiated() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Verbs()  # type: ignore[abstract]
