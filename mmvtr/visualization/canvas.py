"""What all pictures share: size, colours, words as they are, and the way out as pixels.

Figures are made by matplotlib's objects: nothing here touches pyplot, its global state or a window.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Sequence

import numpy as np
from mmengine.visualization import Visualizer
from torch import Tensor

from mmvtr.storage import write_atomically

if TYPE_CHECKING:  # matplotlib is slow to import, and most runs draw nothing
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, DPI = 9.0, 100  # inches, and pixels an inch: every picture is 900 pixels wide

#: Okabe and Ito's colours, which colour-blind readers tell apart too.
BLUE, ORANGE, GREEN, SKY, GREY = '#0072B2', '#D55E00', '#009E73', '#56B4E9', '#8A8A8A'
RED = '#C1272D'  # beside GREEN only where marks differ as well
#: What is annotated, what holds though nobody annotated it, what does not hold or is not known.
ANNOTATED, TRUE, OTHER = GREEN, ORANGE, BLUE


def new_figure(height: float) -> 'Figure':
    """An empty figure of ``WIDTH`` x ``height`` inches, laid out so that nothing overlaps."""
    from mmvtr.visualization.picture import Picture

    return Picture(figsize=(WIDTH, height), dpi=DPI, layout='constrained')


def style(axis: 'Axes', title: str, x: str, y: str) -> None:
    """The title and labels of an axis, and a light grid."""
    axis.set_title(title, fontsize=11)
    axis.set_xlabel(x, fontsize=10)
    axis.set_ylabel(y, fontsize=10)
    axis.tick_params(labelsize=9)
    axis.grid(alpha=0.3)
    axis.set_axisbelow(True)


def words(text: str, most: int) -> str:
    """A text of users on one line, at most so many characters."""
    line = ' '.join(''.join(c if c.isprintable() else ' ' for c in text).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + '…'


def wrapped(text: str, width: int, lines: int) -> str:
    """As :func:`words`, on several lines."""
    broken = textwrap.wrap(words(text, width * lines), width, break_on_hyphens=False)
    if len(broken) > lines:
        broken = [*broken[: lines - 1], broken[lines - 1][: width - 1].rstrip(' …') + '…']
    return '\n'.join(broken)


def pixels(figure: 'Figure') -> np.ndarray:
    """A figure as uint8 RGB [H, W, 3]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def show(visualizer: Visualizer, name: str, figure: 'Figure', step: int) -> None:
    """Hand a figure to all backends of a visualizer: files, TensorBoard, WandB, MLflow.

    Args:
        visualizer: of a runner.
        name: of the picture; letters, digits and underscores, as it becomes a file's name.
        figure: what to show.
        step: of the training.
    """
    backends = visualizer._vis_backends.values()
    if any(type(backend).__name__ == 'MLflowVisBackend' for backend in backends):
        name = f'{name}_{step}.png'  # to MLflow the name is that of a file, and it has no steps
    visualizer.add_image(name, pixels(figure), step)


def save(figure: 'Figure', path: Path) -> None:
    """Write a png file; its folder is made if need be."""
    from PIL import Image

    image = Image.fromarray(pixels(figure))
    write_atomically(path, lambda file: image.save(file, 'png', optimize=True))


def plain(x: Any) -> np.ndarray:
    """An array of what may be a tensor, of half precision too."""
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        return (x.float() if x.is_floating_point() and x.element_size() < 4 else x).numpy()
    return np.asarray(x)


def array(name: str, x: Any, shape: Sequence[Optional[int]]) -> np.ndarray:
    """Numbers to draw, floating or bool.

    Args:
        name: what to call them.
        x: array or tensor.
        shape: expected; None = any size but 0.

    Raises:
        ValueError: another shape, no entry, or a number that is not finite; says where.
    """
    x = plain(x)
    expected = ', '.join('any' if size is None else str(size) for size in shape)
    fits = x.ndim == len(shape) and all(size in (None, have) for size, have in zip(shape, x.shape))
    if not fits:
        raise ValueError(f'{name} of shape {list(x.shape)}, expected [{expected}]')
    if not x.size:
        raise ValueError(f'{name} of shape {list(x.shape)}: nothing to draw')
    if x.dtype == bool:
        return x
    if x.dtype.kind not in 'iuf':
        raise ValueError(f'{name}: numbers expected, not {x.dtype}')
    if x.dtype.kind != 'f' or x.dtype.itemsize < 4:
        x = x.astype(np.float64)
    if not np.isfinite(x).all():
        place = np.argwhere(~np.isfinite(x))[0].tolist()
        raise ValueError(f'{name} is {x[tuple(place)]} at {place}: finite numbers expected')
    return x


def mask(name: str, x: Any, shape: Sequence[Optional[int]]) -> np.ndarray:
    """As :func:`array`, of truth values.

    Raises:
        ValueError: also numbers other than 0 and 1.
    """
    x = array(name, x, shape)
    if x.dtype != bool and not np.isin(x, (0, 1)).all():
        wrong = x[~np.isin(x, (0, 1))][0]
        raise ValueError(f'{name}: true or false expected, got {wrong:g}')
    return x.astype(bool)
