// An aggregator on its socket.
#include "switch/fewbits_switch.h"

#if defined(__linux__)

#include "switch/socket.h"

namespace fewbits {
namespace {

class Server {
  public:
    Server(uint8_t *memory, int socket, uint8_t *room, fewbits_switch_statistics &statistics)
        : memory_(memory), state_(*reinterpret_cast<SwitchState *>(memory)), socket_(socket),
          inbox_(room, state_.setup.chunk), outbox_(socket), statistics_(statistics) {}

    int run(uint64_t until) {
        for (uint64_t time = now(); time < until; time = now()) {
            const int came = inbox_.receive(socket_);
            if (came > 0) {
                answer(static_cast<size_t>(came), time);
                continue;
            }
            if (came < 0 && errno != EAGAIN && errno != ECONNREFUSED) {
                return errno == EINTR ? int{FEWBITS_OK} : int{FEWBITS_SWITCH_SYSTEM};
            }
            pollfd waited{socket_, POLLIN, 0};
            const uint64_t left = (until - time + kMillisecond - 1) / kMillisecond;
            if (poll(&waited, 1, static_cast<int>(std::min<uint64_t>(left, 1000))) < 0) {
                return errno == EINTR ? int{FEWBITS_OK} : int{FEWBITS_SWITCH_SYSTEM};
            }
        }
        return FEWBITS_OK;
    }

  private:
    void answer(size_t came, uint64_t time) {
        inbox_.check(came,
                     [&](const SwitchHeader &header) { return switch_up_key(state_, header); });
        for (size_t i = 0; i < came; ++i) {
            fewbits_switch_action &action = actions_[i];
            switch_packet(memory_, inbox_.bytes(i), inbox_.tag(i),
                          {inbox_.from(i), inbox_.from_size(i)}, time, false, statistics_, action);
            if (action.what == FEWBITS_SWITCH_BROADCAST) {
                for (uint32_t worker = 0; worker < state_.setup.workers; ++worker) {
                    SwitchAddress &to = state_.job.workers[worker];
                    outbox_.add(memory_ + action.offset, action.size, nullptr, 0, to.bytes,
                                to.size);
                    if (worker == 0 && state_.setup.keyed != 0) { // the others have the same bytes
                        outbox_.seal(&state_.job.down);
                    }
                }
            } else if (action.what != FEWBITS_SWITCH_NOTHING) {
                const bool own = action.what == FEWBITS_SWITCH_REPLY;
                outbox_.add(own ? action.reply : memory_ + action.offset, action.size, nullptr, 0,
                            inbox_.from(i), inbox_.from_size(i));
            }
        }
        outbox_.flush();
        statistics_.packets_sent += outbox_.packets;
        statistics_.bytes_sent += outbox_.bytes;
        outbox_.packets = outbox_.bytes = 0;
    }

    uint8_t *memory_;
    SwitchState &state_;
    int socket_;
    Inbox inbox_;
    Outbox outbox_;
    fewbits_switch_statistics &statistics_;
    fewbits_switch_action actions_[kBatch];
};

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" {

size_t fewbits_switch_scratch(uint32_t chunk) { return inbox_size(chunk); }

int fewbits_switch_serve(void *state, size_t size, int socket, uint64_t nanoseconds, void *scratch,
                         size_t scratch_size, fewbits_switch_statistics *statistics) {
    const fewbits_switch_setup &setup = static_cast<SwitchState *>(state)->setup;
    if (size != fewbits_switch_size(&setup) || scratch_size != inbox_size(setup.chunk)) {
        return FEWBITS_BAD_SIZE;
    }
    Server server(static_cast<uint8_t *>(state), socket, static_cast<uint8_t *>(scratch),
                  *statistics);
    return server.run(now() + nanoseconds);
}

} // extern "C"

#else

extern "C" {

size_t fewbits_switch_scratch(uint32_t) { return 0; }

int fewbits_switch_serve(void *, size_t, int, uint64_t, void *, size_t,
                         fewbits_switch_statistics *) {
    return FEWBITS_SWITCH_SYSTEM;
}

} // extern "C"

#endif
