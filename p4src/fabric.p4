/*
 * The fabric switch: a T0 or a T1 of a multi-plane Clos.
 *
 * A packet is forwarded in one of two ways. If its destination starts with this switch's own uSID, the uSID list is
 * shifted and the next uSID names the port: no choice is made here, the sender chose the whole path. Any other packet is
 * plain IPv6 (RoCE, ping) and takes a longest-prefix route, with ECMP over the uplinks. Everything else is dropped and
 * counted by reason. On the way a packet may be marked (ECN), trimmed to its headers, or impaired by an injected fault.
 * Which switch this is, and what it does about queues and faults, is in its table entries alone.
 *
 * This file only puts the stages in order; each stage has a file of its own.
 */
#include <core.p4>
#include <v1model.p4>

#include "sizes.p4"
#include "headers.p4"
#include "parser.p4"
#include "check_packet.p4"
#include "packet_out.p4"
#include "arrival_faults.p4"
#include "hop_limit.p4"
#include "traffic_class.p4"
#include "usid.p4"
#include "ipv6_route.p4"
#include "trimming.p4"
#include "drops.p4"
#include "departure.p4"
#include "ecn.p4"
#include "departure_faults.p4"

control FabricIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    PacketOut()     from_controller;
    CheckPacket()   check_packet;
    ArrivalFaults() arrival_faults;
    HopLimit()      hop_limit;
    TrafficClass()  traffic_class;
    UsidEndpoint()  usid_endpoint;
    Ipv6Route()     ipv6_route;
    Trimming()      trimming;
    Drops()         drops;

    apply {
        if (hdr.packet_out.isValid()) {
            from_controller.apply(hdr, std);
        } else {
            check_packet.apply(hdr, meta, std);
            if (meta.drop_reason == DropReason.NONE) {
                arrival_faults.apply(hdr, meta, std);
            }
            if (meta.drop_reason == DropReason.NONE) {
                hop_limit.apply(hdr, meta);
            }
            if (meta.drop_reason == DropReason.NONE) {
                traffic_class.apply(hdr, std);
                usid_endpoint.apply(hdr, meta, std);
                if (!meta.is_usid) {
                    ipv6_route.apply(hdr, meta, std);
                }
            }
            if (meta.drop_reason == DropReason.NONE) {
                trimming.apply(hdr, meta, std);
            }
            drops.apply(hdr, meta, std);
        }
    }
}

control FabricEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Departure()       departure;
    Ecn()             ecn;
    DepartureFaults() departure_faults;

    apply {
        departure.apply(meta, std);
        ecn.apply(hdr, std);
        departure_faults.apply(hdr, std);
    }
}

V1Switch(FabricParser(), VerifyNothing(), FabricIngress(), FabricEgress(), ComputeNothing(), FabricDeparser()) main;
