"""FNV hashes and the spelling Kubernetes gives them: revision names and template hashes."""

from __future__ import annotations

from typing import Final

_OFFSET: Final = 0x811C9DC5
_PRIME: Final = 0x01000193
_MASK: Final = 0xFFFFFFFF
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"  # rand.SafeEncodeString: no vowels, no look-alikes
_NAME_BYTES: Final = 223  # of the owner's name; dash and hash fit behind it in 253


def fnv1_32(data: bytes) -> int:
    """FNV-1, 32 bit: multiply, then xor."""
    total = _OFFSET
    for byte in data:
        total = (total * _PRIME & _MASK) ^ byte
    return total


def fnv1a_32(data: bytes) -> int:
    """FNV-1a, 32 bit: xor, then multiply."""
    total = _OFFSET
    for byte in data:
        total = (total ^ byte) * _PRIME & _MASK
    return total


def safe_encode(text: str) -> str:
    """apimachinery's rand.SafeEncodeString: each character replaced by one of 27 harmless ones."""
    return "".join(_SAFE[ord(char) % len(_SAFE)] for char in text)


def revision_hash(data: bytes, collision_count: int) -> str:
    """The hash part of a ControllerRevision's name, for its exact `data` bytes.

    The count always enters, also when it is 0 (history.HashControllerRevision of Kubernetes).
    """
    return safe_encode(str(fnv1_32(data + str(collision_count).encode())))


def revision_name(owner: str, hash_text: str) -> str:
    """`<owner>-<hash>`, the owner's name cut to its first 223 bytes."""
    return f"{owner.encode()[:_NAME_BYTES].decode(errors='ignore')}-{hash_text}"


def dump_hash(data: bytes) -> int:
    """FNV-1a of the text a Go spew dump gives a byte slice: `([]uint8)[1 2 3]`.

    That is what hashutil.DeepHashObject feeds the hasher when it is handed bytes.
    """
    return fnv1a_32(f"([]uint8)[{' '.join(map(str, data))}]".encode())
