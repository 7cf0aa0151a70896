"""The float formats that fewbits reads and writes, as bit fields."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# By the number of bits beside the sign.
_BITS: dict[int, np.dtype[np.unsignedinteger]] = {
    15: np.dtype("<u2"),
    31: np.dtype("<u4"),
    63: np.dtype("<u8"),
}


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format: one sign bit, then `exponent` bits, then `mantissa` bits."""

    name: str
    code: int
    exponent: int
    mantissa: int

    @property
    def itemsize(self) -> int:
        return (1 + self.exponent + self.mantissa) // 8

    @property
    def bits(self) -> np.dtype[np.unsignedinteger]:
        """The unsigned integer dtype that holds an element's bits."""
        return _BITS[self.exponent + self.mantissa]

    @property
    def top_code(self) -> int:
        """The exponent code of NaN and of the infinities."""
        return (1 << self.exponent) - 1

    @property
    def sign(self) -> int:
        """The bits of -0."""
        return 1 << (self.exponent + self.mantissa)

    @property
    def infinity(self) -> int:
        """The bits of infinity; every smaller magnitude is finite."""
        return self.top_code << self.mantissa

    @property
    def largest_power(self) -> int:
        """The bits of the greatest finite power of two."""
        return (self.top_code - 1) << self.mantissa

    @property
    def quiet_nan(self) -> int:
        """The bits of the one NaN that decoders write."""
        return self.infinity | 1 << (self.mantissa - 1)

    @property
    def bias(self) -> int:
        """Code `c` stands for the power $2^{c - bias}$."""
        return self.top_code >> 1

    @property
    def smallest_normal(self) -> float:
        """The least power of two with a code of its own."""
        return float(2.0 ** (1 - self.bias))

    @property
    def largest_power_value(self) -> float:
        """The greatest finite power of two, as a number."""
        return float(2.0**self.bias)

    @property
    def largest_value(self) -> float:
        return (2 - 2.0**-self.mantissa) * self.largest_power_value

    def holds(self, narrow: "Format") -> bool:
        """Whether every finite value of `narrow` is a value of this format."""
        return narrow.exponent <= self.exponent and narrow.mantissa <= self.mantissa


FLOAT32 = Format("float32", 1, 8, 23)
FLOAT64 = Format("float64", 2, 11, 52)
FLOAT16 = Format("float16", 3, 5, 10)
BFLOAT16 = Format("bfloat16", 4, 8, 7)
FORMATS = (FLOAT32, FLOAT64, FLOAT16, BFLOAT16)

BY_NAME = {format.name: format for format in FORMATS}
BY_CODE = {format.code: format for format in FORMATS}

Bits = npt.NDArray[np.unsignedinteger]
