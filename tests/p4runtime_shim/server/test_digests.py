import pytest
from finsy.proto import p4r, rpc_code

from p4runtime_shim.entities import Digest
from p4runtime_shim.server import p4info
from p4runtime_shim.server.digests import Digests
from p4runtime_shim.server.rpc_errors import RpcError
from tests.p4runtime_shim.server import sample

MS = 1_000_000


def make(*, timeout: int = 10 * MS, size: int = 3, ack: int = 100 * MS) -> Digests:
    digests = Digests(p4info.build(sample.p4info()))
    config = p4r.DigestEntry.Config(max_timeout_ns=timeout, max_list_size=size, ack_timeout_ns=ack)
    digests.write(p4r.Update.INSERT, p4r.DigestEntry(digest_id=sample.DIGEST, config=config), None)
    return digests


def learn(mac: int, port: int = 1) -> Digest:
    return Digest("learn_t", (mac, port), 0)


def macs(message: p4r.DigestList) -> list[int]:
    return [int.from_bytes(item.struct.members[0].bitstring, "big") for item in message.data]


def test_a_digest_list_is_sent_when_full_and_has_no_duplicates() -> None:
    digests = make()
    assert digests.offer([learn(1), learn(1), learn(2)], 0) == []
    (full,) = digests.offer([learn(2), learn(3)], MS)
    assert macs(full) == [1, 2, 3]
    assert full.digest_id == sample.DIGEST
    assert full.data[0].struct.members[1].bitstring == b"\x01"
    assert full.timestamp == MS


def test_a_digest_list_is_sent_after_its_timeout() -> None:
    digests = make()
    digests.offer([learn(1)], 5)
    digests.offer([learn(2)], 5 + 3 * MS)
    assert digests.due() == 5 + 10 * MS
    assert digests.flush(4 + 10 * MS) == []
    (waited,) = digests.flush(5 + 10 * MS)
    assert macs(waited) == [1, 2]
    assert digests.due() is None


@pytest.mark.parametrize(("timeout", "size"), [(0, 10), (10 * MS, 1)])
def test_without_a_timeout_each_message_is_sent_in_its_own_list(timeout: int, size: int) -> None:
    lists = make(timeout=timeout, size=size).offer([learn(1), learn(2)], 0)
    assert [macs(item) for item in lists] == [[1], [2]]


def test_a_sent_message_is_suppressed_until_acknowledged() -> None:
    digests = make(size=1)
    (first,) = digests.offer([learn(1)], 0)
    assert digests.offer([learn(1)], MS) == []
    digests.acknowledge(p4r.DigestListAck(digest_id=sample.DIGEST, list_id=first.list_id + 1))
    assert digests.offer([learn(1)], MS) == []
    digests.acknowledge(p4r.DigestListAck(digest_id=sample.DIGEST, list_id=first.list_id))
    (again,) = digests.offer([learn(1)], 2 * MS)
    assert again.list_id != first.list_id


def test_a_sent_message_is_suppressed_until_the_ack_timeout() -> None:
    digests = make(size=1, ack=100 * MS)
    digests.offer([learn(1)], 0)
    assert digests.offer([learn(1)], 99 * MS) == []
    assert len(digests.offer([learn(1)], 100 * MS)) == 1


def test_without_an_ack_timeout_duplicates_are_sent() -> None:
    digests = make(size=1, ack=0)
    assert len(digests.offer([learn(1), learn(1)], 0)) == 2


def test_a_new_client_receives_earlier_digests_again() -> None:
    digests = make(size=1)
    digests.offer([learn(1)], 0)
    digests.forget()
    assert len(digests.offer([learn(1)], 1)) == 1


def test_messages_of_a_disabled_digest_are_dropped_and_counted() -> None:
    digests = make()
    digests.write(p4r.Update.DELETE, p4r.DigestEntry(digest_id=sample.DIGEST), None)
    assert digests.offer([learn(1), Digest("unknown", (1,), 0)], 0) == []
    assert digests.dropped == 2


def test_digest_configs_are_validated_and_read_back() -> None:
    digests = make()
    entry = p4r.DigestEntry(digest_id=sample.DIGEST)
    for update, message, code in (
        (p4r.Update.INSERT, entry, rpc_code.ALREADY_EXISTS),
        (p4r.Update.MODIFY, p4r.DigestEntry(digest_id=99), rpc_code.NOT_FOUND),
        (
            p4r.Update.MODIFY,
            p4r.DigestEntry(digest_id=sample.DIGEST, config={"max_list_size": -1}),
            rpc_code.INVALID_ARGUMENT,
        ),
    ):
        with pytest.raises(RpcError) as caught:
            digests.write(update, message, None)
        assert caught.value.code == code
    with pytest.raises(RpcError):
        digests.acknowledge(p4r.DigestListAck(digest_id=99))
    assert [item.config.max_list_size for item in digests.read(p4r.DigestEntry())] == [3]
    journal: list = []
    digests.write(p4r.Update.DELETE, entry, journal)
    assert list(digests.read(p4r.DigestEntry())) == []
    journal.pop()()
    assert [item.config.max_list_size for item in digests.read(entry)] == [3]
