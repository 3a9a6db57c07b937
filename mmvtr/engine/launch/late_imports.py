"""A runner's start without libraries that are only named, or only used to draw."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, Iterator

from mmengine.visualization import Visualizer


@contextmanager
def named_only(*packages: str) -> Iterator[None]:
    """Replace packages not imported so far by modules that know only their version, for a time.

    Args:
        packages: by their name as modules and as distributions; what is not installed stays away.
    """
    stands = []
    for name in packages:
        if name not in sys.modules:
            try:
                found = version(name)
            except PackageNotFoundError:
                continue
            module = sys.modules[name] = ModuleType(name)
            module.__version__ = found
            stands.append(name)
    try:
        yield
    finally:
        for name in stands:
            del sys.modules[name]


class LateVisualizer(Visualizer):
    """mmengine's class whose matplotlib figure is made when something is drawn on it."""

    _FIGURE = ('fig_save_canvas', 'fig_save', 'ax_save', 'dpi')

    def __init__(self, name: str = 'visualizer', image: Any = None, **kwargs: Any) -> None:
        super().__init__(name, None, **kwargs)
        for part in self._FIGURE:
            del self.__dict__[part]
        if image is not None:
            self.set_image(image)

    def _initialize_fig(self, fig_cfg: Any) -> tuple[Any, ...]:
        return None, _NoFigure(), None

    def __getattr__(self, name: str) -> Any:  # of what is not there
        if name not in self._FIGURE:
            raise AttributeError(f'{type(self).__name__} has no attribute {name!r}')
        found = super()._initialize_fig(self.fig_save_cfg)
        self.fig_save_canvas, self.fig_save, self.ax_save = found
        self.dpi = self.fig_save.get_dpi()
        return self.__dict__[name]


class _NoFigure:
    def get_dpi(self) -> None:
        """It has none yet."""


# Hooks ask mmengine's class for the instance.
LateVisualizer._instance_dict = Visualizer._instance_dict
