from dataclasses import dataclass, field

import pytest
from finsy.proto import p4r, rpc_code

from p4runtime_shim.server.arbitration import MAX_SESSIONS_PER_ROLE, Arbitration
from p4runtime_shim.server.rpc_errors import RpcError


@dataclass(eq=False)
class Client:
    updates: list[p4r.MasterArbitrationUpdate] = field(default_factory=list)

    def send(self, message: p4r.StreamMessageResponse) -> None:
        self.updates.append(message.arbitration)

    def news(self) -> list[tuple[int, int]]:
        """(status code, election id) of what came since last asked."""
        news = [(item.status.code, item.election_id.low) for item in self.updates]
        self.updates.clear()
        return news


def ask(election: int | None = None, role: str = "", device: int = 7) -> p4r.MasterArbitrationUpdate:
    message = p4r.MasterArbitrationUpdate(device_id=device)
    if election is not None:
        message.election_id.low = election
    if role:
        message.role.name = role
    return message


def may_write(arbitration: Arbitration, election: int | None, role: str = "") -> bool:
    try:
        arbitration.check_write(role, None if election is None else p4r.Uint128(low=election))
    except RpcError as error:
        if error.code != rpc_code.PERMISSION_DENIED:
            raise
        return False
    return True


OK, EXISTS, NONE = rpc_code.OK, rpc_code.ALREADY_EXISTS, rpc_code.NOT_FOUND


def test_the_highest_election_id_is_primary_and_all_are_notified() -> None:
    arbitration, a, b = Arbitration(7), Client(), Client()
    assert arbitration.update(a, ask(5))
    assert a.news() == [(OK, 5)]
    assert not arbitration.update(b, ask(3))
    assert (a.news(), b.news()) == ([], [(EXISTS, 5)])
    assert may_write(arbitration, 5)
    assert not may_write(arbitration, 3)
    assert arbitration.update(b, ask(9))
    assert (a.news(), b.news()) == ([(EXISTS, 9)], [(OK, 9)])
    assert not may_write(arbitration, 5)
    assert list(arbitration.primaries()) == [b]


def test_after_the_primary_leaves_there_is_none_until_a_client_arbitrates() -> None:
    arbitration, a, b = Arbitration(7), Client(), Client()
    arbitration.update(a, ask(5))
    arbitration.update(b, ask(3))
    b.news()
    assert arbitration.leave(a)
    assert b.news() == [(NONE, 5)]
    assert not may_write(arbitration, 5)
    assert not arbitration.update(b, ask(4))  # below the highest ever: still a backup
    assert b.news() == [(NONE, 5)]
    assert arbitration.update(b, ask(5))
    assert b.news() == [(OK, 5)]
    assert may_write(arbitration, 5)


def test_a_primary_that_lowers_its_id_or_unsets_it_is_a_backup() -> None:
    for lower in (2, None):
        arbitration, a, b = Arbitration(7), Client(), Client()
        arbitration.update(a, ask(5))
        arbitration.update(b, ask(3))
        a.news(), b.news()
        assert arbitration.update(a, ask(lower))
        assert (a.news(), b.news()) == ([(NONE, 5)], [(NONE, 5)])
        assert not may_write(arbitration, 5)


def test_without_an_election_id_a_client_never_becomes_primary() -> None:
    arbitration, a = Arbitration(7), Client()
    arbitration.update(a, ask(None))
    assert a.updates[0].status.code == NONE
    assert not a.updates[0].HasField("election_id")
    assert not may_write(arbitration, None)
    assert not may_write(arbitration, 0)


def test_a_zero_election_id_is_valid() -> None:
    arbitration, a = Arbitration(7), Client()
    arbitration.update(a, ask(0))
    assert a.news() == [(OK, 0)]
    assert may_write(arbitration, 0)


def test_128_bit_ids_compare_by_their_high_half_first() -> None:
    arbitration, a, b = Arbitration(7), Client(), Client()
    arbitration.update(a, ask(2**64 - 1))
    message = ask(0)
    message.election_id.high = 1
    assert arbitration.update(b, message)


def test_each_role_has_its_own_primary() -> None:
    arbitration, a, b = Arbitration(7), Client(), Client()
    arbitration.update(a, ask(5))
    arbitration.update(b, ask(5, role="probe"))
    assert b.updates[0].role.name == "probe"
    assert may_write(arbitration, 5, "probe")
    assert set(arbitration.primaries()) == {a, b}
    with pytest.raises(RpcError) as caught:
        arbitration.check_write("nobody", p4r.Uint128(low=5))
    assert caught.value.code == rpc_code.NOT_FOUND


def _refused(arbitration: Arbitration, client: Client, message: p4r.MasterArbitrationUpdate) -> int:
    with pytest.raises(RpcError) as caught:
        arbitration.update(client, message)
    return caught.value.code


def test_invalid_arbitration_updates_end_the_stream() -> None:
    arbitration, a, b = Arbitration(7), Client(), Client()
    arbitration.update(a, ask(5))
    assert _refused(arbitration, b, ask(5)) == rpc_code.INVALID_ARGUMENT
    assert _refused(arbitration, a, ask(6, device=8)) == rpc_code.FAILED_PRECONDITION
    assert _refused(arbitration, a, ask(6, role="other")) == rpc_code.FAILED_PRECONDITION
    with_config = ask(6)
    with_config.role.config.type_url = "x/y"
    assert _refused(arbitration, a, with_config) == rpc_code.INVALID_ARGUMENT
    assert may_write(arbitration, 5)
    assert not arbitration.leave(b)  # it never joined


def test_the_number_of_clients_is_bounded() -> None:
    arbitration = Arbitration(7)
    clients = [Client() for _ in range(MAX_SESSIONS_PER_ROLE)]
    for number, client in enumerate(clients):
        arbitration.update(client, ask(number))
    assert _refused(arbitration, Client(), ask(1000)) == rpc_code.RESOURCE_EXHAUSTED
    arbitration.leave(clients[0])
    arbitration.update(Client(), ask(1000))


def test_repeating_arbitration_with_the_same_id_keeps_the_primary() -> None:
    arbitration, a = Arbitration(7), Client()
    arbitration.update(a, ask(5))
    assert not arbitration.update(a, ask(5))
    assert a.news() == [(OK, 5), (OK, 5)]
