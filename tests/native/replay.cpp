// Makes recorded calls of fewbits_encode and fewbits_decode again, with every table that there is:
// sections, values, sizes and tallies must be those of the record. `tests/golden/rows.py` writes it
// from all golden frames.
//
//     replay FILE
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "fewbits.h"

namespace {

using Bytes = std::vector<uint8_t>;

[[noreturn]] void stop(const char *what, size_t row) {
    std::fprintf(stderr, "row %zu: %s\n", row, what);
    std::exit(1);
}

class Record {
  public:
    explicit Record(const char *path) : file_(path, std::ios::binary) {}
    bool next() { return file_.peek() != std::ifstream::traits_type::eof(); }
    uint64_t number() {
        uint64_t value = 0;
        read(&value, sizeof value);
        return value;
    }
    Bytes bytes(size_t size) {
        Bytes own(size);
        read(own.data(), size);
        return own;
    }
    void read(void *to, size_t size) {
        if (!file_.read(static_cast<char *>(to), static_cast<std::streamsize>(size))) {
            stop("the record ends early", 0);
        }
    }

  private:
    std::ifstream file_;
};

struct Row {
    uint64_t direction, status;
    fewbits_unit before, after;
    Bytes given[4], made[4]; // values and three sections

    Row(Record &record, size_t number) : direction(record.number()), status(record.number()) {
        if (record.number() != sizeof(fewbits_unit) || direction > 1) {
            stop("a record of another interface", number);
        }
        record.read(&before, sizeof before);
        record.read(&after, sizeof after);
        for (size_t i = 0; i < 4; ++i) {
            const size_t size = record.number();
            given[i] = record.bytes(size);
            made[i] = record.bytes(size);
        }
    }

    void replay(size_t number) const {
        fewbits_unit unit = before;
        Bytes own[4];
        for (size_t i = 0; i < 4; ++i) { // at an odd address
            own[i].assign(given[i].size() + 1, 0xA5);
            std::copy(given[i].begin(), given[i].end(), own[i].begin() + 1);
        }
        unit.values = own[0].data() + 1;
        for (size_t i = 0; i < 3; ++i) {
            unit.sections[i] = before.sections[i] == nullptr ? nullptr : own[i + 1].data() + 1;
        }
        size_t failed = 0;
        const int found =
            direction == 0 ? fewbits_encode(&unit, 1, &failed) : fewbits_decode(&unit, 1, &failed);
        if (found != static_cast<int>(status)) {
            stop("another status", number);
        }
        if (std::memcmp(unit.sizes, after.sizes, sizeof unit.sizes) != 0 ||
            std::memcmp(&unit.tally, &after.tally, sizeof unit.tally) != 0) {
            stop("another size or tally", number);
        }
        for (size_t i = 0; i < 4; ++i) {
            const size_t size = i == 0 ? made[i].size() : static_cast<size_t>(after.sizes[i - 1]);
            if (size != 0 && std::memcmp(own[i].data() + 1, made[i].data(), size) != 0) {
                stop(i == 0 ? "other values" : "other bytes", number);
            }
        }
    }
};

} // namespace

int main(int count, char **words) {
    if (count != 2) {
        return 2;
    }
    Record record(words[1]);
    size_t rows = 0;
    int tables = 0;
    for (; record.next(); ++rows) {
        const Row row(record, rows);
        tables = 0;
        for (int simd = 0; fewbits_simd_name(simd) != nullptr; ++simd) {
            if (fewbits_use_simd(simd) == FEWBITS_OK) {
                row.replay(rows);
                ++tables;
            }
        }
    }
    std::printf("rows=%zu tables=%d\n", rows, tables);
    return rows == 0 ? 2 : 0;
}
