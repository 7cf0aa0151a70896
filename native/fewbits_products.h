/* fewbits: the native core's plain C interface to products with thin factors; the rules are those
 * of fewbits.h.
 *
 * Numbers are float32 or float64 at addresses that suit them. A factor has rows of `lanes` numbers,
 * a multiple of 8 of which the last may be zeros. Sums have a fixed order, so every table of
 * kernels and every share of the work gives the same bits.
 */
#ifndef FEWBITS_PRODUCTS_H
#define FEWBITS_PRODUCTS_H

#include "fewbits.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Some neighbouring rows and columns of a matrix M = values + memory, whose rows are `stride`
 * numbers apart; without `memory`, the values alone. */
typedef struct fewbits_matrix {
    const void *values;
    const void *memory; /* may be null */
    uint64_t rows;
    uint64_t columns;
    uint64_t stride; /* at least `columns` */
    int32_t dtype;
    uint32_t lanes; /* of the factors: 8 to 1024 */
} fewbits_matrix;

/* out = M basis: `columns` rows of the basis to `rows` rows of `out`. */
FEWBITS_API int fewbits_left_factor(const fewbits_matrix *matrix, const void *basis, void *out);
/* out = transposed M left: `rows` rows of `left` to `columns` rows of `out`. */
FEWBITS_API int fewbits_right_factor(const fewbits_matrix *matrix, const void *left, void *out);
/* remains = M - left own, then values = left mean. `own` and `mean` are transposed: `rank` rows, at
 * most `lanes`, of `columns` numbers. `values` may be those of M; both have its stride. */
FEWBITS_API int fewbits_settle(const fewbits_matrix *matrix, const void *left, const void *own,
                               const void *mean, uint32_t rank, void *values, void *remains);
/* Makes `lanes` columns of `rows` numbers orthonormal, in their order. A column that the ones
 * before it make up becomes zeros; what is not finite makes its column and those behind it NaN.
 * `scratch` has as many float64 numbers as there are in the factor. */
FEWBITS_API int fewbits_orthonormal(void *factor, int dtype, size_t rows, uint32_t lanes,
                                    double *scratch, size_t scratch_size);

#ifdef __cplusplus
}
#endif

#endif
