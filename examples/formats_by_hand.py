"""Chapter 3 of docs/format.md: float formats as bit fields; and the type of parameters."""

import math


class Format:
    """Chapter 3: a sign bit, then `exponent` bits, then `mantissa` bits."""

    def __init__(self, name: str, exponent: int, mantissa: int) -> None:
        self.name, self.exponent, self.mantissa = name, exponent, mantissa
        self.size = (1 + exponent + mantissa) // 8
        self.top, self.bias = (1 << exponent) - 1, (1 << (exponent - 1)) - 1
        self.sign, self.infinity = 1 << (exponent + mantissa), self.top << mantissa
        self.quiet_nan = self.infinity | 1 << (mantissa - 1)

    def value(self, bits: int) -> float:
        """The number that a pattern of bits stands for."""
        code, fraction = divmod(bits & (self.sign - 1), 1 << self.mantissa)
        if code == self.top:
            number = math.nan if fraction else math.inf
        else:
            significand = fraction + (1 << self.mantissa if code else 0)
            number = math.ldexp(significand, max(code, 1) - self.bias - self.mantissa)
        return -number if bits & self.sign else number

    def nearest(self, number: float) -> int:
        """The bits of the nearest value, ties to even; finite numbers stay finite."""
        if math.isnan(number):
            return self.quiet_nan
        sign = self.sign if math.copysign(1, number) < 0 else 0
        if math.isinf(number):
            return sign | self.infinity
        exponent = max(math.frexp(number)[1] - 1, 1 - self.bias) if number else 1 - self.bias
        steps = round(math.ldexp(abs(number), self.mantissa - exponent))
        magnitude = ((exponent + self.bias - 1) << self.mantissa) + steps
        return sign | min(magnitude, self.infinity - 1)


FLOAT32, FLOAT64 = Format("float32", 8, 23), Format("float64", 11, 52)
FLOAT16, BFLOAT16 = Format("float16", 5, 10), Format("bfloat16", 8, 7)
FORMATS = {1: FLOAT32, 2: FLOAT64, 3: FLOAT16, 4: BFLOAT16}

Parameters = dict[int, tuple[int, int]]  # number -> type, value
