"""Against pyroute2, which writes and reads the same messages."""

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from mrc_common import rtnetlink
from mrc_common.rtnetlink import LinkMessage

IFF_UP_AND_RUNNING = 0x10043


def link(kind, **fields):
    message = ifinfmsg()
    message["header"]["type"] = kind
    message["header"]["flags"] = rtnetlink.NLM_F_MULTI
    message["index"] = 7
    message["flags"] = IFF_UP_AND_RUNNING
    message["attrs"] = [
        ("IFLA_ADDRESS", "02:00:00:00:00:01"),
        ("IFLA_IFNAME", fields.get("name", "h1-eth0")),
        ("IFLA_MTU", fields.get("mtu", 4500)),
        ("IFLA_TXQLEN", 1000),
        *fields.get("more", ()),
    ]
    message.encode()
    return bytes(message.data)


def test_links_encoded_by_pyroute2_are_decoded():
    data = link(rtnetlink.RTM_NEWLINK) + link(rtnetlink.RTM_DELLINK, name="odd", mtu=9000)
    assert list(rtnetlink.parse(data)) == [
        LinkMessage(rtnetlink.RTM_NEWLINK, rtnetlink.NLM_F_MULTI, 0, 7, IFF_UP_AND_RUNNING, "h1-eth0", 4500),
        LinkMessage(rtnetlink.RTM_DELLINK, rtnetlink.NLM_F_MULTI, 0, 7, IFF_UP_AND_RUNNING, "odd", 9000),
    ]


@pytest.mark.parametrize(
    ("watchers", "discipline", "plain"),
    [(0, "noqueue", True), (0, "noop", True), (1, "noqueue", False), (0, "tbf", False), (2, "netem", False)],
)
def test_links_are_plain_while_nobody_watches_or_shapes_them(watchers, discipline, plain):
    more = [("IFLA_PROMISCUITY", watchers), ("IFLA_QDISC", discipline)]
    (message,) = rtnetlink.parse(link(rtnetlink.RTM_NEWLINK, more=more))
    assert message.plain is plain


@pytest.mark.parametrize("ups", [0, 1, 7])
def test_links_say_whether_they_ever_had_their_carrier(ups):
    (message,) = rtnetlink.parse(link(rtnetlink.RTM_NEWLINK, more=[("IFLA_CARRIER_UP_COUNT", ups)]))
    assert message.had_carrier is (ups > 0)


def test_news_of_disciplines_name_their_link():
    message = tcmsg()
    message["header"]["type"] = rtnetlink.RTM_NEWQDISC
    message["index"] = 9
    message["parent"] = 0xFFFFFFFF
    message["attrs"] = [("TCA_KIND", "tbf")]
    message.encode()
    (found,) = rtnetlink.parse(bytes(message.data))
    assert (found.kind, found.index, found.name) == (rtnetlink.RTM_NEWQDISC, 9, None)


def test_requests_are_decoded_by_pyroute2():
    message = ifinfmsg(rtnetlink.get_link(5, rtnetlink.NLM_F_REQUEST))
    message.decode()
    assert message["index"] == 5
    assert message["header"]["type"] == 18
    assert message["header"]["flags"] == rtnetlink.NLM_F_REQUEST
    assert message["header"]["length"] == len(message.data)


def test_done_and_unknown_messages_contain_no_link():
    done = bytes.fromhex("14000000 0300 0200 01000000 00000000 00000000")
    noop = bytes.fromhex("10000000 0100 0000 01000000 00000000")
    assert [message.kind for message in rtnetlink.parse(noop + done)] == [1, rtnetlink.NLMSG_DONE]


@given(st.binary(max_size=200), st.integers(0, 100))
def test_malformed_and_truncated_messages_end_parsing_silently(garbage, cut):
    whole = link(rtnetlink.RTM_NEWLINK)
    assert len(list(rtnetlink.parse(whole + garbage))) >= 1
    assert list(rtnetlink.parse(whole[: min(cut, len(whole) - 1)])) == []
    list(rtnetlink.parse(garbage))
