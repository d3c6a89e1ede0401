/* Invariant CRC: the RoCEv2 rule applied to the inner packet (docs/protocol.md §1.1; IBTA RoCEv2 annex A17).
 *
 * The CRC-32 of Ethernet covers eight bytes of ones (in place of InfiniBand's LRH), the inner IP header, UDP, BTH, the other headers
 * and the payload. Fields that switches may change are replaced by ones first: traffic class, flow label and hop limit of the inner
 * IPv6 header (type of service, time to live and checksum of an IPv4 header), the UDP checksum and byte 4 of the BTH. The outer header
 * is not covered, since switches rewrite it. The result is sent least significant byte first.
 *
 * Two shortcuts keep this cheap. The part before the BTH depends only on the path and the length, so its CRC is a *seed* computed once.
 * And since CRC is linear, masking BTH byte 4 in n bytes is the same as XORing the result with a constant that depends only on n
 * (mask_of), provided that byte is zero, as MRC sends it.
 */
#ifndef MRC_ICRC_H
#define MRC_ICRC_H

#include "python.h"

#define ICRC_LENGTH 4
#define UDP 8
#define IPV4 20
#define IPV6 40
#define VARIANT 4 /* byte of the BTH that counts as ones */

/* The CRC of what the ICRC covers before the BTH: ones in place of a LRH, and IP (version 4 without options, or 6) and UDP header,
 * `size` bytes. */
static uint32_t header_seed(const uint8_t *headers, size_t size) {
    uint8_t covered[8 + IPV6 + UDP];
    uint8_t *ip = covered + 8;
    memset(covered, 0xFF, 8);
    memcpy(ip, headers, size);
    if (size == IPV4 + UDP) {
        ip[1] = ip[8] = ip[10] = ip[11] = 0xFF;
    } else {
        ip[0] |= 0x0F;
        ip[1] = ip[2] = ip[3] = ip[7] = 0xFF;
    }
    ip[size - 2] = ip[size - 1] = 0xFF;
    return crc32_of(0, covered, 8 + size);
}

/* What ones in place of byte 4 add to the CRC of so many bytes, 5 or more, that begin with a BTH whose byte 4 is zero. */
static uint32_t mask_of(size_t length) {
    static const uint8_t first[5] = {[VARIANT] = 0xFF}, zeros[4096];
    static size_t known_length; /* most packets have the same one; the interpreter lock is held here */
    static uint32_t known_mask;
    if (length == known_length)
        return known_mask;
    uint32_t crc = crc32_of(UINT32_MAX, first, sizeof first);
    for (size_t left = length - sizeof first, part; left; left -= part) {
        part = left < sizeof zeros ? left : sizeof zeros;
        crc = crc32_of(crc, zeros, part);
    }
    known_length = length;
    known_mask = ~crc;
    return known_mask;
}

/* The CRC of a packet, or of its beginning, with these bytes from the BTH on; `seed` is for what is before them. */
static uint32_t packet_crc(uint32_t seed, const uint8_t *bth, size_t size) {
    static const uint8_t ones = 0xFF;
    uint32_t crc = crc32_of(crc32_of(seed, bth, VARIANT), &ones, 1);
    return crc32_of(crc, bth + VARIANT + 1, size - VARIANT - 1);
}

/* The same of bytes that are written here, in one go. */
static uint32_t written_crc(uint32_t seed, uint8_t *bth, size_t size) {
    uint8_t sent = bth[VARIANT];
    bth[VARIANT] = 0xFF;
    uint32_t crc = crc32_of(seed, bth, size);
    bth[VARIANT] = sent;
    return crc;
}

static void put_icrc(uint8_t *at, uint32_t crc) {
    for (int i = 0; i < ICRC_LENGTH; i++)
        at[i] = (uint8_t)(crc >> 8 * i);
}

/* icrc(headers, body): that of a packet with these IP and UDP headers, and these bytes from the BTH on. */
static PyObject *icrc_of_packet(PyObject *module, PyObject *args) {
    (void)module;
    const char *headers, *body;
    Py_ssize_t size, length;
    if (!PyArg_ParseTuple(args, "y#y#", &headers, &size, &body, &length))
        return NULL;
    if ((size != IPV4 + UDP && size != IPV6 + UDP) || length < BTH_LENGTH)
        return PyErr_Format(PyExc_ValueError, "An ICRC covers 28 or 48 bytes of headers and %d or more from the BTH on.", BTH_LENGTH);
    uint32_t seed = header_seed((const uint8_t *)headers, (size_t)size);
    return PyLong_FromUnsignedLong(packet_crc(seed, (const uint8_t *)body, (size_t)length));
}
#endif
