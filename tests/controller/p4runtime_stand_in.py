"""A P4Runtime server that only remembers, for tests of the controller without a switch.

Any number of devices on one address. Entities are kept as they are written, under the key the specification gives them;
a test may make it forget, refuse or falsify some.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
from finsy.proto import p4r, p4r_grpc, rpc_code, rpc_status
from google.protobuf import any_pb2


class Device:
    def __init__(self) -> None:
        self.config = p4r.ForwardingPipelineConfig()
        self.entities: dict[Any, p4r.Entity] = {}
        self.writes = 0
        self.pipelines = 0


def key(entity: p4r.Entity) -> Any:
    kind = entity.WhichOneof("entity")
    if kind == "table_entry":
        entry = entity.table_entry
        match = tuple(sorted(field.SerializeToString() for field in entry.match))
        return kind, entry.table_id, match, entry.priority
    if kind == "action_profile_member":
        return kind, entity.action_profile_member.action_profile_id, entity.action_profile_member.member_id
    if kind == "action_profile_group":
        return kind, entity.action_profile_group.action_profile_id, entity.action_profile_group.group_id
    raise AssertionError(f"the controller wrote an entity it has no business with: {kind}")


class StandIn(p4r_grpc.P4RuntimeServicer):
    def __init__(self, device_ids: range) -> None:
        self.devices = {device_id: Device() for device_id in device_ids}
        self.swallow: Callable[[int, p4r.Entity], bool] = lambda device, entity: False
        self.refuse_pipeline = ""
        self.refuse_devices: dict[int, str] = {}  # why each of them refuses a pipeline
        self.answering = threading.Event()  # cleared while streams and writes wait, as in a process that is stopped
        self.answering.set()
        self._late = threading.Condition()
        self._waiting_writes = 0  # which are carried out before anything of a new stream
        self.reading = threading.Event()  # cleared while reads of the device `slow` wait
        self.reading.set()
        self.slow = 0

    def StreamChannel(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802
        for request in requests:
            self.answering.wait(60)
            with self._late:
                self._late.wait_for(lambda: not self._waiting_writes, 60)
            if request.HasField("arbitration"):
                answer = p4r.StreamMessageResponse()
                answer.arbitration.CopyFrom(request.arbitration)
                answer.arbitration.status.code = rpc_code.OK
                yield answer

    def Capabilities(self, request: Any, context: Any) -> Any:  # noqa: N802
        return p4r.CapabilitiesResponse(p4runtime_api_version="1.4.0")

    def GetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        device = self.devices[request.device_id]
        if not device.config.HasField("cookie"):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "No forwarding pipeline config set for this device.")
        return p4r.GetForwardingPipelineConfigResponse(config=device.config)

    def SetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        why = self.refuse_pipeline or self.refuse_devices.get(request.device_id)
        if why:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, why)
        device = self.devices[request.device_id]
        device.config.CopyFrom(request.config)
        if request.action != p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT:
            device.entities.clear()
        device.pipelines += 1
        return p4r.SetForwardingPipelineConfigResponse()

    def Write(self, request: Any, context: Any) -> Any:  # noqa: N802
        device = self.devices[request.device_id]
        with self._late:
            self._waiting_writes += 1
        self.answering.wait(60)
        with self._late:
            device.writes += 1
            errors = [self._update(request.device_id, device, update) for update in request.updates]
            self._waiting_writes -= 1
            self._late.notify_all()
        if any(error.canonical_code for error in errors):
            self._fail(context, errors)
        return p4r.WriteResponse()

    def waits(self) -> bool:
        """Whether a write waits."""
        return self._waiting_writes > 0

    def Read(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        device = self.devices[request.device_id]
        if request.device_id == self.slow:
            self.reading.wait(60)
        for wanted in request.entities:
            kind = wanted.WhichOneof("entity")
            found = [entity for entity in device.entities.values() if self._matches(kind, wanted, entity)]
            yield p4r.ReadResponse(entities=found)

    @staticmethod
    def _matches(kind: str, wanted: p4r.Entity, entity: p4r.Entity) -> bool:
        if entity.WhichOneof("entity") != kind:
            return False
        field = "table_id" if kind == "table_entry" else "action_profile_id"
        return getattr(getattr(wanted, kind), field) in (0, getattr(getattr(entity, kind), field))

    def _update(self, device_id: int, device: Device, update: Any) -> Any:
        entity_key, known = key(update.entity), key(update.entity) in device.entities
        if update.type == p4r.Update.INSERT and known:
            return p4r.Error(canonical_code=rpc_code.ALREADY_EXISTS, message=f"{entity_key} exists")
        if update.type != p4r.Update.INSERT and not known:
            return p4r.Error(canonical_code=rpc_code.NOT_FOUND, message=f"{entity_key} does not exist")
        dangling = self._dangling(device, update)
        if dangling:
            return p4r.Error(canonical_code=rpc_code.INVALID_ARGUMENT, message=dangling)
        if update.type == p4r.Update.DELETE:
            del device.entities[entity_key]
        elif not self.swallow(device_id, update.entity):
            device.entities[entity_key] = update.entity
        return p4r.Error()

    @staticmethod
    def _dangling(device: Device, update: Any) -> str:
        """A reference to a member or group that is not there, after this update."""
        keys = set(device.entities)
        if update.type == p4r.Update.DELETE:
            keys.discard(key(update.entity))
            entities = [entity for entity_key, entity in device.entities.items() if entity_key in keys]
        else:
            entities = [update.entity]
        for entity in entities:
            if entity.HasField("action_profile_group"):
                group = entity.action_profile_group
                needed = [("action_profile_member", group.action_profile_id, m.member_id) for m in group.members]
            elif entity.HasField("table_entry"):
                action = entity.table_entry.action
                profiles = [
                    profile.preamble.id
                    for profile in device.config.p4info.action_profiles
                    if entity.table_entry.table_id in profile.table_ids
                ]
                needed = []
                if action.action_profile_member_id:
                    needed = [("action_profile_member", p, action.action_profile_member_id) for p in profiles]
                if action.action_profile_group_id:
                    needed = [("action_profile_group", p, action.action_profile_group_id) for p in profiles]
            else:
                needed = []
            for reference in needed:
                if reference not in keys:
                    return f"{reference} is referred to but does not exist"
        return ""

    @staticmethod
    def _fail(context: Any, errors: list[Any]) -> None:
        details = []
        for error in errors:
            detail = any_pb2.Any()
            detail.Pack(error)
            details.append(detail)
        status = rpc_status.Status(code=rpc_code.UNKNOWN, message="write failed", details=details)
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.UNKNOWN, "write failed")


def serve(stand_in: StandIn, address: str) -> grpc.Server:
    """Serve on an address until the returned server is stopped; each open stream holds a worker."""
    server = grpc.server(futures.ThreadPoolExecutor(len(stand_in.devices) + 8))
    p4r_grpc.add_P4RuntimeServicer_to_server(stand_in, server)
    server.add_insecure_port(address)
    server.start()
    return server
