// What an aggregator does with a packet: a function of its state, the packet and the time. Compiled
// for general registers alone, like the arithmetic.
#include "switch/state.h"

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

    uint64_t bit() const { return uint64_t{1} << header.worker; }
};

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
    }
    header.count = kind == FEWBITS_SWITCH_WAITING ? 0 : visit.state.setup.chunk;
    seal_switch(header, nullptr, 0);
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
    if (header.job != job.id) {
        job.id = header.job;
        job.present = 0;
        job.over = 0;
        job.chunk = header.count;
    }
    if (header.count != job.chunk) {
        return refuse(visit, FEWBITS_SWITCH_OTHER_CHUNK);
    }
    SwitchAddress &address = job.workers[header.worker];
    if ((job.present & visit.bit()) != 0 && !address.is(visit.from, visit.from_size)) {
        ++visit.statistics.foreign;
        return;
    }
    job.present |= visit.bit();
    job.last = visit.now;
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
    return job.over == 0 && visit.header.job == job.id &&
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
    seal_switch(header, codes, version.count);
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

void act(const Visit &visit) {
    const SwitchHeader &header = visit.header;
    if (header.job == 0 || header.worker >= visit.state.setup.workers) {
        ++visit.statistics.foreign;
    } else if (header.kind == FEWBITS_SWITCH_JOIN) {
        join(visit);
    } else if (!is_of_job(visit)) {
        ++visit.statistics.foreign;
        if (header.kind == FEWBITS_SWITCH_CODES) {
            refuse(visit, FEWBITS_SWITCH_BUSY);
        }
    } else if (header.kind == FEWBITS_SWITCH_CODES) {
        sum(visit);
    } else if (header.kind == FEWBITS_SWITCH_LEAVE) {
        visit.state.job.over = 1;
    } else {
        ++visit.statistics.malformed; // what only an aggregator sends
    }
}

} // namespace
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
    static_cast<SwitchState *>(state)->setup = *setup;
    return FEWBITS_OK;
}

int fewbits_switch_packet(void *state, size_t size, const uint8_t *packet, size_t packet_size,
                          const uint8_t *from, size_t from_size, uint64_t now,
                          fewbits_switch_statistics *statistics, fewbits_switch_action *action) {
    auto *own = static_cast<SwitchState *>(state);
    if (from_size > FEWBITS_SWITCH_ADDRESS) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (size != fewbits_switch_size(&own->setup)) {
        return FEWBITS_BAD_SIZE;
    }
    action->what = FEWBITS_SWITCH_NOTHING;
    ++statistics->packets;
    statistics->bytes += packet_size;
    SwitchHeader header;
    if (!parse_switch(packet, packet_size, header)) {
        ++statistics->malformed;
        return FEWBITS_OK;
    }
    act({static_cast<uint8_t *>(state), *own, header, packet + sizeof(header), from, from_size, now,
         *statistics, *action});
    return FEWBITS_OK;
}

} // extern "C"
