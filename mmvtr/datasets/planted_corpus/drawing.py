"""Drawing the facts of a clip as RGB frames.

The background brightens with the time since the clip began, so that a clip's length is visible
however its frames are sampled (needed for ``length_confound``).
"""

from __future__ import annotations

import cmath
from typing import NamedTuple

import cv2
import numpy as np

from mmvtr.datasets.planted_corpus.world import Facts, num_frames

PIXELS = 64
RADIUS = dict(small=7.5, large=13.0)
RGB = dict(
    red=(225, 30, 40),
    orange=(250, 140, 20),
    yellow=(245, 235, 50),
    green=(30, 175, 60),
    cyan=(70, 225, 235),
    blue=(45, 75, 240),
    purple=(165, 50, 215),
    white=(255, 255, 255),
)
OUTLINE = (15, 15, 15)

_REACH = 17  # pixels from the middle of a straight path to its ends
_ORBIT = 9  # radius of a circling path
_HOP = 18  # height of a bounce
_TURN = np.radians(12)  # per frame: no shape looks the same 2 to 5 frames later
_SUBPIXEL = 4  # bits


class Pose(NamedTuple):
    """Position and angle of an object relative to its start, at one frame (pixels, radians)."""

    x: float = 0.0
    y: float = 0.0
    scale: float = 1.0
    angle: float = 0.0
    visible: bool = True


def _regular(radii: tuple[float, ...], corners: int) -> np.ndarray:
    angles = np.arange(corners) * 2 * np.pi / corners - np.pi / 2
    return np.resize(radii, corners) * np.exp(1j * angles)


def _heart() -> np.ndarray:
    a = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    x = 16 * np.sin(a) ** 3
    y = 13 * np.cos(a) - 5 * np.cos(2 * a) - 2 * np.cos(3 * a) - np.cos(4 * a)
    return (x - 1j * (y + 2)) / 15.5


def _crescent() -> np.ndarray:
    outer = np.linspace(np.radians(50), np.radians(310), 20)
    inner = np.linspace(np.radians(290), np.radians(70), 14)
    return np.concatenate([np.exp(1j * outer), 0.82 * np.exp(1j * inner) + 0.37])


_CROSS_ARM = np.array([0.33 + 1j, 0.33 + 0.33j, 1 + 0.33j])

#: Shape -> corners of a polygon of about unit radius, complex [N]: x + iy, y downwards.
POLYGONS = dict(
    triangle=1.1 * _regular((1,), 3),
    square=0.88 * np.array([-1 - 1j, 1 - 1j, 1 + 1j, -1 + 1j]),
    star=1.15 * _regular((1, 0.42), 10),
    cross=np.concatenate([_CROSS_ARM * (-1j) ** quarter for quarter in range(4)]),
    heart=_heart(),
    crescent=_crescent(),
)


def pose(action: str, frame: int, frames: int) -> Pose:
    """Return the pose of an acting object at ``frame`` of ``frames``.

    Monotonic actions (moving, growing, shrinking) complete once per moment, and a moment has two
    bounces; the others (circling, spinning, blinking) have a fixed period, visible at any stride of
    2 to 5 frames.
    """
    u = frame / (frames - 1)
    way = _REACH * (2 * u - 1)
    turn = 2 * np.pi * frame / 16
    poses = dict(
        left=lambda: Pose(x=-way),
        right=lambda: Pose(x=way),
        up=lambda: Pose(y=-way),
        down=lambda: Pose(y=way),
        circle=lambda: Pose(x=_ORBIT * np.cos(turn), y=_ORBIT * np.sin(turn)),
        bounce=lambda: Pose(y=_HOP * (0.5 - abs(np.sin(2 * np.pi * u)))),
        spin=lambda: Pose(angle=_TURN * frame),
        grow=lambda: Pose(scale=0.45 + 0.8 * u),
        shrink=lambda: Pose(scale=1.25 - 0.8 * u),
        blink=lambda: Pose(visible=frame % 8 < 4),
    )
    return poses[action]()


def draw(moments: list[Facts], rng: np.random.Generator) -> np.ndarray:
    """Draw a clip.

    Args:
        moments: facts of the clip, from ``world.draw_clip``.
        rng: generator for what no caption mentions: places, phases, orientations, shades.

    Returns:
        uint8 [F, 64, 64, 3] RGB.
    """
    images = []
    for moment, frames in zip(moments, num_frames(moments)):
        texture = _texture(moment['background'], rng)
        homes = _homes(moment['objects'], rng)
        radii = [RADIUS[thing['size']] * rng.uniform(0.95, 1.05) for thing in moment['objects']]
        for frame in range(frames):
            image = _lit(texture, elapsed=len(images))
            for thing, home, radius in zip(moment['objects'], homes, radii):
                _paint(image, thing, home, radius, pose(thing['action'], frame, frames))
            images.append(image)
    return np.stack(images)


def _paint(
    image: np.ndarray, thing: dict[str, str], home: np.ndarray, radius: float, at: Pose
) -> None:
    if not at.visible:
        return
    turn_and_scale = radius * at.scale * cmath.exp(1j * at.angle)
    corners = turn_and_scale * POLYGONS[thing['shape']] + complex(*home) + complex(at.x, at.y)
    points = np.round(2**_SUBPIXEL * corners.view(float).reshape(-1, 2))
    points = [points.astype(np.int32)]
    cv2.fillPoly(image, points, RGB[thing['colour']], cv2.LINE_AA, _SUBPIXEL)
    cv2.polylines(image, points, True, OUTLINE, 1, cv2.LINE_AA, _SUBPIXEL)


def _homes(objects: list[dict[str, str]], rng: np.random.Generator) -> list[np.ndarray]:
    """Return start centres: two objects in opposite quarters; straight paths are centred."""
    side = rng.choice((-1, 1), size=2)
    homes = []
    for number, thing in enumerate(objects):
        if len(objects) == 1:
            offset = rng.uniform(-9, 9, size=2)
        else:
            offset = (12 - 24 * number) * side + rng.uniform(-2, 2, size=2)
        if thing['action'] in ('left', 'right'):
            offset[0] = rng.uniform(-2, 2)
        if thing['action'] in ('up', 'down'):
            offset[1] = rng.uniform(-2, 2)
        homes.append(PIXELS / 2 + offset)
    return homes


def _texture(background: str, rng: np.random.Generator) -> np.ndarray:
    """Return a background's relief in grey levels around 0, float32 [64, 64]."""
    y, x = np.mgrid[:PIXELS, :PIXELS].astype(float)
    x, y = x + rng.uniform(0, 16), y + rng.uniform(0, 16)
    k = 2 * np.pi / rng.uniform(11, 14)
    angle = rng.uniform(0, np.pi)
    along = np.cos(angle) * x + np.sin(angle) * y
    reliefs = dict(
        stripes=lambda: np.sign(np.sin(k * along)),
        checks=lambda: np.sign(np.sin(k * x / 2) * np.sin(k * y / 2)),
        dots=lambda: 2.0 * (np.cos(k * x) + np.cos(k * y) > 1.1) - 0.6,
        waves=lambda: np.sin(k * y + 2 * np.sin(k * x / 3)),
        sand=lambda: cv2.resize(rng.uniform(-1, 1, size=(32, 32)), (PIXELS, PIXELS)),
    )
    return (14 * reliefs[background]()).astype(np.float32)


def _lit(texture: np.ndarray, elapsed: int) -> np.ndarray:
    light = 45 + 80 * (1 - np.exp(-elapsed / 40))
    return cv2.cvtColor((texture + np.float32(light)).astype(np.uint8), cv2.COLOR_GRAY2RGB)
