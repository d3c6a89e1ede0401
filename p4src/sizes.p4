/* Capacities of every table, counter and register: together they say how large a fabric can be. */
#ifndef SIZES_P4
#define SIZES_P4

const bit<32> PORTS = 512;
const bit<32> QUEUES = 4096;                // 8 priorities a port
const bit<32> USID_LOCAL_SIZE = 16;         // a switch has one uSID; room for several during renumbering
const bit<32> USID_NEXT_SIZE = 2048;        // 1024 NICs or T0s below, 1024 T1s above
const bit<32> IPV6_ROUTE_SIZE = 8192;       // NIC and kernel addresses below, a prefix for each other T0
const bit<32> ADAPTIVE_ROUTE_SIZE = 1024;   // a prefix for each T0 that is reached by a group
const bit<32> ECMP_MEMBERS = 2048;
const bit<32> ECMP_HASH_WIDTH = 16;
const bit<32> ECMP_SEED_SIZE = 16;
const bit<32> TRAFFIC_CLASS_SIZE = 64;      // DSCP values
const bit<32> TRIMMABLE_SIZE = 64;          // DSCP values, for each UDP port in use
const bit<32> PATH_FAULT_SIZE = 1024;
const bit<32> DROP_REASONS = 16;
const bit<32> PORT_DROPS = PORTS * DROP_REASONS;

#endif
