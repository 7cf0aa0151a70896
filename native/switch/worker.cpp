// A worker: sends codes to aggregators and receives their sums.
#include "switch/fewbits_switch.h"

#if defined(__linux__)

#include "switch/socket.h"

namespace fewbits {
namespace {

constexpr uint64_t kShortest =
    20 * kMillisecond; // before codes are sent again: a busy worker is no loss
constexpr uint64_t kLongest = 500 * kMillisecond;
constexpr uint64_t kDoubt = 2000 * kMillisecond; // before a refusal of a job with a key is believed

// What a slot of an aggregator is busy with.
struct Pending {
    uint64_t chunk; // its number plus 1, or 0
    uint64_t sent;
    uint64_t deadline;
    uint64_t patience; // 0: sent once only
    uint64_t waiting;  // 1: the last packet has been answered so
    SwitchHeader header;
};

size_t pending_size(const fewbits_switch_client &client) {
    return padded(size_t{client.aggregators} * client.slots * sizeof(Pending));
}

class Worker {
  public:
    Worker(fewbits_switch_client &client, std::span<fewbits_switch_chunk> chunks,
           const uint8_t *codes, uint8_t *sums, uint8_t *scratch)
        : client_(client), chunks_(chunks), codes_(codes), sums_(sums),
          pending_(reinterpret_cast<Pending *>(scratch)),
          pool_(size_t{client.aggregators} * client.slots),
          inbox_(scratch + pending_size(client), client.chunk) {
        for (uint32_t own = 0; client.keyed != 0 && own < client.aggregators; ++own) {
            up_[own].set(client.up[own]);
            down_[own].set(client.down[own]);
        }
    }

    int run() {
        std::memset(static_cast<void *>(pending_), 0, pool_ * sizeof(Pending));
        heard_ = now();
        std::fill_n(known_, client_.aggregators, heard_);
        left_ = chunks_.size();
        for (uint32_t own = 0; own < client_.aggregators; ++own) {
            Outbox outbox(client_.sockets[own]);
            // Numbers of the chunks that belong to this aggregator, one for each of its slots.
            const uint64_t skip = client_.position % client_.aggregators;
            const uint64_t first = (own + client_.aggregators - skip) % client_.aggregators;
            for (uint64_t i = first; i < std::min(chunks_.size(), pool_);
                 i += client_.aggregators) {
                send(i, outbox);
            }
            close(outbox, own);
        }
        while (left_ > 0 && trouble_ == FEWBITS_OK) {
            step();
        }
        if (trouble_ == FEWBITS_OK) {
            client_.position += chunks_.size();
        }
        return trouble_;
    }

  private:
    void step() {
        bool some = false;
        for (uint32_t own = 0; own < client_.aggregators && trouble_ == FEWBITS_OK; ++own) {
            some |= receive(own);
        }
        if (some || trouble_ != FEWBITS_OK) {
            return;
        }
        const uint64_t time = now();
        const uint64_t next = resend(time);
        if (time - heard_ >= client_.patience) {
            client_.culprit = silent();
            trouble_ = FEWBITS_SWITCH_SILENT;
            return;
        }
        pollfd waited[FEWBITS_SWITCH_AGGREGATORS];
        for (uint32_t own = 0; own < client_.aggregators; ++own) {
            waited[own] = {client_.sockets[own], POLLIN, 0};
        }
        const uint64_t wait = next > time ? (next - time) / kMillisecond + 1 : 1;
        poll(waited, client_.aggregators, static_cast<int>(std::min<uint64_t>(wait, 100)));
    }

    // All that one aggregator has sent; whether that was anything.
    bool receive(uint32_t own) {
        bool some = false;
        Outbox outbox(client_.sockets[own]);
        for (int came; (came = inbox_.receive(client_.sockets[own])) != 0;) {
            if (came < 0) {
                if (errno == ECONNREFUSED) {
                    fail(FEWBITS_SWITCH_GONE, own);
                } else if (errno != EAGAIN && errno != EINTR) {
                    client_.error = errno;
                    fail(FEWBITS_SWITCH_SYSTEM, own);
                }
                break;
            }
            some = true;
            inbox_.check(static_cast<size_t>(came),
                         [&](const SwitchHeader &) { return key(down_, own); });
            for (size_t i = 0; i < static_cast<size_t>(came); ++i) {
                ++client_.packets_received;
                client_.bytes_received += inbox_.size(i);
                take(inbox_.bytes(i), inbox_.tag(i), own, outbox);
            }
            outbox.flush();
        }
        close(outbox, own);
        return some;
    }

    void take(ConstBytes packet, TagState tag, uint32_t own, Outbox &outbox) {
        SwitchHeader header;
        if (!read_switch(packet, header)) {
            ++client_.strange;
            return;
        }
        const ConstBytes payload = packet.subspan(sizeof(header));
        if (!is_sealed(header, key(down_, own), payload, tag)) {
            ++(client_.keyed != 0 ? client_.forged : client_.strange);
        } else if (!is_formed(header, payload) || header.job != client_.job ||
                   header.nonce != client_.nonces[own]) {
            ++client_.strange;
        } else if (header.kind == FEWBITS_SWITCH_WAITING) {
            wait_longer(header, own);
        } else if (header.kind == FEWBITS_SWITCH_REFUSED) {
            refused(own);
        } else if (header.kind != FEWBITS_SWITCH_SUM ||
                   !accept(header, payload.data(), own, outbox)) {
            ++client_.strange; // also a sum that has come before
        }
    }

    const SealKey *key(const SealKey *keys, uint32_t own) const {
        return client_.keyed != 0 ? keys + own : nullptr;
    }

    // A copy of our packet at another aggregator with this key is refused there, so a refusal says
    // nothing while our own answers.
    void refused(uint32_t own) {
        if (client_.keyed == 0 ||
            now() - known_[own] >= std::min<uint64_t>(kDoubt, client_.patience / 2)) {
            fail(FEWBITS_SWITCH_LOST, own);
        }
    }

    // The codes are there, others' are not: asking again soon would not help. Each packet is
    // answered so once only, else copies of the answer could keep us waiting.
    void wait_longer(const SwitchHeader &header, uint32_t own) {
        client_.present = header.first;
        client_.heard = 1;
        if (header.slot < client_.slots) {
            Pending &pending = pending_[place(own, header.slot)];
            if (pending.chunk != 0 && pending.header.round == header.round &&
                pending.header.sequence == header.sequence && pending.waiting == 0) {
                pending.waiting = 1;
                pending.deadline = now() + std::max(pending.patience, kShortest);
                known_[own] = now();
            }
        }
    }

    bool accept(const SwitchHeader &header, const uint8_t *codes, uint32_t own, Outbox &outbox) {
        if (header.slot >= client_.slots) {
            return false;
        }
        Pending &pending = pending_[place(own, header.slot)];
        const SwitchHeader &sent = pending.header;
        if (pending.chunk == 0 || header.round != sent.round || header.count != sent.count ||
            header.first != sent.first ||
            std::memcmp(header.key, sent.key, sizeof(sent.key)) != 0 ||
            (header.flags & ~FEWBITS_SWITCH_NONFINITE) != 0 ||
            !kernels().switching.check({codes, header.count}, kSwitchMostSum)) {
            return false;
        }
        const uint64_t number = pending.chunk - 1;
        fewbits_switch_chunk &chunk = chunks_[number];
        std::memcpy(sums_ + chunk.offset, codes, chunk.count);
        chunk.answer = header.flags;
        heard_ = known_[own] = now();
        if (pending.patience == 0) {
            const uint64_t took = heard_ - pending.sent;
            client_.round_trip = client_.round_trip == 0
                                     ? took
                                     : client_.round_trip - client_.round_trip / 8 + took / 8;
        }
        pending.chunk = 0;
        --left_;
        if (number + pool_ < chunks_.size()) {
            send(number + pool_, outbox);
        }
        return true;
    }

    size_t place(uint32_t own, uint32_t slot) const {
        return size_t{slot} * client_.aggregators + own;
    }

    void send(uint64_t number, Outbox &outbox) {
        const fewbits_switch_chunk &chunk = chunks_[number];
        const uint64_t global = client_.position + number;
        const uint64_t turn = global / client_.aggregators;
        const auto own = static_cast<uint32_t>(global % client_.aggregators);
        SwitchHeader header{};
        header.kind = FEWBITS_SWITCH_CODES;
        header.flags = chunk.flags;
        header.job = client_.job;
        header.workers = static_cast<uint16_t>(client_.workers);
        header.worker = static_cast<uint16_t>(client_.worker);
        header.slot = static_cast<uint32_t>(turn % client_.slots);
        header.round = turn / client_.slots;
        std::memcpy(header.key, chunk.key, sizeof(header.key));
        header.first = chunk.first;
        header.count = chunk.count;
        header.nonce = client_.nonces[own];
        const uint64_t time = now();
        Pending &pending = pending_[place(own, header.slot)];
        pending = {number + 1, time, time + std::clamp(4 * client_.round_trip, kShortest, kLongest),
                   0,          0,    header};
        post(pending, own, outbox);
    }

    // Every packet has a number of its own, also one that is sent again.
    void post(Pending &pending, uint32_t own, Outbox &outbox) {
        const fewbits_switch_chunk &chunk = chunks_[pending.chunk - 1];
        const ConstBytes codes{codes_ + chunk.offset, chunk.count};
        pending.header.sequence = ++client_.sequences[own];
        pending.waiting = 0;
        const SealKey *const sealing = key(up_, own);
        if (sealing == nullptr) {
            seal_switch(pending.header, nullptr, codes);
        }
        outbox.add(&pending.header, sizeof(SwitchHeader), codes.data(), codes.size());
        if (sealing != nullptr) {
            name_switch(pending.header);
            outbox.seal(sealing);
        }
    }

    // Send again what was not answered in time; when to look the next time.
    uint64_t resend(uint64_t time) {
        uint64_t next = time + kLongest;
        for (uint32_t own = 0; own < client_.aggregators; ++own) {
            Outbox outbox(client_.sockets[own]);
            for (uint32_t slot = 0; slot < client_.slots; ++slot) {
                Pending &pending = pending_[place(own, slot)];
                if (pending.chunk == 0) {
                    continue;
                }
                if (pending.deadline <= time) {
                    const uint64_t first = std::clamp(4 * client_.round_trip, kShortest, kLongest);
                    pending.patience = std::min(2 * std::max(pending.patience, first), kLongest);
                    pending.deadline = time + pending.patience;
                    post(pending, own, outbox);
                    ++client_.resent;
                }
                next = std::min(next, pending.deadline);
            }
            close(outbox, own);
        }
        return next;
    }

    void close(Outbox &outbox, uint32_t own) {
        outbox.flush();
        client_.packets_sent += outbox.packets;
        client_.bytes_sent += outbox.bytes;
        outbox.packets = outbox.bytes = 0;
        if (outbox.refused) {
            fail(FEWBITS_SWITCH_GONE, own);
        }
    }

    // The first aggregator that owes an answer.
    uint32_t silent() const {
        for (size_t i = 0; i < pool_; ++i) {
            if (pending_[i].chunk != 0) {
                return static_cast<uint32_t>(i % client_.aggregators);
            }
        }
        return 0;
    }

    void fail(int trouble, uint32_t own) {
        trouble_ = trouble_ == FEWBITS_OK ? trouble : trouble_;
        client_.culprit = own;
    }

    fewbits_switch_client &client_;
    std::span<fewbits_switch_chunk> chunks_;
    const uint8_t *codes_;
    uint8_t *sums_;
    Pending *pending_;
    size_t pool_;
    Inbox inbox_;
    SealKey up_[FEWBITS_SWITCH_AGGREGATORS], down_[FEWBITS_SWITCH_AGGREGATORS];
    uint64_t heard_ = 0;                           // the last sum
    uint64_t known_[FEWBITS_SWITCH_AGGREGATORS]{}; // when each aggregator last knew the job
    size_t left_ = 0;
    int trouble_ = FEWBITS_OK;
};

bool is_client(const fewbits_switch_client &client) {
    return client.workers >= 1 && client.workers <= FEWBITS_SWITCH_WORKERS &&
           client.worker < client.workers && client.aggregators >= 1 &&
           client.aggregators <= FEWBITS_SWITCH_AGGREGATORS && client.slots >= 1 &&
           client.slots <= FEWBITS_SWITCH_SLOTS && client.chunk >= 1 &&
           client.chunk <= FEWBITS_SWITCH_CHUNK;
}

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" {

size_t fewbits_switch_client_scratch(const fewbits_switch_client *client) {
    return is_client(*client) ? pending_size(*client) + inbox_size(client->chunk) : 0;
}

int fewbits_switch_exchange(fewbits_switch_client *client, fewbits_switch_chunk *chunks,
                            size_t count, const uint8_t *codes, uint8_t *sums, size_t size,
                            void *scratch, size_t scratch_size) {
    if (!is_client(*client) || scratch_size != fewbits_switch_client_scratch(client)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    for (size_t i = 0; i < count; ++i) {
        const fewbits_switch_chunk &chunk = chunks[i];
        if (chunk.count == 0 || chunk.count > client->chunk || chunk.offset > size ||
            chunk.count > size - chunk.offset) {
            return FEWBITS_BAD_SIZE;
        }
    }
    return Worker(*client, {chunks, count}, codes, sums, static_cast<uint8_t *>(scratch)).run();
}

} // extern "C"

#else

extern "C" {

size_t fewbits_switch_client_scratch(const fewbits_switch_client *) { return 0; }

int fewbits_switch_exchange(fewbits_switch_client *, fewbits_switch_chunk *, size_t,
                            const uint8_t *, uint8_t *, size_t, void *, size_t) {
    return FEWBITS_SWITCH_SYSTEM;
}

} // extern "C"

#endif
