import pytest

from mrc_host.back_to_back import nic_config
from mrc_host.errors import MrcError
from mrc_host.verbs import Context, LocalProvider
from mrc_lab.errors import TransferError
from mrc_lab.workloads import verified_write as module
from mrc_lab.workloads.verified_write import Transfer, planes_text
from tests.mrc_host.fake_nic import FakeNic, Wire


class Pairing:
    """Two contexts over NICs that copy memory; waiting lets the wire carry one request at a time."""

    def __init__(self):
        self.wire = Wire(auto=False)
        self.now = 0
        self.spoil = False  # change a byte at the destination once something was carried
        self.nics = [FakeNic(nic_config(n), self.wire) for n in range(2)]
        self.providers = [LocalProvider(nic, lambda: self.now, advance=self.advance) for nic in self.nics]
        self.contexts = [Context(provider) for provider in self.providers]

    def advance(self, deadline):
        self.now += 1_000_000
        if self.wire.run(1) and self.spoil:
            self.spoil = False
            (region,) = self.nics[1].regions.values()
            region[2][17] ^= 1
        dispatched = [provider.dispatch() for provider in self.providers]
        return any(dispatched)


def verified_write(near, far, nbytes, **options):
    with Transfer(near, far, **options) as transfer:
        return transfer.write(nbytes)


@pytest.mark.parametrize("nbytes", [1, 1000, (1 << 20) + 1, 9 << 20])
def test_every_byte_arrives_and_counts_as_correct(nbytes):
    pairing = Pairing()
    report = verified_write(*pairing.contexts, nbytes, clock=lambda: pairing.now / 1e9)
    assert report.nbytes == nbytes
    assert report.wrong_bytes == 0
    assert report.seconds > 0
    assert report.bits_per_second == pytest.approx(8 * nbytes / report.seconds)
    assert set(report.paths) == {0, 1}


def test_a_corrupted_byte_is_counted():
    pairing = Pairing()
    pairing.spoil = True
    assert verified_write(*pairing.contexts, 1000, clock=lambda: pairing.now / 1e9).wrong_bytes == 1


def test_amounts_larger_than_the_memory_are_sent_in_rounds(monkeypatch):
    monkeypatch.setattr(module, "PIECE", 700)
    pairing = Pairing()
    assert verified_write(*pairing.contexts, 10_000, memory=3000).wrong_bytes == 0


def test_a_transfer_counts_each_write_separately():
    pairing = Pairing()
    with Transfer(*pairing.contexts) as transfer:
        reports = [transfer.write(nbytes) for nbytes in (5000, 100, 70_000)]
    assert [r.nbytes for r in reports] == [5000, 100, 70_000]
    assert all(r.wrong_bytes == 0 for r in reports)
    assert reports[0].counters.data_sent == reports[1].counters.data_sent == 1  # one request each, of the fake


def test_a_transfer_leaves_nothing_on_the_nics():
    pairing = Pairing()
    verified_write(*pairing.contexts, 5000, clock=lambda: pairing.now / 1e9)
    assert all(not nic.regions for nic in pairing.nics)


def test_zero_bytes_post_no_write():
    pairing = Pairing()
    with pytest.raises(TransferError, match="at least one byte"):
        verified_write(*pairing.contexts, 0)


def test_a_refusing_peer_is_an_error():
    pairing = Pairing()
    pairing.nics[1].deregister_memory, forget = (lambda lkey: None), pairing.nics[1].deregister_memory
    plain = pairing.nics[1].register_memory

    def register_and_forget(*arguments):
        info = plain(*arguments)
        forget(info.lkey)
        return info

    pairing.nics[1].register_memory = register_and_forget
    with pytest.raises(MrcError):
        verified_write(*pairing.contexts, 10)


def test_planes_are_described_in_words():
    assert planes_text({0: 4, 1: 3}) == "4 in plane 0, 3 in plane 1"
    assert planes_text({}) == "none"
