"""Models whose weights come from a file at once: none are drawn before."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

#: What draws the weights of a new layer.
_DRAWS = {
    Tensor.normal_,
    Tensor.uniform_,
    nn.init.kaiming_normal_,
    nn.init.kaiming_uniform_,
    nn.init.normal_,
    nn.init.uniform_,
}


class Unfilled(TorchFunctionMode):
    """Skip random initialisation of parameters in this context; they keep uninitialised memory.

    To be followed by a load of all parameters, as :func:`mmvtr.storage.weights.check_weights` sees
    to.  Buffers and constants (zeros, ones, those that are computed) are filled as ever.

    Example:
        ::

            >>> with Unfilled():
            ...     layer = nn.Linear(512, 512)
            >>> layer.load_state_dict(weights)
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _DRAWS:
            target = args[0] if args else kwargs.get('tensor')
            if isinstance(target, nn.Parameter):
                return target
        return func(*args, **kwargs)
