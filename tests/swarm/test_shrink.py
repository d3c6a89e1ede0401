from tests.swarm.generate_scenario import generate
from tests.swarm.shrink import shrink


def plan():
    for seed in range(1, 1000):
        made = generate(seed)
        if len(made.faults) > 4 and len(made.writes) > 10:
            return made
    raise AssertionError


def test_shrinking_keeps_only_what_the_failure_needs():
    whole = plan()
    guilty_fault, guilty_writes = whole.faults[3], {whole.writes[2], whole.writes[9]}

    def fails(part):
        return ("bad",) if guilty_fault in part.faults and guilty_writes <= set(part.writes) else ()

    small = shrink(whole, fails)
    assert small.faults == (3,)
    assert small.writes == (2, 9)
    assert small.violations == ("bad",)


def test_a_failure_that_needs_nothing_shrinks_to_nothing():
    small = shrink(plan(), lambda part: ("always",))
    assert (small.faults, small.writes) == ((), ())


def test_shrinking_keeps_the_same_failure():
    """Without one fault the plan fails too, but otherwise."""
    whole = plan()
    needed = whole.faults[1]

    def fails(part):
        return ("write 3 from h1 completed twice",) if needed in part.faults else ("NIC h2 had 7 internal errors",)

    small = shrink(whole, fails)
    assert small.faults == (1,)
    assert small.violations == ("write 3 from h1 completed twice",)
