"""Vectors of captions that a guide reads beside the model: an encoder's, or those of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Optional

import torch
from torch import Tensor

from mmvtr.models.embedders.sentence_transformer import load_embedder
from mmvtr.storage.arrays import load_h5py, name_in_hdf5

#: From the data samples of a process, and the device of its model, to vectors of its texts, float
#: [T, D]; None of no texts.
Reader = Callable[[dict[str, Any], torch.device], Optional[Tensor]]


class EncodedCaptions:
    """Captions by a frozen encoder of sentence-transformers, each encoded once.

    It is no module: its weights are not trained and not in the checkpoint.  It is loaded when the
    first captions come, and runs on the model's device; vectors are kept on the CPU.

    Args:
        name: on the hub, or a local folder.

    Raises:
        ImportError, RuntimeError: (with the first captions) as of
            :class:`~mmvtr.models.SentenceTransformerEncoder`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._encoder: Any = None
        self._known: dict[str, Tensor] = {}

    @torch.no_grad()
    def __call__(self, data_samples: dict[str, Any], device: torch.device) -> Optional[Tensor]:
        """``text_captions`` -> float32 [T, D].

        Raises:
            ValueError: the batch has texts without their captions.
        """
        captions = data_samples.get('text_captions', [])
        if len(captions) != len(data_samples['text_ids']):
            raise ValueError(
                f'a guide of captions ({self.name[:80]!r}) reads data_samples["text_captions"], '
                'which collate_retrieval gives of datasets of this package'
            )
        new = [caption for caption in dict.fromkeys(captions) if caption not in self._known]
        if new:
            if self._encoder is None:
                self._encoder = load_embedder(self.name).to(device)
            with torch.autocast(device.type, enabled=False):  # kept for the whole training
                found = self._encoder.encode(new, convert_to_tensor=True, show_progress_bar=False)
            self._known.update(zip(new, found.clone().float().cpu()))
        return torch.stack([self._known[x] for x in captions]) if captions else None


class StoredCaptions:
    """Vectors by text id of a hdf5 file, a dataset [D] or [E, D] for each id (their mean).

    Args:
        path: of the file.

    Raises:
        ImportError: h5py is not installed.
        FileNotFoundError: (with the first texts) no such file.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._known: dict[str, Tensor] = {}

    def __call__(self, data_samples: dict[str, Any], device: torch.device) -> Optional[Tensor]:
        """``text_ids`` -> float32 [T, D].

        Raises:
            ValueError: a text that the file has not.
        """
        ids = data_samples['text_ids']
        new = [name for name in ids if name not in self._known]
        if new:
            with load_h5py(self.path).File(self.path, 'r') as file:
                for name in new:
                    key = name_in_hdf5(str(name), 'text')
                    if key not in file:
                        raise ValueError(f'{self.path}: no vector of text {str(name)[:80]!r}')
                    vector = torch.from_numpy(file[key][()]).float()
                    self._known[name] = vector.reshape(-1, vector.shape[-1]).mean(0)
        return torch.stack([self._known[name] for name in ids]) if ids else None


def reader_of(guide: str) -> Reader:
    """A reader by name: a ``.h5`` or ``.arrays`` file, else an encoder with a ``/`` in its name.

    Raises:
        ValueError: it is neither.

    Example:
        ::

            >>> reader_of('data/own/minilm.h5').path.name
            'minilm.h5'
            >>> reader_of('sentence-transformers/all-MiniLM-L6-v2').name
            'sentence-transformers/all-MiniLM-L6-v2'
    """
    if Path(guide).suffix in ('.h5', '.hdf5'):
        return StoredCaptions(guide)
    if '/' in guide:
        return EncodedCaptions(guide)
    raise ValueError(f'neither a .h5 file of vectors nor an encoder (OWNER/NAME): {guide[:80]!r}')
