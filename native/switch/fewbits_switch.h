/* fewbits: in-network aggregation, a part of the plain C interface with the rules of fewbits.h.
 *
 * docs/switch.md has the packets and what an aggregator does with them;
 * src/fewbits/reference/switching.py is the specification of the arithmetic.
 */
#ifndef FEWBITS_SWITCH_H
#define FEWBITS_SWITCH_H

#include "fewbits.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arithmetic: a code is a byte, 0 for zero, else sign * 128 + c for 2^(c - 1) ---- */

typedef struct fewbits_switch_tally {
    uint64_t saturated; /* values above the span, replaced by its largest power */
    uint64_t below;     /* values other than 0 below the span: 0 or its smallest power */
    uint64_t nonfinite; /* NaN or infinite: the code is 0 */
} fewbits_switch_tally;

typedef struct fewbits_switch_span {
    int32_t bottom; /* the exponent of code 1, from -126 on */
    uint32_t most;  /* the largest code, 1 to 63 */
} fewbits_switch_span;

/* Float32 values, by their bits, to codes; at most 2^-128 of a code-1 value is lost at the low end,
 * and nothing if bottom is 1 or less. */
FEWBITS_API int fewbits_switch_encode(const uint32_t *values, size_t count, const uint32_t key[4],
                                      uint64_t first, const fewbits_switch_span *span,
                                      uint8_t *codes, fewbits_switch_tally *tally);
/* sums = codes, or with `add` 1 sums += codes. BAD_CODE, and nothing is written, for a code above
 * `most` or a zero with a sign. */
FEWBITS_API int fewbits_switch_add(const uint8_t *codes, size_t count, uint32_t most, int64_t *sums,
                                   int add);
/* Sums to codes of at most 64. No sum may be INT64_MIN. */
FEWBITS_API int fewbits_switch_round(const int64_t *sums, size_t count, const uint32_t key[4],
                                     uint64_t first, uint8_t *codes);
/* Codes of at most `most` to the bits that `table` (256 entries) gives them. */
FEWBITS_API int fewbits_switch_decode(const uint8_t *codes, size_t count, uint32_t most,
                                      const uint32_t *table, uint32_t *values);

/* ---- the aggregator: a state in the caller's memory, one packet after the other ---- */

#define FEWBITS_SWITCH_HEADER 96
#define FEWBITS_SWITCH_WORKERS 64
#define FEWBITS_SWITCH_SLOTS 4096
#define FEWBITS_SWITCH_CHUNK 65408 /* with the header it fits a UDP packet */
#define FEWBITS_SWITCH_ADDRESS 28  /* a sockaddr_in6 */
#define FEWBITS_SWITCH_KEY 32
#define FEWBITS_SWITCH_TAG 16

enum fewbits_switch_kind {
    FEWBITS_SWITCH_JOIN = 1,
    FEWBITS_SWITCH_WELCOME = 2,
    FEWBITS_SWITCH_WAITING = 3,
    FEWBITS_SWITCH_REFUSED = 4,
    FEWBITS_SWITCH_CODES = 5,
    FEWBITS_SWITCH_SUM = 6,
    FEWBITS_SWITCH_LEAVE = 7,
    FEWBITS_SWITCH_CHALLENGE = 8,
    FEWBITS_SWITCH_ALIVE = 9
};

enum fewbits_switch_flags {
    FEWBITS_SWITCH_NONFINITE = 1, /* of codes and sums: some value is NaN or infinite */
    /* of refusals: why */
    FEWBITS_SWITCH_OTHER_WORKERS = 1,
    FEWBITS_SWITCH_OTHER_CHUNK = 2,
    FEWBITS_SWITCH_BUSY = 3
};

typedef struct fewbits_switch_setup {
    uint32_t workers; /* 1 to FEWBITS_SWITCH_WORKERS */
    uint32_t slots;   /* 1 to FEWBITS_SWITCH_SLOTS */
    uint32_t chunk;   /* codes a packet may hold, 1 to FEWBITS_SWITCH_CHUNK */
    uint32_t keyed;   /* 1: packets have tags */
    uint64_t idle;    /* nanoseconds without a packet after which another job may begin */
    uint8_t key[FEWBITS_SWITCH_KEY];
    uint8_t random[FEWBITS_SWITCH_KEY]; /* what nobody knows, new for each state */
} fewbits_switch_setup;

typedef struct fewbits_switch_statistics {
    uint64_t packets; /* received */
    uint64_t bytes;
    uint64_t codes;      /* summed */
    uint64_t sums;       /* chunks that all workers have sent */
    uint64_t duplicates; /* packets whose codes had been summed already */
    uint64_t stale;      /* of a round that is over, or not begun */
    uint64_t foreign;    /* of another job, worker or address */
    uint64_t malformed;  /* not a packet of this protocol */
    uint64_t mismatched; /* of the right chunk, but with another length or random stream */
    uint64_t forged;     /* with a wrong tag */
    uint64_t replayed;   /* with a right tag, but sent before */
    uint64_t jobs;
    uint64_t nonfinite; /* chunks with a value that is not finite */
    uint64_t packets_sent;
    uint64_t bytes_sent;
} fewbits_switch_statistics;

enum fewbits_switch_what {
    FEWBITS_SWITCH_NOTHING = 0,
    FEWBITS_SWITCH_REPLY = 1,    /* `reply` to the sender */
    FEWBITS_SWITCH_ANSWER = 2,   /* the state's bytes from `offset` on to the sender */
    FEWBITS_SWITCH_BROADCAST = 3 /* the same to every worker */
};

typedef struct fewbits_switch_action {
    uint32_t what;
    uint32_t size;
    uint64_t offset;
    uint8_t reply[FEWBITS_SWITCH_HEADER];
} fewbits_switch_action;

/* The tag of some bytes, and the key that a job uses in one direction: side 0 up, 1 down. */
FEWBITS_API int fewbits_switch_tag(const uint8_t key[FEWBITS_SWITCH_KEY], const uint8_t *data,
                                   size_t size, uint8_t tag[FEWBITS_SWITCH_TAG]);
FEWBITS_API int fewbits_switch_subkey(const uint8_t root[FEWBITS_SWITCH_KEY], uint64_t job,
                                      uint64_t nonce, uint32_t side,
                                      uint8_t out[FEWBITS_SWITCH_KEY]);

/* Bytes of a state; 0 for a setup out of range. */
FEWBITS_API size_t fewbits_switch_size(const fewbits_switch_setup *setup);
/* `state` is at a multiple of 64 and has exactly that size. */
FEWBITS_API int fewbits_switch_init(void *state, size_t size, const fewbits_switch_setup *setup);
/* What to do with a packet that came from an address at a time in nanoseconds. Whatever is not a
 * packet that the state expects changes nothing in it and is counted. */
FEWBITS_API int fewbits_switch_packet(void *state, size_t size, const uint8_t *packet,
                                      size_t packet_size, const uint8_t *from, size_t from_size,
                                      uint64_t now, fewbits_switch_statistics *statistics,
                                      fewbits_switch_action *action);
/* Receive packets from a socket, and answer them, for some nanoseconds or until a signal comes.
 * `scratch` has fewbits_switch_scratch bytes. */
FEWBITS_API size_t fewbits_switch_scratch(uint32_t chunk);
FEWBITS_API int fewbits_switch_serve(void *state, size_t size, int socket, uint64_t nanoseconds,
                                     void *scratch, size_t scratch_size,
                                     fewbits_switch_statistics *statistics);

/* ---- a worker ---- */

#define FEWBITS_SWITCH_AGGREGATORS 16

enum fewbits_switch_trouble {
    FEWBITS_SWITCH_SILENT = 40, /* nothing went on for the time that was given */
    FEWBITS_SWITCH_GONE = 41,   /* nobody is there any more */
    FEWBITS_SWITCH_LOST = 42,   /* the aggregator serves another job */
    FEWBITS_SWITCH_SYSTEM = 43  /* a system call failed */
};

/* Codes that travel in one packet, and where their sum goes. */
typedef struct fewbits_switch_chunk {
    uint64_t offset; /* of the first code, and of its sum */
    uint64_t first;  /* index in the random stream of the sum */
    uint32_t key[4];
    uint32_t count;
    uint16_t flags;  /* sent */
    uint16_t answer; /* received */
} fewbits_switch_chunk;

typedef struct fewbits_switch_client {
    uint64_t job;
    uint64_t position; /* chunks exchanged so far */
    uint64_t patience; /* nanoseconds without a sum */
    uint64_t round_trip;
    uint64_t packets_sent;
    uint64_t bytes_sent;
    uint64_t packets_received;
    uint64_t bytes_received;
    uint64_t resent;
    uint64_t strange; /* packets that were not expected */
    uint64_t forged;  /* packets with a wrong tag */
    uint64_t present; /* workers that the last waiting aggregator had heard of */
    uint32_t workers;
    uint32_t worker;
    uint32_t aggregators;
    uint32_t slots; /* of each aggregator */
    uint32_t chunk;
    uint32_t culprit; /* the aggregator that an error is about */
    uint32_t reserved;
    int32_t error;                               /* errno */
    uint32_t heard;                              /* 1: `present` is known */
    uint32_t keyed;                              /* 1: packets have tags */
    int32_t sockets[FEWBITS_SWITCH_AGGREGATORS]; /* each connected to its aggregator */
    uint64_t nonces[FEWBITS_SWITCH_AGGREGATORS];
    uint64_t sequences[FEWBITS_SWITCH_AGGREGATORS]; /* packets of codes sent so far */
    uint8_t up[FEWBITS_SWITCH_AGGREGATORS][FEWBITS_SWITCH_KEY];
    uint8_t down[FEWBITS_SWITCH_AGGREGATORS][FEWBITS_SWITCH_KEY];
} fewbits_switch_client;

FEWBITS_API size_t fewbits_switch_client_scratch(const fewbits_switch_client *client);
/* Send all chunks' codes and receive their sums. `scratch` is at a multiple of 8. */
FEWBITS_API int fewbits_switch_exchange(fewbits_switch_client *client, fewbits_switch_chunk *chunks,
                                        size_t count, const uint8_t *codes, uint8_t *sums,
                                        size_t size, void *scratch, size_t scratch_size);

#ifdef __cplusplus
}
#endif

#endif
