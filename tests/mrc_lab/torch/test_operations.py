"""Every operation of a process group against what torch computes from all ranks' tensors in one place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")

import torch
import torch.distributed as dist

from tests.mrc_lab.torch.ranks import Ranks, options, same

WORLD = 3
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
COUNTS = [0, 1, 2, 500]


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    with Ranks(WORLD) as made:
        yield made


def tensors(dtype: Any, *shape: int) -> list[Any]:
    """One for each rank: small whole numbers, whose sums and products every type holds exactly."""
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(0, 4, shape, generator=generator).to(dtype) for _ in range(WORLD)]


def all_reduce(ranks: Ranks, parts: list[Any], op: Any) -> None:
    ranks.each(lambda group, rank: group.allreduce([parts[rank]], options(dist.AllreduceOptions, reduceOp=op)))


def combined(kind: Any, parts: list[Any]) -> Any:
    stacked = torch.stack([part.to(torch.float64) for part in parts])
    if kind == dist.ReduceOp.SUM:
        return stacked.sum(0)
    if kind == dist.ReduceOp.AVG:
        return stacked.sum(0) / len(parts)
    if kind == dist.ReduceOp.PRODUCT:
        return stacked.prod(0)
    return stacked.amin(0) if kind == dist.ReduceOp.MIN else stacked.amax(0)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
@pytest.mark.parametrize("kind", ["SUM", "PRODUCT", "MIN", "MAX"])
def test_all_reduce_combines_in_place(ranks: Ranks, dtype: Any, kind: str) -> None:
    op = getattr(dist.ReduceOp, kind)
    for count in COUNTS:
        parts = tensors(dtype, count)
        expected = combined(op, parts).to(dtype)
        all_reduce(ranks, parts, op)
        assert same(parts, [expected] * WORLD)


@pytest.mark.parametrize("dtype", FLOATS)
def test_all_reduce_averages_as_float32_does_rounded_once(ranks: Ranks, dtype: Any) -> None:
    parts = tensors(dtype, 100)
    expected = (combined(dist.ReduceOp.SUM, parts).to(torch.float64) / WORLD).to(dtype)
    ranks.each(
        lambda group, rank: group.allreduce([parts[rank]], options(dist.AllreduceOptions, reduceOp=dist.ReduceOp.AVG))
    )
    assert torch.allclose(parts[0].double(), expected.double(), rtol=torch.finfo(dtype).eps)
    assert same(parts, [parts[0]] * WORLD)


def test_a_factor_multiplies_before_the_sum(ranks: Ranks) -> None:
    parts = tensors(torch.float32, 50)
    expected = combined(dist.ReduceOp.SUM, [part * 2.5 for part in parts]).float()
    op = dist._make_nccl_premul_sum(2.5)
    ranks.each(lambda group, rank: group.allreduce([parts[rank]], options(dist.AllreduceOptions, reduceOp=op)))
    assert same(parts, [expected] * WORLD)


@pytest.mark.parametrize(("kind", "function"), [("BAND", "__and__"), ("BOR", "__or__"), ("BXOR", "__xor__")])
def test_bits_are_combined_one_by_one(ranks: Ranks, kind: str, function: str) -> None:
    parts = tensors(torch.int32, 40)
    expected = parts[0]
    for part in parts[1:]:
        expected = getattr(expected, function)(part)
    op = getattr(dist.ReduceOp, kind)
    ranks.each(lambda group, rank: group.allreduce([parts[rank]], options(dist.AllreduceOptions, reduceOp=op)))
    assert same(parts, [expected] * WORLD)


def test_bool_and_complex_numbers_are_summed(ranks: Ranks) -> None:
    flags = [torch.tensor([False, rank == 1, True]) for rank in range(WORLD)]
    ranks.each(lambda group, rank: group.allreduce([flags[rank]]))
    assert flags[0].tolist() == [False, True, True]
    numbers = [torch.tensor([complex(rank, 1)]) for rank in range(WORLD)]
    ranks.each(lambda group, rank: group.allreduce([numbers[rank]]))
    assert numbers[0].tolist() == [3 + 3j]


def test_non_contiguous_tensors_are_transferred_by_their_elements(ranks: Ranks) -> None:
    whole = [torch.arange(24.0).reshape(4, 6) + rank for rank in range(WORLD)]
    before = [one.clone() for one in whole]
    expected = combined(dist.ReduceOp.SUM, [one.t()[::2] for one in before]).float()
    ranks.each(lambda group, rank: group.allreduce([whole[rank].t()[::2]]))
    for rank in range(WORLD):
        assert torch.equal(whole[rank].t()[::2], expected)
        assert torch.equal(whole[rank].t()[1::2], before[rank].t()[1::2]), "what lies between them is not touched"


def test_conjugates_are_sent_as_their_values(ranks: Ranks) -> None:
    given = [torch.tensor([complex(rank, 1)]).conj() for rank in range(WORLD)]
    outs = [torch.zeros(WORLD, dtype=torch.complex64) for _ in range(WORLD)]
    ranks.each(lambda group, rank: group.all_gather_single(outs[rank], given[rank]))
    assert outs[2].tolist() == [0 - 1j, 1 - 1j, 2 - 1j]


@pytest.mark.parametrize("root", range(WORLD))
def test_reduce_changes_the_root_alone(ranks: Ranks, root: int) -> None:
    parts = tensors(torch.float32, 77)
    before = [part.clone() for part in parts]
    ranks.each(lambda group, rank: group.reduce([parts[rank]], options(dist.ReduceOptions, rootRank=root)))
    for rank in range(WORLD):
        expected = combined(dist.ReduceOp.SUM, before).float() if rank == root else before[rank]
        assert torch.equal(parts[rank], expected)


@pytest.mark.parametrize("root", range(WORLD))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.float8_e4m3fn, torch.complex128])
def test_broadcast_copies_any_type(ranks: Ranks, root: int, dtype: Any) -> None:
    parts = [one.to(dtype) for one in tensors(torch.float32, 31)]
    expected = parts[root].clone().view(-1).view(torch.uint8)
    ranks.each(lambda group, rank: group.broadcast([parts[rank]], options(dist.BroadcastOptions, rootRank=root)))
    assert same([part.view(torch.uint8) for part in parts], [expected] * WORLD)


def test_all_gather_accepts_lists_and_tensors(ranks: Ranks) -> None:
    parts = tensors(torch.int64, 5, 2)
    lists = [[torch.zeros(5, 2, dtype=torch.int64) for _ in range(WORLD)] for _ in range(WORLD)]
    ranks.each(lambda group, rank: group.allgather([lists[rank]], [parts[rank]]))
    assert all(same(row, parts) for row in lists)
    flat = [torch.zeros(5 * WORLD, 2, dtype=torch.int64) for _ in range(WORLD)]
    ranks.each(lambda group, rank: group.all_gather_single(flat[rank], parts[rank]))
    assert same(flat, [torch.cat(parts)] * WORLD)
    several = [[torch.zeros(WORLD * 10, dtype=torch.int64), torch.zeros(WORLD)] for _ in range(WORLD)]
    ranks.each(
        lambda group, rank: group.all_gather_single_coalesced(
            several[rank], [parts[rank].view(-1), torch.tensor([float(rank)])]
        )
    )
    assert several[0][1].tolist() == [0.0, 1.0, 2.0]
    assert torch.equal(several[2][0], torch.cat(parts).view(-1))
    by_rank = [[[torch.zeros(1), torch.zeros(2)] for _ in range(WORLD)] for _ in range(WORLD)]
    ranks.each(
        lambda group, rank: group.allgather_coalesced(
            by_rank[rank], [torch.full((1,), rank + 1.0), torch.ones(2) * rank]
        )
    )
    assert [row[0].item() for row in by_rank[1]] == [1.0, 2.0, 3.0]


def test_reduce_scatter_accepts_lists_and_tensors(ranks: Ranks) -> None:
    parts = tensors(torch.float32, WORLD * 4)
    total = combined(dist.ReduceOp.SUM, parts).float()
    outs = [torch.zeros(4) for _ in range(WORLD)]
    ranks.each(
        lambda group, rank: group.reduce_scatter_single(outs[rank], parts[rank], options(dist.ReduceScatterOptions))
    )
    assert same(outs, list(total.chunk(WORLD)))
    outs = [torch.zeros(4) for _ in range(WORLD)]
    ranks.each(
        lambda group, rank: group.reduce_scatter(
            [outs[rank]], [list(parts[rank].chunk(WORLD))], options(dist.ReduceScatterOptions)
        )
    )
    assert same(outs, list(total.chunk(WORLD)))


def test_all_to_all_even_uneven_and_of_lists(ranks: Ranks) -> None:
    parts = [torch.arange(6.0) + 10 * rank for rank in range(WORLD)]
    outs = [torch.zeros(6) for _ in range(WORLD)]
    ranks.each(lambda group, rank: group.all_to_all_single(outs[rank], parts[rank], [], []))
    assert outs[1].tolist() == [2.0, 3.0, 12.0, 13.0, 22.0, 23.0]
    # Rank r sends r rows to rank 0, none to rank 1, 6 - r to rank 2.
    sends = [[rank, 0, 6 - rank] for rank in range(WORLD)]
    uneven = [torch.zeros(sum(sends[source][rank] for source in range(WORLD))) for rank in range(WORLD)]
    ranks.each(
        lambda group, rank: group.all_to_all_single(
            uneven[rank], parts[rank], [sends[source][rank] for source in range(WORLD)], sends[rank]
        )
    )
    assert uneven[0].tolist() == [10.0, 20.0, 21.0]
    assert uneven[1].tolist() == []
    assert len(uneven[2]) == 15
    lists = [[torch.zeros(2) for _ in range(WORLD)] for _ in range(WORLD)]
    ranks.each(lambda group, rank: group.alltoall(lists[rank], list(parts[rank].chunk(WORLD))))
    assert [part.tolist() for part in lists[2]] == [[4.0, 5.0], [14.0, 15.0], [24.0, 25.0]]


@pytest.mark.parametrize("root", range(WORLD))
def test_gather_and_scatter_begin_and_end_at_the_root(ranks: Ranks, root: int) -> None:
    parts = tensors(torch.bfloat16, 9)
    gathered = [torch.zeros(9, dtype=torch.bfloat16) for _ in range(WORLD)]
    how = options(dist.GatherOptions, rootRank=root)
    ranks.each(lambda group, rank: group.gather([gathered] if rank == root else [], [parts[rank]], how))
    assert same(gathered, parts)
    outs = [torch.zeros(9, dtype=torch.bfloat16) for _ in range(WORLD)]
    spread = options(dist.ScatterOptions, rootRank=root)
    ranks.each(lambda group, rank: group.scatter([outs[rank]], [parts] if rank == root else [], spread))
    assert same(outs, parts)


def test_a_group_names_its_device_and_counts_its_collectives() -> None:
    with Ranks(2) as ranks:
        group = ranks.groups[0]
        assert group._device_types == [torch.device("cpu")]
        assert group._get_backend(torch.device("cpu")) is group
        assert not group.supports_splitting
        group._set_sequence_number_for_group()
        assert [each._get_sequence_number_for_group() for each in ranks.groups] == [0, 0]
        ranks.each(lambda group, rank: group.barrier())
        ranks.each(lambda group, rank: group.allreduce([torch.ones(2)]))
        assert [each._get_sequence_number_for_group() for each in ranks.groups] == [2, 2]


def test_messages_are_matched_by_sender_and_tag(ranks: Ranks) -> None:
    first, second, third = torch.zeros(4), torch.zeros(0), torch.zeros(300, dtype=torch.int32)
    waiting = [
        ranks.groups[0].recv([third], 2, 5),
        ranks.groups[0].recv([first], 1, 9),
        ranks.groups[0].recv([second], 1, 8),
    ]
    ranks.groups[1].send([torch.zeros(0)], 0, 8).wait()
    ranks.groups[1].send([torch.ones(4)], 0, 9).wait()
    ranks.groups[2].send([torch.arange(300, dtype=torch.int32)], 0, 5).wait()
    assert all(work.wait() for work in waiting)
    assert first.tolist() == [1.0] * 4
    assert torch.equal(third, torch.arange(300, dtype=torch.int32))
    anyone = torch.zeros(1)
    work = ranks.groups[2].recv_anysource([anyone], 3)
    ranks.groups[0].send([torch.tensor([4.0])], 2, 3).wait()
    assert work.wait()
    assert (anyone.item(), work.source_rank()) == (4.0, 0)


def test_operations_in_flight_are_done_in_the_order_they_were_posted(ranks: Ranks) -> None:
    values = [torch.ones(200) for _ in range(WORLD)]
    several = [torch.ones(3) for _ in range(WORLD)]
    works = []
    for group, value, other in zip(ranks.groups, values, several, strict=True):
        works += [group.allreduce([value, other]), group.allreduce([value]), group.barrier(), group.allreduce([other])]
    assert all(work.wait() for work in reversed(works))
    assert values[0].tolist() == [9.0] * 200
    assert several[1].tolist() == [9.0] * 3


@pytest.mark.parametrize("sizes", [(1, 2, 3), (0, 300, 1), (70, 0, 70)])
def test_all_gather_accepts_lists_of_unlike_sizes(ranks: Ranks, sizes: tuple[int, ...]) -> None:
    """As torch.distributed.all_gather's documentation promises, and NCCL does; in place, too."""
    parts = [torch.full((size,), float(rank)) for rank, size in enumerate(sizes)]
    lists = [[torch.zeros(size) for size in sizes] for _ in range(WORLD)]
    lists[1][1] = parts[1]
    for _ in range(2):
        ranks.each(lambda group, rank: group.allgather([lists[rank]], [parts[rank]]))
    assert all(same(row, parts) for row in lists)


def test_a_future_has_the_tensors_for_hooks_of_distributed_data_parallel(ranks: Ranks) -> None:
    values = [torch.ones(2) for _ in range(WORLD)]
    works = [group.allreduce([value]) for group, value in zip(ranks.groups, values, strict=True)]
    halves = works[0].get_future().then(lambda future: future.value()[0] / 2)
    assert halves.wait().tolist() == [1.5, 1.5]
    assert all(work.wait() for work in works)
    assert works[1].get_future().wait()[0] is values[1], "of one that has ended already, too"


def freed(count: int, left: int) -> Any:
    """A tensor of so many elements whose storage has `left` bytes left."""
    tensor = torch.zeros(count)
    tensor.untyped_storage().resize_(left)
    return tensor


class Wrapper(torch.Tensor):  # type: ignore[misc]
    """A tensor around others, without memory of its own, as DTensor is."""

    @staticmethod
    def __new__(cls, count: int) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, (count,))

    @classmethod
    def __torch_dispatch__(cls, *_: Any) -> Any:
        raise AssertionError("refused before anything is done with it")


@pytest.mark.parametrize(
    ("post", "why"),
    [
        (lambda group: group.allreduce([torch.zeros(2).to_sparse()]), "dense tensors on the CPU"),
        (lambda group: group.allreduce([torch.zeros(2, device="meta")]), "dense tensors on the CPU"),
        (lambda group: group.allreduce([freed(4, 0)]), "this Tensor of 4 elements has none"),
        (lambda group: group.allreduce([freed(4, 12)]), "this Tensor of 4 elements has none"),
        (lambda group: group.allreduce([Wrapper(4)]), "this Wrapper of 4 elements has none: pass the local tensor"),
        (lambda group: group.allgather([[torch.zeros(1)]], [torch.zeros(1)]), "1 tensors for 3 ranks"),
        (lambda group: group.all_gather_single(torch.zeros(3), torch.zeros(1).int()), "cannot move torch.int32"),
        (lambda group: group.all_to_all_single(torch.zeros(4), torch.zeros(4), [], []), "dealt out evenly to 3 ranks"),
        (lambda group: group.all_to_all_single(torch.zeros(4), torch.zeros(4), [1, 1, 1], [4, 0, 0]), "add up to 3"),
        (lambda group: group.all_to_all_single(torch.zeros(4), torch.zeros(4), [5, -1, 0], [4, 0, 0]), "negative"),
        (lambda group: group.all_gather_single(torch.zeros(5), torch.zeros(1)), "put 3 elements into 5"),
        (lambda group: group.allgather([[torch.zeros(n) for n in (2, 1, 1)]], [torch.zeros(1)]), "1 elements into 2"),
        (lambda group: group.reduce_scatter_single(torch.zeros(2), torch.zeros(3)), "put 3 elements into 6"),
        (lambda group: group.broadcast([torch.zeros(1)], options(dist.BroadcastOptions, rootRank=3)), "no rank 3"),
        (lambda group: group.gather([], [torch.zeros(1)], options(dist.GatherOptions, rootRank=-1)), "no rank -1"),
        (lambda group: group.allreduce([torch.zeros(1).to(torch.float8_e4m3fn)]), "does not reduce torch.float8"),
        (
            lambda group: group.allreduce(
                [torch.zeros(1)], options(dist.AllreduceOptions, reduceOp=dist.ReduceOp.BAND)
            ),
            "takes integers and bool",
        ),
        (
            lambda group: group.allreduce(
                [torch.zeros(1).int()],
                options(dist.AllreduceOptions, reduceOp=dist._make_nccl_premul_sum(0.5)),
            ),
            "cannot be multiplied by 0.5",
        ),
    ],
)
def test_invalid_arguments_are_refused_when_posted(ranks: Ranks, post: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        post(ranks.groups[0])
    ranks.each(lambda group, rank: group.barrier())
