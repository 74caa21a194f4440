"""A category's text → the 32-bit number by which CatBoost knows it.

CatBoost keeps of a category only the low half of CityHash64, version 1 (Pike and Alakuijala, 2011),
of its UTF-8 bytes. The steps and constants below are the definition of that hash.
"""

from __future__ import annotations

from functools import lru_cache

__all__ = ["category_hash"]

_WORD = (1 << 64) - 1
_K0, _K1 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273
_K2, _K3 = 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_PAIR = 0x9DDFEA08EB382D69


@lru_cache(maxsize=1 << 16)
def category_hash(text: str) -> int:
    """CatBoost's number for the category ``text``, as a signed 32-bit integer."""
    low = _city_hash(text.encode()) & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _city_hash(data: bytes) -> int:
    if len(data) <= 16:
        return _up_to_16(data)
    if len(data) <= 32:
        return _up_to_32(data)
    return _up_to_64(data) if len(data) <= 64 else _any_length(data)


def _word(data: bytes, at: int, size: int = 8) -> int:
    """``size`` bytes as a number; ``at`` counts from the end if negative."""
    at += len(data) if at < 0 else 0
    return int.from_bytes(data[at : at + size], "little")


def _rotated(word: int, by: int) -> int:
    word &= _WORD
    return (word >> by | word << (64 - by)) & _WORD


def _folded(word: int) -> int:
    word &= _WORD
    return word ^ (word >> 47)


def _paired(one: int, other: int) -> int:
    one, other = one & _WORD, other & _WORD
    first = _folded((one ^ other) * _PAIR)
    return _folded((other ^ first) * _PAIR) * _PAIR & _WORD


def _up_to_16(data: bytes) -> int:
    size = len(data)
    if size > 8:
        last = _word(data, -8)
        return _paired(_word(data, 0), _rotated(last + size, size)) ^ last
    if size >= 4:
        return _paired(size + (_word(data, 0, 4) << 3), _word(data, -4, 4))
    if size == 0:
        return _K2
    head = data[0] + (data[size >> 1] << 8)
    tail = size + (data[-1] << 2)
    return _folded(head * _K2 ^ tail * _K3) * _K2 & _WORD


def _up_to_32(data: bytes) -> int:
    size = len(data)
    a, b = _word(data, 0) * _K1, _word(data, 8)
    c, d = _word(data, -8) * _K2, _word(data, -16) * _K0
    return _paired(_rotated(a - b, 43) + _rotated(c, 30) + d, a + _rotated(b ^ _K3, 20) - c + size)


def _up_to_64(data: bytes) -> int:
    front = _half(
        _word(data, 0) + (len(data) + _word(data, -16)) * _K0,
        _word(data, 8),
        _word(data, 16),
        _word(data, 24),
    )
    back = _half(_word(data, 16) + _word(data, -32), _word(data, -24), _word(data, -16), _word(data, -8))
    joined = _folded((front[0] + back[1]) * _K2 + (back[0] + front[1]) * _K0)
    return _folded(joined * _K0 + front[1]) * _K2 & _WORD


def _half(start: int, second: int, third: int, last: int) -> tuple[int, int]:
    b, c = _rotated(start + last, 52), _rotated(start, 37)
    c += _rotated(start + second, 7)
    total = start + second + third
    return total + last, b + _rotated(total, 31) + c


def _any_length(data: bytes) -> int:
    size = len(data)
    x, y, z = _word(data, 0), _word(data, -16) ^ _K1, _word(data, -56) ^ _K0
    v = _seeded(data, size - 64, size, y)
    w = _seeded(data, size - 32, size * _K1, _K0)
    z += _folded(v[1]) * _K1
    x, y = _rotated(z + x, 39) * _K1, _rotated(y, 33) * _K1
    for at in range(0, (size - 1) & ~63, 64):
        x = _rotated(x + y + v[0] + _word(data, at + 16), 37) * _K1 ^ w[1]
        y = _rotated(y + v[1] + _word(data, at + 48), 42) * _K1 ^ v[0]
        x, y = x & _WORD, y & _WORD
        z = _rotated(z ^ w[0], 33)
        v = _seeded(data, at, v[1] * _K1, x + w[0])
        w = _seeded(data, at + 32, z + w[1], y)
        x, z = z, x
    return _paired(_paired(v[0], w[0]) + _folded(y) * _K1 + z, _paired(v[1], w[1]) + x)


def _seeded(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    first, second, third, last = (_word(data, at + shift) for shift in (0, 8, 16, 24))
    start = a + first
    total = start + second + third
    b = _rotated(b + start + last, 21) + _rotated(total, 44)
    return (total + last) & _WORD, (b + start) & _WORD
