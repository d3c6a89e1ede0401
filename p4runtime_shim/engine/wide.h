/* Integers wider than 128 bits, and bits in byte strings.
 *
 * SW_WIDE(N) defines wN_t, an integer of N 64-bit limbs (least significant first) passed by value, with the operations that
 * generated code needs. They work modulo 2^(64 N); two's complement gives the signed ones. Fields up to 128 bits never come
 * here: they are native integers. */
#ifndef SW_WIDE_H
#define SW_WIDE_H

#include <stdint.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

#define SW_INLINE static inline __attribute__((unused))

#define U128(hi, lo) (((u128)(hi) << 64) | (u128)(lo))

/* Shifts by any amount. */
SW_INLINE uint64_t shl64(uint64_t x, uint64_t n) { return n < 64 ? x << n : 0; }
SW_INLINE uint64_t shr64(uint64_t x, uint64_t n) { return n < 64 ? x >> n : 0; }
SW_INLINE int64_t sar64(int64_t x, uint64_t n) { return x >> (n < 64 ? n : 63); }
SW_INLINE u128 shl128(u128 x, uint64_t n) { return n < 128 ? x << n : 0; }
SW_INLINE u128 shr128(u128 x, uint64_t n) { return n < 128 ? x >> n : 0; }
SW_INLINE i128 sar128(i128 x, uint64_t n) { return x >> (n < 128 ? n : 127); }

/* Division by zero has no value in P4; it gives 0 here. */
SW_INLINE uint64_t div64(uint64_t a, uint64_t b) { return b ? a / b : 0; }
SW_INLINE uint64_t mod64(uint64_t a, uint64_t b) { return b ? a % b : 0; }
SW_INLINE u128 div128(u128 a, u128 b) { return b ? a / b : 0; }
SW_INLINE u128 mod128(u128 a, u128 b) { return b ? a % b : 0; }

/* The low `width` bits as a signed number. */
SW_INLINE int64_t sext64(uint64_t x, unsigned width) { return (int64_t)(x << (64 - width)) >> (64 - width); }
SW_INLINE i128 sext128(u128 x, unsigned width) { return (i128)(x << (128 - width)) >> (128 - width); }

/* An index or amount that may be wider than 64 bits: what does not fit becomes the largest. */
SW_INLINE uint64_t clamp64(u128 x) { return x >> 64 ? UINT64_MAX : (uint64_t)x; }

/* --- big-endian bytes --- */

SW_INLINE uint16_t ld16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
SW_INLINE uint32_t ld32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
SW_INLINE uint64_t ld64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
SW_INLINE void st16(uint8_t *p, uint16_t v) { v = __builtin_bswap16(v); memcpy(p, &v, 2); }
SW_INLINE void st32(uint8_t *p, uint32_t v) { v = __builtin_bswap32(v); memcpy(p, &v, 4); }
SW_INLINE void st64(uint8_t *p, uint64_t v) { v = __builtin_bswap64(v); memcpy(p, &v, 8); }

/* n bytes (a constant 1..8, or 1..16) as a number, and back. */
SW_INLINE uint64_t ldn(const uint8_t *p, unsigned n) {
    switch (n) {
    case 1: return p[0];
    case 2: return ld16(p);
    case 3: return (uint64_t)ld16(p) << 8 | p[2];
    case 4: return ld32(p);
    case 5: return (uint64_t)ld32(p) << 8 | p[4];
    case 6: return (uint64_t)ld32(p) << 16 | ld16(p + 4);
    case 7: return (uint64_t)ld32(p) << 24 | (uint64_t)ld16(p + 4) << 8 | p[6];
    case 8: return ld64(p);
    default: return 0;
    }
}
SW_INLINE u128 ldn128(const uint8_t *p, unsigned n) {
    return n <= 8 ? (u128)ldn(p, n) : (u128)ldn(p, n - 8) << 64 | ld64(p + n - 8);
}
SW_INLINE void stn(uint8_t *p, unsigned n, uint64_t v) {
    switch (n) {
    case 1: p[0] = (uint8_t)v; break;
    case 2: st16(p, (uint16_t)v); break;
    case 3: st16(p, (uint16_t)(v >> 8)); p[2] = (uint8_t)v; break;
    case 4: st32(p, (uint32_t)v); break;
    case 5: st32(p, (uint32_t)(v >> 8)); p[4] = (uint8_t)v; break;
    case 6: st32(p, (uint32_t)(v >> 16)); st16(p + 4, (uint16_t)v); break;
    case 7: st32(p, (uint32_t)(v >> 24)); st16(p + 4, (uint16_t)(v >> 8)); p[6] = (uint8_t)v; break;
    case 8: st64(p, v); break;
    default: break;
    }
}
SW_INLINE void stn128(uint8_t *p, unsigned n, u128 v) {
    if (n > 8) {
        stn(p, n - 8, (uint64_t)(v >> 64));
        st64(p + n - 8, (uint64_t)v);
    } else {
        stn(p, n, (uint64_t)v);
    }
}

/* --- bit strings: most significant bit of p[0] is bit 0 --- */

/* `width` bits from bit `offset` as limbs; limbs past the width are zero. */
SW_INLINE void bits_load(uint64_t *limbs, unsigned n, const uint8_t *p, size_t offset, unsigned width) {
    memset(limbs, 0, n * sizeof *limbs);
    for (unsigned i = 0; i < width;) { /* i = bits done, from the least significant end */
        size_t end = offset + width - i;             /* one past the last bit of this step */
        unsigned in_byte = (unsigned)((end - 1) & 7) + 1; /* bits of that byte that belong to us, at most */
        unsigned take = in_byte < width - i ? in_byte : width - i;
        uint64_t v = (uint64_t)(p[(end - 1) >> 3] >> (8 - in_byte)) & ((1u << take) - 1);
        limbs[i >> 6] |= v << (i & 63);
        if ((i & 63) + take > 64)
            limbs[(i >> 6) + 1] |= v >> (64 - (i & 63));
        i += take;
    }
}

/* The low `width` bits of limbs to bit `offset`; neighbouring bits stay. */
SW_INLINE void bits_store(uint8_t *p, size_t offset, unsigned width, const uint64_t *limbs) {
    for (unsigned i = 0; i < width;) {
        size_t end = offset + width - i;
        unsigned in_byte = (unsigned)((end - 1) & 7) + 1;
        unsigned take = in_byte < width - i ? in_byte : width - i;
        uint64_t v = limbs[i >> 6] >> (i & 63);
        if ((i & 63) + take > 64)
            v |= limbs[(i >> 6) + 1] << (64 - (i & 63));
        unsigned shift = 8 - in_byte;
        uint8_t mask = (uint8_t)(((1u << take) - 1) << shift);
        uint8_t *b = &p[(end - 1) >> 3];
        *b = (uint8_t)((*b & ~mask) | ((uint8_t)(v << shift) & mask));
        i += take;
    }
}
SW_INLINE void bits_store64(uint8_t *p, size_t offset, unsigned width, uint64_t v) { bits_store(p, offset, width, &v); }
SW_INLINE void bits_store128(uint8_t *p, size_t offset, unsigned width, u128 v) {
    uint64_t limbs[2] = {(uint64_t)v, (uint64_t)(v >> 64)};
    bits_store(p, offset, width, limbs);
}

/* --- wide integers --- */

#define SW_WIDE(N)                                                                                                      \
    typedef struct { uint64_t w[N]; } w##N##_t;                                                                         \
    SW_INLINE w##N##_t w##N##_u64(uint64_t x) { w##N##_t r = {{x}}; return r; }                                         \
    SW_INLINE w##N##_t w##N##_u128(u128 x) { w##N##_t r = {{(uint64_t)x, (uint64_t)(x >> 64)}}; return r; }             \
    SW_INLINE w##N##_t w##N##_limbs(const uint64_t *p, unsigned n, int negative) {                                      \
        w##N##_t r;                                                                                                     \
        for (unsigned i = 0; i < N; i++) r.w[i] = i < n ? p[i] : negative ? UINT64_MAX : 0;                             \
        return r;                                                                                                       \
    }                                                                                                                   \
    SW_INLINE w##N##_t w##N##_i64(int64_t x) { uint64_t v = (uint64_t)x; return w##N##_limbs(&v, 1, x < 0); }           \
    SW_INLINE w##N##_t w##N##_i128(i128 x) {                                                                            \
        uint64_t v[2] = {(uint64_t)x, (uint64_t)((u128)x >> 64)};                                                       \
        return w##N##_limbs(v, 2, x < 0);                                                                               \
    }                                                                                                                   \
    SW_INLINE int w##N##_negative(w##N##_t a) { return a.w[N - 1] >> 63 != 0; }                                         \
    SW_INLINE u128 w##N##_to128(w##N##_t a) { return U128(a.w[1], a.w[0]); }                                            \
    SW_INLINE uint64_t w##N##_clamp(w##N##_t a) {                                                                       \
        for (unsigned i = 1; i < N; i++)                                                                                \
            if (a.w[i]) return UINT64_MAX;                                                                              \
        return a.w[0];                                                                                                  \
    }                                                                                                                   \
    SW_INLINE w##N##_t w##N##_add(w##N##_t a, w##N##_t b) {                                                             \
        u128 c = 0;                                                                                                     \
        for (unsigned i = 0; i < N; i++) { c += (u128)a.w[i] + b.w[i]; a.w[i] = (uint64_t)c; c >>= 64; }                \
        return a;                                                                                                       \
    }                                                                                                                   \
    SW_INLINE w##N##_t w##N##_not(w##N##_t a) { for (unsigned i = 0; i < N; i++) a.w[i] = ~a.w[i]; return a; }          \
    SW_INLINE w##N##_t w##N##_sub(w##N##_t a, w##N##_t b) {                                                             \
        u128 c = 1;                                                                                                     \
        for (unsigned i = 0; i < N; i++) { c += (u128)a.w[i] + ~b.w[i]; a.w[i] = (uint64_t)c; c >>= 64; }               \
        return a;                                                                                                       \
    }                                                                                                                   \
    SW_INLINE w##N##_t w##N##_mul(w##N##_t a, w##N##_t b) {                                                             \
        w##N##_t r = {{0}};                                                                                             \
        for (unsigned i = 0; i < N; i++) {                                                                              \
            u128 c = 0;                                                                                                 \
            for (unsigned j = 0; i + j < N; j++) {                                                                      \
                c += (u128)a.w[i] * b.w[j] + r.w[i + j];                                                                \
                r.w[i + j] = (uint64_t)c;                                                                               \
                c >>= 64;                                                                                               \
            }                                                                                                           \
        }                                                                                                               \
        return r;                                                                                                       \
    }                                                                                                                   \
    SW_INLINE w##N##_t w##N##_and(w##N##_t a, w##N##_t b) { for (unsigned i = 0; i < N; i++) a.w[i] &= b.w[i]; return a; } \
    SW_INLINE w##N##_t w##N##_or(w##N##_t a, w##N##_t b) { for (unsigned i = 0; i < N; i++) a.w[i] |= b.w[i]; return a; }  \
    SW_INLINE w##N##_t w##N##_xor(w##N##_t a, w##N##_t b) { for (unsigned i = 0; i < N; i++) a.w[i] ^= b.w[i]; return a; } \
    SW_INLINE w##N##_t w##N##_shl(w##N##_t a, uint64_t n) {                                                             \
        w##N##_t r = {{0}};                                                                                             \
        if (n >= 64u * N) return r;                                                                                     \
        unsigned q = (unsigned)(n >> 6), s = (unsigned)(n & 63);                                                        \
        for (unsigned i = q; i < N; i++)                                                                                \
            r.w[i] = a.w[i - q] << s | (s && i > q ? a.w[i - q - 1] >> (64 - s) : 0);                                   \
        return r;                                                                                                       \
    }                                                                                                                   \
    SW_INLINE w##N##_t w##N##_shift_right(w##N##_t a, uint64_t n, uint64_t fill) {                                      \
        w##N##_t r;                                                                                                     \
        unsigned q = n >= 64u * N ? N : (unsigned)(n >> 6), s = (unsigned)(n & 63);                                     \
        for (unsigned i = 0; i < N; i++) {                                                                              \
            uint64_t low = i + q < N ? a.w[i + q] : fill, high = i + q + 1 < N ? a.w[i + q + 1] : fill;                 \
            r.w[i] = s ? low >> s | high << (64 - s) : low;                                                             \
        }                                                                                                               \
        return r;                                                                                                       \
    }                                                                                                                   \
    SW_INLINE w##N##_t w##N##_shr(w##N##_t a, uint64_t n) { return w##N##_shift_right(a, n, 0); }                       \
    SW_INLINE w##N##_t w##N##_sar(w##N##_t a, uint64_t n) {                                                             \
        return w##N##_shift_right(a, n, w##N##_negative(a) ? UINT64_MAX : 0);                                           \
    }                                                                                                                   \
    SW_INLINE int w##N##_eq(w##N##_t a, w##N##_t b) { return memcmp(a.w, b.w, sizeof a.w) == 0; }                       \
    SW_INLINE int w##N##_lt(w##N##_t a, w##N##_t b) { /* signed */                                                      \
        if (w##N##_negative(a) != w##N##_negative(b)) return w##N##_negative(a);                                        \
        for (unsigned i = N; i-- > 0;)                                                                                  \
            if (a.w[i] != b.w[i]) return a.w[i] < b.w[i];                                                               \
        return 0;                                                                                                       \
    }                                                                                                                   \
    SW_INLINE w##N##_t w##N##_mask(w##N##_t a, unsigned bits) {                                                         \
        for (unsigned i = 0; i < N; i++) {                                                                              \
            if (64 * i >= bits) a.w[i] = 0;                                                                             \
            else if (bits - 64 * i < 64) a.w[i] &= ((uint64_t)1 << (bits - 64 * i)) - 1;                                \
        }                                                                                                               \
        return a;                                                                                                       \
    }                                                                                                                   \
    SW_INLINE w##N##_t w##N##_sext(w##N##_t a, unsigned bits) {                                                         \
        return w##N##_sar(w##N##_shl(a, 64u * N - bits), 64u * N - bits);                                               \
    }                                                                                                                   \
    SW_INLINE w##N##_t w##N##_divmod(w##N##_t a, w##N##_t b, int remainder) { /* both >= 0 */                           \
        w##N##_t q = {{0}}, r = {{0}}, zero = {{0}};                                                                    \
        if (w##N##_eq(b, zero)) return zero;                                                                            \
        for (unsigned i = 64u * N; i-- > 0;) {                                                                          \
            r = w##N##_shl(r, 1);                                                                                       \
            r.w[0] |= a.w[i >> 6] >> (i & 63) & 1;                                                                      \
            if (!w##N##_lt(r, b)) { r = w##N##_sub(r, b); q.w[i >> 6] |= (uint64_t)1 << (i & 63); }                     \
        }                                                                                                               \
        return remainder ? r : q;                                                                                       \
    }                                                                                                                   \
    SW_INLINE w##N##_t w##N##_div(w##N##_t a, w##N##_t b) { return w##N##_divmod(a, b, 0); }                            \
    SW_INLINE w##N##_t w##N##_mod(w##N##_t a, w##N##_t b) { return w##N##_divmod(a, b, 1); }                            \
    SW_INLINE w##N##_t w##N##_load(const uint8_t *p, size_t offset, unsigned width) {                                   \
        w##N##_t r;                                                                                                     \
        bits_load(r.w, N, p, offset, width);                                                                            \
        return r;                                                                                                       \
    }

#endif
