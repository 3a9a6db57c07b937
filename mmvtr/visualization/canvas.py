"""Shared parts of all pictures: size, colours, user texts, and output as pixels or a file.

Figures are made with matplotlib's object API: no pyplot, no global state, no window.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Optional, Sequence, TypeVar, Union

import numpy as np
from mmengine.visualization import Visualizer
from torch import Tensor

from mmvtr.functional.values import at_least_float32
from mmvtr.storage import write_atomically

if TYPE_CHECKING:  # matplotlib is slow to import, and most runs draw nothing
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar('T')

WIDTH, DPI = 9.0, 100  # inches, and pixels an inch: most pictures are 900 pixels wide

#: Okabe and Ito's colours, which are safe for colour-blind readers.
BLUE, ORANGE, GREEN, SKY, GREY = '#0072B2', '#D55E00', '#009E73', '#56B4E9', '#8A8A8A'
PINK = '#CC79A7'
RED = '#C1272D'  # beside GREEN only if marks differ as well
#: Colours of many groups.
COLOURS = (GREY, BLUE, ORANGE, GREEN, SKY, PINK, '#E69F00', '#000000', '#7B5EA7', '#6B4423')
#: Colours of annotated pairs, of true pairs that are not annotated, and of other pairs.
ANNOTATED, TRUE, OTHER = GREEN, ORANGE, BLUE


def new_figure(height: float, title: str = '', *, width: float = WIDTH, dpi: int = DPI) -> 'Figure':
    """Return an empty figure of ``width`` x ``height`` inches with a constrained layout."""
    from mmvtr.visualization.picture import Picture

    figure = Picture(figsize=(width, height), dpi=dpi, layout='constrained')
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def side_by_side(figure: 'Figure', what: Iterable[T], **options: Any) -> list[tuple['Axes', T]]:
    """Return one axis per item in a row; ``options`` go to ``subplots``."""
    what = list(what)
    return list(zip(figure.subplots(1, len(what), squeeze=False, **options)[0], what))


def style(axis: 'Axes', title: str, x: str, y: str) -> None:
    """Set title, axis labels and a light grid."""
    axis.set_title(title, fontsize=11)
    axis.set_xlabel(x, fontsize=10)
    axis.set_ylabel(y, fontsize=10)
    axis.tick_params(labelsize=9)
    axis.grid(alpha=0.3)
    axis.set_axisbelow(True)


def dots(
    axis: 'Axes', x: Any, y: Any, label: str, colour: str, marker: str = 'o', **look: Any
) -> None:
    """Draw semi-transparent scatter points."""
    look = dict(s=18, alpha=0.45, linewidths=0) | look
    axis.scatter(x, y, color=colour, marker=marker, label=label, **look)


def legend(
    figure: 'Figure', columns: int, *axes: 'Axes', handles: Optional[Sequence['Artist']] = None
) -> None:
    """Draw a legend below the panels, of some axes, some handles, or all."""
    if axes:
        handles = [x for axis in axes for x in axis.get_legend_handles_labels()[0]]
    drawn = figure.legend(
        handles=handles, loc='outside lower center', ncols=columns, fontsize=9, frameon=False
    )
    for handle in drawn.legend_handles:
        if hasattr(handle, 'get_offsets'):  # scatter points, which are pale if there are many
            handle.set_alpha(1)


def words(text: str, most: int) -> str:
    """Return user text on one line of at most ``most`` characters."""
    line = ' '.join(''.join(c if c.isprintable() else ' ' for c in text).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + '…'


def wrapped(text: str, width: int, lines: int) -> str:
    """Return user text wrapped over several lines; see :func:`words`."""
    broken = textwrap.wrap(words(text, width * lines), width, break_on_hyphens=False)
    if len(broken) > lines:
        broken = [*broken[: lines - 1], broken[lines - 1][: width - 1].rstrip(' …') + '…']
    return '\n'.join(broken)


def pixels(figure: 'Figure') -> np.ndarray:
    """Return a figure as an RGB image, uint8 [H, W, 3]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def show(visualizer: Visualizer, name: str, figure: 'Figure', step: int) -> None:
    """Pass a figure to all backends of a visualizer: files, TensorBoard, W&B, MLflow.

    Args:
        visualizer: of a runner.
        name: of the picture; letters, digits and underscores, as it becomes a file name.
        figure: the figure.
        step: training step.
    """
    backends = visualizer._vis_backends.values()
    if any(type(backend).__name__ == 'MLflowVisBackend' for backend in backends):
        name = f'{name}_{step}.png'  # MLflow takes it as a file name, and has no steps
    visualizer.add_image(name, pixels(figure), step)


def save(figure: 'Figure', path: Union[str, Path], *, colours: Optional[int] = None) -> None:
    """Write a picture atomically and create its folder.

    Args:
        figure: the figure.
        path: a png file, or one whose suffix names another format that matplotlib writes, such as
            .pdf.
        colours: for a small png file, its largest number of colours, at most 256.

    Raises:
        ValueError: matplotlib does not write this format.
        OSError: the file cannot be written.
    """
    kind = Path(path).suffix[1:].lower() or 'png'
    if kind == 'png':
        from PIL import Image

        image = Image.fromarray(pixels(figure))
        if colours is not None:  # the farthest apart, so that rare colours are kept
            image = image.quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        write_atomically(path, lambda file: image.save(file, 'png', optimize=True))
        return
    try:
        write_atomically(path, lambda file: figure.savefig(file, format=kind))
    except ValueError as error:
        raise ValueError(f'{path}: {error}') from error


def plain(x: Any) -> np.ndarray:
    """Return an array or tensor (half precision too) as a numpy array."""
    if isinstance(x, Tensor):
        return at_least_float32(x.detach().cpu()).numpy()
    return np.asarray(x)


def array(name: str, x: Any, shape: Sequence[Optional[int]]) -> np.ndarray:
    """Return the numbers to draw as a floating or bool array.

    Args:
        name: name in errors.
        x: array or tensor.
        shape: expected; None = any size but 0.

    Raises:
        ValueError: another shape, no entry, or a number that is not finite; the message says where.
    """
    x = plain(x)
    expected = ', '.join('any' if size is None else str(size) for size in shape)
    if x.ndim != len(shape) or any(a not in (None, b) for a, b in zip(shape, x.shape)):
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
    """Return truth values to draw as a bool array; see :func:`array`.

    Raises:
        ValueError: see :func:`array`; also numbers other than 0 and 1.
    """
    x = array(name, x, shape)
    others = x[~np.isin(x, (0, 1))]
    if len(others):
        raise ValueError(f'{name}: true or false expected, got {others[0]:g}')
    return x.astype(bool)
