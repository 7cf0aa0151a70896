// What an aggregator does with a packet: a function of its state, the packet and the time. Compiled
// for general registers alone, like the arithmetic.
#include "switch/state.h"

#include <algorithm>

namespace fewbits {
namespace {

struct Visit {
    uint8_t *memory;
    SwitchState &state;
    const SwitchHeader &header;
    const uint8_t *codes;
    const uint8_t *from;
    size_t from_size;
    uint64_t now;
    fewbits_switch_statistics &statistics;
    fewbits_switch_action &action;
    bool seals; // sums too; else the caller does it before it sends them

    uint64_t bit() const { return uint64_t{1} << header.worker; }
    bool keyed() const { return state.setup.keyed != 0; }
};

constexpr uint32_t kUp = 0;
constexpr uint32_t kDown = 1;
constexpr uint32_t kNonce = 2;

// Whether a packet says to belong to `job`.
bool is_named(const SwitchState &state, const SwitchJob &job, const SwitchHeader &header) {
    return job.id != 0 && job.id == header.job &&
           (state.setup.keyed == 0 || job.nonce == header.nonce);
}

// The job that a packet says to belong to, if the state has it.
const SwitchJob *named_job(const SwitchState &state, const SwitchHeader &header) {
    for (const SwitchJob *job : {&state.job, &state.next}) {
        if (is_named(state, *job, header)) {
            return job;
        }
    }
    return nullptr;
}

// The key of one direction for the job and the nonce of a packet; null without a key. `room` takes
// that of a job that the state does not have.
const SealKey *key_of(const SwitchState &state, const SwitchHeader &header, uint32_t side,
                      SealKey &room) {
    if (state.setup.keyed == 0) {
        return nullptr;
    }
    if (const SwitchJob *job = named_job(state, header)) {
        return side == kUp ? &job->up : &job->down;
    }
    uint8_t key[kKeySize];
    switch_subkey(state.setup.key, header.job, header.nonce, side, key);
    room.set(key);
    return &room;
}

uint64_t fresh_nonce(const SwitchState &state) {
    uint8_t bytes[kKeySize];
    switch_subkey(state.setup.random, state.gathered, 0, kNonce, bytes);
    uint64_t nonce;
    std::memcpy(&nonce, bytes, sizeof(nonce));
    return nonce | 1; // 0 is none
}

uint64_t all_workers(const SwitchState &state) {
    return UINT64_MAX >> (FEWBITS_SWITCH_WORKERS - state.setup.workers);
}

// A header without codes that tells the sender of `visit` something.
void reply(const Visit &visit, uint8_t kind, uint16_t flags, uint64_t first) {
    SwitchHeader header = visit.header;
    header.kind = kind;
    header.flags = flags;
    header.workers = static_cast<uint16_t>(visit.state.setup.workers);
    header.first = first;
    if (kind == FEWBITS_SWITCH_WELCOME) {
        header.slot = visit.state.setup.slots;
        header.idle = static_cast<uint32_t>(
            std::min<uint64_t>(visit.state.setup.idle / 1'000'000, UINT32_MAX));
    }
    header.count = kind == FEWBITS_SWITCH_WAITING ? 0 : visit.state.setup.chunk;
    SealKey room;
    seal_switch(header, key_of(visit.state, header, kDown, room), {});
    visit.action.what = FEWBITS_SWITCH_REPLY;
    visit.action.size = sizeof(header);
    std::memcpy(visit.action.reply, &header, sizeof(header));
}

void refuse(const Visit &visit, uint16_t why) { reply(visit, FEWBITS_SWITCH_REFUSED, why, 0); }

// Whether another job may take the place of `job`.
bool is_over(const Visit &visit, const SwitchJob &job) {
    return job.id == 0 || job.over != 0 || visit.now - job.last >= visit.state.setup.idle;
}

void begin_job(const Visit &visit) {
    SwitchState &state = visit.state;
    state.job = state.next;
    state.next.id = 0;
    auto *slots = reinterpret_cast<SwitchSlot *>(visit.memory + SwitchPlaces(state.setup).slots);
    std::memset(slots, 0, state.setup.slots * sizeof(SwitchSlot));
    ++visit.statistics.jobs;
}

// Another job may take the place of those whose workers do not come.
void gather(const Visit &visit, SwitchJob &job) {
    SwitchState &state = visit.state;
    job.id = visit.header.job;
    job.nonce = visit.header.nonce;
    job.present = 0;
    job.over = 0;
    job.chunk = visit.header.count;
    std::memset(job.sequences, 0, sizeof(job.sequences));
    if (visit.keyed()) {
        uint8_t key[kKeySize];
        switch_subkey(state.setup.key, job.id, job.nonce, kUp, key);
        job.up.set(key);
        switch_subkey(state.setup.key, job.id, job.nonce, kDown, key);
        job.down.set(key);
        ++state.gathered;
        state.fresh = fresh_nonce(state);
    }
}

void join(const Visit &visit) {
    SwitchState &state = visit.state;
    const SwitchHeader &header = visit.header;
    if (header.workers != state.setup.workers) {
        return refuse(visit, FEWBITS_SWITCH_OTHER_WORKERS);
    }
    if (header.count == 0 || header.count > state.setup.chunk) {
        return refuse(visit, FEWBITS_SWITCH_OTHER_CHUNK);
    }
    const bool served = header.job == state.job.id && state.job.over == 0;
    SwitchJob &job = served ? state.job : state.next;
    if (!served && (!is_over(visit, state.job) || (header.job != job.id && !is_over(visit, job)))) {
        return refuse(visit, FEWBITS_SWITCH_BUSY);
    }
    // A nonce is good for one job, so nothing that was recorded before can begin one.
    const uint64_t nonce = header.job == job.id ? job.nonce : state.fresh;
    if (visit.keyed() && header.nonce != nonce) {
        visit.statistics.replayed += header.nonce != 0;
        return reply(visit, FEWBITS_SWITCH_CHALLENGE, 0, nonce);
    }
    if (header.job != job.id) {
        gather(visit, job);
    }
    if (header.count != job.chunk) {
        return refuse(visit, FEWBITS_SWITCH_OTHER_CHUNK);
    }
    if (visit.keyed() && header.sequence <= job.sequences[header.worker].control) {
        ++visit.statistics.replayed;
        return;
    }
    // With a key the newest address is right, whoever was quicker with a copy.
    SwitchAddress &address = job.workers[header.worker];
    if (!visit.keyed() && (job.present & visit.bit()) != 0 &&
        !address.is(visit.from, visit.from_size)) {
        ++visit.statistics.foreign;
        return;
    }
    job.present |= visit.bit();
    job.last = visit.now;
    job.sequences[header.worker].control = header.sequence;
    address.size = static_cast<uint8_t>(visit.from_size);
    std::memcpy(address.bytes, visit.from, visit.from_size);
    const bool all = job.present == all_workers(state);
    reply(visit, all ? FEWBITS_SWITCH_WELCOME : FEWBITS_SWITCH_WAITING, 0, job.present);
    if (all && !served) {
        begin_job(visit);
    }
}

bool is_of_job(const Visit &visit) {
    const SwitchJob &job = visit.state.job;
    return job.over == 0 && is_named(visit.state, job, visit.header) &&
           visit.header.workers == visit.state.setup.workers &&
           job.workers[visit.header.worker].is(visit.from, visit.from_size);
}

bool is_same_chunk(const SwitchVersion &version, const SwitchHeader &header) {
    return version.count == header.count && version.first == header.first &&
           std::memcmp(version.key, header.key, sizeof(version.key)) == 0;
}

// The sum of all workers' codes as a packet, which stays until the round after the next begins.
void complete(const Visit &visit, const SwitchPlaces &places, SwitchVersion &version) {
    const SwitchHeader &own = visit.header;
    const auto *sums =
        reinterpret_cast<const int64_t *>(visit.memory + places.of_sums(own.slot, own.round));
    uint8_t *packet = visit.memory + places.of_packet(own.slot, own.round);
    uint8_t *codes = packet + sizeof(SwitchHeader);
    const Stream stream{{version.key[0], version.key[1], version.key[2], version.key[3]},
                        version.first};
    kernels().switching.round({sums, version.count}, stream, codes);
    SwitchHeader header = own;
    header.kind = FEWBITS_SWITCH_SUM;
    header.flags = version.flags;
    header.worker = kEveryone;
    header.sequence = 0; // the round tells
    if (visit.keyed() && !visit.seals) {
        name_switch(header);
    } else {
        seal_switch(header, visit.keyed() ? &visit.state.job.down : nullptr,
                    {codes, version.count});
    }
    std::memcpy(packet, &header, sizeof(header));
    version.complete = 1;
    ++visit.statistics.sums;
    visit.statistics.nonfinite += version.flags & FEWBITS_SWITCH_NONFINITE;
}

void answer(const Visit &visit, const SwitchPlaces &places, uint32_t what) {
    visit.action.what = what;
    visit.action.size = static_cast<uint32_t>(sizeof(SwitchHeader)) + visit.header.count;
    visit.action.offset = places.of_packet(visit.header.slot, visit.header.round);
}

void again(const Visit &visit, const SwitchPlaces &places, const SwitchVersion &version) {
    ++visit.statistics.duplicates;
    if (version.complete != 0) {
        answer(visit, places, FEWBITS_SWITCH_ANSWER);
    } else {
        reply(visit, FEWBITS_SWITCH_WAITING, 0, version.seen);
    }
}

// Whether a worker of this job can have sent these codes.
bool is_well_formed(const Visit &visit) {
    const SwitchHeader &header = visit.header;
    const SwitchState &state = visit.state;
    return header.slot < state.setup.slots && header.count != 0 &&
           header.count <= state.job.chunk && (header.flags & ~FEWBITS_SWITCH_NONFINITE) == 0 &&
           kernels().switching.check({visit.codes, header.count}, switch_most(state.setup.workers));
}

void sum(const Visit &visit) {
    const SwitchHeader &header = visit.header;
    SwitchState &state = visit.state;
    if (!is_well_formed(visit)) {
        ++visit.statistics.malformed;
        return;
    }
    const SwitchPlaces places(state.setup);
    SwitchSlot &slot = reinterpret_cast<SwitchSlot *>(visit.memory + places.slots)[header.slot];
    SwitchVersion &version = slot.versions[header.round & 1];
    // A worker begins a round when it has the sum of the one before it.
    const bool begins = header.round == slot.begun &&
                        (slot.begun == 0 || slot.versions[~header.round & 1].complete != 0);
    if (!begins && (slot.begun == 0 || version.round != header.round || version.count == 0)) {
        ++visit.statistics.stale;
        return;
    }
    if (!begins && !is_same_chunk(version, header)) {
        ++visit.statistics.mismatched;
        return;
    }
    state.job.last = visit.now;
    if (visit.keyed()) {
        state.job.sequences[header.worker].take(header.sequence);
    }
    if (!begins && (version.seen & visit.bit()) != 0) {
        return again(visit, places, version);
    }
    if (begins) {
        slot.begun = header.round + 1;
        version = {header.round, 0, header.first, {}, header.count, 0, 0};
        std::memcpy(version.key, header.key, sizeof(version.key));
    }
    auto *sums =
        reinterpret_cast<int64_t *>(visit.memory + places.of_sums(header.slot, header.round));
    (begins ? kernels().switching.set : kernels().switching.add)({visit.codes, header.count}, sums);
    version.seen |= visit.bit();
    version.flags = static_cast<uint16_t>(version.flags | header.flags);
    visit.statistics.codes += header.count;
    if (version.seen == all_workers(state)) {
        complete(visit, places, version);
        answer(visit, places, FEWBITS_SWITCH_BROADCAST);
    }
}

// Whether a packet of this job came before. Only what is taken changes the numbers.
bool is_replayed(const Visit &visit) {
    const SwitchSequence &known = visit.state.job.sequences[visit.header.worker];
    const uint64_t own = visit.header.sequence;
    return visit.keyed() &&
           !(visit.header.kind == FEWBITS_SWITCH_CODES ? known.is_new(own) : own > known.control);
}

// A word of a worker about itself.
void heed(const Visit &visit) {
    SwitchJob &job = visit.state.job;
    job.sequences[visit.header.worker].control = visit.header.sequence;
    job.last = visit.now;
    job.over = visit.header.kind == FEWBITS_SWITCH_LEAVE ? 1 : 0;
}

void act(const Visit &visit) {
    const SwitchHeader &header = visit.header;
    const SwitchJob &job = visit.state.job;
    const bool is_codes = header.kind == FEWBITS_SWITCH_CODES;
    if (header.job == 0 || header.worker >= visit.state.setup.workers) {
        ++visit.statistics.foreign;
    } else if (header.kind == FEWBITS_SWITCH_JOIN) {
        join(visit);
    } else if (!is_of_job(visit)) {
        ++visit.statistics.foreign;
        // Never for the job that is served: a copy from elsewhere must not get a word against it.
        if (is_codes && (job.over != 0 || !is_named(visit.state, job, header))) {
            refuse(visit, FEWBITS_SWITCH_BUSY);
        }
    } else if (is_replayed(visit)) {
        ++visit.statistics.replayed;
    } else if (is_codes) {
        sum(visit);
    } else if (header.kind == FEWBITS_SWITCH_LEAVE || header.kind == FEWBITS_SWITCH_ALIVE) {
        heed(visit);
    } else {
        ++visit.statistics.malformed; // what only an aggregator sends
    }
}

} // namespace

const SealKey *switch_up_key(const SwitchState &state, const SwitchHeader &header) {
    const SwitchJob *const job = state.setup.keyed != 0 ? named_job(state, header) : nullptr;
    return job != nullptr ? &job->up : nullptr;
}

void switch_packet(uint8_t *memory, ConstBytes packet, TagState tag, ConstBytes from, uint64_t now,
                   bool seals, fewbits_switch_statistics &statistics,
                   fewbits_switch_action &action) {
    auto &own = *reinterpret_cast<SwitchState *>(memory);
    action.what = FEWBITS_SWITCH_NOTHING;
    ++statistics.packets;
    statistics.bytes += packet.size();
    SwitchHeader header;
    if (!read_switch(packet, header)) {
        ++statistics.malformed;
        return;
    }
    const ConstBytes payload = packet.subspan(sizeof(header));
    SealKey room;
    const bool known = tag != TagState::unchecked;
    const SealKey *const key = known ? nullptr : key_of(own, header, kUp, room);
    if (!is_sealed(header, key, payload, tag)) {
        ++(own.setup.keyed != 0 ? statistics.forged : statistics.malformed);
        return;
    }
    if (!is_formed(header, payload)) {
        ++statistics.malformed;
        return;
    }
    act({memory, own, header, payload.data(), from.data(), from.size(), now, statistics, action,
         seals});
}

} // namespace fewbits

using namespace fewbits;

extern "C" {

size_t fewbits_switch_size(const fewbits_switch_setup *setup) {
    return is_setup(*setup) ? SwitchPlaces(*setup).total : 0;
}

int fewbits_switch_init(void *state, size_t size, const fewbits_switch_setup *setup) {
    if (!is_setup(*setup) || reinterpret_cast<uintptr_t>(state) % 64 != 0) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const SwitchPlaces places(*setup);
    if (size != places.total) {
        return FEWBITS_BAD_SIZE;
    }
    std::memset(state, 0, places.registers);
    auto &own = *static_cast<SwitchState *>(state);
    own.setup = *setup;
    own.fresh = fresh_nonce(own);
    return FEWBITS_OK;
}

int fewbits_switch_packet(void *state, size_t size, const uint8_t *packet, size_t packet_size,
                          const uint8_t *from, size_t from_size, uint64_t now,
                          fewbits_switch_statistics *statistics, fewbits_switch_action *action) {
    if (from_size > FEWBITS_SWITCH_ADDRESS) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (size != fewbits_switch_size(&static_cast<SwitchState *>(state)->setup)) {
        return FEWBITS_BAD_SIZE;
    }
    switch_packet(static_cast<uint8_t *>(state), {packet, packet_size}, TagState::unchecked,
                  {from, from_size}, now, true, *statistics, *action);
    return FEWBITS_OK;
}

} // extern "C"
