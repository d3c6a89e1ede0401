/* Headers and metadata: Ethernet, IPv6 (RFC 8200), UDP, the controller's. In the uSID mode `ipv6` is the outer header. */
#ifndef HEADERS_P4
#define HEADERS_P4

typedef bit<9>   port_t;
typedef bit<48>  mac_t;
typedef bit<128> ipv6_addr_t;

const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const port_t  CPU_PORT = 510;
const bit<8>  NEXT_HEADER_UDP = 17;
const bit<8>  NEXT_HEADER_IPV6 = 41;
const bit<32> ETHERNET_BYTES = 14;
const bit<32> IPV6_BYTES = 40;

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> ether_type;
}

header ipv6_t {
    bit<4>      version;
    bit<6>      dscp;
    bit<2>      ecn;
    bit<20>     flow_label;
    bit<16>     payload_length;
    bit<8>      next_header;
    bit<8>      hop_limit;
    ipv6_addr_t src;
    ipv6_addr_t dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

/* The first 16 bytes after UDP: the BTH and the start of the next header. Parsed so that a fault can corrupt them. */
header transport_t {
    bit<128> bits;
}

/* Prepended to packets for the controller: where the packet arrived and why it was not forwarded. */
@controller_header("packet_in")
header packet_in_t {
    port_t ingress_port;
    bit<7> reason;          // a DropReason
}

/* Prepended by the controller: the port by which the packet leaves, unchanged. */
@controller_header("packet_out")
header packet_out_t {
    port_t egress_port;
    bit<7> padding;
}

struct headers_t {
    packet_out_t packet_out;
    packet_in_t  packet_in;
    ethernet_t   ethernet;
    ipv6_t       ipv6;
    ipv6_t       inner_ipv6;
    udp_t        udp;
    transport_t  transport;
}

/* The values are indices of the drop_reasons counter; the controller and docs/p4.md know them. */
enum bit<8> DropReason {
    NONE           = 0,
    MALFORMED      = 1,     // not IPv6, truncated, or a wrong version
    HOP_LIMIT      = 2,
    NO_USID        = 3,     // the uSID list ends here, or names no neighbour
    NO_ROUTE       = 4,     // plain IPv6 without a route, or another switch's uSID
    QUEUE_FULL     = 5,     // the data limit of the port is reached, and the packet cannot be trimmed
    ARRIVAL_LOSS   = 6,     // a fault: random loss on arrival
    DEPARTURE_LOSS = 7,     // a fault: random loss on departure
    PATH_LOSS      = 8,     // a fault: random loss on one path
    BLACKHOLE      = 9      // a fault: silently forwards nothing
}

struct metadata_t {
    DropReason drop_reason;
    bool       is_usid;
    bit<16>    l4_src_port;     // 0 where there is no UDP
    bit<16>    l4_dst_port;
    bit<32>    flow_hash;       // what ECMP chooses by
    bit<12>    queue;           // port and priority of the queue that counted the packet's bytes
    bit<32>    queued_bytes;    // how many; 0 when it is not counted
}

#endif
