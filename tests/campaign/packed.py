"""Packed B-frames: what DivX wrote into avi files, two frames in a chunk, then an empty one."""

from __future__ import annotations

import av

#: The user data by which decoders know such a stream.
WHO = b'\0\0\1\xb2DivX503b1393p'
PICTURE = b'\0\0\1\xb6'


def pack(packets: list[av.Packet]) -> list[av.Packet]:
    """Packets of MPEG-4 part 2 with at most one B-frame in a row, as one chunk for each frame."""
    chunks: list[bytes] = []
    contents = [bytes(packet) for packet in packets]
    i = 0
    while i < len(contents):
        following = contents[i + 1] if i + 1 < len(contents) else b''
        if following and _kind(following) == 2:
            chunks += [contents[i] + following, _empty(contents[i])]
            i += 2
        else:
            chunks.append(contents[i])
            i += 1
    at = chunks[0].index(PICTURE)
    chunks[0] = chunks[0][:at] + WHO + chunks[0][at:]
    return [_like(packets[k], chunks[k], k) for k in range(len(chunks))]


def _kind(content: bytes) -> int:
    """0 intra, 1 predicted, 2 both ways."""
    return content[content.index(PICTURE) + 4] >> 6


def _empty(before: bytes) -> bytes:
    """A picture that is not coded, at the time of the one before: type, seconds, time, 0."""
    bits = '01' + '0' + '1' + '00000' + '1' + '0'
    bits += '0' + '1' * (-(len(bits) + 1) % 8)
    return PICTURE + int(bits, 2).to_bytes(len(bits) // 8, 'big')


def _like(packet: av.Packet, content: bytes, number: int) -> av.Packet:
    made = av.Packet(content)
    made.stream, made.time_base = packet.stream, packet.time_base
    step = packet.duration
    made.pts = made.dts = number * step
    made.duration, made.is_keyframe = step, _kind(content) == 0
    return made
