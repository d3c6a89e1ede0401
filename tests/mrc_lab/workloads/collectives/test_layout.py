import itertools
import random

from mrc_lab.workloads.collectives.layout import Layout, Span, check, cut
from tests.seeds import SEED


def test_segments_cover_the_array_evenly():
    seed = SEED
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(200):
        layout = Layout(rng.randrange(500), rng.choice((1, 4, 8)), rng.randrange(1, 17), rng.randrange(16, 300))
        segments = [layout.segment(k) for k in range(layout.world)]
        assert segments[0].offset == 0
        assert all(a.end == b.offset for a, b in itertools.pairwise(segments))
        assert segments[-1].end == layout.elements * layout.item_bytes
        lengths = [s.length // layout.item_bytes for s in segments]
        assert max(lengths) - min(lengths) <= 1


def test_chunks_cover_their_segment_and_never_split_an_element():
    layout = Layout(elements=1001, item_bytes=8, world=3, chunk_bytes=100)
    for index in range(3):
        chunks = layout.chunks(index)
        assert sum(c.length for c in chunks) == layout.segment(index).length
        assert all(c.offset % 8 == 0 and 0 < c.length <= 100 for c in chunks)


def test_an_empty_segment_has_no_chunks():
    assert Layout(elements=2, item_bytes=8, world=4, chunk_bytes=64).chunks(0) == []


def test_segment_numbers_wrap_around():
    layout = Layout(elements=10, item_bytes=4, world=4, chunk_bytes=64)
    assert layout.segment(-1) == layout.segment(3)


def test_cut_puts_the_remainder_in_the_last_piece():
    assert cut(Span(10, 25), 10) == [Span(10, 10), Span(20, 10), Span(30, 5)]


def test_the_checksum_depends_on_bytes_and_order():
    data = memoryview(b"the same bytes")
    assert check(3, data) == check(3, data)
    assert check(3, data) != check(4, data)
    assert check(3, data) != check(3, memoryview(b"The same bytes"))
