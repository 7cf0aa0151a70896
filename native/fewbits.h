/* fewbits: the native core's plain C interface.
 *
 * Rules of this interface: every pointer comes with a size, no function allocates, throws, keeps a
 * pointer after it returns, or starts a thread. A function that returns `int` returns FEWBITS_OK or
 * one of the error numbers below. Outputs are undefined after an error. The meaning of every bit is
 * written down in docs/format.md; the NumPy code in src/fewbits/reference is the specification of
 * the arithmetic.
 */
#ifndef FEWBITS_H
#define FEWBITS_H

#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define FEWBITS_API __declspec(dllexport)
#else
#define FEWBITS_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a signature or a structure below changes; the Python loader refuses any other
 * number. */
#define FEWBITS_ABI 10

enum fewbits_status {
    FEWBITS_OK = 0,
    FEWBITS_BAD_ARGUMENT = 1, /* a number outside its range: the caller's mistake */
    FEWBITS_BAD_SIZE = 2,     /* a buffer is not exactly as long as the count says */
    FEWBITS_BAD_PADDING = 3,  /* unused bits of a section's last byte are not zero */
    FEWBITS_BAD_CODE = 4,     /* a code is not below the section's bound */
    FEWBITS_BAD_SIGN = 5,     /* a sign bit is set on a zero or on a non-finite value */

    FEWBITS_CODED_LENGTHS = 6, /* the lengths of a coded section's blocks do not fill the section */
    FEWBITS_CODED_KIND = 7,    /* a block of an unknown kind */
    FEWBITS_CODED_SHORT = 8,   /* a block ends before its codes or signs do */
    FEWBITS_CODED_LONG = 9,    /* bytes are left over at the end of a block or section */
    FEWBITS_CODED_TABLE = 10,  /* frequencies that do not add up, or of codes beyond the bound */
    FEWBITS_CODED_STATE = 11,  /* a lane starts outside its range or does not end where it must */
    FEWBITS_CODED_ESCAPE = 12, /* an escaped code that has a symbol of its own */
    FEWBITS_CODED_ZERO = 13,   /* a sparse block's mask has a bit for a code that is 0 */

    FEWBITS_BAD_PLACES = 14, /* places beyond the vector's end, or not as an encoder writes them */
    FEWBITS_BAD_LEVEL = 15,  /* a level above 0 in a block whose scale is 0 */
    FEWBITS_BAD_SCALE = 16,  /* a scale is negative or not finite */
    FEWBITS_BAD_STEP = 17,   /* a scale is negative, infinite, or another NaN than the quiet one */
    FEWBITS_NO_STEP = 18,    /* a block without a scale has codes that are not 0 */
    FEWBITS_ONLY_ZEROS = 19, /* a block has a scale and only zeros */

    FEWBITS_FRAME_SHORT = 20,      /* detail: bytes needed at least, bytes given */
    FEWBITS_FRAME_MAGIC = 21,      /* the first four bytes are not "fewb" */
    FEWBITS_FRAME_VERSION = 22,    /* detail: version found */
    FEWBITS_FRAME_FLAGS = 23,      /* detail: flags found */
    FEWBITS_FRAME_DTYPE = 24,      /* detail: dtype found */
    FEWBITS_FRAME_DIMENSIONS = 25, /* detail: dimensions found */
    FEWBITS_FRAME_STAGES = 26,     /* detail: stages found */
    FEWBITS_FRAME_SECTIONS = 27,   /* detail: sections found */
    FEWBITS_FRAME_PARAMETER = 28,  /* detail: stage, number: bad type, order, count or value */
    FEWBITS_FRAME_WIDTH = 29,      /* detail: word width found, smallest width that suffices */
    FEWBITS_FRAME_ELEMENTS = 30,   /* detail: elements (at most 2^64-1), the caller's limit */
    FEWBITS_FRAME_LENGTH = 31,     /* detail: length that the header declares, bytes given */
    FEWBITS_OTHER_FRAME = 32,      /* not a sound frame of the recipe, for whatever reason */

    FEWBITS_CODED_GAPS =
        33, /* gaps that do not fit into their block, or not as a writer has them */
    FEWBITS_RICE_SHORT = 34,    /* a section of Rice codes ends before its numbers do */
    FEWBITS_RICE_LEFT = 35,     /* bits are left over at its end */
    FEWBITS_RICE_LARGE = 36,    /* a number is not below its bound */
    FEWBITS_SPHERE_ESCAPES = 37 /* values of an escaped block are missing, or others are there */
};

enum fewbits_dtype {
    FEWBITS_FLOAT32 = 1,
    FEWBITS_FLOAT64 = 2,
    FEWBITS_FLOAT16 = 3,
    FEWBITS_BFLOAT16 = 4
};
enum fewbits_rounding { FEWBITS_STOCHASTIC = 0, FEWBITS_NEAREST = 1 };
enum fewbits_norm { FEWBITS_NORM_1 = 1, FEWBITS_NORM_2 = 2, FEWBITS_NORM_MAX = 3 };

/* The core itself. It has a table of kernels for each instruction set, with numbers from 0 on; 0 is
 * the portable table, and all give equal bits. At load it takes the one that the environment
 * variable FEWBITS_SIMD names, else the fastest one that this processor can run; it also takes that
 * one if the name is unknown or the processor cannot run the table. */
FEWBITS_API uint32_t fewbits_abi(void);
/* The number of the table in use. */
FEWBITS_API int fewbits_simd(void);
/* A table's name, such as "portable"; null if there is no table of this number. */
FEWBITS_API const char *fewbits_simd_name(int simd);
/* Use another table, in the whole process: for tests and benchmarks. FEWBITS_BAD_ARGUMENT if there
 * is none of this number or this processor cannot run it. */
FEWBITS_API int fewbits_use_simd(int simd);
FEWBITS_API int fewbits_crc32c_is_hardware(void);

/* Ask for huge pages for [data, data + size): a hint that halves the cost of fresh memory, never an
 * error. */
FEWBITS_API void fewbits_advise_huge(void *data, size_t size);

/* CRC-32C (Castagnoli, reflected, initial and final complement) of `data` continued from `crc`, 0
 * at the start. */
FEWBITS_API uint32_t fewbits_crc32c(uint32_t crc, const uint8_t *data, size_t size);
/* The CRC of A followed by B, from the CRC of each and B's length. */
FEWBITS_API uint32_t fewbits_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b);

/* Words `first`, `first + 1`, … of the random stream named by `key`. */
FEWBITS_API int fewbits_words(const uint32_t key[4], uint64_t first, uint32_t *out, size_t count);

/* `count` codes of `width` bits (1 to 16), least significant bit first, in exactly ceil(count *
 * width / 8) bytes. */
FEWBITS_API int fewbits_pack(const uint16_t *codes, size_t count, int width, uint8_t *packed,
                             size_t packed_size);
/* The reverse. Refuses a code at or above `bound` (1 to 65536) and padding that is not zero. */
FEWBITS_API int fewbits_unpack(const uint8_t *packed, size_t packed_size, int width, uint32_t bound,
                               uint16_t *codes, size_t count);

/* Entropy coding: `count` codes below `bound` (2 to 65536), each with a sign if it is not 0. Signs
 * are a packed plane of one bit for each code; null if the codes have none. `fewbits_coded_size` is
 * the largest size that a section can have (saturated at 2^64-1; 0 for a bound out of range): with
 * less capacity, encoding may end with FEWBITS_BAD_SIZE. Signs of zeros are ignored by encode and 0
 * after decode. */
FEWBITS_API uint64_t fewbits_coded_size(uint64_t count, uint32_t bound, int is_signed);
FEWBITS_API int fewbits_coded_encode(const uint16_t *codes, const uint8_t *signs, size_t count,
                                     uint32_t bound, uint8_t *out, size_t capacity,
                                     size_t *written);
/* The same for signed codes that were rounded with a dither, as sparse dithering writes them: code
 * i with word `first` + i of the stream. */
FEWBITS_API int fewbits_dithered_encode(const uint16_t *codes, const uint8_t *signs, size_t count,
                                        uint32_t bound, const uint32_t key[4], uint64_t first,
                                        uint8_t *out, size_t capacity, size_t *written);
FEWBITS_API int fewbits_dithered_decode(const uint8_t *data, size_t size, uint32_t bound,
                                        const uint32_t key[4], uint64_t first, uint16_t *codes,
                                        uint8_t *signs, size_t count);
FEWBITS_API int fewbits_coded_decode(const uint8_t *data, size_t size, uint32_t bound,
                                     uint16_t *codes, uint8_t *signs, size_t count);

/* The search of the spherical operator: for each block x of `size` values the first t < limit with
 * <v_t, x> >= need |v_t|, where v_t is direction t of the block's group (1024 blocks; the first has
 * the number `group`); -1 if there is none or `need` is not finite. `table` has 65536 entries.
 * `rounded` holds the blocks as integers, padded with a 0 to an even size, so that no direction in
 * a cap has a rounded inner product of slope * |v_t| or less; inner products must fit into 32 bits.
 */
typedef struct fewbits_sphere {
    uint32_t key[4]; /* the random stream */
    uint32_t group;
    uint32_t size;  /* 1 to 1024 */
    uint32_t limit; /* a power of two, 8 to 2^30; times half the size at most 2^32 */
    uint32_t reserved;
    double slope; /* finite */
} fewbits_sphere;

FEWBITS_API int fewbits_first_in_cap(const int16_t *table, const fewbits_sphere *task,
                                     const double *values, const int16_t *rounded,
                                     const double *need, int32_t *found, size_t blocks);

/* What a pass over the values met. */
typedef struct fewbits_tally {
    uint64_t saturated; /* finite values above the largest representable one, replaced by it */
    uint64_t nonfinite; /* NaN or infinite values */
} fewbits_tally;

/* For each piece of `size` values the sum of magnitudes or of their squares in float64, in the
 * order that the reference gives, and the largest magnitude's bits. Values that are not finite
 * count as 0. Sums of float64 are of values times 2^-shift, for a `shift` (-1073 to 1024) that no
 * magnitude reaches as a power of two. */
FEWBITS_API int fewbits_norm_terms(const void *values, int dtype, size_t count, size_t size,
                                   int norm, int shift, double *sums, uint64_t *largest,
                                   size_t pieces);

/* Sparse dithering: whole multiples of a step, as one coded section of signed codes. Runs of values
 * share a scale, the step, which is float32, or float64 for float64; codes of a scale that is not
 * above 0 are 0. */
enum fewbits_step_rounding {
    FEWBITS_STEP_STOCHASTIC = 0,
    FEWBITS_STEP_NEAREST = 1,
    FEWBITS_STEP_SUBTRACTIVE = 2
};
enum fewbits_step_scale {
    FEWBITS_STEP_NORM = 0,
    FEWBITS_STEP_LEAST_SQUARES = 1,
    FEWBITS_STEP_MATCHED = 2
};

typedef struct fewbits_steps {
    uint32_t bound;    /* of the codes, 2 to 65536 */
    uint16_t rounding; /* fewbits_step_rounding; decoding asks only whether it is subtractive */
    uint16_t fit;      /* 1: encoding sums products and squares */
    uint64_t run;      /* values that share a scale, a power of two from 8 to 65536 */
    uint64_t first;    /* index of values[0] in the random stream */
    uint32_t key[4];
    int32_t dtype; /* of the values */
    int32_t shift; /* products of float64 are of values times 2^-shift, -1073 to 1024 */
} fewbits_steps;

/* With less capacity than fewbits_coded_size it may end with FEWBITS_BAD_SIZE. For each run two
 * `sums` are written: of |value| * |code| in the order that the reference gives, and of squared
 * codes; without `fit`, 0 and whether a code is not 0. The scales must be large enough for the
 * bound. Values that are not finite have the code 0 and are counted. */
FEWBITS_API int fewbits_steps_encode(const void *values, size_t count, const fewbits_steps *how,
                                     const void *scales, double *sums, size_t runs, uint8_t *out,
                                     size_t capacity, size_t *written, fewbits_tally *tally);
/* The reverse. Any scales are taken: values of one that is not finite are the quiet NaN. `some`
 * tells for each run whether a code is not 0. */
FEWBITS_API int fewbits_steps_decode(const uint8_t *data, size_t size, const fewbits_steps *how,
                                     const void *scales, uint8_t *some, size_t runs, void *values,
                                     size_t count);

struct fewbits_unit;
/* The nu of a FEWBITS_TRELLIS unit that is a whole vector: the one that it has, or the one that its
 * rate asks for. `squares` are those of its values divided by 2^shift, `peak` is the largest
 * magnitude. */
FEWBITS_API int fewbits_trellis_nu(struct fewbits_unit *unit, double squares, int shift,
                                   double peak, double *nu);
/* Encode a slice of a vector, which begins at a coder block, with the step that is in its first
 * section, which stays. With the scale of least squares two `sums` for every coder block are
 * written, as by fewbits_steps_encode. sizes[1] is as in an encoded unit, and the size then. */
FEWBITS_API int fewbits_trellis_slice(struct fewbits_unit *unit, int shift, double *sums);

/* A unit is a vector or a part of one, and where its sections lie. One call takes a table of units
 * of any kinds. Sections have the sizes of the operator's layout, at any address. */
enum fewbits_kind {
    /* option: fewbits_rounding; sections: exponents, signs. With FEWBITS_CODED added to the option:
     * one coded section of signed exponents and sizes[1] = 0. sizes[0] is then the capacity, at
     * least fewbits_coded_size, when encode is called, and the size when it returns. */
    FEWBITS_NATURAL = 1,
    FEWBITS_CAST = 2, /* option: the section's fewbits_dtype; section: values */
    /* Steps of a sum, for accumulate only, so that a total stays in the cache while it grows. */
    FEWBITS_CLEAR = 3,  /* totals = 0; no section */
    FEWBITS_DIVIDE = 4, /* totals /= first; no section */
    /* values = factors[0] * x + factors[1] * y, each operation rounded to the values' format, which
     * is float32 or float64, as the factors are; sections: x, y, either of which may be `values` */
    FEWBITS_COMBINE = 5,
    /* values to levels of their block's norm; option: fewbits_norm, and FEWBITS_POWERS added if the
     * levels are powers of two; sections: a scale for each block, in the values' format, packed
     * codes. With FEWBITS_LEVELS_CODED added, the second is one coded section of signed levels,
     * levels + 1 where a value is not finite; sizes[1] is then a capacity when encode is called,
     * and the size when it returns, as in FEWBITS_NATURAL. With FEWBITS_SCALES_POWERS added, scales
     * are sent as packed exponents of random powers of two. With 0 for the norm, encode reads
     * scales that the caller has found, finite ones no less than their block's magnitudes, or the
     * greatest power of two for a scale beyond it, or 0 to make all levels 0; a slice of a vector
     * can be encoded so. */
    FEWBITS_DITHERING = 16,
    /* values to whole multiples of a step; option: fewbits_step_rounding, and four times
     * fewbits_step_scale; `levels` is the bound of the codes less 1, `factors` are the relative
     * squared error and the factor of the step; sections: scales, float32 or for float64 float64,
     * one coded section of signed codes, and for subtractive rounding the key of the dither, which
     * is that of the row. sizes[1] is a capacity when encode is called, and the size when it
     * returns, as in FEWBITS_NATURAL. `block` may be any number. */
    FEWBITS_GRID = 17,
    /* signs times the mean magnitude of their block; sections: a scale for each block, in the
     * values' format, and one coded section of signed codes below 3 (0, a sign, not finite).
     * sizes[1] is a capacity when encode is called, and the size when it returns, as in
     * FEWBITS_NATURAL. Encoding a slice of a vector whose values share one scale: the
     * first section is empty, and the third takes a fewbits_sign_terms for every 65536 values.
     * Those of float64 have no sum: fewbits_norm_terms finds it once the largest magnitude is
     * known.
     */
    FEWBITS_SIGN = 19,
    /* values to levels on paths of a trellis; option: 1 with a dither, 2 with the scale of least
     * squares, and 4, 8 or 12 for 4, 8 or 16 states; `levels` and `factors` as in FEWBITS_GRID, and
     * so are the sections, of which there is one scale. `block` is 0, or there is a rate: then
     * factors[0] is a number of bits for each value, and nu, which gives them, is sought among the
     * numbers (64 + p % 64) 2^(p / 64 - 6) with p, added to 2^15, from bits 0 to 15 to bits 16 to
     * 31 of `block`. */
    FEWBITS_TRELLIS = 20
};
#define FEWBITS_POWERS 4
#define FEWBITS_LEVELS_CODED 8
#define FEWBITS_SCALES_POWERS 16

/* What values add to their mean: the sum of the finite magnitudes, how many are not 0, and the
 * bits of the smallest and the largest of those. */
typedef struct fewbits_sign_terms {
    double sum;
    uint64_t used;
    uint64_t smallest; /* 2^64-1 if there are none */
    uint64_t largest;
} fewbits_sign_terms;

#define FEWBITS_MAX_KEPT 8192

enum fewbits_coder { FEWBITS_PACKED = 0, FEWBITS_CODED = 2 };

typedef struct fewbits_unit {
    uint8_t kind;
    uint8_t dtype; /* of the values */
    uint8_t option;
    uint8_t encodes; /* 1, for accumulate only: encode the values that earlier rows have summed */
    uint8_t decodes; /* 1, for accumulate only: decode what earlier rows have encoded */
    uint8_t remains; /* 1, if `kept`: encoding float32 or float64 leaves values - decoded there */
    uint16_t levels; /* of FEWBITS_DITHERING, 1 to 32767, or 127 powers of two */
    void *values;    /* read by encode, written by decode, added to by accumulate */
    uint64_t count;  /* elements */
    uint64_t first;  /* index of values[0] in the random stream */
    uint32_t key[4]; /* the random stream, for encoders that draw */
    /* If not 0, only so many values of the largest magnitude are encoded, of equal ones the first,
     * and all others decode to 0: the section of their places, as fewbits_places_encode writes it,
     * is before the kind's own. At most FEWBITS_MAX_KEPT and half of the count. */
    uint64_t kept;
    /* Of FEWBITS_DITHERING, FEWBITS_SIGN and FEWBITS_GRID: values that share a scale, a power of
     * two from 8 to 65536, or 0 for all. */
    uint64_t block;
    double factors[2];
    uint8_t *sections[3];
    uint64_t sizes[3];
    fewbits_tally tally; /* written by every call */
} fewbits_unit;

/* All stop at the first unit that fails; `failed` then holds its index. */
FEWBITS_API int fewbits_encode(fewbits_unit *units, size_t count, size_t *failed);
FEWBITS_API int fewbits_decode(fewbits_unit *units, size_t count, size_t *failed);
/* values += decoded; values are float64 if `dtype` is, else float32. */
FEWBITS_API int fewbits_accumulate(fewbits_unit *units, size_t count, size_t *failed);

/* The places of the `k` largest magnitudes, ascending; of equal ones the first. `dtype` 0 is
 * unsigned 32-bit numbers. k is 1 to count, at most 2^32. `nonfinite` counts NaN and infinities. */
FEWBITS_API int fewbits_select(const void *values, int dtype, size_t count, uint32_t *places,
                               size_t k, uint64_t *nonfinite);

#define FEWBITS_MAX_DIMENSIONS 32
#define FEWBITS_MAX_STAGES 8
#define FEWBITS_MAX_SECTIONS 16
#define FEWBITS_MAX_PARAMETERS 32

enum fewbits_parameter_type {
    FEWBITS_PARAMETER_CHOICE = 1,  /* 1 byte */
    FEWBITS_PARAMETER_INTEGER = 2, /* 8 bytes, signed */
    FEWBITS_PARAMETER_FLOAT = 3,   /* 8 bytes, binary64, finite, not -0 */
    FEWBITS_PARAMETER_KEY = 4      /* 16 bytes, a random stream's key */
};

typedef struct fewbits_parameter {
    uint8_t stage;
    uint8_t number;
    uint8_t type;
    uint8_t value[16]; /* little endian, zero beyond the type's size */
} fewbits_parameter;

typedef struct fewbits_frame {
    uint8_t version;
    uint8_t dtype;
    uint8_t nonfinite; /* 1: the vector holds a NaN or an infinity */
    uint8_t dimensions;
    uint8_t stages;
    uint8_t sections;
    uint8_t parameters;
    uint16_t codes[FEWBITS_MAX_STAGES];
    uint64_t shape[FEWBITS_MAX_DIMENSIONS];
    uint64_t elements;
    uint64_t offsets[FEWBITS_MAX_SECTIONS]; /* from the frame's first byte */
    uint64_t lengths[FEWBITS_MAX_SECTIONS];
    uint32_t crc; /* as stored; compare with fewbits_crc32c over the first size - 4 bytes */
    fewbits_parameter parameter[FEWBITS_MAX_PARAMETERS];
} fewbits_frame;

/* Read the structure of a frame that fills [data, data + size) exactly. Does not read the sections.
 */
FEWBITS_API int fewbits_frame_parse(const uint8_t *data, size_t size, uint64_t max_elements,
                                    fewbits_frame *frame, uint64_t detail[2]);

/* What frames of one operator, dtype and shape have in common, if the operator is one unit. */
typedef struct fewbits_recipe {
    fewbits_unit unit;     /* its sections have their largest sizes and no address */
    uint64_t least[3];     /* the sections' smallest sizes */
    const uint8_t *header; /* of the largest frame; not trusted, but not judged either */
    uint64_t header_size;
    uint64_t coded; /* bit i: section i has coded blocks, whose kinds may need a later version */
} fewbits_recipe;

/* A vector and its frame. Both stay the caller's. */
typedef struct fewbits_message {
    const fewbits_recipe *recipe;
    void *values;    /* as many as the recipe's unit has */
    uint32_t key[4]; /* the random stream, for writing */
    uint8_t *frame;  /* not changed by reading */
    uint64_t size;   /* of the frame; for writing the room, and the frame's size when it returns */
    fewbits_tally tally;
} fewbits_message;

/* Write whole frames: sections, header, checksum. There must be room for the largest frame. Stop at
 * the first that fails; `failed` then holds its index. */
FEWBITS_API int fewbits_frames_write(fewbits_message *messages, size_t count, size_t *failed);
/* Read whole frames of finite vectors. A frame with another header, with a version that is not the
 * oldest for its sections, with impossible lengths, with a wrong checksum, or one that decodes to
 * values that are not finite is FEWBITS_OTHER_FRAME: fewbits_frame_parse and fewbits_decode say
 * more. */
FEWBITS_API int fewbits_frames_read(fewbits_message *messages, size_t count, size_t *failed);

#ifdef __cplusplus
}
#endif

#include "fewbits_places.h"

#endif
