"""A retriever as two ONNX graphs whose outputs are compared by inner products.

One computes the vector of a video from its frames, the other that of a text from its token ids;
both equal :func:`mmvtr.apis.vectors`.  Decoding and tokenizing stay outside the graphs, as
``retriever.json`` describes.
"""

from __future__ import annotations

import json
import logging
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

import torch
from mmengine.config import Config
from torch import Tensor, nn

from mmvtr.apis import fingerprint, refuse_without_vectors
from mmvtr.errors import UserError
from mmvtr.models import FeatureFrames, FeatureWords
from mmvtr_gallery.clips import TorchvisionClips

OPSET = 18
#: Largest allowed difference to PyTorch per entry of a vector, whose norm is at most 1.
TOLERANCE = 1e-4
#: Weights larger than this many bytes are stored beside the graph: protobuf's limit is 2 GiB.
INLINE = 3 << 29
#: Batch size that is traced, and batch sizes that are compared with PyTorch.
TRACED, COMPARED = 2, (1, 5)


class Side(NamedTuple):
    """The input of one of the two graphs.

    Attributes:
        kind: 'video' or 'text'.
        shape: shape of an item, without its mask: (F, 3, H, W), (F, D) or (L,).
        vocabulary: number of token ids; None for frames and features.
    """

    kind: str
    shape: tuple[int, ...]
    vocabulary: Optional[int] = None

    @property
    def inputs(self) -> dict[str, list[Any]]:
        """Return names and shapes of the inputs."""
        mask = 'frame_mask' if self.kind == 'video' else 'text_mask'
        return {self.kind: ['batch', *self.shape], mask: ['batch', self.shape[0]]}

    def drawn(self, count: int) -> tuple[Tensor, Tensor]:
        """Return random items of random lengths, the last one of full length, and their masks."""
        generator = torch.Generator().manual_seed(count)
        shape = (count, *self.shape)
        if self.vocabulary is None:
            items = torch.randn(shape, generator=generator)
        else:
            items = torch.randint(self.vocabulary, shape, generator=generator)
        # One word is not enough: CLIP2Video drops the first token of a text.
        lengths = torch.randint(min(2, shape[1]), shape[1] + 1, (count,), generator=generator)
        lengths[-1] = shape[1]
        return items, torch.arange(shape[1]) < lengths[:, None]


class Vectors(nn.Module):
    """The encoder of one side of a retriever as a function of tensors."""

    def __init__(self, model: nn.Module, kind: str) -> None:
        super().__init__()
        self.model = model
        self.kind = kind

    def forward(self, items: Tensor, mask: Tensor) -> Tensor:
        """Encode items [N, ...] with their mask, bool [N, L] -> float32 [N, D']."""
        name = 'frame_mask' if self.kind == 'video' else 'text_mask'
        encode = self.model.encode_video if self.kind == 'video' else self.model.encode_text
        return self.model.similarity.flat(encode({self.kind: items, name: mask})).float()


def export_onnx(
    model: nn.Module, cfg: Config, folder: Path, *, checkpoint: Optional[str] = None
) -> dict[str, Any]:
    """Write ``videos.onnx``, ``texts.onnx`` and ``retriever.json``; check them against PyTorch.

    Args:
        model: a retriever in eval mode, on the CPU.
        cfg: its config; its test set defines the numbers of frames and words.
        folder: output folder, created if missing.
        checkpoint: name of the weights in the json.

    Returns:
        The content of the json.

    Raises:
        ImportError: onnx, onnxruntime or onnxscript is missing.
        ValueError: scores that are not inner products; frames of unknown size or number; texts of
            unknown length; windows of frames.
        RuntimeError: a graph cannot be exported, or its outputs differ from PyTorch's.
    """
    need_packages()
    refuse_without_vectors(model)
    data = cfg.test_dataloader.dataset
    sides = dict(video=video_side(model, data), text=text_side(model, data))
    folder.mkdir(parents=True, exist_ok=True)
    said: dict[str, Any] = dict(
        config=cfg.filename and Path(cfg.filename).name,
        checkpoint=checkpoint and Path(checkpoint).name,
        fingerprint=fingerprint(model),
        torch=torch.__version__,
        opset=OPSET,
        scores='inner products of the vectors of a text and a video',
    )
    for kind, side in sides.items():
        name = f'{kind}s.onnx'
        with _reason(kind):
            _write(Vectors(model, kind), side, folder / name)
        width, difference = compare(Vectors(model, kind), side, folder / name)
        said[kind] = dict(
            file=name,
            inputs=side.inputs,
            output=dict(vectors=['batch', width]),
            difference_to_pytorch=difference,
            **described(model, side, data[f'{kind}_pipeline']),
        )
    (folder / 'retriever.json').write_text(json.dumps(said, indent=2) + '\n')
    return said


def need_packages() -> None:
    """Raise ImportError, which names the extra, if one of the three packages is missing."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'{error}: to export needs onnx, onnxruntime and onnxscript, '
            "pip install -e 'projects/gallery[onnx]'"
        ) from error


def video_side(model: nn.Module, data: Any) -> Side:
    """Return the inputs of the video graph.

    Raises:
        ValueError: the shape is not in the config, the inputs are windows of frames, or experts.
    """
    if hasattr(model.encoder, 'experts'):
        raise ValueError(
            f'{type(model.encoder).__name__} reads rows of several experts with their times '
            '(LoadExperts), which are not exported'
        )
    tower = getattr(model.encoder, 'frames', None)
    if isinstance(tower, TorchvisionClips):
        raise ValueError(
            'windows of frames (TorchvisionClips) are not exported: their number is that of the '
            'video; extract features, and export a model that reads these'
        )
    count = _stated(data.video_pipeline, ('num_frames',), 'frames', 'video_pipeline')
    if isinstance(tower, FeatureFrames):
        return Side('video', (count, tower.in_dim))
    size = getattr(tower, 'image_size', None)
    if size is None:
        crop = _stated(data.video_pipeline, ('size',), 'pixels', 'video_pipeline')
        size = (crop, crop)
    return Side('video', (count, 3, *size))


def text_side(model: nn.Module, data: Any) -> Side:
    """Return the inputs of the text graph.

    Raises:
        ValueError: the shape is not in the config.
    """
    tower = getattr(model.encoder, 'text', None)
    if isinstance(tower, FeatureWords):
        count = _stated(data.text_pipeline, ('max_words',), 'words', 'text_pipeline')
        return Side('text', (count, tower.dim))
    tables = [part for part in tower.modules() if isinstance(part, nn.Embedding)]
    if not tables:
        raise ValueError(f'{type(tower).__name__} has no table of tokens: it is not exported')
    length = getattr(tower, 'context_length', None)  # known for a tower that also reads its padding
    if length is None:
        names = ('context_length', 'max_length')
        try:
            length = _stated(data.text_pipeline, names, 'tokens', 'text_pipeline')
        except ValueError:
            length = len(getattr(tower, 'positional_embedding', ()))
            if not length:
                raise
    return Side('text', (length,), tables[0].num_embeddings)


def described(model: nn.Module, side: Side, pipeline: Any) -> dict[str, Any]:
    """Return how the inputs of a side are made."""
    steps = [dict(step) if isinstance(step, dict) else str(step) for step in pipeline]
    if side.vocabulary is not None:
        tokenizer = next((s for s in steps if 'okenize' in str(s)), steps[-1])
        return dict(tokenizer=tokenizer, context_length=side.shape[0], pipeline=steps)
    if len(side.shape) == 2:
        return dict(features=side.shape[1], at_most=side.shape[0], pipeline=steps)
    known = model.data_preprocessor
    mean, std = (x.flatten().tolist() for x in (known.mean, known.std))
    note = 'RGB from 0 to 255, minus mean, by std; fewer frames: zeros, with False in the mask'
    return dict(
        frames=side.shape[0], size=list(side.shape[2:]), mean=mean, std=std, note=note,
        pipeline=steps,
    )  # fmt: skip


@torch.no_grad()
def compare(module: nn.Module, side: Side, path: Path) -> tuple[int, float]:
    """Return the width of the vectors, and the largest difference of onnxruntime's to PyTorch's.

    Raises:
        RuntimeError: it is larger than :data:`TOLERANCE`.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=['CPUExecutionProvider'])
    names, worst, width = [one.name for one in session.get_inputs()], 0.0, 0
    for count in COMPARED:
        inputs = side.drawn(count)
        expected = module(*inputs)
        (found,) = session.run(None, {name: x.numpy() for name, x in zip(names, inputs)})
        width = expected.shape[1]
        worst = max(worst, float((torch.from_numpy(found) - expected).abs().max()))
    if not worst <= TOLERANCE:
        raise UserError(
            f'{path}: vectors of onnxruntime are {worst:.2g} from those of PyTorch, more than '
            f'{TOLERANCE:g}: this graph must not be used'
        )
    return width, worst


@torch.no_grad()
def _write(module: nn.Module, side: Side, path: Path) -> None:
    batch = torch.export.Dim('batch')
    size = sum(x.numel() * x.element_size() for x in module.state_dict().values())
    with _quiet():
        # Given a module, torch.onnx would fall back to a fixed batch size.
        program = torch.export.export(
            module.eval(), side.drawn(TRACED), dynamic_shapes=({0: batch},) * 2, strict=False
        )
        torch.onnx.export(
            program,
            (),
            str(path),
            input_names=list(side.inputs),
            output_names=['vectors'],
            opset_version=OPSET,
            dynamo=True,
            external_data=size > INLINE,
            verbose=False,
        )


def _stated(pipeline: Any, keys: tuple[str, ...], what: str, name: str) -> int:
    """Return the last number in a pipeline under one of the keys."""
    steps = [step for step in pipeline if isinstance(step, dict)]
    found = [step[key] for step in steps for key in keys if key in step]
    if not found or not isinstance(found[-1], int):
        raise ValueError(
            f'the number of {what} is not known: in the config no step of {name} of the test set '
            f'has {" or ".join(keys)}: state it there, as the graph has a fixed number'
        )
    return found[-1]


@contextmanager
def _reason(kind: str) -> Iterator[None]:
    """Raise a short RuntimeError for whatever torch cannot export."""
    try:
        yield
    except Exception as error:  # the exporter raises anything for unknown operators
        reason = f'{type(error).__name__}: {" ".join(str(error).split())[:300]}'
        raise UserError(f'torch cannot export the graph of {kind}s: {reason}') from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's and onnxscript's internal messages."""
    loggers = [logging.getLogger(name) for name in ('torch.onnx', 'onnxscript', 'onnx_ir')]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels):
                logger.setLevel(level)
