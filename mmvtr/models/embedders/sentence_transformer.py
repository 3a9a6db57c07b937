"""Any embedder of sentence-transformers or transformers that reads texts and videos."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.models.layers.pooling import empty_levels
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels

#: By model type: how sentence-transformers asks a model that it takes for one of texts alone.
DUAL = {
    'xclip': {
        'text': dict(method='get_text_features', method_output_name='pooler_output'),
        'video': dict(method='get_video_features', method_output_name='pooler_output'),
    }
}


@MODELS.register_module()
class SentenceTransformerEncoder(nn.Module):
    """A SentenceTransformer as encoder: what its ``encode`` gives, of unit length, with gradients.

    Texts come as UTF-8 bytes (``TextBytes``) and frames as they were decoded
    (``VideoTextDataPreprocessor(normalise=False)``): the embedder tokenises, scales and normalises.
    Frames are sampled by the video pipeline.

    Args:
        model: name on the hub, local folder, or a built SentenceTransformer.
        text_prompt, video_prompt: put before texts, and said of videos where the model takes that;
            None: the model's own default prompt.
        processing_kwargs: for the model's processor, by modality: ``dict(video=...)``.
        trust_remote_code: run code that comes with the model.

    Attributes:
        dim: D.

    Raises:
        ImportError: sentence-transformers is not installed.
        RuntimeError: the model is neither there nor can it be downloaded.
        ValueError: a model without texts or without videos.
    """

    level_names = ('global',)
    token_levels = ()

    def __init__(
        self,
        model: str | nn.Module,
        *,
        text_prompt: Optional[str] = None,
        video_prompt: Optional[str] = None,
        processing_kwargs: Optional[dict[str, dict[str, Any]]] = None,
        trust_remote_code: bool = False,
    ) -> None:
        super().__init__()
        self.model = load_embedder(model, trust_remote_code) if isinstance(model, str) else model
        lacking = [kind for kind in ('text', 'video') if not self.model.supports(kind)]
        if lacking:
            raise ValueError(
                f'{_name(model)} embeds {", ".join(map(str, self.model.modalities))}, and no '
                f'{" and no ".join(lacking)}'
            )
        own = self.model.prompts.get(self.model.default_prompt_name)
        self.prompts = dict(
            text=own if text_prompt is None else text_prompt,
            video=own if video_prompt is None else video_prompt,
        )
        self.processing = (
            {}
            if processing_kwargs is None
            else dict(
                processing_kwargs={kind: dict(told) for kind, told in processing_kwargs.items()}
            )
        )
        self.dim = self.model.get_embedding_dimension()

    def encode_video(self, video: Sequence[Tensor], frame_mask: Tensor) -> Levels:
        """Encode V videos.

        Args:
            video: V tensors uint8 [F, 3, H, W], each of a size of its own.
            frame_mask: bool [V, F].

        Returns:
            level ``'global'``: mean float [V, D] of unit length.

        Raises:
            ValueError: frames that were normalised.
        """
        if not len(video):
            return empty_levels(self, frame_mask.shape[1])
        if any(x.is_floating_point() for x in video):
            raise ValueError(
                'SentenceTransformerEncoder reads frames as they were decoded: set '
                'data_preprocessor=dict(normalise=False)'
            )
        frames = [x[: int(mask.sum())].cpu().numpy() for x, mask in zip(video, frame_mask)]
        return self._embed(frames, 'video')

    def encode_text(self, text: Tensor, text_mask: Tensor) -> Levels:
        """Encode T texts.

        Args:
            text: int64 [T, L], UTF-8 bytes.
            text_mask: bool [T, L].

        Returns:
            as ``encode_video``.
        """
        if not text.shape[0]:
            return empty_levels(self, text.shape[1])
        rows = [row[mask].tolist() for row, mask in zip(text, text_mask)]
        return self._embed([bytes(row).decode() for row in rows], 'text')

    def protocol(self) -> dict[str, str]:
        """What a result must state of it."""
        said = {kind: prompt for kind, prompt in self.prompts.items() if prompt}
        return dict(prompt=', '.join(f'{k} {p!r}' for k, p in said.items()) or 'none')

    def _embed(self, items: list[Any], kind: str) -> Levels:
        features = self.model.preprocess(items, prompt=self.prompts[kind], **self.processing)
        device = self.model.device
        features = {k: x.to(device) if isinstance(x, Tensor) else x for k, x in features.items()}
        vectors = self.model(features)['sentence_embedding']
        return {'global': Embedding(F.normalize(vectors, p=2, dim=1))}


def load_embedder(name: str, trust_remote_code: bool = False) -> nn.Module:
    """A SentenceTransformer by its name or folder, on the CPU.

    Raises:
        ImportError, RuntimeError: see :class:`SentenceTransformerEncoder`.
    """
    try:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.base.modules import Transformer
    except ImportError as error:
        raise ImportError(
            "sentence-transformers is not installed: pip install 'mmvtr[sentence-transformers]'"
        ) from error
    try:
        model = SentenceTransformer(name, device='cpu', trust_remote_code=trust_remote_code)
    except OSError as error:
        raise RuntimeError(
            f'{_name(name)} is neither a folder of a model, nor in the Hugging Face cache, nor can '
            f'it be downloaded: {str(error)[:200]}'
        ) from error
    kind = getattr(model.config, 'model_type', None)
    if not model.supports('video') and kind in DUAL:
        made = Transformer(
            name, modality_config=DUAL[kind], module_output_name='sentence_embedding'
        )
        model = SentenceTransformer(modules=[made], device='cpu')
    return model


def _name(model: str | nn.Module) -> str:
    return repr(model[:80]) if isinstance(model, str) else type(model).__name__
