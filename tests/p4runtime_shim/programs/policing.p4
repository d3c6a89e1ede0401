/* Meters, direct and by index, in packets and in bytes; the color is written into the packet, red is dropped on request. */
#include "net.inc"

struct headers_t { ethernet_t ethernet; }
struct meta_t { bit<2> by_entry; bit<8> by_index; }

parser PolicingParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    direct_meter<bit<2>>(MeterType.packets) entry_meter;
    meter(4, MeterType.bytes) index_meter;
    direct_counter(CounterType.packets_and_bytes) policed;
    action police(bit<9> port, bit<32> index) {
        std.egress_spec = port;
        entry_meter.read(meta.by_entry);
        index_meter.execute_meter(index, meta.by_index);
        policed.count();
    }
    table flows {
        key = { hdr.ethernet.src : exact @name("address"); }
        actions = { police; NoAction; }
        default_action = NoAction();
        meters = entry_meter;
        counters = policed;
    }
    apply {
        if (flows.apply().hit && hdr.ethernet.ether_type == 1 && meta.by_entry == 2) { mark_to_drop(std); }
        hdr.ethernet.dst = (bit<48>) (meta.by_index ++ 6w0 ++ meta.by_entry);
    }
}
control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
REST_OF(PolicingParser)
