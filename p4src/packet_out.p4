/* A packet from the controller leaves by the port it names, unchanged. */
#ifndef PACKET_OUT_P4
#define PACKET_OUT_P4

control PacketOut(inout headers_t hdr, inout standard_metadata_t std) {
    apply {
        std.egress_spec = hdr.packet_out.egress_port;
        hdr.packet_out.setInvalid();
    }
}

#endif
