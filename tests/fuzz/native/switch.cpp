// An aggregator that faces malformed, foreign and forged packets in the middle of a job, without a
// key and with one: whatever it does not take changes no byte of its state, both tables of kernels
// agree, and what it wants to send lies inside its memory.
#include "packets.h"

using namespace fuzz;

namespace {

constexpr uint32_t kWorkers = 3;
constexpr uint32_t kChunk = 48;
constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kTurns = 4; // packets made of each input, the first of some with a key
constexpr uint8_t kCodes[] = {1, 2, 130, 0, 61};

struct Address {
    uint8_t bytes[16];
    explicit Address(uint8_t worker) : bytes{2, 0, 10, worker} {}
};

class Aggregator {
  public:
    explicit Aggregator(bool keyed) : keyed_(keyed) {
        setup_.keyed = keyed;
        std::memcpy(setup_.key, kSecret, sizeof(kSecret));
        size_ = fewbits_switch_size(&setup_);
        memory_.resize(size_ + 64);
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
    // What a worker of the job sends.
    fewbits_switch_action hear(uint8_t kind, uint8_t worker, uint64_t round, uint64_t sequence) {
        const bool codes = kind == FEWBITS_SWITCH_CODES;
        const Fields own{.kind = kind,
                         .workers = kWorkers,
                         .worker = worker,
                         .round = round,
                         .count = codes ? 5 : kChunk,
                         .nonce = nonce,
                         .sequence = sequence};
        Packet made = packet(own, codes ? ConstBytes(kCodes) : ConstBytes());
        seal(made, keyed_, 0);
        return take(made, worker, kSecond);
    }
    void restore(const Packet &before) { std::memcpy(state_, before.data(), size_); }
    ConstBytes state() const { return {state_, size_}; }

    fewbits_switch_statistics statistics{};
    uint64_t nonce = 0;

  private:
    bool keyed_;
    fewbits_switch_setup setup_{kWorkers, 2, kChunk, 0, 2 * kSecond, {}, {}};
    size_t size_;
    Packet memory_;
    uint8_t *state_;
};

// An aggregator in the middle of a job, and what its state was then: all have joined, round 0 of
// slot 0 is complete, round 1 has one worker's codes.
struct Prepared {
    Aggregator own;
    Packet before;

    explicit Prepared(bool keyed) : own(keyed) {
        if (keyed) {
            const auto asked = own.hear(FEWBITS_SWITCH_JOIN, 0, 0, 1);
            REQUIRE(asked.reply[5] == FEWBITS_SWITCH_CHALLENGE);
            own.nonce = got<uint64_t>(asked.reply, 48);
        }
        for (uint8_t kind : {FEWBITS_SWITCH_JOIN, FEWBITS_SWITCH_CODES}) {
            for (uint8_t worker = 0; worker < kWorkers; ++worker) {
                own.hear(kind, worker, 0, 2);
            }
        }
        own.hear(FEWBITS_SWITCH_CODES, 0, 1, 3);
        REQUIRE(own.statistics.sums == 1 && own.statistics.codes == 20 && own.statistics.jobs == 1);
        before.assign(own.state().begin(), own.state().end());
    }
};

uint64_t refused(const fewbits_switch_statistics &counts) {
    return counts.foreign + counts.malformed + counts.stale + counts.mismatched + counts.forged +
           counts.replayed;
}

// A valid packet with parts of its header and codes replaced, or the input as it is.
Packet forged(Input &input, bool keyed, uint64_t nonce) {
    const uint8_t choice = input.byte();
    if (choice % 4 == 0) {
        return {input.rest().begin(), input.rest().end()};
    }
    Fields own{.workers = kWorkers, .count = 5};
    own.worker = input.byte() % 5;
    own.kind = input.byte() % 11;
    own.round = input.byte() % 4;
    own.sequence = input.byte() % 8;
    own.nonce = choice % 8 == 1 ? input.byte() : nonce;
    Packet made = packet(own, kCodes);
    if (own.kind != FEWBITS_SWITCH_CODES && choice % 16 < 8) {
        made.resize(FEWBITS_SWITCH_HEADER);
    }
    spoil(made, input, keyed, choice % 32 == 31);
    return made;
}

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
Packet varied(const uint8_t *data, size_t size, uint64_t turn) {
    Packet bytes(data, data + size);
    uint64_t random = (turn + 1) * 0x9E3779B97F4A7C15u ^ fewbits_crc32c(0, data, size);
    for (uint64_t edits = size == 0 ? 0 : turn % 4; edits > 0; --edits) {
        random = (random ^ random >> 29) * 0xBF58476D1CE4E5B9u;
        bytes[(random >> 8) % size] = static_cast<uint8_t>(random >> 40);
    }
    return bytes;
}

void turn(Prepared (&both)[2], const Packet &bytes, bool keyed) {
    Input input(bytes.data(), bytes.size());
    const uint8_t from = input.byte() % 4;
    const uint64_t later = kSecond * (1 + input.byte() % 4 / 3 * 5);
    const Packet made = forged(input, keyed, both[0].own.nonce);
    fewbits_switch_action actions[2];
    with_each_table([&](size_t table) { actions[table] = face(both[table], made, from, later); });
    REQUIRE(std::ranges::equal(both[0].own.state(), both[1].own.state()));
    REQUIRE(actions[0].what == actions[1].what);
    REQUIRE(actions[0].what != FEWBITS_SWITCH_REPLY ||
            std::memcmp(actions[0].reply, actions[1].reply, FEWBITS_SWITCH_HEADER) == 0);
    for (Prepared &prepared : both) {
        prepared.own.restore(prepared.before);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static Prepared open[2] = {Prepared(false), Prepared(false)};
    static Prepared keyed[2] = {Prepared(true), Prepared(true)};
    for (uint64_t number = 0; number < kTurns; ++number) {
        const bool with_key = number == 0 && size > 0 && data[0] % 4 == 0;
        turn(with_key ? keyed : open, varied(data, size, number), with_key);
    }
    return 0;
}
