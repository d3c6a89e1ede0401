/*
 * Injected faults on arrival: random loss and bit corruption per port, random loss per path, and a black hole (a switch whose
 * links stay up but that forwards nothing). All off without table entries.
 */
#ifndef ARRIVAL_FAULTS_P4
#define ARRIVAL_FAULTS_P4

#include "chance.p4"
#include "corruption.p4"

control ArrivalFaults(inout headers_t hdr, inout metadata_t meta, in standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) arrival_fault_counter;
    direct_counter(CounterType.packets_and_bytes) path_fault_counter;
    counter(PORTS, CounterType.packets_and_bytes) arrival_corrupted;
    Corruption() flip_bit;
    ppb_t   loss = 0;
    ppb_t   corruption = 0;
    bit<32> draw = 0;

    action healthy() {
        arrival_fault_counter.count();
    }

    action impair(ppb_t loss_ppb, ppb_t corrupt_ppb) {
        loss = loss_ppb;
        corruption = corrupt_ppb;
        arrival_fault_counter.count();
    }

    action blackhole() {
        meta.drop_reason = DropReason.BLACKHOLE;
        arrival_fault_counter.count();
    }

    /* One entry that matches every port, with the highest priority, makes the whole switch a black hole. */
    table arrival_fault {
        key = { std.ingress_port : ternary @name("port"); }
        actions = { impair; blackhole; @defaultonly healthy; }
        const default_action = healthy();
        counters = arrival_fault_counter;
        size = PORTS;
    }

    action good_path() {
        path_fault_counter.count();
    }

    action lossy_path(ppb_t loss_ppb) {
        loss = loss_ppb;
        path_fault_counter.count();
    }

    /* A path is identified by its uSID list as it arrives here and by its sender, each under a mask. */
    table path_fault {
        key = {
            hdr.ipv6.dst : ternary @name("dst");
            hdr.ipv6.src : ternary @name("src");
        }
        actions = { lossy_path; @defaultonly good_path; }
        const default_action = good_path();
        counters = path_fault_counter;
        size = PATH_FAULT_SIZE;
    }

    apply {
        if (path_fault.apply().hit) {
            random(draw, 32w0, MAX_DRAW);
            if (draw < loss) {
                meta.drop_reason = DropReason.PATH_LOSS;
            }
        }
        loss = 0;
        if (meta.drop_reason == DropReason.NONE && arrival_fault.apply().hit) {
            random(draw, 32w0, MAX_DRAW);
            if (draw < loss) {
                meta.drop_reason = DropReason.ARRIVAL_LOSS;
            } else if (meta.drop_reason == DropReason.NONE) {
                random(draw, 32w0, MAX_DRAW);
                if (draw < corruption) {
                    flip_bit.apply(hdr);
                    arrival_corrupted.count((bit<32>) std.ingress_port);
                }
            }
        }
    }
}

#endif
