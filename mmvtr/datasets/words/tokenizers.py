"""Text transforms: ``text`` to ``token_ids``, int64 [L] without padding.

The model's preprocessor adds padding, with its mask, per batch.  ``pieces`` turns ids back into
readable text: words or parts of words, and ``[SOT]``, ``[EOT]``, ``[CLS]`` ...  ``limit`` and
``surplus`` state which texts are truncated (:mod:`mmvtr.datasets.words.cut_texts`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Iterable, Optional, Sequence

import numpy as np
from mmcv.transforms import BaseTransform

from mmvtr.errors import UnknownKey, refusing_code
from mmvtr.registry import TRANSFORMS

Results = dict[str, Any]
#: Span of a token that is not in the text.
NOWHERE = (0, 0)


@TRANSFORMS.register_module()
class CLIPTokenize(BaseTransform):
    """CLIP's lower-cased byte pairs: SOT, at most ``context_length - 2`` tokens, EOT.

    Same ids as CLIP4Clip and open_clip; SOT is 49406 and EOT 49407, the largest id.
    """

    def __init__(self, context_length: int = 32) -> None:
        self.limit = context_length
        self.tokenizer = _clip_tokenizer()

    def surplus(self, record: Results) -> int:
        """Return how many tokens of ``text`` are dropped."""
        return max(0, len(self.tokenizer.encode(record['text'])) + 2 - self.limit)

    def transform(self, results: Results) -> Results:
        """Set ``token_ids`` from ``text``."""
        words = self.tokenizer.encode(results['text'])
        results['token_ids'] = _enclose(
            self.tokenizer.sot_token_id, words, self.tokenizer.eot_token_id, self.limit
        )
        return results

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return L words or word parts for L ids; a part before another one ends in a hyphen."""
        return clip_pieces(self.tokenizer, ids)


@TRANSFORMS.register_module()
class TextBytes(BaseTransform):
    """Pass a text on as UTF-8 bytes, for an encoder with its own tokenizer."""

    def transform(self, results: Results) -> Results:
        """Set ``token_ids``, 0-255, from ``text``."""
        results['token_ids'] = np.frombuffer(results['text'].encode(), dtype=np.uint8).astype(int)
        return results


class UnknownWords(UnknownKey):
    """Raised for a text with words that a closed vocabulary lacks.

    Attributes:
        words: these words.
        vocabulary: the words that are known.
    """

    def __init__(self, message: str, words: Sequence[str], vocabulary: Iterable[str]) -> None:
        super().__init__(message)
        self.words, self.vocabulary = words, vocabulary


@TRANSFORMS.register_module()
class WordTokenize(BaseTransform):
    """Tokenise by a closed vocabulary: lower-cased words, split at spaces, one id each.

    Ids: n words are 0..n-1 in the order of the file, SOT is n, EOT is n + 1. EOT is the largest,
    so CLIP's argmax pooling finds it; a text tower needs n + 2 embeddings.

    Args:
        vocab_file: one word per line, UTF-8.
        context_length: maximum number of ids, including SOT and EOT.
        spans: also return the position of each token in the text.
    """

    def __init__(self, vocab_file: str, context_length: int = 32, *, spans: bool = False) -> None:
        self.vocab_file = vocab_file
        words = Path(vocab_file).read_text(encoding='utf-8').split()
        self.ids = {word: i for i, word in enumerate(words)}
        if len(self.ids) < len(words):
            twice = next(word for i, word in enumerate(words) if self.ids[word] != i)
            raise ValueError(f'{vocab_file}: the word {twice!r} occurs more than once')
        self.limit = context_length
        self.spans = spans

    def check(self, texts: list[Results]) -> None:
        """Raise KeyError for the first text with a word that the vocabulary lacks."""
        for text in texts:
            self._ids_of(text)

    def surplus(self, record: Results) -> int:
        """Return how many words of ``text`` are dropped."""
        return max(0, len(record['text'].split()) + 2 - self.limit)

    def transform(self, results: Results) -> Results:
        """Set ``token_ids`` from ``text``, with ``spans`` also ``token_spans``, see HFTokenize."""
        n = len(self.ids)
        results['token_ids'] = _enclose(n, self._ids_of(results), n + 1, self.limit)
        if self.spans:
            places = [match.span() for match in re.finditer(r'\S+', results['text'])]
            results['token_spans'] = [NOWHERE, *places[: self.limit - 2], NOWHERE]
        return results

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the L words of L ids."""
        words = [*self.ids, '[SOT]', '[EOT]']
        return [words[i] for i in ids]

    def _ids_of(self, text: Results) -> list[int]:
        words = text['text'].lower().split()
        unknown = [word for word in words if word not in self.ids]
        if unknown:
            raise UnknownWords(
                f'text {text["text_id"]!r}: words {unknown} are not in {self.vocab_file}',
                unknown,
                self.ids,
            )
        return [self.ids[word] for word in words]


@TRANSFORMS.register_module()
class HFTokenize(BaseTransform):
    """Tokenise with a transformers tokenizer and its special tokens (BERT: CLS, SEP).

    Args:
        model: name on the hub, or a local folder.
        max_length: maximum number of ids, including special tokens.
        padded: pad each text to ``max_length``, for a tower that reads its padding (SigLIP);
            ``text_extra['words']`` is the number of ids without padding.
        spans: also return the position of each token in the text.

    Raises:
        OSError: the model is neither a local folder nor can it be downloaded.
        ValueError: ``spans`` with a tokenizer that cannot provide them; a tokenizer that needs
            remote code.
    """

    def __init__(
        self, model: str, max_length: int = 32, *, padded: bool = False, spans: bool = False
    ) -> None:
        from transformers import AutoTokenizer  # importing takes seconds, so only on use

        try:
            with refusing_code(model):
                self.tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        except OSError as error:
            raise OSError(
                f'HFTokenize: {model!r} is neither a local tokenizer folder nor a name that can '
                'be downloaded'
            ) from error
        if spans and not self.tokenizer.is_fast:
            raise ValueError(
                f'HFTokenize: spans=True needs a fast tokenizer, but that of {model!r} '
                f'({type(self.tokenizer).__name__}) does not say where its tokens are in the text'
            )
        self.limit = max_length
        self.padded = padded
        self.spans = spans

    def surplus(self, record: Results) -> int:
        """Return how many tokens of ``text`` are dropped."""
        whole = self.tokenizer(record['text'], truncation=False, verbose=False)['input_ids']
        return max(0, len(whole) - self.limit)

    def transform(self, results: Results) -> Results:
        """Set ``token_ids`` from ``text``, and ``text_extra`` if they are padded.

        With ``spans`` also ``token_spans``: (start, end) in the text of each of the L tokens, (0,
        0) for a token that is not in the text.
        """
        encoded = self.tokenizer(
            results['text'],
            truncation=True,
            max_length=self.limit,
            padding='max_length' if self.padded else False,
            return_attention_mask=True,
            return_offsets_mapping=self.spans,
        )
        results['token_ids'] = np.array(encoded['input_ids'], dtype=np.int64)
        if self.padded:
            words = sum(encoded['attention_mask'])
            results['text_extra'] = {**results.get('text_extra', {}), 'words': words}
        if self.spans:
            results['token_spans'] = encoded['offset_mapping']
        return results

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return L tokens for L ids, as the tokenizer writes them."""
        return self.tokenizer.convert_ids_to_tokens([int(i) for i in ids])


@cache
def _clip_tokenizer() -> Any:
    """Return open_clip's SimpleTokenizer, cached per process."""
    from open_clip import SimpleTokenizer  # importing takes seconds, so only on use

    return SimpleTokenizer()


def _enclose(sot: int, words: list[int], eot: int, context_length: int) -> np.ndarray:
    return np.array([sot, *words[: context_length - 2], eot], dtype=np.int64)


def clip_pieces(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Return L pieces for L ids of open_clip's SimpleTokenizer; see :meth:`CLIPTokenize.pieces`."""
    special = {tokenizer.sot_token_id: '[SOT]', tokenizer.eot_token_id: '[EOT]'}
    return [special[i] if i in special else _piece(tokenizer, i) for i in map(int, ids)]


def _piece(tokenizer: Any, number: int) -> str:
    symbol = tokenizer.decoder[number]
    letters = symbol.removesuffix('</w>')
    word = bytes(tokenizer.byte_decoder[c] for c in letters).decode(errors='replace')
    return word + ('' if symbol.endswith('</w>') else '-')


@TRANSFORMS.register_module()
class OpenCLIPTokenize(BaseTransform):
    """The tokenizer of an open_clip model, with its text cleaning and context length.

    If the text tower reads the padding of a text (SigLIP, CLIPA, MobileCLIP, CoCa), the ids are
    padded to the model's context length, and ``text_extra['words']`` is their number without
    padding; otherwise the batch is padded later.

    Args:
        model: name, ``local-dir:FOLDER`` or config dict, as for the text tower.
        context_length: maximum number of ids, including special ones; default the model's own.

    Raises:
        ValueError: an unknown model, or another context length than that of a model that reads
            its padding.
        OSError: the tokenizer is on the hub and cannot be downloaded.
    """

    def __init__(self, model: str | dict, context_length: Optional[int] = None) -> None:
        # Importing takes seconds, so only on use.
        from mmvtr import open_clip_configs

        native = open_clip_configs.context_length(model)
        self.padded = open_clip_configs.attends_to_padding(model)
        if self.padded and context_length not in (None, native):
            raise ValueError(
                f'OpenCLIPTokenize: {str(model)[:80]!r} reads texts with their padding, {native} '
                f'tokens: leave context_length={context_length} out'
            )
        self.limit = context_length or native
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
        room = self.limit + 4 * len(text.encode('utf-8', 'replace'))  # an upper bound of its tokens
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
        """Return L words or word pieces for L ids, as the tokenizer writes them."""
        inner = getattr(self.tokenizer, 'tokenizer', None)
        if inner is None:
            return clip_pieces(self.tokenizer, ids)
        return inner.convert_ids_to_tokens([int(i) for i in ids])

    def _words(self, row: np.ndarray) -> int:
        """Return how many ids of a row precede its padding; the first end token counts, even if it
        is also the padding id."""
        inner = getattr(self.tokenizer, 'tokenizer', None)
        padding = 0 if inner is None else inner.pad_token_id
        words = len(row) - int((row[::-1] != padding).argmax())
        ends = inner is not None and inner.eos_token_id == padding
        return min(words + 1, len(row)) if ends and row[-1] == padding else words


_WORD = re.compile(r'\w+')


@TRANSFORMS.register_module()
class WordCounts(BaseTransform):
    """TF-IDF vector of a text's words, scaled to unit length.

    A substitute for a frozen sentence encoder when the vocabulary is small (CMGSDSupervision);
    words and weights are those of the dataset whose pipeline contains it.

    Args:
        name: name of the vectors, as in LoadVectors.
    """

    def __init__(self, *, name: str = 'words') -> None:
        self.name = name
        self.weights: dict[str, tuple[int, float]] = {}

    def check(self, texts: list[Results]) -> None:
        """Count all captions; words that occur in every caption get weight 0."""
        counts = Counter(word for text in texts for word in {*_words(text['text'])})
        self.weights = {
            word: (place, math.log(len(texts) / count))
            for place, (word, count) in enumerate(sorted(counts.items()))
        }

    def transform(self, results: Results) -> Results:
        """Add ``text_vectors`` of ``text``, float32 [1, W] by name; 0 if no word has a weight."""
        row = np.zeros((1, len(self.weights)), np.float32)
        for word in _words(results['text']):
            place, weight = self.weights.get(word, (0, 0.0))
            row[0, place] += weight
        length = np.linalg.norm(row)
        vectors = results.get('text_vectors', {})
        results['text_vectors'] = {**vectors, self.name: row / length if length else row}
        return results


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
