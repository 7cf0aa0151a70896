// Tables of units of mixed kinds: the first bad row is named, both tables of kernels give the same
// bits, and accumulating is decoding and then adding.
#include <bit>
#include <vector>

#include "planes.h"

using namespace fuzz;

namespace {

struct Row {
    uint8_t kind, dtype, option;
    size_t count;
    unsigned offset;
    int status;
    std::vector<uint8_t> sections[2];

    size_t item() const { return format_of(dtype).item(); }
    size_t total_item() const { return dtype == FEWBITS_FLOAT64 ? 8 : 4; }
};

// The rows as native code takes them, with sections and values in memory of exactly their sizes.
struct Table {
    std::vector<Buffer> sections, values;
    std::vector<fewbits_unit> units;
    int status;
    size_t failed = SIZE_MAX;

    template <class Run> Table(const std::vector<Row> &rows, bool totals, Run run) {
        for (const Row &row : rows) {
            const size_t item = totals ? row.total_item() : row.dtype - 1u < 4 ? row.item() : 1;
            fewbits_unit unit{};
            unit.kind = row.kind;
            unit.dtype = row.dtype;
            unit.option = row.option;
            unit.count = row.count;
            values.emplace_back(row.count * item, row.offset);
            fill(values.back());
            unit.values = values.back().data();
            for (size_t i = 0; i < 2; ++i) {
                sections.emplace_back(row.sections[i], row.offset + static_cast<unsigned>(i));
                unit.sections[i] = sections.back().data();
                unit.sizes[i] = sections.back().size();
            }
            units.push_back(unit);
        }
        status = run(units.data(), units.size(), &failed);
    }

    static void fill(const Buffer &buffer) { // small numbers of either format
        for (size_t i = 0; i < buffer.size(); ++i) {
            buffer.data()[i] = i % 4 == 3 ? 0x3F : static_cast<uint8_t>(17 * i);
        }
    }
};

Row natural_row(Input &input) {
    const Planes planes = Planes::read(input);
    const auto dtype = static_cast<uint8_t>(planes.dtype);
    return {FEWBITS_NATURAL,
            dtype,
            FEWBITS_NEAREST,
            planes.count,
            planes.offset,
            planes.expected_status(),
            {planes.exponents, planes.signs}};
}

// A natural row whose section is coded: arbitrary bytes, or the planes' own with some damage. What
// decoding must say of them is what one table says.
Row coded_row(Input &input) {
    const uint8_t control = input.byte();
    Planes planes = Planes::read(input);
    Row row = {FEWBITS_NATURAL,
               static_cast<uint8_t>(planes.dtype),
               FEWBITS_CODED,
               planes.count,
               planes.offset,
               FEWBITS_OK,
               {}};
    if ((control & 1) != 0 || !planes.sizes_fit) {
        row.sections[0] = planes.exponents;
    } else {
        const auto bound = static_cast<uint32_t>(planes.format.top() + 1);
        row.sections[0].resize(fewbits_coded_size(planes.count, bound, 1) + 1); // never empty
        size_t written = 0;
        REQUIRE(fewbits_coded_encode(planes.codes.data(), planes.signs.data(), planes.count, bound,
                                     row.sections[0].data(), row.sections[0].size(),
                                     &written) == FEWBITS_OK);
        row.sections[0].resize(written);
        if ((control & 2) != 0 && written > 0) {
            row.sections[0][control * size_t{7} % written] ^= static_cast<uint8_t>(control >> 2);
        }
    }
    use_table(kPortable);
    row.status = Table({row}, false, fewbits_decode).status;
    return row;
}

Row cast_row(Input &input) {
    const uint8_t control = input.byte();
    const auto dtype = static_cast<uint8_t>(FEWBITS_FLOAT32 + (control & 3));
    const auto option = static_cast<uint8_t>(FEWBITS_FLOAT32 + ((control >> 2) & 3));
    const size_t item = format_of(option).item();
    const size_t count = input.rest().size() / item;
    const bool fits = (control & 0xF0) != 0xF0;
    const ConstBytes bytes = input.rest().first(count * item);
    Row row = {FEWBITS_CAST, dtype, option, count, control, FEWBITS_OK, {}};
    row.sections[0].assign(bytes.begin(), bytes.end());
    if (!fits) {
        row.sections[control & 1].push_back(0);
        row.status = FEWBITS_BAD_SIZE;
    }
    return row;
}

Row unknown_row(Input &input) {
    const uint8_t control = input.byte();
    Row row = {200, 1, 1, 0, 0, FEWBITS_BAD_ARGUMENT, {}};
    if ((control & 3) == 1) {
        row = {FEWBITS_NATURAL, 1, 4, 0, 0, FEWBITS_BAD_ARGUMENT, {}};
    } else if ((control & 3) == 2) {
        row = {FEWBITS_CAST, 5, 1, 0, 0, FEWBITS_BAD_ARGUMENT, {}};
    } else if ((control & 3) == 3) {
        row = {FEWBITS_NATURAL, 0, 0, 0, 0, FEWBITS_BAD_ARGUMENT, {}};
    }
    return row;
}

std::vector<Row> read_rows(Input &input) {
    const uint8_t control = input.byte();
    const size_t count = control % 4;
    std::vector<Row> rows;
    ConstBytes rest = input.rest();
    for (size_t i = 0; i < count; ++i) {
        const ConstBytes own = rest.subspan(rest.size() / count * i, rest.size() / count);
        Input part(own.data(), own.size());
        const int kind = (control >> (2 + 2 * i)) & 3;
        rows.push_back(kind == 0   ? natural_row(part)
                       : kind == 1 ? coded_row(part)
                       : kind == 2 ? cast_row(part)
                                   : unknown_row(part));
    }
    return rows;
}

template <class Total>
void check_sum(const Buffer &before, const Buffer &terms, const Buffer &after) {
    for (size_t i = 0; i < before.size() / sizeof(Total); ++i) {
        Total a, b, sum;
        std::memcpy(&a, before.data() + i * sizeof a, sizeof a);
        std::memcpy(&b, terms.data() + i * sizeof b, sizeof b);
        std::memcpy(&sum, after.data() + i * sizeof sum, sizeof sum);
        REQUIRE(a + b == sum || (a + b != a + b && sum != sum));
    }
}

// The decoded values of a row, widened by a cast unit, added one by one.
void check_accumulated(const Row &row, const Buffer &decoded, const Buffer &sums) {
    const auto wide =
        static_cast<uint8_t>(row.dtype == FEWBITS_FLOAT64 ? FEWBITS_FLOAT64 : FEWBITS_FLOAT32);
    Row widening = {FEWBITS_CAST, wide, row.dtype, row.count, 0, FEWBITS_OK, {}};
    widening.sections[0].assign(decoded.data(), decoded.data() + decoded.size());
    const Table terms({widening}, false, fewbits_decode);
    REQUIRE(terms.status == FEWBITS_OK);
    const Buffer before(sums.size(), 0);
    Table::fill(before);
    wide == FEWBITS_FLOAT64 ? check_sum<double>(before, terms.values[0], sums)
                            : check_sum<float>(before, terms.values[0], sums);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const std::vector<Row> rows = read_rows(input);
    const auto bad = std::ranges::find_if(rows, [](const Row &row) { return row.status != 0; });
    const int status = bad == rows.end() ? FEWBITS_OK : bad->status;
    std::vector<Table> decoded, summed;
    with_each_table([&](int) {
        decoded.emplace_back(rows, false, fewbits_decode);
        summed.emplace_back(rows, true, fewbits_accumulate);
        for (const Table *table : {&decoded.back(), &summed.back()}) {
            REQUIRE(table->status == status);
            REQUIRE(status == FEWBITS_OK ||
                    table->failed == static_cast<size_t>(bad - rows.begin()));
        }
    });
    for (size_t i = 0; i < rows.size() && status == FEWBITS_OK; ++i) {
        REQUIRE(decoded[0].values[i] == decoded[1].values[i]);
        REQUIRE(summed[0].values[i] == summed[1].values[i]);
        REQUIRE(equal(decoded[0].units[i].tally, decoded[1].units[i].tally));
        check_accumulated(rows[i], decoded[0].values[i], summed[0].values[i]);
    }
    return 0;
}
