"""Teachers, whose scores of a batch the model is to follow (TeachText; Croitoru et al., 2021).

They are trained retrievers.  Either their vectors have been stored (:class:`StoredTeachers`), or
they are loaded and see the same batch (:class:`FrozenTeachers`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Callable, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch
from mmengine.config import Config
from mmengine.hub import get_config
from torch import Tensor, nn

from mmvtr.functional.losses.distillation import mean_products
from mmvtr.functional.values import check_one_of, check_range
from mmvtr.models.blocks import BlockSupervision, Pairs
from mmvtr.models.similarities.cosine import token_levels
from mmvtr.models.supervisions.stored_vectors import PREFIX, check_widths, stored_levels
from mmvtr.models.target import Filled, Target, known_of
from mmvtr.registry import MODELS, forget_pretrained
from mmvtr.storage.arrays import read_arrays
from mmvtr.storage.weights import check_weights, read_checkpoint
from mmvtr.structures import Levels, cat_levels, drop_tokens, of_side, take, under

#: What the mean over teachers is taken of.
AVERAGES = ('scores', 'softmaxes')


class Teachers(BlockSupervision):
    """Fills the slot ``teacher`` of the target with scores or logits of the teachers.

    Subclasses provide the teachers' levels of a batch (``own_levels``) and the scores of each
    (``scores``).  Nothing here is learnt and no gradient passes.  The slot is read by a
    :class:`~mmvtr.models.losses.distillation.KLDistillationLoss`, whose teachers give logits, or
    a :class:`~mmvtr.models.losses.distillation.DistillationLoss`, which compares scores.

    Logs ``teacher_match`` and ``teacher_other``, the mean teacher score of annotated pairs and of
    all others.

    Args:
        count: number of teachers.
        temperatures: divisor of the scores of each, which makes logits of them; None: 1.
        average: ``'scores'``: the teachers' mean, [T, V], as an ensemble ranks by; ``'softmaxes'``:
            each teacher's, [K, T, V], so that a KLDistillationLoss follows the mean of their
            softmaxes (MobileCLIP).

    Raises:
        ValueError: an unknown average, or temperatures that are not positive.
    """

    #: Slot that needs a loss which reads it (models/target.py: check_read).
    fills = 'teacher'

    def __init__(
        self,
        count: int,
        *,
        temperatures: Optional[Sequence[float]] = None,
        average: str = 'scores',
    ) -> None:
        super().__init__()
        check_one_of(AVERAGES, average=average)
        self.average = average
        self.temperatures = [1.0] * count if temperatures is None else [*temperatures]
        if len(self.temperatures) != count:
            raise ValueError(f'{len(self.temperatures)} temperatures for {count} teachers')
        for k, temperature in enumerate(self.temperatures):
            check_range('(0, inf)', **{f'temperatures[{k}]': temperature})

    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> tuple[Levels, Levels]:
        """Return the levels of the joint batch."""
        return texts, videos

    def block(self, begun: tuple[Levels, Levels], rows: slice, target: Target) -> Filled:
        """Return the target of some texts with a teacher [R, V] or [K, R, V], and sums to log."""
        texts, videos = begun
        with torch.no_grad():
            each = self.logits(take(texts, rows), videos)
            mean = sum(each) / len(each)
        match = mean[target.positives]
        sums = dict(
            teacher_match=match.sum(),
            teacher_other=mean.masked_fill(target.positives, 0.0).sum(),
            matches=mean.new_tensor(float(len(match))),
            others=mean.new_tensor(float(mean.numel() - len(match))),
        )
        teacher = mean if self.average == 'scores' else torch.stack(each)
        return target.put(teacher=teacher), sums

    def finish(self, begun: tuple[Levels, Levels], sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the figures to log."""
        return dict(
            teacher_match=sums['teacher_match'] / sums['matches'].clamp_min(1),
            teacher_other=sums['teacher_other'] / sums['others'].clamp_min(1),
        )

    def logits(self, texts: Levels, videos: Levels) -> list[Tensor]:
        """Return the scores of each teacher divided by its temperature, K float [T, V]."""
        return [x / by for x, by in zip(self.scores(texts, videos), self.temperatures)]

    def scores(self, texts: Levels, videos: Levels) -> list[Tensor]:
        """Return the scores of each teacher, K float [T, V]."""
        raise NotImplementedError(f'{type(self).__name__} must define scores()')


class VectorsById(NamedTuple):
    """Vectors of items in an npz file, as ``tools/export_teacher.py --format npz`` writes them.

    Attributes:
        path: the file.
        rows: row of each id.
        values: float [N, E, D].
    """

    path: Path
    rows: dict[str, int]
    values: Tensor

    @classmethod
    def read(cls, path: Path) -> VectorsById:
        """Read ``ids``, str [N], and ``vectors``, float [N, D] or [N, E, D].

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is damaged, has other arrays or shapes, an id twice or a value that is
                not finite.
        """
        arrays = read_arrays(path, ['ids', 'vectors'])
        ids, values = arrays['ids'], arrays['vectors']
        if ids.ndim != 1 or values.ndim not in (2, 3) or len(ids) != len(values):
            raise ValueError(
                f'{path}: ids {list(ids.shape)} and vectors {list(values.shape)}, expected [N] and '
                '[N, D] or [N, E, D]'
            )
        if values.dtype.kind != 'f':
            raise ValueError(f'{path}: vectors must be float, not {values.dtype}')
        rows = {str(name): row for row, name in enumerate(ids.tolist())}
        if len(rows) < len(ids):
            twice = next(x for x, n in Counter(ids.tolist()).items() if n > 1)
            raise ValueError(f'{path}: the id {str(twice)[:80]!r} comes twice')
        wrong = ~np.isfinite(values).reshape(len(values), -1).all(1)
        if wrong.any():
            name = str(ids[wrong.argmax()])[:80]
            raise ValueError(f'{path}: the vector of {name!r} is not finite')
        return cls(path, rows, torch.from_numpy(values[:, None] if values.ndim == 2 else values))

    def of(self, ids: Sequence[str]) -> Tensor:
        """Return the vectors of some ids, float [n, E, D].

        Raises:
            ValueError: an id that is not there.
        """
        missing = [name for name in ids if name not in self.rows]
        if missing:
            raise ValueError(
                f'{self.path}: no vector of {missing[0][:80]!r} ({len(missing)} of {len(ids)} in '
                'this batch are missing): it must hold the whole training set'
            )
        return self.values[[self.rows[name] for name in ids]]


@MODELS.register_module()
class StoredTeachers(Teachers):
    """Teachers whose vectors of the training texts and videos are stored, by id.

        teacher_tv = 1/N sum_n sum_e <text_nte, video_nve> / temperature_n

    over N teachers and the experts e of each, like the official code: without weights and
    availability, so that stored text vectors must include the weights w_e(t), and those of experts
    that a video lacks must be zeros.  There is no division by the weights of the available experts.
    ``tools/export_teacher.py`` writes such vectors of any model of this library whose scores are
    inner products.

    Args:
        teachers: names of their vectors in both pipelines of the training set,
            ``dict(type='LoadVectors', side=..., stores={name: path})``; or ``{name: folder}`` with
            ``text.npz`` and ``video.npz`` (:class:`VectorsById`), which are read into memory.
        temperatures, average: see :class:`Teachers`; vectors that were stored with ``--logits``
            need no temperatures.

    Raises:
        ValueError: no teachers, or a duplicate; arguments out of range; in training: the batch
            lacks the vectors of one, or those of texts and of videos differ in length.
        FileNotFoundError: at the beginning of a training: a folder without such a file.
    """

    def __init__(
        self,
        *,
        teachers: Union[Sequence[str], Mapping[str, str]],
        temperatures: Optional[Sequence[float]] = None,
        average: str = 'scores',
    ) -> None:
        if isinstance(teachers, str) or not teachers or len({*teachers}) < len(teachers):
            raise ValueError(f'teachers must be a list of different names, not {teachers!r}')
        super().__init__(len(teachers), temperatures=temperatures, average=average)
        self.teachers = tuple(teachers)
        self._folders = dict(teachers) if isinstance(teachers, Mapping) else {}
        self._known: dict[str, dict[str, VectorsById]] = {}

    def stored(self, side: str) -> dict[str, VectorsById]:
        """Return the vectors of a side by teacher; {} if the pipelines read them.

        Raises:
            FileNotFoundError, ValueError: see :meth:`VectorsById.read`.
        """
        if side not in self._known:
            self._known[side] = {
                name: VectorsById.read(Path(folder) / f'{side}.npz')
                for name, folder in self._folders.items()
            }
        return self._known[side]

    def init_weights(self) -> None:
        """Read the folders; mmengine calls this when a training begins, before its first step."""
        for side in ('text', 'video'):
            self.stored(side)

    def own_levels(
        self, inputs: dict[str, Tensor], data_samples: dict, device: torch.device
    ) -> tuple[Levels, Levels]:
        """Return stored vectors of this process' texts and videos."""
        reader = type(self).__name__
        samples = {**data_samples}
        for side in ('text', 'video'):
            stored = self.stored(side)
            if stored:
                ids = data_samples[f'{side}_ids']
                read = {name: vectors.of(ids) for name, vectors in stored.items()}
                samples[f'{side}_vectors'] = read
        return tuple(
            stored_levels(samples, side, self.teachers, device, reader)
            for side in ('text', 'video')
        )

    def scores(self, texts: Levels, videos: Levels) -> list[Tensor]:
        each = []
        for name in self.teachers:
            t, v = (side[f'{PREFIX}{name}'].mean for side in (texts, videos))
            check_widths(t, v, f'teacher {name!r}')
            width = max(t.shape[1], v.shape[1])  # unknown on a side without items
            t, v = (x if len(x) else x.new_zeros(0, width) for x in (t, v))
            each.append(mean_products([t], [v]))
        return each


@MODELS.register_module()
class FrozenTeachers(Teachers):
    """Teachers that see the same batch: other retrievers with fixed weights.

        teacher_tv = 1/N sum_n s_n(t, v) / temperature_n

    with the fused scores of each.  They are in evaluation mode and have no gradient.  They are not
    part of the trained model: its optimizer and checkpoints do not include them, and inference does
    not need them.  They are loaded when a training begins (``init_weights``).

    Args:
        members: N retrievers that read the same frames and words as the student.  Each is a dict of
            ``config`` (a config file of its training, or ``mmvtr::FOLDER/NAME.py``) and
            ``checkpoint``, or a built retriever.
        temperatures: see :class:`Teachers`, or ``'own'``: the temperature of each member.
        average: see :class:`Teachers`.
        encode_once: encode each text and video in the first epoch alone, and keep the levels by id
            in this process' memory (those of the tokens, too, where members compare tokens): for a
            pipeline that gives an item the same input in each epoch.  A resumed training encodes
            them in other batches, so it is not equal to the last bit.

    Raises:
        ValueError: no members, a member with other keys, or one with a shortlist, which does not
            score all pairs; at the beginning of a training: a member with another normalisation of
            frames; in the second epoch, with ``encode_once``: an item's input has changed.
        FileNotFoundError, RuntimeError: at the beginning of a training: a config or a checkpoint
            that is missing, damaged, or of another model.
    """

    #: What a config of others may not set: it names configs, which are code.
    not_data = ('members',)

    def __init__(
        self,
        *,
        members: Sequence[Union[dict, nn.Module]],
        temperatures: Union[Sequence[float], str, None] = None,
        average: str = 'scores',
        encode_once: bool = False,
    ) -> None:
        if not members:
            raise ValueError('FrozenTeachers needs members')
        if isinstance(temperatures, str):
            check_one_of(('own',), temperatures=temperatures)
        own = temperatures == 'own'
        super().__init__(len(members), temperatures=None if own else temperatures, average=average)
        self.own_temperatures = own
        for k, member in enumerate(members):
            if not isinstance(member, nn.Module) and {*member} != {'config', 'checkpoint'}:
                raise ValueError(
                    f'member {k} must be dict(config=..., checkpoint=...), not {str(member)[:80]}'
                )
        self._given = list(members)
        # In a list they are not submodules, and so are neither trained nor saved.
        self._members: Optional[list[nn.Module]] = None
        self._student: list[nn.Module] = []
        self._kept = {side: Kept(side) for side in ('text', 'video')} if encode_once else {}

    def sees(self, preprocessor: nn.Module) -> None:
        """Store the data preprocessor of the student, whose frames the teachers get."""
        self._student = [preprocessor]

    @property
    def members(self) -> list[nn.Module]:
        """The N retrievers, frozen."""
        if self._members is None:
            members = [frozen(k, member) for k, member in enumerate(self._given)]
            for student in self._student:
                for k, member in enumerate(members):
                    check_frames(k, member.data_preprocessor, student)
            self._members = members
        return self._members

    def init_weights(self) -> None:
        """Load the teachers; mmengine calls this when a training begins, before its first step."""
        len(self.members)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        """Apply ``fn`` (a move to a device or dtype) to the loaded teachers as well."""
        for member in self._members or []:
            member._apply(fn)
        return super()._apply(fn, recurse)

    @torch.no_grad()
    def own_levels(
        self, inputs: dict[str, Tensor], data_samples: dict, device: torch.device
    ) -> tuple[Levels, Levels]:
        """Return the teachers' levels of this process' items, ``'teacher<k>.<level>'``."""
        for member in self.members:
            member.to(device)
        both = []
        for side in ('text', 'video'):
            part, store = of_side(inputs, side), self._kept.get(side)
            if store is None:
                both.append(self._encode(side, part))
            else:
                both.append(store.of(data_samples[f'{side}_ids'], part, self._encode))
        return tuple(both)

    def _encode(self, side: str, inputs: dict[str, Tensor]) -> Levels:
        levels = {}
        for k, member in enumerate(self.members):
            encoded = (member.encode_text if side == 'text' else member.encode_video)(inputs)
            encoded = {name: encoded[name] for name in member.similarity.levels}
            encoded = drop_tokens(encoded, keep=token_levels(member.similarity))
            levels.update({f'{_prefix(k)}{name}': level for name, level in encoded.items()})
        return levels

    def scores(self, texts: Levels, videos: Levels) -> list[Tensor]:
        each = []
        for k, member in enumerate(self.members):
            sides = under(_prefix(k), texts), under(_prefix(k), videos)
            scores = member.similarity(*sides)['scores']
            each.append(scores / member.temperature() if self.own_temperatures else scores)
        return each


class Kept:
    """Levels of a side's items by id, each encoded when it is first seen.

    Args:
        side: ``'text'`` or ``'video'``.
    """

    #: Least cosine of what a batch of known items gives with what is kept (half precision: .9999).
    LEAST = 0.99

    def __init__(self, side: str) -> None:
        self.side, self.levels, self.checked = side, {}, False

    def of(
        self,
        ids: Sequence[str],
        inputs: dict[str, Tensor],
        encode: Callable[[str, dict[str, Tensor]], Levels],
    ) -> Levels:
        """Return the levels of a batch.  The first batch of known items alone is encoded again.

        Raises:
            ValueError: that batch's inputs are not those of before.
        """
        new = [row for row, name in enumerate(ids) if name not in self.levels]
        if new:
            encoded = encode(self.side, {key: x[new] for key, x in inputs.items()})
            for row, at in enumerate(new):
                item = take(encoded, slice(row, row + 1))
                self.levels[ids[at]] = {name: level.map(Tensor.cpu) for name, level in item.items()}
        if not ids:
            return encode(self.side, inputs)
        device = next(iter(inputs.values())).device
        levels = cat_levels([self.levels[name] for name in ids])
        levels = {name: level.map(lambda x: x.to(device)) for name, level in levels.items()}
        if not new and not self.checked:
            self._check(ids, levels, encode(self.side, inputs))
        return levels

    def _check(self, ids: Sequence[str], stored: Levels, again: Levels) -> None:
        self.checked = True
        for name, level in again.items():
            alike = torch.cosine_similarity(stored[name].mean.flatten(1), level.mean.flatten(1))
            if alike.min() < self.LEAST:
                raise ValueError(
                    f'encode_once: the {self.side} {str(ids[int(alike.argmin())])[:80]!r} has '
                    'another input than before (random frames, words or crops): set '
                    'encode_once=False, or remove what is random from the pipeline of the training'
                )


def check_frames(k: int, member: nn.Module, student: nn.Module) -> None:
    """Raise ValueError if a teacher's frames are normalised differently from the student's.

    Raises:
        ValueError: they are.
    """
    for name in ('mean', 'std'):
        theirs, ours = (getattr(x, name, None) for x in (member, student))
        if theirs is None or ours is None:  # features, not frames
            continue
        if not torch.allclose(theirs.cpu(), ours.cpu(), atol=0.01):
            raise ValueError(
                f'member {k} was trained on frames of {name} {theirs.flatten().tolist()}, and would'
                f" see the student's, of {ours.flatten().tolist()} (data_preprocessor): train it "
                'on the same, or take its vectors (tools/export_teacher.py, StoredTeachers)'
            )


def frozen(k: int, member: Union[dict, nn.Module]) -> nn.Module:
    """Return a retriever in evaluation mode without gradients, from a config or built.

    Raises:
        ValueError, FileNotFoundError, RuntimeError: see :class:`FrozenTeachers`.
    """
    if isinstance(member, dict):
        checkpoint = member['checkpoint']
        cfg = _config(k, str(member['config'])).model
        forget_pretrained(cfg)
        weights = read_checkpoint(checkpoint)['state_dict']
        with torch.random.fork_rng(devices=[]):  # keeps the student's random initial weights
            member = MODELS.build(cfg)
        member.load_state_dict(check_weights(member, weights, checkpoint))
    shortlist = getattr(member.similarity, 'shortlist', None)
    if shortlist is not None:
        raise ValueError(
            f'teacher {k} ranks a shortlist of {shortlist}, but all pairs are compared: set '
            'shortlist=None'
        )
    return member.requires_grad_(False).eval()


def _config(k: int, name: str) -> Config:
    if '::' in name:
        return get_config(name)
    if not Path(name).is_file():
        raise FileNotFoundError(f'teacher {k}: no such config: {name[-200:]}')
    return Config.fromfile(name)


def _prefix(k: int) -> str:
    return f'teacher{k}.'


@MODELS.register_module()
class RelevanceTeacher(nn.Module):
    """Fills the slot ``teacher`` with the relevance of verbs and nouns, for a DistillationLoss.

    A model that follows it learns the very grades that nDCG measures: an upper reference for
    methods that aim at relevance, beside RAN and RANP, which use it through a threshold.

    Args:
        scale: score of a fully relevant pair; the relevance lies in [0, 1].

    Raises:
        ValueError: a scale that is not positive; in training: a target without relevance.
    """

    #: Slot that needs a loss which reads it (models/target.py: check_read).
    fills = 'teacher'

    def __init__(self, *, scale: float = 1.0) -> None:
        super().__init__()
        check_range('(0, inf]', scale=scale)
        self.scale = scale

    def forward(self, texts: Levels, videos: Levels, target: Target) -> Filled:
        """Return the joint batch's target with a teacher [T, V]; nothing for the log."""
        relevance = known_of(target, 'relevance', self)
        return target.put(teacher=self.scale * relevance), {}
