/* CRC-32 of Ethernet, as zlib's crc32(): with the processor's carry-less multiplication where it has one.
 *
 * A block of 128 bits is folded onto the one D bits behind it: multiplying its halves by x^(D+32) and x^(D-32) modulo the
 * polynomial moves it there without changing the remainder (Gopal et al., Intel, 2009). Several blocks are folded at once, each
 * onto the next of its own column; the last one is reduced by the table. The constants are computed when the module is loaded.
 */
#ifndef MRC_CRC32_H
#define MRC_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CRC_POLYNOMIAL 0xEDB88320u /* bits reversed, as in everything here */
#define FOLD_LEAST 64              /* bytes; fewer are cheaper by the table */

static uint32_t crc_table[8][256];

static void crc_make_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (CRC_POLYNOMIAL & -(crc & 1));
        crc_table[0][byte] = crc;
    }
    for (int behind = 1; behind < 8; behind++)
        for (int byte = 0; byte < 256; byte++)
            crc_table[behind][byte] = crc_table[behind - 1][byte] >> 8 ^ crc_table[0][crc_table[behind - 1][byte] & 255];
}

/* The remainder `crc` continued over `size` bytes, without the inversions at both ends. */
static uint32_t crc_by_table(uint32_t crc, const uint8_t *bytes, size_t size) {
    for (; size >= 8; bytes += 8, size -= 8) {
        crc ^= (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
        crc = crc_table[7][crc & 255] ^ crc_table[6][crc >> 8 & 255] ^ crc_table[5][crc >> 16 & 255] ^ crc_table[4][crc >> 24]
              ^ crc_table[3][bytes[4]] ^ crc_table[2][bytes[5]] ^ crc_table[1][bytes[6]] ^ crc_table[0][bytes[7]];
    }
    while (size--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *bytes++) & 255];
    return crc;
}

static int crc_folds; /* whether the processor can */

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

static uint64_t fold_near[2], fold_far[2]; /* by 128 and 512 bits */

/* x^bits modulo the polynomial, in the position that a product of reversed numbers needs. */
static uint64_t crc_power(int bits) {
    uint32_t power = 0x80000000u; /* x^0 */
    while (bits--)
        power = power >> 1 ^ (CRC_POLYNOMIAL & -(power & 1));
    return (uint64_t)power << 1;
}

#define FOLD __attribute__((target("pclmul,sse4.1")))

FOLD static inline __m128i fold(__m128i block, __m128i by, __m128i onto) {
    __m128i low = _mm_clmulepi64_si128(block, by, 0x00), high = _mm_clmulepi64_si128(block, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

/* Folds the rest, blocks of 16 bytes, onto `block`; then what is left by the table. */
FOLD static uint32_t fold_rest(__m128i block, const uint8_t *bytes, size_t size) {
    uint8_t last[16];
    __m128i near = _mm_loadu_si128((const __m128i *)fold_near);
    for (; size >= 16; bytes += 16, size -= 16)
        block = fold(block, near, _mm_loadu_si128((const __m128i *)bytes));
    _mm_storeu_si128((__m128i *)last, block);
    return crc_by_table(crc_by_table(0, last, 16), bytes, size);
}

FOLD static uint32_t crc_by_folding(uint32_t crc, const uint8_t *bytes, size_t size) {
    const __m128i *in = (const __m128i *)bytes;
    __m128i far = _mm_loadu_si128((const __m128i *)fold_far), near = _mm_loadu_si128((const __m128i *)fold_near);
    __m128i a = _mm_xor_si128(_mm_loadu_si128(in), _mm_cvtsi32_si128((int)crc));
    __m128i b = _mm_loadu_si128(in + 1), c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    for (in += 4, size -= 64; size >= 64; in += 4, size -= 64) {
        a = fold(a, far, _mm_loadu_si128(in));
        b = fold(b, far, _mm_loadu_si128(in + 1));
        c = fold(c, far, _mm_loadu_si128(in + 2));
        d = fold(d, far, _mm_loadu_si128(in + 3));
    }
    return fold_rest(fold(fold(fold(a, near, b), near, c), near, d), (const uint8_t *)in, size);
}

static void crc_choose(void) {
    for (int i = 0; i < 2; i++) { /* 0: for the low half of a block, 1: for the high one */
        fold_near[i] = crc_power(128 + (i ? -32 : 32));
        fold_far[i] = crc_power(512 + (i ? -32 : 32));
    }
    __builtin_cpu_init();
    crc_folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}
#else
static void crc_choose(void) {}
#endif

/* As zlib's crc32(crc, bytes, size). */
static uint32_t crc32_of(uint32_t crc, const uint8_t *bytes, size_t size) {
    crc = ~crc;
#if defined(__x86_64__) && defined(__GNUC__)
    if (crc_folds && size >= FOLD_LEAST)
        return ~crc_by_folding(crc, bytes, size);
#endif
    return ~crc_by_table(crc, bytes, size);
}

static void crc_setup(void) {
    crc_make_table();
    crc_choose();
}
#endif
