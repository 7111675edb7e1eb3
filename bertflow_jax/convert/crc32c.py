"""CRC-32C (Castagnoli) of large arrays, in numpy.

The checksum is linear over GF(2): the register after a || b is the register after a, moved on by
len(b) zero bytes, xor the register after b alone. So many stretches of the data run side by side,
one table look-up for all of them at once, and are joined pairwise at the end.
"""

import functools

import numpy as np

_POLYNOMIAL = 0x82F63B78  # 0x1EDC6F41 with its bits reversed
_LANE_WORDS = 64  # 32-bit words that one lane works through
_MASK_DELTA = 0xA282EAD8

# A linear map of a 32-bit register, as its values on every low and every high half.
_Operator = tuple[np.ndarray, np.ndarray]


def crc32c(data: bytes | np.ndarray) -> int:
    """Return the CRC-32C of bytes or of uint8[n]."""
    values = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
    if len(values) < 4:
        return _crc32c_of_few(values)
    lane_bytes = 4 * _LANE_WORDS
    lanes = -(-len(values) // lane_bytes)
    # Zeros before the data leave a register of 0 as it is; the first register of ones is the same
    # as the first four bytes inverted.
    padded = np.zeros(lanes * lane_bytes, np.uint8)
    start = len(padded) - len(values)
    padded[start:] = values
    padded[start : start + 4] ^= 0xFF
    words = padded.view("<u4").reshape(lanes, _LANE_WORDS)
    register = np.zeros(lanes, np.uint32)
    for i in range(_LANE_WORDS):
        register = _apply(_after(4), register ^ words[:, i])
    return _join(register, lane_bytes) ^ 0xFFFFFFFF


def _crc32c_of_few(values: np.ndarray) -> int:
    register = 0xFFFFFFFF
    for value in values.tolist():
        register ^= value
        for _ in range(8):
            register = register >> 1 ^ (_POLYNOMIAL if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def masked_crc32c(data: bytes | np.ndarray) -> int:
    """Return the checksum as TensorFlow stores it: turned by 15 bits and moved by a constant."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _join(registers: np.ndarray, lane_bytes: int) -> int:
    while len(registers) > 1:
        if len(registers) % 2:
            registers = np.concatenate([np.zeros(1, np.uint32), registers])
        registers = _apply(_after(lane_bytes), registers[0::2]) ^ registers[1::2]
        lane_bytes *= 2
    return int(registers[0])


def _apply(operator: _Operator, registers: np.ndarray) -> np.ndarray:
    low, high = operator
    return low[registers & 0xFFFF] ^ high[registers >> 16]


@functools.cache
def _after(zeros: int) -> _Operator:
    """Return what a power of two of zero bytes does to the register."""
    if zeros > 1:
        half = _after(zeros // 2)
        return _apply(half, half[0]), _apply(half, half[1])
    low = np.arange(1 << 16, dtype=np.uint32)
    return _one_byte(low), _one_byte(low << 16)


def _one_byte(registers: np.ndarray) -> np.ndarray:
    for _ in range(8):
        registers = registers >> 1 ^ np.where(registers & 1, _POLYNOMIAL, 0).astype(np.uint32)
    return registers
