"""PTF tests of the program packet_io.p4, to be run by `ptf` (test_ptf.py does), in the manner of p4lang's own.

A test opens its stream, becomes primary, sets the pipeline, writes entries, and lets PTF send and expect packets at the
far ends of the switch's ports. PTF's parameters: grpcaddr, p4info, config, device_id.
"""

from __future__ import annotations

import queue
import threading
from pathlib import Path

import grpc
import ptf
import ptf.packet
from finsy.proto import p4i, p4r, p4r_grpc
from google.protobuf import text_format
from ptf import testutils
from ptf.base_tests import BaseTest

TIMEOUT_S = 20


class PacketIoTest(BaseTest):
    """A primary client with the pipeline set, and PTF's data plane."""

    def setUp(self) -> None:
        super().setUp()
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
        self.device_id = int(testutils.test_param_get("device_id"))
        self.channel = grpc.insecure_channel(testutils.test_param_get("grpcaddr"))
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.p4info = text_format.Parse(Path(testutils.test_param_get("p4info")).read_text(), p4i.P4Info())
        self.config = Path(testutils.test_param_get("config")).read_bytes()
        self.asked: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self.answers: queue.Queue[p4r.StreamMessageResponse] = queue.Queue()
        self.stream = self.stub.StreamChannel(iter(self.asked.get, None))
        threading.Thread(target=self.listen, daemon=True).start()
        self.asked.put(p4r.StreamMessageRequest(arbitration={"device_id": self.device_id, "election_id": {"low": 1}}))
        assert self.answers.get(timeout=TIMEOUT_S).arbitration.status.code == 0
        self.stub.SetForwardingPipelineConfig(
            p4r.SetForwardingPipelineConfigRequest(
                device_id=self.device_id,
                election_id={"low": 1},
                action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                config={"p4info": self.p4info, "p4_device_config": self.config},
            ),
            timeout=TIMEOUT_S,
        )

    def tearDown(self) -> None:
        self.asked.put(None)
        self.channel.close()
        super().tearDown()

    def listen(self) -> None:
        try:
            for message in self.stream:
                self.answers.put(message)
        except grpc.RpcError:
            return  # the channel was closed

    def write(self, *updates: p4r.Update) -> None:
        request = p4r.WriteRequest(device_id=self.device_id, election_id={"low": 1}, updates=updates)
        self.stub.Write(request, timeout=TIMEOUT_S)

    def entry(self, arrival: int, action: str, **params: bytes) -> p4r.TableEntry:
        table = self.p4info.tables[0]
        described = next(item for item in self.p4info.actions if item.preamble.alias == action)
        ids = {param.name: param.id for param in described.params}
        return p4r.TableEntry(
            table_id=table.preamble.id,
            match=[
                {"field_id": 1, "ternary": {"value": bytes([arrival]), "mask": b"\x01\xff"}},
                {"field_id": 2, "exact": {"value": b"\x01"}},
            ],
            action={
                "action": {
                    "action_id": described.preamble.id,
                    "params": [{"param_id": ids[name], "value": value} for name, value in params.items()],
                }
            },
            priority=10,
        )


class Forwarding(PacketIoTest):
    """An entry forwards, its counter counts, and what has none is dropped."""

    def runTest(self) -> None:  # noqa: N802 - PTF's name
        packet = testutils.simple_tcp_packet()
        entry = self.entry(1, "forward", port=b"\x02")
        self.write(p4r.Update(type=p4r.Update.INSERT, entity={"table_entry": entry}))
        testutils.send_packet(self, 1, packet)
        testutils.verify_packet(self, packet, 2)
        testutils.send_packet(self, 2, packet)
        testutils.verify_no_other_packets(self, timeout=1)
        asked = p4r.ReadRequest(device_id=self.device_id, entities=[{"direct_counter_entry": {"table_entry": entry}}])
        (answer,) = self.stub.Read(asked, timeout=TIMEOUT_S)
        assert answer.entities[0].direct_counter_entry.data.packet_count == 1


class PacketIn(PacketIoTest):
    """A packet goes to the client with its metadata."""

    def runTest(self) -> None:  # noqa: N802
        packet = testutils.simple_udp_packet(eth_src="00:00:00:00:0a:bc")
        entry = self.entry(2, "to_controller", reason=b"\x05")
        self.write(p4r.Update(type=p4r.Update.INSERT, entity={"table_entry": entry}))
        testutils.send_packet(self, 2, packet)
        message = self.answers.get(timeout=TIMEOUT_S).packet
        assert message.payload == bytes(packet)
        assert [item.value for item in message.metadata] == [b"\x02", b"\x05", b"\x00", b"\x0a\xbc"]


class PacketOut(PacketIoTest):
    """A packet of the client leaves where it says."""

    def runTest(self) -> None:  # noqa: N802
        packet = testutils.simple_icmp_packet()
        metadata = [{"metadata_id": number, "value": value} for number, value in ((1, b"\x01"), (2, b"\0"), (3, b"\0"))]
        self.asked.put(p4r.StreamMessageRequest(packet={"payload": bytes(packet), "metadata": metadata}))
        testutils.verify_packet(self, packet, 1)
        testutils.verify_no_other_packets(self, timeout=1)
