/* Copies of payloads: as usual, or past the caches.
 *
 * In a simulation of many NICs nobody reads a payload soon after it was written: its frame is on its way, its message is
 * compared at the end. By default it would take the place of what the next packets need in the caches.
 */
#ifndef MRC_PAYLOAD_H
#define MRC_PAYLOAD_H

#include "python.h"

#define PAST_LEAST 256 /* bytes; fewer are cheaper as usual */

static int past_caches; /* whether to copy so */

#if defined(__x86_64__) && defined(__GNUC__)
#include <emmintrin.h>

/* Reads without displacing much. */
static void read_once(const uint8_t *from, size_t size) {
    for (size_t at = 0; at < size; at += 64)
        _mm_prefetch((const char *)from + at, _MM_HINT_NTA);
}

static void copy_past_caches(uint8_t *to, const uint8_t *from, size_t size) {
    size_t lead = -(uintptr_t)to & 63; /* only whole lines pass the caches by */
    memcpy(to, from, lead);
    for (to += lead, from += lead, size -= lead; size >= 64; to += 64, from += 64, size -= 64)
        for (int block = 0; block < 4; block++)
            _mm_stream_si128((__m128i *)to + block, _mm_loadu_si128((const __m128i *)from + block));
    memcpy(to, from, size);
    _mm_sfence();
}
#else
static void read_once(const uint8_t *from, size_t size) {
    (void)from;
    (void)size;
}

static void copy_past_caches(uint8_t *to, const uint8_t *from, size_t size) { memcpy(to, from, size); }
#endif

static int passes_caches(size_t size) { return past_caches && size >= PAST_LEAST; }

static void copy_payload(uint8_t *to, const uint8_t *from, size_t size) {
    if (passes_caches(size))
        copy_past_caches(to, from, size);
    else if (size)
        memcpy(to, from, size);
}

/* pass_caches(on): whether payloads are copied past the caches from now on. */
static PyObject *native_pass_caches(PyObject *module, PyObject *on) {
    (void)module;
    int given = PyObject_IsTrue(on);
    if (given < 0)
        return NULL;
    past_caches = given;
    Py_RETURN_NONE;
}
#endif
