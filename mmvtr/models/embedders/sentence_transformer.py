"""Encoder that wraps a sentence-transformers or transformers embedder of texts and videos."""

from __future__ import annotations

from typing import Any, Optional

import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.errors import UserError, refusing_code
from mmvtr.models.embedders.raw_items import RawItemsEncoder
from mmvtr.models.layers.pooling import empty_levels
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels

#: By model type: methods to call for models that sentence-transformers treats as text-only.
DUAL = {
    'xclip': {
        'text': dict(method='get_text_features', method_output_name='pooler_output'),
        'video': dict(method='get_video_features', method_output_name='pooler_output'),
    }
}


@MODELS.register_module()
class SentenceTransformerEncoder(RawItemsEncoder):
    """A SentenceTransformer as encoder: the output of ``encode``, normalised, with gradients.

    For the format of items see :class:`~mmvtr.models.embedders.raw_items.RawItemsEncoder`: the
    embedder tokenises, scales and normalises.

    Args:
        model: name on the hub, local folder, or a built SentenceTransformer.
        text_prompt, video_prompt: prefix of texts, and prompt of videos if the model takes one;
            None: the model's own default prompt.
        processing_kwargs: arguments of the model's processor, by modality: ``dict(video=...)``.
        trust_remote_code: run code that comes with the model; a third-party config cannot set
            this.

    Attributes:
        dim: D.

    Raises:
        ImportError: sentence-transformers is not installed.
        RuntimeError: the model is neither stored locally nor can it be downloaded.
        ValueError: a model without texts or without videos, or with its own code that is not
            trusted.
    """

    #: What a config of others may not set.
    not_data = ('trust_remote_code',)

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
        default = self.model.prompts.get(self.model.default_prompt_name)
        self.prompts = dict(
            text=default if text_prompt is None else text_prompt,
            video=default if video_prompt is None else video_prompt,
        )
        processing = {kind: dict(kwargs) for kind, kwargs in (processing_kwargs or {}).items()}
        self.processing = dict(processing_kwargs=processing) if processing else {}
        self.dim = self.model.get_embedding_dimension()

    def _embed(self, items: list[Any], kind: str) -> Levels:
        features = self.model.preprocess(items, prompt=self.prompts[kind], **self.processing)
        device = self.model.device
        features = {k: x.to(device) if isinstance(x, Tensor) else x for k, x in features.items()}
        vectors = self.model(features)['sentence_embedding']
        return {'global': Embedding(F.normalize(vectors, p=2, dim=1))}

    def _nothing(self, mask: Tensor) -> Levels:
        return empty_levels(self, mask.shape[1])


def load_embedder(name: str, trust_remote_code: bool = False) -> nn.Module:
    """Load a SentenceTransformer by its name or folder, on the CPU.

    Raises:
        ImportError, RuntimeError, ValueError: see :class:`SentenceTransformerEncoder`.
    """
    try:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.base.modules import Transformer
    except ImportError as error:
        raise ImportError(
            'sentence-transformers is not installed: '
            "pip install -e '.[sentence-transformers]' in a checkout of mmvtr"
        ) from error
    try:
        with refusing_code(name):
            model = SentenceTransformer(name, device='cpu', trust_remote_code=trust_remote_code)
    except OSError as error:
        raise UserError(
            f'{_name(name)} is neither a folder of a model, nor in the Hugging Face cache, nor can '
            f'it be downloaded: {str(error)[:200]}'
        ) from error
    kind = getattr(model.config, 'model_type', None)
    if not model.supports('video') and kind in DUAL:
        no_code = dict.fromkeys(
            ('model_kwargs', 'processor_kwargs', 'config_kwargs'), dict(trust_remote_code=False)
        )
        module = Transformer(
            name,
            modality_config=DUAL[kind],
            module_output_name='sentence_embedding',
            **no_code,
        )
        model = SentenceTransformer(modules=[module], device='cpu', trust_remote_code=False)
    return model


def _name(model: str | nn.Module) -> str:
    return repr(model[:80]) if isinstance(model, str) else type(model).__name__
