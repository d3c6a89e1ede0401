/* Faults on purpose, where packets leave: random loss and bit corruption per port, off unless an entry says otherwise. */
#ifndef DEPARTURE_FAULTS_P4
#define DEPARTURE_FAULTS_P4

#include "chance.p4"
#include "damage.p4"
#include "drops.p4"

control DepartureFaults(inout headers_t hdr, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) departure_fault_counter;
    counter(PORTS, CounterType.packets_and_bytes) departure_damaged;
    Damage() damage;
    ppb_t   loss = 0;
    ppb_t   corruption = 0;
    bit<32> roll = 0;

    action healthy() {
        departure_fault_counter.count();
    }

    action hurt(ppb_t lose, ppb_t corrupt) {
        loss = lose;
        corruption = corrupt;
        departure_fault_counter.count();
    }

    table departure_fault {
        key = { std.egress_port : exact @name("port"); }
        actions = { hurt; @defaultonly healthy; }
        const default_action = healthy();
        counters = departure_fault_counter;
        size = PORTS;
    }

    apply {
        if (departure_fault.apply().hit) {
            random(roll, 32w0, LARGEST_ROLL);
            if (roll < loss) {
                count_drop(DropReason.DEPARTURE_LOSS, std.egress_port);
                mark_to_drop(std);
            } else {
                random(roll, 32w0, LARGEST_ROLL);
                if (roll < corruption) {
                    damage.apply(hdr);
                    departure_damaged.count((bit<32>) std.egress_port);
                }
            }
        }
    }
}

#endif
