// An aggregator that faces malformed and foreign packets in the middle of a job: whatever it does
// not take changes no byte of its state, both tables of kernels agree, and what it wants to send
// lies inside its memory.
#include <vector>

#include "harness.h"
#include "switch/fewbits_switch.h"

using namespace fuzz;

namespace {

constexpr uint32_t kWorkers = 3;
constexpr uint32_t kChunk = 48;
constexpr uint64_t kJob = 77;
constexpr uint64_t kSecond = 1'000'000'000;
constexpr size_t kCrc = 60;
constexpr uint64_t kTurns = 16; // packets made of each input

struct Address {
    uint8_t bytes[16];
    explicit Address(uint8_t worker) : bytes{2, 0, 10, worker} {}
};

// A packet of any content, with its checksum put right.
void seal(std::vector<uint8_t> &packet) {
    const uint32_t head = fewbits_crc32c(0, packet.data(), kCrc);
    const uint32_t crc = fewbits_crc32c(head, packet.data() + FEWBITS_SWITCH_HEADER,
                                        packet.size() - FEWBITS_SWITCH_HEADER);
    std::memcpy(packet.data() + kCrc, &crc, sizeof(crc));
}

std::vector<uint8_t> packet(uint8_t kind, uint16_t worker, uint64_t round,
                            std::vector<uint8_t> codes, uint32_t count) {
    std::vector<uint8_t> made(FEWBITS_SWITCH_HEADER);
    const uint16_t workers = kWorkers;
    std::memcpy(made.data(), "fwbs\1", 5);
    made[5] = kind;
    std::memcpy(made.data() + 8, &kJob, 8);
    std::memcpy(made.data() + 16, &workers, 2);
    std::memcpy(made.data() + 18, &worker, 2);
    std::memcpy(made.data() + 24, &round, 8);
    std::memcpy(made.data() + 56, &count, 4);
    made.insert(made.end(), codes.begin(), codes.end());
    seal(made);
    return made;
}

class Aggregator {
  public:
    Aggregator() : size_(fewbits_switch_size(&setup_)), memory_(size_ + 64) {
        const auto at = reinterpret_cast<uintptr_t>(memory_.data());
        state_ = memory_.data() + (64 - at % 64) % 64;
        REQUIRE(fewbits_switch_init(state_, size_, &setup_) == FEWBITS_OK);
    }

    fewbits_switch_action take(ConstBytes bytes, uint8_t from, uint64_t now) {
        const Buffer exact(bytes, 1); // a read beyond its end is seen
        const Address address(from);
        fewbits_switch_action action{};
        REQUIRE(fewbits_switch_packet(state_, size_, exact.data(), exact.size(), address.bytes,
                                      sizeof(address.bytes), now, &statistics,
                                      &action) == FEWBITS_OK);
        return action;
    }
    void restore(const std::vector<uint8_t> &before) { std::memcpy(state_, before.data(), size_); }
    ConstBytes state() const { return {state_, size_}; }
    fewbits_switch_statistics statistics{};

  private:
    fewbits_switch_setup setup_{kWorkers, 2, kChunk, 0, 2 * kSecond};
    size_t size_;
    std::vector<uint8_t> memory_;
    uint8_t *state_;
};

// All have joined, round 0 of slot 0 is complete, round 1 has one worker's codes.
void begin(Aggregator &own) {
    for (uint8_t worker = 0; worker < kWorkers; ++worker) {
        own.take(packet(FEWBITS_SWITCH_JOIN, worker, 0, {}, kChunk), worker, kSecond);
    }
    const std::vector<uint8_t> codes{1, 2, 130, 0, 61};
    for (uint8_t worker = 0; worker < kWorkers; ++worker) {
        own.take(packet(FEWBITS_SWITCH_CODES, worker, 0, codes, 5), worker, kSecond);
    }
    own.take(packet(FEWBITS_SWITCH_CODES, 0, 1, codes, 5), 0, kSecond);
    REQUIRE(own.statistics.sums == 1 && own.statistics.codes == 20 && own.statistics.jobs == 1);
}

uint64_t refused(const fewbits_switch_statistics &counts) {
    return counts.foreign + counts.malformed + counts.stale + counts.mismatched;
}

// A valid packet with parts of its header and codes replaced, or the input as it is.
std::vector<uint8_t> forged(Input &input) {
    const uint8_t choice = input.byte();
    if (choice % 4 == 0) {
        return {input.rest().begin(), input.rest().end()};
    }
    const uint8_t worker = input.byte() % 5;
    auto made = packet(input.byte() % 9, worker, input.byte() % 4, {1, 2, 130, 0, 61}, 5);
    for (uint8_t edits = input.byte() % 6; edits > 0; --edits) {
        const uint8_t place = input.byte();
        made[place % made.size()] = input.byte();
    }
    if (choice % 4 == 1) {
        const ConstBytes rest = input.rest();
        made.resize(FEWBITS_SWITCH_HEADER);
        made.insert(made.end(), rest.begin(), rest.end());
        const auto count = static_cast<uint32_t>(rest.size());
        std::memcpy(made.data() + 56, &count, 4);
    }
    if (choice % 4 == 2) {
        made.resize(std::max<size_t>(FEWBITS_SWITCH_HEADER, made.size() - input.byte() % 8));
    }
    if (choice < 250) {
        seal(made);
    }
    return made;
}

// An aggregator in the middle of a job, and what its state was then.
struct Prepared {
    Aggregator own;
    std::vector<uint8_t> before;

    Prepared() {
        begin(own);
        before.assign(own.state().begin(), own.state().end());
    }
};

fewbits_switch_action face(Prepared &prepared, ConstBytes bytes, uint8_t from, uint64_t now) {
    Aggregator &own = prepared.own;
    const uint64_t earlier = refused(own.statistics);
    const fewbits_switch_action action = own.take(bytes, from, now);
    if (refused(own.statistics) > earlier) {
        REQUIRE(std::memcmp(own.state().data(), prepared.before.data(), own.state().size()) == 0);
        REQUIRE(action.what <= FEWBITS_SWITCH_REPLY);
    }
    if (action.what >= FEWBITS_SWITCH_ANSWER) {
        REQUIRE(action.size <= FEWBITS_SWITCH_HEADER + kChunk);
        REQUIRE(action.offset <= own.state().size() - action.size);
    } else if (action.what == FEWBITS_SWITCH_REPLY) {
        REQUIRE(action.size == FEWBITS_SWITCH_HEADER);
    }
    return action;
}

// A few bytes of the input changed, in another way for each turn.
std::vector<uint8_t> varied(const uint8_t *data, size_t size, uint64_t turn) {
    std::vector<uint8_t> bytes(data, data + size);
    uint64_t random = (turn + 1) * 0x9E3779B97F4A7C15u ^ fewbits_crc32c(0, data, size);
    for (uint64_t edits = size == 0 ? 0 : turn % 4; edits > 0; --edits) {
        random = (random ^ random >> 29) * 0xBF58476D1CE4E5B9u;
        bytes[(random >> 8) % size] = static_cast<uint8_t>(random >> 40);
    }
    return bytes;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static Prepared both[2];
    for (uint64_t turn = 0; turn < kTurns; ++turn) {
        const auto bytes = varied(data, size, turn);
        fewbits_switch_action actions[2];
        with_each_table([&](size_t table) {
            Input input(bytes.data(), bytes.size());
            const uint8_t from = input.byte() % 4;
            const uint64_t later = kSecond * (1 + input.byte() % 4 / 3 * 5);
            actions[table] = face(both[table], forged(input), from, later);
        });
        REQUIRE(std::ranges::equal(both[0].own.state(), both[1].own.state()));
        REQUIRE(actions[0].what == actions[1].what);
        for (Prepared &prepared : both) {
            prepared.own.restore(prepared.before);
        }
    }
    return 0;
}
