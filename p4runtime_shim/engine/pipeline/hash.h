/* Hash and checksum algorithms of v1model over a byte string, with BMv2's parameters. */
#ifndef SW_HASH_H
#define SW_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t sw_crc16(const uint8_t *p, size_t n);    /* poly 0x8005 reflected, init 0 */
uint64_t sw_crc32(const uint8_t *p, size_t n);    /* Ethernet's */
uint64_t sw_crcCCITT(const uint8_t *p, size_t n); /* poly 0x1021, init 0xffff */
uint64_t sw_csum16(const uint8_t *p, size_t n);   /* RFC 1071 */
uint64_t sw_xor16(const uint8_t *p, size_t n);
uint64_t sw_identity(const uint8_t *p, size_t n); /* the first 8 bytes */

#endif
