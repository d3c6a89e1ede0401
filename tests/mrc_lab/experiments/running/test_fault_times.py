from controller.values import FaultRecord
from mrc_lab.experiments.running.fault_times import FaultTimes, LateChange, latest_change, problems
from topologies.faults.link_down import LinkDown

CUT = LinkDown("h1@p0")
PLANNED = {"f1": FaultTimes("link down h1@p0", 100, 200), "f2": FaultTimes("loss h2@p0 1 %", 150, None)}


def record(name, *, applied=0, cleared=0, problem=""):
    return FaultRecord(name, CUT, applied_at_ns=applied, cleared_at_ns=cleared, problem=problem)


def test_changes_on_time_are_not_late():
    assert latest_change(PLANNED, [record("f1", applied=100, cleared=200), record("f2", applied=150)], 1000).ns == 0


def test_the_latest_change_is_found_and_named():
    records = [record("f1", applied=103, cleared=200), record("f2", applied=157)]
    assert latest_change(PLANNED, records, 1000) == LateChange("the fault loss h2@p0 1 % was made", 7)
    records[0] = record("f1", applied=103, cleared=209)
    assert latest_change(PLANNED, records, 1000) == LateChange("the fault link down h1@p0 was taken back", 9)


def test_what_was_never_done_is_as_late_as_the_end_of_the_run():
    records = [record("f1", applied=100), record("f2")]
    assert latest_change(PLANNED, records, 190) == LateChange("the fault loss h2@p0 1 % was made", 40)
    assert latest_change(PLANNED, records, 1000) == LateChange("the fault loss h2@p0 1 % was made", 850)


def test_what_is_due_after_the_run_does_not_count():
    assert latest_change(PLANNED, [record("f1", applied=100), record("f2")], 150).ns == 0
    assert latest_change(PLANNED, [record("f1"), record("f2")], 100) == LateChange()


def test_faults_of_others_do_not_count():
    other = record("f9", applied=5000, problem="it was in the way")
    assert latest_change(PLANNED, [other], 1000) == LateChange()
    assert problems(PLANNED, [other, record("f2", problem="the switch is away")]) == [
        "fault f2 could not be made as planned: the switch is away"
    ]
