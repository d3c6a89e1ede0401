/* Packet-out: a packet from the controller leaves, unchanged, by the port that its header names. */
#ifndef PACKET_OUT_P4
#define PACKET_OUT_P4

control PacketOut(inout headers_t hdr, inout standard_metadata_t std) {
    apply {
        std.egress_spec = hdr.packet_out.egress_port;
        hdr.packet_out.setInvalid();
    }
}

#endif
