"""Chapter 9 of docs/format.md: the words of a random stream whose key is in a frame."""

from tables_by_hand import need

STEP, MULTIPLY_1, MULTIPLY_2, WORD = 0x9E3779B1, 0x7FEB352D, 0x846CA68B, 2**32


def words(key: bytes, count: int) -> list[int]:
    """Chapter 9: the first words of a stream, fewer than 2^32."""
    need(len(key) == 16, "a key has 16 bytes")
    k0, k1, k2, k3 = (int.from_bytes(key[at : at + 4], "little") for at in (0, 4, 8, 12))

    def mixed(x: int) -> int:
        x = (x ^ x >> 16) * MULTIPLY_1 % WORD
        x = (x ^ x >> 15) * MULTIPLY_2 % WORD
        return x ^ x >> 16

    key_0, key_1, found = (k0 + mixed(k2)) % WORD, (k1 + mixed(k3)) % WORD, []
    for index in range(count):
        x = (index * STEP + key_0) % WORD
        x = ((x ^ x >> 16) * MULTIPLY_1 + key_1) % WORD
        x = (x ^ x >> 15) * MULTIPLY_2 % WORD
        found.append(x ^ x >> 16)
    return found
