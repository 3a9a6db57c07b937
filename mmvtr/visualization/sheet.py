"""Contact sheets of a query's best hits: film strips, annotations and scores."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence, Union

import numpy as np

from mmvtr.visualization import canvas

#: ``right`` of a hit -> its mark, the mark's colour, and its label in the legend.
RIGHT = dict(
    annotated=('✓', canvas.ANNOTATED, 'annotated'),
    judged=('✓', canvas.GREY, 'judged right, or known to hold, but not annotated'),
    other=('✗', canvas.RED, 'neither annotated nor known to hold'),
)
#: Largest number of rows of a sheet.
MOST = 20


class SheetItem(NamedTuple):
    """A hit of a query.

    Attributes:
        title: its id, or its caption.
        frames: uint8 [F, H, W, 3], spread evenly over the video; F = 0 if there are none to show.
        score: raw.
        right: ``'annotated'``, ``'judged'`` (judged right, or true in planted data), ``'other'``
            (marked as neither) or None (no mark).
        bias: what a test-time transform adds to the score.
        sigma: the model's uncertainty of the item.
        moment: begin and end of what the query matches, in seconds if ``duration`` is given, else
            as shares of the video.
        duration: of the video, in seconds.
        lacking: why there are no frames.
        eta: uncertainty that the query and the hit match (DVTR; 1 = surely no match).
        note: a further line of text.
    """

    title: str
    frames: np.ndarray
    score: float
    right: Optional[str] = None
    bias: Optional[float] = None
    sigma: Optional[float] = None
    moment: Optional[tuple[float, float]] = None
    duration: Optional[float] = None
    lacking: str = 'no frames'
    eta: Optional[float] = None
    note: str = ''


def retrieval_sheet(
    query: Union[str, np.ndarray],
    items: Sequence[SheetItem],
    *,
    subtitle: str = '',
    sigma: Optional[float] = None,
) -> 'canvas.Figure':
    """Draw a query and its hits, one row each, the best first.

    Args:
        query: a text, or the frames of a video, uint8 [F, H, W, 3].
        items: the hits in their order.
        subtitle: a line that describes the search.
        sigma: the model's uncertainty of the query.

    Raises:
        ValueError: an empty query, no items or more than ``MOST``, frames that are not uint8
            [F, H, W, 3], a number that is not finite, an unknown ``right``, a moment outside its
            video; names the item.
    """
    if not 0 < len(items) <= MOST:
        raise ValueError(f'{len(items)} items, expected 1 to {MOST}')
    items = [
        _checked(item, f'item {number} ({str(item.title)[:80]!r})')
        for number, item in enumerate(items, 1)
    ]
    if isinstance(query, str):
        if not query.strip():
            raise ValueError('the query is an empty text')
        rows, named = list(items), f'"{canvas.wrapped(query, 90, 2)}"'
    else:
        frames = _frames(query, 'query')
        if not len(frames):
            raise ValueError('the query is a video without frames')
        rows, named = [SheetItem('', frames, 0.0), *items], 'The query is a video'
    # Without frames, texts found for a video take the whole width.
    whole = len(rows) > len(items) and not any(len(item.frames) for item in items)
    heights = [_height(row, whole and place > 0) for place, row in enumerate(rows)]
    heading = ['' if sigma is None else f'sigma of the query {sigma:.3g}', subtitle]
    heading = '\n'.join([named, ', '.join(filter(None, heading))]).rstrip()
    figure = canvas.new_figure(sum(heights) + 0.21 * heading.count('\n') + 0.85, heading)
    grid = figure.add_gridspec(len(rows), 2, width_ratios=(2.5, 6.5), height_ratios=heights)
    for place, row in enumerate(rows):
        rank = place + 1 - (len(rows) - len(items))
        alone = whole and rank > 0
        left = figure.add_subplot(grid[place, :] if alone else grid[place, 0])
        _words(left, rank, row, whole=alone)
        if not alone:
            _strip(figure.add_subplot(grid[place, 1]), row)
    _legend(figure, items)
    return figure


def _checked(item: SheetItem, name: str) -> SheetItem:
    for field in ('score', 'bias', 'sigma', 'duration', 'eta'):
        value = getattr(item, field)
        if (value is not None or field == 'score') and not _finite(value):
            raise ValueError(f'{name}: {field} must be a finite number, not {value!r:.80}')
    if item.right is not None and item.right not in RIGHT:
        raise ValueError(f'{name}: right must be one of {[*RIGHT]} or None, not {item.right!r:.80}')
    if item.moment is not None:
        length = 1.0 if item.duration is None else item.duration
        begin, end = item.moment
        if not (_finite(begin) and _finite(end) and 0 <= begin <= end <= length * 1.001):
            unit = 'shares of the video' if item.duration is None else 'seconds'
            raise ValueError(
                f'{name}: the moment {item.moment!r:.80} must lie in [0, {length:g}], {unit}'
            )
    return item._replace(frames=_frames(item.frames, name))


def _finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError):
        return False


def _frames(frames: Any, name: str) -> np.ndarray:
    """Return the frames; raise ValueError unless they are uint8 [F, H, W, 3] or none."""
    frames = np.asarray(frames)
    none = frames.shape[:1] == (0,)
    pictures = frames.ndim == 4 and frames.shape[-1] == 3 and frames.dtype == np.uint8
    if not none and not (pictures and frames.size):
        raise ValueError(
            f'{name}: frames must be uint8 [F, H, W, 3], not {frames.dtype} {list(frames.shape)}'
        )
    return frames


def _height(item: SheetItem, whole: bool) -> float:
    """Return a row's height in inches: the strip at its own aspect, within bounds."""
    if whole:
        return 0.5
    if not len(item.frames):
        return 0.87
    count, height, width = item.frames.shape[:3]
    return float(np.clip(5.9 * height / (width * count), 0.75, 1.5)) + 0.12


def _words(axis: 'canvas.Axes', rank: int, item: SheetItem, *, whole: bool) -> None:
    """Write rank, mark, title and numbers of a hit; the query itself has rank 0."""
    axis.axis('off')
    axis.set(xlim=(0, 1), ylim=(0, 1))
    indent = 0.035 if whole else 0.1
    if rank == 0:
        axis.text(indent, 0.5, 'the query', va='center', fontsize=10)
        return
    lines = [canvas.wrapped(f'{rank}. {item.title}', 118 if whole else 30, 1 if whole else 2)]
    numbers = [f'score {item.score:.3f}']
    numbers += [] if item.bias is None else [f'bias {item.bias:+.3f}']
    numbers += [] if item.sigma is None else [f'sigma {item.sigma:.3g}']
    numbers += [] if item.eta is None else [f'eta {item.eta:.2f}']
    lines.append(', '.join(numbers))
    lines += [canvas.words(item.note, 118 if whole else 40)] if item.note else []
    if item.moment is not None:
        begin, end = item.moment
        seconds = item.duration is not None
        lines.append(f'{begin:.1f} to {end:.1f} s' if seconds else f'{begin:.0%} to {end:.0%}')
    if item.right is not None:
        mark, colour, _ = RIGHT[item.right]
        axis.text(0, 0.5, mark, color=colour, fontsize=17, va='center', fontweight='bold')
    axis.text(indent, 0.5, '\n'.join(lines), va='center', fontsize=9, linespacing=1.35)


def _strip(axis: 'canvas.Axes', item: SheetItem) -> None:
    """Draw frames side by side, and below them a bar for the matched moment."""
    axis.axis('off')
    if not len(item.frames):
        axis.axvspan(0, 1, 0.12 / 1.12, 1, facecolor='0.9', edgecolor='0.6')
        axis.text(0.5, 0.45, canvas.words(item.lacking, 80), ha='center', va='center', fontsize=10)
    frames_in_a_row(axis, item.frames, 1 / max(len(item.frames), 1))
    if item.moment is not None:
        length = 1.0 if item.duration is None else item.duration
        bar = dict(linewidth=4, solid_capstyle='butt')
        axis.plot((0, 1), (-0.06, -0.06), color='0.8', **bar)
        axis.plot([x / length for x in item.moment], (-0.06, -0.06), color=canvas.ORANGE, **bar)
    axis.set(xlim=(0, 1), ylim=(-0.12, 1))


def frames_in_a_row(axis: 'canvas.Axes', frames: Sequence[np.ndarray], width: float = 1.0) -> None:
    """Draw F images side by side, each ``width`` wide, on an axis from 0 to 1 in height."""
    for place, frame in enumerate(frames):
        extent = ((place + 0.02) * width, (place + 0.98) * width, 0, 1)
        axis.imshow(frame, extent=extent, aspect='auto')


def _legend(figure: 'canvas.Figure', items: Sequence[SheetItem]) -> None:
    """Draw a legend for the marks and bars that occur."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, marker=f'${mark}$', markersize=9, linestyle='', label=label)
        for name, (mark, colour, label) in RIGHT.items()
        if any(item.right == name for item in items)
    ]
    if any(item.moment is not None for item in items):
        handles.append(Line2D([], [], color=canvas.ORANGE, linewidth=4, label='where it matches'))
    if handles:
        canvas.legend(figure, 3, handles=handles)
