// The C interface of products with thin factors, and orthonormal columns.
// src/fewbits/reference/low_rank.py is the specification.
#include <bit>
#include <cmath>
#include <cstdint>

#include "fewbits_products.h"
#include "kernels.h"

namespace fewbits {
namespace {

constexpr uint32_t kMostLanes = 1024;
// A column is left out if so much of its square is left, of what it was.
constexpr double kNothing = 1e-12;

template <class T> bool suits(const void *address) {
    return reinterpret_cast<uintptr_t>(address) % alignof(T) == 0;
}

// Calls `use` with a number of the dtype.
template <class Use> int with_number(int dtype, Use use) {
    switch (dtype) {
    case FEWBITS_FLOAT32:
        return use(float{});
    case FEWBITS_FLOAT64:
        return use(double{});
    default:
        return FEWBITS_BAD_ARGUMENT;
    }
}

template <class T> const ProductKernels<T> &kernels_of();
template <> const ProductKernels<float> &kernels_of() { return kernels().products32; }
template <> const ProductKernels<double> &kernels_of() { return kernels().products64; }

bool has_lanes(uint32_t lanes) { return lanes > 0 && lanes <= kMostLanes && lanes % kLane == 0; }

// Calls `use` with the matrix; BAD_ARGUMENT for one that makes no sense.
template <class Use> int with_matrix(const fewbits_matrix &given, Use use) {
    return with_number(given.dtype, [&]<class T>(T) -> int {
        const bool fits = given.stride >= given.columns && has_lanes(given.lanes);
        if (!fits || !suits<T>(given.values) || !suits<T>(given.memory)) {
            return FEWBITS_BAD_ARGUMENT;
        }
        use(ProductMatrix<T>{static_cast<const T *>(given.values),
                             static_cast<const T *>(given.memory), given.rows, given.columns,
                             given.stride});
        return FEWBITS_OK;
    });
}

// The largest power of two in the magnitudes, as an exponent; 0 if they are zeros or not finite.
template <class T> int common_exponent(const T *values, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; ++i) {
        const double magnitude = std::fabs(static_cast<double>(values[i]));
        largest = magnitude > largest ? magnitude : largest;
    }
    int exponent = 0;
    if (largest > 0 && std::isfinite(largest)) {
        std::frexp(largest, &exponent);
    }
    return exponent;
}

// The products of column `column` with itself and those behind it, in the order of rows.
void products_behind(const double *factor, size_t rows, size_t lanes, size_t column,
                     double *products) {
    for (size_t i = 0; i < rows; ++i) {
        const double *const row = factor + i * lanes;
        for (size_t other = column; other < lanes; ++other) {
            const double product = row[column] * row[other];
            products[other] = i == 0 ? product : products[other] + product;
        }
    }
}

void take_from_behind(double *factor, size_t rows, size_t lanes, size_t column,
                      const double *shares, double length) {
    for (size_t i = 0; i < rows; ++i) {
        double *const row = factor + i * lanes;
        for (size_t other = column + 1; other < lanes; ++other) {
            row[other] -= shares[other] * row[column];
        }
        row[column] /= length;
    }
}

void orthonormalise(double *factor, size_t rows, size_t lanes) {
    double before[kMostLanes];
    double products[kMostLanes];
    for (size_t column = 0; column < lanes; ++column) {
        products_behind(factor, rows, lanes, column, products);
        if (column == 0) {
            for (size_t other = 0; other < lanes; ++other) {
                before[other] = 0;
            }
            for (size_t i = 0; i < rows; ++i) {
                for (size_t other = 0; other < lanes; ++other) {
                    const double square = factor[i * lanes + other] * factor[i * lanes + other];
                    before[other] = i == 0 ? square : before[other] + square;
                }
            }
        }
        const double square = products[column];
        if (square == 0 || square < kNothing * before[column]) {
            for (size_t i = 0; i < rows; ++i) {
                factor[i * lanes + column] = 0;
            }
            continue;
        }
        for (size_t other = column + 1; other < lanes; ++other) {
            products[other] /= square;
        }
        take_from_behind(factor, rows, lanes, column, products, std::sqrt(square));
    }
}

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" {

int fewbits_left_factor(const fewbits_matrix *matrix, const void *basis, void *out) {
    return with_matrix(*matrix, [&]<class T>(const ProductMatrix<T> &own) {
        kernels_of<T>().left(own, static_cast<const T *>(basis), matrix->lanes,
                             static_cast<T *>(out));
    });
}

int fewbits_right_factor(const fewbits_matrix *matrix, const void *left, void *out) {
    return with_matrix(*matrix, [&]<class T>(const ProductMatrix<T> &own) {
        kernels_of<T>().right(own, static_cast<const T *>(left), matrix->lanes,
                              static_cast<T *>(out));
    });
}

int fewbits_settle(const fewbits_matrix *matrix, const void *left, const void *own,
                   const void *mean, uint32_t rank, void *values, void *remains) {
    if (rank > matrix->lanes) {
        return FEWBITS_BAD_ARGUMENT;
    }
    return with_matrix(*matrix, [&]<class T>(const ProductMatrix<T> &given) {
        const ProductFactors<T> factors{static_cast<const T *>(left), static_cast<const T *>(own),
                                        static_cast<const T *>(mean), rank, matrix->lanes};
        kernels_of<T>().settle(given, factors, static_cast<T *>(values), static_cast<T *>(remains));
    });
}

int fewbits_orthonormal(void *factor, int dtype, size_t rows, uint32_t lanes, double *scratch,
                        size_t scratch_size) {
    if (!has_lanes(lanes) || scratch_size / lanes != rows || scratch_size % lanes != 0) {
        return FEWBITS_BAD_SIZE;
    }
    return with_number(dtype, [&]<class T>(T) -> int {
        if (!suits<T>(factor)) {
            return FEWBITS_BAD_ARGUMENT;
        }
        T *const values = static_cast<T *>(factor);
        const int exponent = common_exponent(values, scratch_size);
        for (size_t i = 0; i < scratch_size; ++i) {
            scratch[i] = std::ldexp(static_cast<double>(values[i]), -exponent);
        }
        orthonormalise(scratch, rows, lanes);
        for (size_t i = 0; i < scratch_size; ++i) {
            values[i] = static_cast<T>(scratch[i]);
        }
        return FEWBITS_OK;
    });
}
}
