"""A lint of compiled kernels: what gives other bits than the CPU, and what a device would trap."""

import re

# Each fault with what it looks like, in PTX or in AMD's assembly.
_FAULTS = {
    "approximate division": r"\bdiv\.(?:full|approx)",
    "approximate function": r"\.approx\b",
    "flush to zero": r"\.ftz\b|float_denorm_mode_32 0",
    "rounding to another side": r"\b(?:add|sub|mul|div|sqrt)\.r[zmp]\.",
    "fused product": r"\bfma\.rn\.(?:f32|f64|f32x2)\b|\bv_mad_f32|\bv_mac_f32",
    "generic address": r"^\s*(?:@!?%\w+\s+)?(?:ld|st)\.(?:v\d\.)?[bus]\d+\b",
    "call": r"^\s*call\b",
}
# AMD's correctly rounded division is made of fused products and ends in this.
_DIVISION = re.compile(r"v_div_fixup_f32")
_FUSED_AMD = re.compile(r"\bv_fmac?_f32")
# Products of eight values a division: two of scaling, five of refinement, one at the end.
_FUSED_A_DIVISION = 8


def faults(text: str) -> list[str]:
    """One line for each fault in the text of a compiled kernel."""
    found = [
        f"{name}: {match[0].strip()}"
        for name, pattern in _FAULTS.items()
        for match in list(re.finditer(pattern, text, re.MULTILINE))[:1]
    ]
    fused, divisions = len(_FUSED_AMD.findall(text)), len(_DIVISION.findall(text))
    if fused > _FUSED_A_DIVISION * divisions:
        found.append(f"fused product: {fused} of AMD and {divisions} divisions")
    return found
