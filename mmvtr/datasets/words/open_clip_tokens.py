"""A text transform for every model of open_clip: its own tokenizer, and its padding if it reads it.

See :mod:`mmvtr.datasets.words.tokenizers` for the others.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np
from mmcv.transforms import BaseTransform

from mmvtr.datasets.words.tokenizers import clip_pieces
from mmvtr.registry import TRANSFORMS

Results = dict[str, Any]


@TRANSFORMS.register_module()
class OpenCLIPTokenize(BaseTransform):
    """The tokenizer of a model of open_clip, with its cleaning of texts and its length.

    Where the text tower reads the padding of a text (SigLIP, CLIPA, MobileCLIP, CoCa), the ids are
    padded to the model's context length, and ``text_extra['words']`` says how many are no padding;
    elsewhere padding belongs to the batch.

    Args:
        model: name, ``local-dir:FOLDER`` or config dict, as of the text tower.
        context_length: at most so many ids, special ones included; default the model's own.

    Raises:
        ValueError: an unknown model, or another context length than that of a model that reads
            its padding.
        OSError: the tokenizer is on the hub and cannot be downloaded.
    """

    def __init__(self, model: str | dict, context_length: Optional[int] = None) -> None:
        # Imports in seconds: only where it is used.
        from mmvtr import open_clip_configs

        own = open_clip_configs.context_length(model)
        self.padded = open_clip_configs.attends_to_padding(model)
        if self.padded and context_length not in (None, own):
            raise ValueError(
                f'OpenCLIPTokenize: {str(model)[:80]!r} reads texts with their padding, {own} '
                f'tokens, so context_length={context_length} is none of its texts'
            )
        self.limit = context_length or own
        try:
            self.tokenizer = open_clip_configs.tokenizer(model)
        except OSError as error:
            raise OSError(
                f'the tokenizer of {str(model)[:80]!r} is neither in the Hugging Face cache nor '
                f'can it be downloaded: {str(error)[:80]} ... Either\n'
                '  - fill the cache on a machine with network, and copy it here: python -c "import '
                f'open_clip; open_clip.get_tokenizer({str(model)[:40]!r})"\n'
                "  - or name a folder with the model's files: model='local-dir:FOLDER'\n"
                '  - or choose a model with a tokenizer of its own: ViT-B-32-quickgelu'
            ) from error

    def surplus(self, record: Results) -> int:
        """Return how many tokens of ``text`` are dropped."""
        text = record['text']
        room = self.limit + 4 * len(text.encode('utf-8', 'replace'))  # more than it can have
        row = self.tokenizer([text], context_length=room)[0].numpy()
        return max(0, self._words(row) - self.limit)

    def transform(self, results: Results) -> Results:
        """Set ``token_ids``, int64 [L], from ``text``, and ``text_extra`` if they are padded."""
        row = self.tokenizer([results['text']], context_length=self.limit)[0].numpy()
        words = self._words(row)
        results['token_ids'] = row if self.padded else row[:words]
        if self.padded:
            results['text_extra'] = {**results.get('text_extra', {}), 'words': words}
        return results

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return L words or word pieces of L ids, as the tokenizer writes them."""
        inner = getattr(self.tokenizer, 'tokenizer', None)
        if inner is None:
            return clip_pieces(self.tokenizer, ids)
        return inner.convert_ids_to_tokens([int(i) for i in ids])

    def _words(self, row: np.ndarray) -> int:
        """How many ids of a row stand before its padding; its end counts, also where it is it."""
        inner = getattr(self.tokenizer, 'tokenizer', None)
        padding = 0 if inner is None else inner.pad_token_id
        words = len(row) - int((row[::-1] != padding).argmax())
        ends = inner is not None and inner.eos_token_id == padding
        return min(words + 1, len(row)) if ends and row[-1] == padding else words
