// A worker that receives malformed, foreign, forged and right packets while it waits for two sums:
// it takes nothing but what it waits for, writes nothing but those sums, and never waits itself.
#include <sys/socket.h>
#include <unistd.h>

#include "packets.h"

using namespace fuzz;

namespace {

constexpr uint32_t kChunk = 40;
constexpr uint32_t kCounts[] = {kChunk, 7};
constexpr size_t kSize = kChunk + 7;
constexpr uint64_t kNonce = 5;
constexpr int kMostPackets = 6; // a socket's queue is short
constexpr uint8_t kUntouched = 0xA5;

// The two ends of a line without a network.
struct Line {
    int ends[2];

    Line() { REQUIRE(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0); }
    void send(const Packet &packet) {
        REQUIRE(::send(ends[1], packet.data(), packet.size(), MSG_DONTWAIT) >= 0);
    }
    void drain() {
        uint8_t room[4096];
        for (int end : ends) {
            while (recv(end, room, sizeof(room), MSG_DONTWAIT) >= 0) {
            }
        }
    }
};

struct Client : fewbits_switch_client {
    explicit Client(bool with_key, int socket) : fewbits_switch_client{} {
        job = kJob;
        workers = 1;
        aggregators = 1;
        slots = 2;
        chunk = kChunk;
        keyed = with_key;
        sockets[0] = socket;
        nonces[0] = with_key ? kNonce : 0;
        REQUIRE(fewbits_switch_subkey(kSecret, kJob, kNonce, 0, up[0]) == FEWBITS_OK);
        REQUIRE(fewbits_switch_subkey(kSecret, kJob, kNonce, 1, down[0]) == FEWBITS_OK);
    }
};

// A packet that is near to one of the two that the worker waits for, or the input as it is.
Packet answer(Input &input, bool keyed) {
    const uint8_t choice = input.byte();
    if (choice % 8 == 0) {
        return {input.rest().begin(), input.rest().end()};
    }
    constexpr uint8_t kinds[] = {FEWBITS_SWITCH_SUM, FEWBITS_SWITCH_SUM, FEWBITS_SWITCH_WAITING,
                                 FEWBITS_SWITCH_REFUSED};
    const uint32_t slot = input.byte() % 3;
    const uint32_t count = kCounts[slot % 2];
    Fields own{.kind = kinds[choice / 8 % 4], .slot = slot};
    own.first = slot == 1 ? kChunk : 0;
    own.nonce = keyed ? kNonce : 0;
    own.sequence = input.byte() % 4;
    const bool codes = own.kind == FEWBITS_SWITCH_SUM;
    own.count = codes ? count : 0;
    const Packet sums(codes ? count : 0, input.byte() % 65);
    Packet made = packet(own, sums);
    if (choice % 8 == 7) {
        seal(made, keyed, 1); // a right one
    } else {
        spoil(made, input, keyed, choice % 8 != 6);
    }
    return made;
}

bool is_sum(uint8_t code) { return code != 0x80 && (code & 0x7F) <= 64; }

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static Line line;
    Input input(data, size);
    const uint8_t first = input.byte();
    const bool keyed = first % 4 == 0; // tags take most of the time
    use_table((first & 4) != 0 ? kPicked : kPortable);
    static const Client clients[] = {Client(false, line.ends[0]), Client(true, line.ends[0])};
    Client client = clients[keyed];
    const int many = 1 + first / 8 % kMostPackets;
    for (int i = 0; i < many; ++i) {
        line.send(answer(input, keyed));
    }
    fewbits_switch_chunk chunks[2] = {};
    for (uint32_t i = 0; i < 2; ++i) {
        chunks[i].offset = chunks[i].first = i * kChunk;
        chunks[i].count = kCounts[i];
        chunks[i].answer = 99;
    }
    const Buffer codes(Packet(kSize, 3), 1);
    const Buffer sums(kSize, 3);
    const size_t needed = fewbits_switch_client_scratch(&client);
    const Buffer scratch(needed, 0);
    const int status = fewbits_switch_exchange(&client, chunks, 2, codes.data(), sums.data(), kSize,
                                               scratch.data(), needed);
    line.drain();
    REQUIRE(status == FEWBITS_OK || status == FEWBITS_SWITCH_SILENT ||
            status == FEWBITS_SWITCH_LOST);
    REQUIRE(client.packets_received <= static_cast<uint64_t>(many));
    REQUIRE(client.strange + client.forged <= client.packets_received);
    REQUIRE(keyed || client.forged == 0);
    uint64_t taken = 0;
    for (const fewbits_switch_chunk &chunk : chunks) {
        taken += chunk.answer != 99;
        for (size_t i = chunk.offset; i < chunk.offset + chunk.count; ++i) {
            const uint8_t code = sums.data()[i];
            REQUIRE(chunk.answer == 99 ? code == kUntouched : is_sum(code) && chunk.answer <= 1);
        }
    }
    REQUIRE(status == FEWBITS_SWITCH_LOST || (status == FEWBITS_OK) == (taken == 2));
    REQUIRE(client.position == (status == FEWBITS_OK ? 2 : 0));
    return 0;
}
