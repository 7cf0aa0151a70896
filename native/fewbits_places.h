/* The core's plain C interface to sets of places, a part of fewbits.h, which has its rules. */
#ifndef FEWBITS_PLACES_H
#define FEWBITS_PLACES_H

#include "fewbits.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest values of a long vector in parts, for several threads. A band of keys (magnitudes as
 * bits), both ends included, in which the k-th largest is likely to lie. */
FEWBITS_API int fewbits_guess_keys(const void *values, int dtype, size_t count, size_t k,
                                   uint64_t band[2]);
/* How many keys of a part are above the band, and how many in it. If there is room for those, they
 * are written to `near`, as numbers of the values' size, and `bins` are undefined. Otherwise each
 * bin is the number of keys with this value of (key - band[0]) >> shift, where shift is the number
 * of bits of band[1] - band[0] above 12, or 0; a band of one key has no list. */
#define FEWBITS_KEY_BINS 4096
FEWBITS_API int fewbits_near_keys(const void *values, int dtype, size_t count,
                                  const uint64_t band[2], void *near, size_t room, uint64_t *bins,
                                  uint64_t counts[2]);

typedef struct fewbits_chosen {
    uint64_t d;         /* values of the whole vector, at most 2^32 */
    uint64_t k;         /* those that are kept, 1 to d - 1 */
    uint64_t threshold; /* keys above it are kept */
    uint64_t ties;      /* and the first so many of this part that equal it */
    uint64_t first;     /* the place of this part's first value */
    uint64_t before;    /* how many are kept before it */
} fewbits_chosen;

/* Write the values of a part that are kept, of which there must be `room`, and their places: the
 * bits of a section of all places, as fewbits_places_encode writes it, which must be zero before
 * the first part is written. `nonfinite` counts what is kept. */
FEWBITS_API int fewbits_keep(const void *values, int dtype, size_t count, const fewbits_chosen *how,
                             uint8_t *section, size_t size, void *kept, size_t room,
                             uint64_t *nonfinite);

typedef struct fewbits_spread_task {
    uint64_t d;
    uint64_t k;
    uint64_t first; /* the listed places of this part: from this one */
    uint64_t last;  /* to before this one; all parts together are all listed places */
    uint32_t item;  /* bytes of a value */
    uint32_t add; /* 1: values of 4 or 8 bytes are float totals, to which the kept ones are added */
} fewbits_spread_task;

/* The reverse: `kept` are all that were kept, `values` all of the vector. A part writes the values
 * from its first listed place (the beginning, if that is the first of all) up to the next part's.
 * Refuses places that fewbits_keep does not write. */
FEWBITS_API int fewbits_spread(const fewbits_spread_task *task, const uint8_t *section, size_t size,
                               const void *kept, void *values);

/* `n` ascending places below `d` (1 <= n < d <= 2^32), in a section of a size that they determine;
 * src/fewbits/coding/places.py has the meaning of its bits. The size is 0 for impossible numbers.
 * Decode refuses bytes that encode does not write. */
FEWBITS_API uint64_t fewbits_places_size(uint64_t d, uint64_t n);
FEWBITS_API int fewbits_places_encode(const uint32_t *places, size_t n, uint64_t d, uint8_t *out,
                                      size_t size);
FEWBITS_API int fewbits_places_decode(const uint8_t *data, size_t size, uint64_t d,
                                      uint32_t *places, size_t n);
/* Places as wire version 1 has them: the gaps between them, range coded, in a section whose size
 * src/fewbits/coding/subsets.py computes. Refuses bytes that its encoder does not write. */
FEWBITS_API int fewbits_ranged_decode(const uint8_t *data, size_t size, uint64_t d,
                                      uint32_t *places, size_t n);

#ifdef __cplusplus
}
#endif

#endif
