from mrc_lab.experiments.running.fault_times import FaultTimes, deviations, problems
from topologies.faults.link_down import LinkDown
from topologies.faults.record import FaultRecord

MS = 1_000_000
CUT = LinkDown("h1@p0")
PLANNED = {
    "f1": FaultTimes("link down h1@p0", 100 * MS, 200 * MS),
    "f2": FaultTimes("loss h2@p0 1 %", 150 * MS, None),
}


def record(name, *, made=0, cleared=0, problem=""):
    return FaultRecord(name, CUT, applied_at_ns=made * MS, cleared_at_ns=cleared * MS, problem=problem)


def found(*records, over=1000):
    """In ms and words, those that were not exact."""
    return [(one.ns // MS, one.text) for one in deviations(PLANNED, records, over * MS) if one.ns]


def test_changes_on_time_do_not_deviate():
    assert found(record("f1", made=100, cleared=200), record("f2", made=150)) == []


def test_late_changes_are_named_the_latest_first():
    assert found(record("f1", made=103, cleared=209), record("f2", made=157)) == [
        (9, "the fault link down h1@p0 was taken back 9 ms late"),
        (7, "the fault loss h2@p0 1 % was made 7 ms late"),
        (3, "the fault link down h1@p0 was made 3 ms late"),
    ]


def test_what_was_not_done_by_the_end_of_the_run_is_late_by_the_rest():
    assert found(record("f1", made=100), record("f2"), over=2150) == [
        (2000, "the fault loss h2@p0 1 % was not made in the 2,000 ms until the end"),
        (1950, "the fault link down h1@p0 was not taken back in the 1,950 ms until the end"),
    ]
    assert found(record("f1", made=100, cleared=260), record("f2", made=170), over=160) == [
        (10, "the fault loss h2@p0 1 % was not made in the 10 ms until the end")
    ]


def test_what_is_due_after_the_run_does_not_count():
    assert found(record("f1", made=100), record("f2"), over=150) == []
    assert found(record("f1"), record("f2"), over=100) == []


def test_faults_that_somebody_takes_back_early_are_named():
    assert found(record("f1", made=100, cleared=120), record("f2", made=150, cleared=400)) == [
        (600, "the fault loss h2@p0 1 % was taken back 600 ms early"),
        (80, "the fault link down h1@p0 was taken back 80 ms early"),
    ]


def test_faults_of_others_do_not_count():
    other = record("f9", made=5000, problem="it was in the way")
    assert found(other) == []
    assert problems(PLANNED, [other, record("f1"), record("f2", problem="the switch is away")]) == [
        "fault f2 could not be made as planned: the switch is away"
    ]


def test_a_controller_that_has_forgotten_a_fault_is_a_problem():
    assert problems(PLANNED, [record("f1")]) == [
        "the controller does not know any more when it made loss h2@p0 1 % (f2): was it restarted?"
    ]
