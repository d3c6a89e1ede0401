"""Every case names what its networks have; all stacks meet all cases, or those that were asked for."""

from __future__ import annotations

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.torch_jobs.train_faults.cases import check_hosts, load


@pytest.mark.parametrize("hosts", [4, 6, 8])
def test_faults_are_on_links_and_switches_that_are_there(hosts: int) -> None:
    matrix = load()
    for stack in matrix.stacks:
        fabric = matrix.fabric(stack, hosts, "cases")
        for case in matrix.cases:
            for fault in (*case.faults_of(stack.network), *case.later_of(stack.network)):
                fault.check()
                fault.effect(fabric)
            assert set(case.victims) <= set(fabric.nic_names)


def test_a_case_fails_something_in_every_network_or_in_none() -> None:
    matrix = load()
    for case in matrix.cases:
        for part in (case.faults, case.then):
            assert not part or set(part) == set(matrix.networks), case.name
    assert [case.name for case in matrix.cases if case.harmless] == ["healthy"]


def test_both_networks_have_the_same_rate_for_a_host() -> None:
    matrix = load()
    rates = {
        stack.name: sum(link.rate_bps for link in matrix.fabric(stack, 4, "cases").links_of("h1"))
        for stack in matrix.stacks
    }
    assert len(set(rates.values())) == 1, rates


def test_rank_0_which_has_the_store_is_never_a_victim() -> None:
    assert all("h1" not in case.victims for case in load().cases)


def test_names_choose_of_their_kind() -> None:
    chosen = load().only(["mrc", "rank-killed"])
    assert chosen.names == ["mrc", "rank-killed"]
    assert len(load().only(["mrc"]).cases) == len(load().cases)


def test_a_stack_beside_the_others_is_chosen_by_its_name_alone() -> None:
    assert [stack.name for stack in load().only([]).stacks] == ["gloo", "rc", "mrc"]
    assert [stack.name for stack in load().only(["mrc", "mrc-3s"]).stacks] == ["mrc", "mrc-3s"]


def test_a_stack_may_have_nics_with_settings_of_its_own() -> None:
    matrix = load()
    remaps = {stack.name: matrix.fabric(stack, 4, "cases").settings.transport.port_remap for stack in matrix.stacks}
    assert remaps == {"gloo": 0, "rc": 0, "mrc": 0, "mrc-3s": 3_000_000_000}


def test_a_name_that_is_none_is_refused_with_the_nearest() -> None:
    with pytest.raises(ExperimentError, match="no case or stack rank-kiled; did you mean rank-killed"):
        load().only(["rank-kiled"])


@pytest.mark.parametrize("hosts", [-4, 0, 2, 3, 5, 10])
def test_too_few_too_many_or_odd_hosts_are_refused(hosts: int) -> None:
    with pytest.raises(ExperimentError, match=f"^{hosts} hosts"):
        check_hosts(hosts)
