/*
 * Faults on purpose, where packets arrive: random loss and bit corruption per port, loss on chosen paths, and a switch that
 * looks alive and forwards nothing. All off unless an entry says otherwise.
 */
#ifndef ARRIVAL_FAULTS_P4
#define ARRIVAL_FAULTS_P4

#include "chance.p4"
#include "damage.p4"

control ArrivalFaults(inout headers_t hdr, inout metadata_t meta, in standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) arrival_fault_counter;
    direct_counter(CounterType.packets_and_bytes) path_fault_counter;
    counter(PORTS, CounterType.packets_and_bytes) arrival_damaged;
    Damage() damage;
    ppb_t   loss = 0;
    ppb_t   corruption = 0;
    bit<32> roll = 0;

    action healthy() {
        arrival_fault_counter.count();
    }

    action hurt(ppb_t lose, ppb_t corrupt) {
        loss = lose;
        corruption = corrupt;
        arrival_fault_counter.count();
    }

    action blackhole() {
        meta.drop_reason = DropReason.BLACKHOLE;
        arrival_fault_counter.count();
    }

    /* An entry that does not care about the port, with the highest priority, silences the whole switch. */
    table arrival_fault {
        key = { std.ingress_port : ternary @name("port"); }
        actions = { hurt; blackhole; @defaultonly healthy; }
        const default_action = healthy();
        counters = arrival_fault_counter;
        size = PORTS;
    }

    action good_path() {
        path_fault_counter.count();
    }

    action lossy_path(ppb_t lose) {
        loss = lose;
        path_fault_counter.count();
    }

    /* A path is named by the uSID list as it arrives here, and by who sends on it, each under a mask. */
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
            random(roll, 32w0, LARGEST_ROLL);
            if (roll < loss) {
                meta.drop_reason = DropReason.PATH_LOSS;
            }
        }
        loss = 0;
        if (meta.drop_reason == DropReason.NONE && arrival_fault.apply().hit) {
            random(roll, 32w0, LARGEST_ROLL);
            if (roll < loss) {
                meta.drop_reason = DropReason.ARRIVAL_LOSS;
            } else if (meta.drop_reason == DropReason.NONE) {
                random(roll, 32w0, LARGEST_ROLL);
                if (roll < corruption) {
                    damage.apply(hdr);
                    arrival_damaged.count((bit<32>) std.ingress_port);
                }
            }
        }
    }
}

#endif
