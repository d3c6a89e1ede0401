import pytest

from mrc_host.verbs_types import QpType
from mrc_lab.perf.options import parse, size
from mrc_lab.perf.plan import DATATYPES, Average, PerfPlan
from mrc_lab.workloads.collectives import ReduceOp


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        parse("all_reduce", arguments)
    assert end.value.code == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("all_reduce_perf: error: ")
    return message


def test_defaults():
    options = parse("all_reduce", [])
    plan = options.plan
    assert (plan.sizes, plan.datatypes, plan.reductions) == ((1 << 20,), ("float",), (ReduceOp.SUM,))
    assert (plan.iterations, plan.warmup, plan.checks, plan.root, plan.average) == (20, 5, 1, 0, Average.MEAN)
    assert (options.fabric, options.hosts, options.output) == (None, None, None)


def test_sizes_grow_by_factor_or_step():
    assert parse("all_gather", ["-b", "8", "-e", "1K", "-f", "2"]).plan.sizes == (8, 16, 32, 64, 128, 256, 512, 1024)
    by_step = parse("all_gather", ["-b", "1M", "-e", "4M", "-i", "1536K"])
    assert by_step.plan.sizes == (1 << 20, 2621440, 4194304)
    assert by_step.step == "1572864(bytes)"


def test_long_options_match_nccl_tests():
    flags = (
        "--minbytes 1K --maxbytes=2K --stepfactor 2 --iters 3 --warmup_iters 0 --check 4 --op max --datatype half"
        " --root all --average 3 --run_cycles 2 --timeout 1.5"
    )
    plan = parse("broadcast", flags.split()).plan
    assert plan == PerfPlan(
        "broadcast", (1024, 2048), ("half",), (ReduceOp.MAX,), -1, 3, 0, 4, 2, Average.MAXIMUM, 1.5, plan.streams
    )


def test_all_types_and_reductions_can_be_selected():
    plan = parse("reduce_scatter", ["-d", "all", "-o", "all"]).plan
    assert plan.datatypes == tuple(DATATYPES)
    assert plan.reductions == tuple(ReduceOp)


def test_options_of_this_testbed_are_parsed():
    options = parse(
        "sendrecv",
        ["--fabric", "f", "--hosts", "h3,h1", "--transport", "rc", "--chunk", "8K", "--slots", "2", "-J", "out.json"],
    )
    assert (options.fabric, options.hosts, str(options.output)) == ("f", ("h3", "h1"), "out.json")
    streams = options.plan.streams
    assert (streams.qp_type, streams.chunk_bytes, streams.slots) == (QpType.RC, 8192, 2)


@pytest.mark.parametrize(("text", "value"), [("8", 8), ("64K", 65536), ("1m", 1 << 20), ("2G", 2 << 30)])
def test_sizes_are_parsed(text, value):
    assert size(text) == value


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-b", "0"], "not a size"),
        (["-b", "12Q"], "not a size"),
        (["-b", ""], "not a size"),
        (["-b", "2M", "-e", "1M"], "below the smallest"),
        (["-f", "1"], "factor of 2"),
        (["-n", "0"], "at least 1"),
        (["-n", "-1"], "not a whole number"),
        (["-d", "bfloat16"], "no type 'bfloat16'"),
        (["-o", "mulsum"], "no reduction 'mulsum'"),
        (["-a", "4"], "invalid choice"),
        (["-r", "x"], "not a whole number"),
        (["-T", "nan"], "number of seconds"),
        (["--hosts", "h1,h1"], "different hosts"),
        (["--hosts", ","], "different hosts"),
        (["-t", "2"], "one rank runs on each host"),
        (["-g", "8"], "one rank runs on each host"),
        (["-G", "1"], "no GPU"),
        (["-m", "4"], "one by one"),
        (["-z", "3"], "last byte is there"),
        (["--chunk", "8"], "at least 16 bytes"),
        (["--nonsense"], "unrecognized"),
        (["a", "--fabric", "b"], "two fabrics are named, a and b: give one"),
        (["--fabric", "a", "--fabric", "b"], "two fabrics are named, a and b: give one"),
        (["--fabric", ""], "the fabric's name is empty"),
        (["--fabric", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
    ],
)
def test_invalid_options_are_refused(capsys, arguments, why):
    assert why in refused(capsys, *arguments)


def test_flags_requesting_the_default_are_accepted():
    parse("all_reduce", ["-t", "1", "-g", "1", "-m", "1", "-p", "0", "-z", "1", "-G", "0", "-C", "0", "-R", "0"])


def test_plans_survive_encoding():
    plan = parse(
        "reduce_scatter", ["-b", "8", "-e", "64", "-f", "2", "-d", "all", "-o", "all", "--transport", "rc"]
    ).plan
    assert PerfPlan.from_json(plan.to_json()) == plan


def test_nccl_tests_flags_without_effect_are_accepted():
    words = "-t 1 -g 1 -m 1 -p 0 -z 0 -y 0 -G 0 -C 0 -S 0 -I 0 -K 0 -u 0 -M 0 -R 0 -x 0 -D 0 -n 7"
    assert parse("all_reduce", words.split()).plan.iterations == 7
