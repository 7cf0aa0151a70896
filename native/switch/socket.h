// Many packets with one system call, for the sockets of in-network aggregation. Other systems than
// Linux would need calls of their own.
#pragma once

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <poll.h>
#include <sys/socket.h>

#include "switch/state.h"

namespace fewbits {
namespace { // internal linkage: see random.h

constexpr size_t kBatch = 32;    // packets that a system call receives
constexpr size_t kOutgoing = 64; // and sends
constexpr uint64_t kMillisecond = 1'000'000;

[[maybe_unused]] uint64_t now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

[[maybe_unused]] size_t packet_room(uint32_t chunk) { return padded(sizeof(SwitchHeader) + chunk); }

// Packets that came in, each in its own part of the scratch.
class Inbox {
  public:
    Inbox(uint8_t *room, uint32_t chunk) : room_(room), each_(packet_room(chunk)) {}

    // What is there now; -1 and errno.
    int receive(int socket) {
        for (size_t i = 0; i < kBatch; ++i) {
            pieces_[i] = {room_ + i * each_, each_};
            headers_[i].msg_hdr = {};
            headers_[i].msg_hdr.msg_iov = &pieces_[i];
            headers_[i].msg_hdr.msg_iovlen = 1;
            headers_[i].msg_hdr.msg_name = from_[i];
            headers_[i].msg_hdr.msg_namelen = sizeof(from_[i]);
        }
        return recvmmsg(socket, headers_, kBatch, MSG_DONTWAIT, nullptr);
    }
    const uint8_t *packet(size_t i) const { return room_ + i * each_; }
    size_t size(size_t i) const { return headers_[i].msg_len; }
    uint8_t *from(size_t i) { return from_[i]; }
    size_t from_size(size_t i) const {
        return std::min<size_t>(headers_[i].msg_hdr.msg_namelen, FEWBITS_SWITCH_ADDRESS);
    }
    // What was received; nothing if it was too long.
    ConstBytes bytes(size_t i) const {
        const bool cut = (headers_[i].msg_hdr.msg_flags & MSG_TRUNC) != 0;
        return {packet(i), cut ? 0 : size(i)};
    }

    // Checks the first tags together: of packets for which `key_of(header)` is a key.
    template <class KeyOf> void check(size_t count, KeyOf key_of) {
        Sealing wanted[kBatch];
        uint8_t tags[kBatch][kTagSize];
        size_t places[kBatch];
        size_t found = 0;
        for (size_t i = 0; i < count; ++i) {
            SwitchHeader header;
            tags_[i] = TagState::unchecked;
            const SealKey *const key = read_switch(bytes(i), header) ? key_of(header) : nullptr;
            if (key != nullptr) {
                wanted[found] = {key, bytes(i).first(kTagged), bytes(i).subspan(sizeof(header)),
                                 tags[found]};
                places[found++] = i;
            }
        }
        seal_tags({wanted, found});
        for (size_t j = 0; j < found; ++j) {
            const bool right = same_tag(tags[j], packet(places[j]) + kTagged);
            tags_[places[j]] = right ? TagState::right : TagState::wrong;
        }
    }
    TagState tag(size_t i) const { return tags_[i]; }

  private:
    uint8_t *room_;
    size_t each_;
    mmsghdr headers_[kBatch];
    iovec pieces_[kBatch];
    uint8_t from_[kBatch][FEWBITS_SWITCH_ADDRESS];
    TagState tags_[kBatch];
};

// Packets that wait to be sent together. What cannot be sent is lost, as on any network.
class Outbox {
  public:
    explicit Outbox(int socket) : socket_(socket) {}

    void add(const void *head, size_t head_size, const void *tail, size_t tail_size, void *to = {},
             size_t to_size = 0) {
        if (count_ == kOutgoing) {
            flush();
        }
        iovec *pieces = pieces_[count_];
        pieces[0] = {const_cast<void *>(head), head_size};
        pieces[1] = {const_cast<void *>(tail), tail_size};
        msghdr &header = headers_[count_++].msg_hdr;
        header = {};
        header.msg_iov = pieces;
        header.msg_iovlen = tail_size > 0 ? 2 : 1;
        header.msg_name = to;
        header.msg_namelen = static_cast<socklen_t>(to_size);
        ++packets;
        bytes += head_size + tail_size;
    }
    // The packet that was added last gets its tag when it is sent, together with others.
    void seal(const SealKey *key) {
        const iovec *pieces = pieces_[count_ - 1];
        auto *const head = static_cast<uint8_t *>(pieces[0].iov_base);
        const size_t behind = pieces[0].iov_len - sizeof(SwitchHeader);
        const ConstBytes body =
            headers_[count_ - 1].msg_hdr.msg_iovlen == 2
                ? ConstBytes{static_cast<uint8_t *>(pieces[1].iov_base), pieces[1].iov_len}
                : ConstBytes{head + sizeof(SwitchHeader), behind};
        unsealed_[unsealed_count_++] = {key, {head, kTagged}, body, head + kTagged};
    }
    void flush() {
        seal_tags({unsealed_, unsealed_count_});
        unsealed_count_ = 0;
        size_t done = 0;
        while (done < count_) {
            const int sent =
                sendmmsg(socket_, headers_ + done, static_cast<unsigned>(count_ - done), 0);
            if (sent < 0) {
                refused |= errno == ECONNREFUSED;
            }
            done += sent > 0 ? static_cast<size_t>(sent) : 1;
        }
        count_ = 0;
    }
    uint64_t packets = 0, bytes = 0;
    bool refused = false;

  private:
    int socket_;
    size_t count_ = 0;
    mmsghdr headers_[kOutgoing];
    iovec pieces_[kOutgoing][2];
    Sealing unsealed_[kOutgoing];
    size_t unsealed_count_ = 0;
};

// Bytes that an inbox needs.
[[maybe_unused]] size_t inbox_size(uint32_t chunk) { return kBatch * packet_room(chunk); }

} // namespace
} // namespace fewbits
