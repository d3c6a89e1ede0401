/* Injected faults on departure: random loss and bit corruption per port. Off without table entries. */
#ifndef DEPARTURE_FAULTS_P4
#define DEPARTURE_FAULTS_P4

#include "chance.p4"
#include "corruption.p4"
#include "drops.p4"

control DepartureFaults(inout headers_t hdr, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) departure_fault_counter;
    counter(PORTS, CounterType.packets_and_bytes) departure_corrupted;
    Corruption() flip_bit;
    ppb_t   loss = 0;
    ppb_t   corruption = 0;
    bit<32> draw = 0;

    action healthy() {
        departure_fault_counter.count();
    }

    action impair(ppb_t loss_ppb, ppb_t corrupt_ppb) {
        loss = loss_ppb;
        corruption = corrupt_ppb;
        departure_fault_counter.count();
    }

    table departure_fault {
        key = { std.egress_port : exact @name("port"); }
        actions = { impair; @defaultonly healthy; }
        const default_action = healthy();
        counters = departure_fault_counter;
        size = PORTS;
    }

    apply {
        if (departure_fault.apply().hit) {
            random(draw, 32w0, MAX_DRAW);
            if (draw < loss) {
                count_drop(DropReason.DEPARTURE_LOSS, std.egress_port);
                mark_to_drop(std);
            } else {
                random(draw, 32w0, MAX_DRAW);
                if (draw < corruption) {
                    flip_bit.apply(hdr);
                    departure_corrupted.count((bit<32>) std.egress_port);
                }
            }
        }
    }
}

#endif
