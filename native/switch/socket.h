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
    bool is_cut(size_t i) const { return (headers_[i].msg_hdr.msg_flags & MSG_TRUNC) != 0; }

  private:
    uint8_t *room_;
    size_t each_;
    mmsghdr headers_[kBatch];
    iovec pieces_[kBatch];
    uint8_t from_[kBatch][FEWBITS_SWITCH_ADDRESS];
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
    void flush() {
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
};

// Bytes that an inbox needs.
[[maybe_unused]] size_t inbox_size(uint32_t chunk) { return kBatch * packet_room(chunk); }

} // namespace
} // namespace fewbits
