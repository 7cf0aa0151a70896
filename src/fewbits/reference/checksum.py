"""The checksum of frames, headers and payloads."""


def crc32c(data: bytes, crc: int = 0) -> int:
    """CRC-32C bit by bit: reflected polynomial 82F63B78, complemented at both ends."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
