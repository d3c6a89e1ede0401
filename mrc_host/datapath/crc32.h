/* CRC-32 of Ethernet, as zlib's crc32(): with the processor's carry-less multiplication where it has one.
 *
 * A block of 128 bits is folded onto the one D bits behind it: multiplying its halves by x^(D+32) and x^(D-32) modulo the
 * polynomial moves it there without changing the remainder (Gopal et al., Intel, 2009). Several blocks are folded at once, each
 * onto the next of its own column: four at a time, or sixteen where the processor multiplies two or four with one instruction.
 * The last one is reduced by the table. The constants are computed when the module is loaded.
 */
#ifndef MRC_CRC32_H
#define MRC_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CRC_POLYNOMIAL 0xEDB88320u /* bits reversed, as in everything here */
#define FOLD_LEAST 64              /* bytes; fewer are cheaper by the table */
#define WIDE_LEAST 256             /* bytes, for sixteen blocks */

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
    if (size >= 4) {
        crc ^= (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
        crc = crc_table[3][crc & 255] ^ crc_table[2][crc >> 8 & 255] ^ crc_table[1][crc >> 16 & 255] ^ crc_table[0][crc >> 24];
        bytes += 4, size -= 4;
    }
    while (size--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *bytes++) & 255];
    return crc;
}

static int crc_folds; /* what the processor can: blocks multiplied by one instruction, at most */
enum { NO_FOLDING, ONE_BLOCK, TWO_BLOCKS, FOUR_BLOCKS };

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

static uint64_t fold_near[2], fold_next[2], fold_far[2], fold_farthest[2]; /* by 128, 256, 512 and 2048 bits */

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

#define FOLD_WIDE __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.1")))

/* Four blocks, each by as much. */
FOLD_WIDE static inline __m512i fold_wide(__m512i blocks, __m512i by, __m512i onto) {
    __m512i low = _mm512_clmulepi64_epi128(blocks, by, 0x00), high = _mm512_clmulepi64_epi128(blocks, by, 0x11);
    return _mm512_ternarylogic_epi64(low, high, onto, 0x96); /* exclusive or of all three */
}

FOLD_WIDE static inline __m512i wide(const uint64_t by[2]) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)by));
}

/* 64 bytes from `bytes`, which go to `copy`, too, if that is not NULL. */
FOLD_WIDE static inline __m512i take(const uint8_t *bytes, uint8_t *copy) {
    __m512i taken = _mm512_loadu_si512(bytes);
    if (copy)
        _mm512_storeu_si512(copy, taken);
    return taken;
}

/* As crc_by_folding, of 256 bytes or more, which are copied, too. */
FOLD_WIDE static inline __attribute__((always_inline)) uint32_t fold_and_copy(
    uint32_t crc, const uint8_t *bytes, size_t size, uint8_t *copy
) {
    __m512i farthest = wide(fold_farthest), far = wide(fold_far), part[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        part[i] = take(bytes + 64 * i, copy ? copy + 64 * i : NULL);
    part[0] = _mm512_xor_si512(part[0], _mm512_inserti32x4(_mm512_setzero_si512(), _mm_cvtsi32_si128((int)crc), 0));
    size_t at = 256;
    for (; size - at >= 256; at += 256)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            part[i] = fold_wide(part[i], farthest, take(bytes + at + 64 * i, copy ? copy + at + 64 * i : NULL));
    __m512i last = fold_wide(fold_wide(fold_wide(part[0], far, part[1]), far, part[2]), far, part[3]);
    for (; size - at >= 64; at += 64)
        last = fold_wide(last, far, take(bytes + at, copy ? copy + at : NULL));
    if (copy)
        memcpy(copy + at, bytes + at, size - at);
    __m128i near = _mm_loadu_si128((const __m128i *)fold_near), block = _mm512_castsi512_si128(last);
    block = fold(block, near, _mm512_extracti32x4_epi32(last, 1));
    block = fold(block, near, _mm512_extracti32x4_epi32(last, 2));
    block = fold(block, near, _mm512_extracti32x4_epi32(last, 3));
    _mm256_zeroupper(); /* what is left there makes all code slower that does not know of it */
    return fold_rest(block, copy ? copy + at : bytes + at, size - at);
}

FOLD_WIDE static uint32_t copy_and_crc_by_four(uint32_t crc, const uint8_t *bytes, size_t size, uint8_t *copy) {
    return copy ? fold_and_copy(crc, bytes, size, copy) : fold_and_copy(crc, bytes, size, NULL);
}

#define FOLD_TWO __attribute__((target("avx2,vpclmulqdq,pclmul,sse4.1")))

/* Two blocks, each by as much. */
FOLD_TWO static inline __m256i fold_two(__m256i blocks, __m256i by, __m256i onto) {
    __m256i low = _mm256_clmulepi64_epi128(blocks, by, 0x00), high = _mm256_clmulepi64_epi128(blocks, by, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(low, high), onto);
}

FOLD_TWO static inline __m256i two(const uint64_t by[2]) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)by));
}

/* 32 bytes from `bytes`, which go to `copy`, too, if that is not NULL. */
FOLD_TWO static inline __m256i take_two(const uint8_t *bytes, uint8_t *copy) {
    __m256i taken = _mm256_loadu_si256((const __m256i *)bytes);
    if (copy)
        _mm256_storeu_si256((__m256i *)copy, taken);
    return taken;
}

/* As fold_and_copy. */
FOLD_TWO static inline __attribute__((always_inline)) uint32_t fold_two_and_copy(
    uint32_t crc, const uint8_t *bytes, size_t size, uint8_t *copy
) {
    __m256i farthest = two(fold_farthest), next = two(fold_next), part[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        part[i] = take_two(bytes + 32 * i, copy ? copy + 32 * i : NULL);
    part[0] = _mm256_xor_si256(part[0], _mm256_inserti128_si256(_mm256_setzero_si256(), _mm_cvtsi32_si128((int)crc), 0));
    size_t at = 256;
    for (; size - at >= 256; at += 256)
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            part[i] = fold_two(part[i], farthest, take_two(bytes + at + 32 * i, copy ? copy + at + 32 * i : NULL));
    __m256i last = part[0];
#pragma GCC unroll 8
    for (int i = 1; i < 8; i++)
        last = fold_two(last, next, part[i]);
    for (; size - at >= 32; at += 32)
        last = fold_two(last, next, take_two(bytes + at, copy ? copy + at : NULL));
    if (copy)
        memcpy(copy + at, bytes + at, size - at);
    __m128i near = _mm_loadu_si128((const __m128i *)fold_near), block = _mm256_castsi256_si128(last);
    block = fold(block, near, _mm256_extracti128_si256(last, 1));
    _mm256_zeroupper();
    return fold_rest(block, copy ? copy + at : bytes + at, size - at);
}

FOLD_TWO static uint32_t copy_and_crc_by_two(uint32_t crc, const uint8_t *bytes, size_t size, uint8_t *copy) {
    return copy ? fold_two_and_copy(crc, bytes, size, copy) : fold_two_and_copy(crc, bytes, size, NULL);
}

/* Sixteen blocks at once, of 256 bytes or more, which are copied, too, if `copy` is not NULL. */
static uint32_t copy_and_crc(uint32_t crc, const uint8_t *bytes, size_t size, uint8_t *copy) {
    return (crc_folds == FOUR_BLOCKS ? copy_and_crc_by_four : copy_and_crc_by_two)(crc, bytes, size, copy);
}

static void crc_choose(void) {
    for (int i = 0; i < 2; i++) { /* 0: for the low half of a block, 1: for the high one */
        fold_near[i] = crc_power(128 + (i ? -32 : 32));
        fold_next[i] = crc_power(256 + (i ? -32 : 32));
        fold_far[i] = crc_power(512 + (i ? -32 : 32));
        fold_farthest[i] = crc_power(2048 + (i ? -32 : 32));
    }
    __builtin_cpu_init();
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"))
        crc_folds = !__builtin_cpu_supports("vpclmulqdq") ? ONE_BLOCK
                    : __builtin_cpu_supports("avx512f")   ? FOUR_BLOCKS
                    : __builtin_cpu_supports("avx2")      ? TWO_BLOCKS
                                                          : ONE_BLOCK;
}
#else
static void crc_choose(void) {}
#endif

/* As zlib's crc32(crc, bytes, size). */
static uint32_t crc32_of(uint32_t crc, const uint8_t *bytes, size_t size) {
    crc = ~crc;
#if defined(__x86_64__) && defined(__GNUC__)
    if (crc_folds >= TWO_BLOCKS && size >= WIDE_LEAST)
        return ~copy_and_crc(crc, bytes, size, NULL);
    if (crc_folds && size >= FOLD_LEAST)
        return ~crc_by_folding(crc, bytes, size);
#endif
    return ~crc_by_table(crc, bytes, size);
}

/* crc32_of `size` bytes that are copied, as they were copied even if somebody changes them meanwhile. */
static uint32_t crc32_copied(uint32_t crc, uint8_t *copy, const uint8_t *bytes, size_t size) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (crc_folds >= TWO_BLOCKS && size >= WIDE_LEAST)
        return ~copy_and_crc(~crc, bytes, size, copy);
#endif
    memcpy(copy, bytes, size);
    return crc32_of(crc, copy, size);
}

static void crc_setup(void) {
    crc_make_table();
    crc_choose();
}
#endif
