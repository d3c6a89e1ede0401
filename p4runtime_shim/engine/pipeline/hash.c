/* Table-driven CRCs; the tables are made once, when the library is loaded. */
#include "pipeline/hash.h"

#include "wide.h"

static uint16_t crc16_table[256], ccitt_table[256];
static uint32_t crc32_table[4][256];

__attribute__((constructor)) static void make_tables(void) {
    for (unsigned i = 0; i < 256; i++) {
        uint16_t a = (uint16_t)i, b = (uint16_t)(i << 8);
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) {
            a = (uint16_t)(a & 1 ? a >> 1 ^ 0xa001 : a >> 1);
            b = (uint16_t)(b & 0x8000 ? b << 1 ^ 0x1021 : b << 1);
            c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
        }
        crc16_table[i] = a;
        ccitt_table[i] = b;
        crc32_table[0][i] = c;
    }
    for (unsigned i = 0; i < 256; i++)
        for (unsigned k = 1; k < 4; k++)
            crc32_table[k][i] = crc32_table[k - 1][i] >> 8 ^ crc32_table[0][crc32_table[k - 1][i] & 0xff];
}

uint64_t sw_crc16(const uint8_t *p, size_t n) {
    uint16_t crc = 0;
    while (n--)
        crc = (uint16_t)(crc >> 8 ^ crc16_table[(crc ^ *p++) & 0xff]);
    return crc;
}

uint64_t sw_crcCCITT(const uint8_t *p, size_t n) {
    uint16_t crc = 0xffff;
    while (n--)
        crc = (uint16_t)(crc << 8 ^ ccitt_table[(crc >> 8 ^ *p++) & 0xff]);
    return crc;
}

uint64_t sw_crc32(const uint8_t *p, size_t n) {
    uint32_t crc = 0xffffffffu;
    for (; n >= 4; n -= 4, p += 4) {
        uint32_t v;
        memcpy(&v, p, 4);
        crc ^= v;
        crc = crc32_table[3][crc & 0xff] ^ crc32_table[2][crc >> 8 & 0xff] ^ crc32_table[1][crc >> 16 & 0xff] ^
              crc32_table[0][crc >> 24];
    }
    while (n--)
        crc = crc >> 8 ^ crc32_table[0][(crc ^ *p++) & 0xff];
    return crc ^ 0xffffffffu;
}

uint64_t sw_csum16(const uint8_t *p, size_t n) {
    uint64_t sum = 0; /* of 32-bit words: no overflow below 2^32 words */
    for (; n >= 4; n -= 4, p += 4)
        sum += ld32(p);
    if (n >= 2) {
        sum += ld16(p);
        n -= 2;
        p += 2;
    }
    if (n)
        sum += (uint64_t)*p << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

uint64_t sw_xor16(const uint8_t *p, size_t n) {
    uint16_t x = 0;
    for (; n >= 2; n -= 2, p += 2)
        x ^= ld16(p);
    if (n)
        x ^= (uint16_t)(*p << 8);
    return x;
}

uint64_t sw_identity(const uint8_t *p, size_t n) {
    uint64_t x = 0;
    for (size_t i = 0; i < n && i < 8; i++)
        x = x << 8 | p[i];
    return x;
}
