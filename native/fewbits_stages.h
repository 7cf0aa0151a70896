/* fewbits: the native core's plain C interface to stages and to the spherical operator; the rules
 * are those of fewbits.h.
 */
#ifndef FEWBITS_STAGES_H
#define FEWBITS_STAGES_H

#include "fewbits.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Random signs and the orthonormal Walsh-Hadamard transform on blocks (a power of two up to 65536),
 * then on the powers of two that the rest is made of; `inverse` 1 goes back. In place if `out` is
 * `values`. In `tally`, `nonfinite` counts values of the result. */
typedef struct fewbits_rotation {
    uint32_t key[4];
    uint64_t first; /* index of values[0] in the stream of signs, a multiple of the block */
    uint64_t block;
    fewbits_tally tally;
    uint64_t given; /* values that were not finite before: written by fewbits_rotated's encoding */
} fewbits_rotation;

FEWBITS_API int fewbits_rotate(const void *values, int dtype, size_t count, fewbits_rotation *how,
                               int inverse, void *out);
/* A unit of FEWBITS_NATURAL, or of FEWBITS_CAST to its own dtype, behind a rotation: some blocks
 * are rotated and encoded before the next ones, or decoded and rotated back. `direction` is 0 to
 * encode, 1 to decode, 2 to accumulate. `how->first` is not read: the unit's is both streams'. */
FEWBITS_API int fewbits_rotated(fewbits_unit *unit, fewbits_rotation *how, int direction);

/* Values over `by`, at least 1, rounded to float64 and then to their format; in place if `out` is
 * `values`. Values that are not finite stay, and are counted. */
FEWBITS_API int fewbits_divide(const void *values, int dtype, size_t count, double by, void *out,
                               uint64_t *nonfinite);

/* Random places: those whose words of a stream are `low` or more, all of the stream's first 2^32
 * words. How many of `count` words from `first` on are above `high`, and how many are from `low` to
 * `high`; as many of these as there is room for are written to `near`. */
FEWBITS_API int fewbits_draws_near(const uint32_t key[4], uint64_t first, size_t count,
                                   uint32_t low, uint32_t high, uint32_t *near, size_t room,
                                   uint64_t counts[2]);

typedef struct fewbits_draws {
    uint32_t key[4];
    uint64_t first; /* index of the first value's word */
    uint64_t count; /* values */
    uint32_t low;
    int32_t dtype;
    double factor; /* of values that are taken */
} fewbits_draws;

/* The values at these places, of which there must be `kept`, times the factor: rounded once, and
 * what is beyond the largest number becomes it. `nonfinite` counts all values. */
FEWBITS_API int fewbits_draws_take(const fewbits_draws *how, const void *values, void *out,
                                   uint64_t kept, fewbits_tally *tally);
/* The reverse: zeros elsewhere, and no factor. With `add` 1, adds to totals of float64 for float64,
 * else float32. `nonfinite` counts what was handed over. */
FEWBITS_API int fewbits_draws_put(const fewbits_draws *how, const void *handed, uint64_t kept,
                                  int add, void *out, fewbits_tally *tally);

/* The spherical operator: a radius and a direction for each block;
 * src/fewbits/reference/spherical.py has the meaning of the numbers. */
typedef struct fewbits_spherical {
    uint32_t key[4]; /* of directions and signs */
    uint32_t radii_key[4];
    uint32_t escapes_key[4];
    uint64_t first; /* of the values to be encoded, in the vector */
    uint64_t group; /* of the first block */
    uint64_t place; /* of the first block in its group */
    uint32_t size;  /* of the blocks to be encoded */
    uint32_t block; /* of all blocks but the last, which may be shorter; 1 to 1024 */
    uint32_t limit; /* a power of two from 8 on */
    int32_t dtype;
    int32_t scale;
    int32_t parameter; /* of the Rice code, 0 to 22; quotients are below 256 */
    int32_t radius_bits;
    int32_t least_exponent;
    uint32_t nan_code;
    uint32_t steps;
    double cosine; /* the root of 1 - alpha */
    double room;   /* the root of alpha, less what rounding takes */
    double rho;
    double last_rho; /* of a shorter last block */
    double high;     /* finite values with larger magnitudes are counted */
} fewbits_spherical;

typedef struct fewbits_sections {
    const uint8_t *data[3]; /* radii, indices, escapes */
    uint64_t sizes[3];
} fewbits_sections;

/* How many blocks are finite and not zero. */
FEWBITS_API uint64_t fewbits_spherical_live(const void *values, int dtype, size_t count,
                                            size_t block);
/* Codes of some blocks: a radius each, the number of its direction (-1 without one, `limit` if none
 * is near enough) and, for every value, 0 or its code in a block without a direction. `counts` are
 * values above `high`, values that are not finite, and blocks whose values have codes. */
FEWBITS_API int fewbits_spherical_encode(const int16_t *table, const fewbits_spherical *how,
                                         const void *values, size_t blocks, uint16_t *radii,
                                         int32_t *indices, uint16_t *escapes, uint64_t counts[3]);
/* Blocks [begin, end) of a vector of `count` values at `out`; the sections are those of all blocks.
 * `counts` are values that are not finite, and blocks whose values have codes. */
FEWBITS_API int fewbits_spherical_decode(const int16_t *table, const fewbits_spherical *how,
                                         const fewbits_sections *sections, uint64_t count,
                                         uint64_t begin, uint64_t end, void *out,
                                         uint64_t counts[2]);
/* Appends Rice codes to a section whose bits are 0 from there on: `at` are the bits where the next
 * low part and the next quotient begin. Numbers below 0 are left out. */
FEWBITS_API int fewbits_rice_append(const int32_t *numbers, size_t count, int parameter,
                                    uint8_t *out, size_t size, uint64_t at[2]);

#ifdef __cplusplus
}
#endif

#endif
