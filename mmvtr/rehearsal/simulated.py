"""A config made ready for a rehearsal: towers, datasets and nothing else replaced.

What the model is behind its towers, its losses, hooks, samplers, parameter groups, schedule and
number of steps stay the config's own.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

from mmengine.config import Config, ConfigDict

from mmvtr.datasets.formats.epic import EPICKitchensDataset
from mmvtr.datasets.formats.prvr import PRVRDataset
from mmvtr.datasets.formats.published import PublishedDataset
from mmvtr.datasets.tables.dataset import FRACTIONS, TableDataset
from mmvtr.registry import DATASETS, bare_name
from mmvtr.rehearsal.world import VOCABULARY

#: Hidden width of the transformers that configs name.
KNOWN_WIDTHS = {'bert-base-cased': 768, 'bert-base-uncased': 768, 't5-base': 768}
#: Number of the first video of a test set: no training set reaches it.
TEST_FIRST = 10_000_000
TEST_VIDEOS = 300
#: Clips that EPIC-KITCHENS-100 has of a recording: 67,217 of 495.
RECORDING = 136
#: Heads of a narrow trunk, where twelve would be of four numbers each.
HEADS = 4
#: Width of the vectors of a teacher of frames: CLIP ViT-B/32's.
TEACHER = 512
#: Size of a table of one's own, where there is none yet: its videos, and the texts of each.
OWN_VIDEOS, OWN_TEXTS = 200, 2

#: Keys of a model that count items in proportion to a batch: the model, its default, a name.
BATCHES = dict(
    negatives=('CascadeRetriever', 8, 'hard negatives'),
    bank_size=('MomentumRetriever', 4096, 'keys of a bank'),
)


class Size(NamedTuple):
    """How large a rehearsal is.

    Attributes:
        width: of tokens and of the trunk; None: the config's own.
        batch: items a step at most; None: the config's own.
        frames: of a video at most; None: the config's own.
        layers: of the transformer behind the towers; None: the config's own.
    """

    width: Optional[int] = None
    batch: Optional[int] = None
    frames: Optional[int] = None
    layers: Optional[int] = None


FULL, NARROW = Size(), Size(width=48, batch=32, frames=16, layers=1)


class Unknown(ValueError):
    """What the simulator cannot stand in for, and what to give it."""


class Simulated(NamedTuple):
    """A config to train on simulated data, and what was changed, in words."""

    cfg: Config
    notes: list[str]


def simulate(cfg: Config, size: Size) -> Simulated:
    """The config with simulated towers and datasets.

    Raises:
        Unknown: an encoder, tower or dataset that it does not know, or nothing to train.
    """
    cfg = copy.deepcopy(cfg)
    if cfg.get('model') is None or cfg.get('train_dataloader') is None:
        raise Unknown(f'{cfg.filename} has no model and train_dataloader: nothing to rehearse')
    _check_hooks(cfg)
    notes: list[str] = []
    retrievers = list(_retrievers(cfg.model))
    if not retrievers:
        raise Unknown(
            f'{cfg.filename}: {cfg.model.get("type")} is no retriever with an encoder; rehearse a '
            'config whose model, or whose members, have `encoder=dict(type=...)`'
        )
    inputs, done = None, []
    for retriever in retrievers:
        if not any(retriever is other for other in done):  # members may be one dict
            inputs = _simulate_model(retriever, size)
            done.append(retriever)
    _simulate_data(cfg, inputs, size, notes)
    _quiet(cfg, notes)
    return Simulated(cfg, notes)


def _check_hooks(cfg: Config) -> None:
    """A hook that reads a file of the real data has nothing to do with simulated ones."""
    for number, hook in enumerate(cfg.get('custom_hooks') or []):
        files = [key for key, value in hook.items() if key.endswith('_file') and value]
        if files:
            raise Unknown(
                f'custom_hooks[{number}], {hook.type}, reads {files[0]}={hook[files[0]]!r}, which '
                'belongs to the real data; rehearse the config without it, or with train queries '
                "(queries='train_queue')"
            )


def _retrievers(model: ConfigDict) -> Iterator[ConfigDict]:
    """The model, or what members it is built from."""
    if 'encoder' in model:
        yield model
    for value in model.values():
        parts = value if isinstance(value, (list, tuple)) else [value]
        for part in parts:
            if isinstance(part, dict) and 'encoder' in part and 'losses' in part:
                yield part


# -- the model -------------------------------------------------------------------------------------


class Inputs(NamedTuple):
    """What the encoder reads.

    Attributes:
        width: of the frames.
        aligned: frames lie in the space of the words.
        experts: width by name, or None.
        roles: texts need role graphs.
        vectors: names of the stored vectors that a supervision reads of a side's items.
        interest: texts need weights of their words.
    """

    width: int
    aligned: bool = True
    experts: Optional[dict[str, int]] = None
    roles: bool = False
    vectors: Optional[dict[str, list[str]]] = None
    interest: bool = False


def _simulate_model(model: ConfigDict, size: Size) -> Inputs:
    """Replace the towers of one retriever in place."""
    encoder = model.encoder
    inner = encoder.encoder if bare_name(encoder) == 'TwoBranches' else encoder
    if bare_name(inner) not in ENCODERS:
        raise Unknown(
            f'the simulator does not know encoder {inner.type!r}: it knows {sorted(ENCODERS)}. '
            'Give it a function in mmvtr/rehearsal/simulated.py that replaces its towers and says '
            'what they read'
        )
    before = inner.get('dim')
    inputs = ENCODERS[bare_name(inner)](inner, size)
    after = inner.get('dim') or (inner.frames.dim if 'frames' in inner else before)
    readers = [model.get('similarity'), model.get('supervision'), *_parts(model, 'objectives')]
    for reader in (part for part in readers if part):
        if 'dim' in reader and (before is None or reader.dim == before):
            reader.dim = after
            if after % reader.get('heads', 1):
                reader.heads = HEADS
        if bare_name(reader) == 'CascadeSimilarity' and size.layers:
            reader.update(layers=size.layers, heads=HEADS)
        if reader.get('project') and reader.project.in_dim == before:
            reader.project.in_dim = after
        if 'decoder' in reader:
            reader.decoder = _t5(size.width or 768)
    return inputs._replace(vectors=_stored_vectors(model.get('supervision') or {}))


def _stored_vectors(supervision: ConfigDict) -> Optional[dict[str, list[str]]]:
    """By side, the names of the stored vectors that it reads; None: none."""
    names = list(supervision.get('teachers', ()))
    if names:
        return dict(text=names, video=names)
    return dict(text=[supervision.sentences]) if supervision.get('sentences') else None


def _parts(model: ConfigDict, name: str) -> list[ConfigDict]:
    return [part for part in (model.get(name) or {}).values() if isinstance(part, dict)]


def _dual(encoder: ConfigDict, size: Size) -> Inputs:
    """CLIP's two towers of one width, or what stands in for one of them."""
    width = size.width or _joint_width(encoder)
    encoder.frames = dict(
        type='SimulatedFrames', dim=width, trained=not encoder.frames.get('frozen', False)
    )
    text = encoder.text
    clips = bare_name(text) == 'OpenCLIPText'
    own = width if clips else size.width or _hidden(text)
    if size.layers and bare_name(encoder) in ('CLIP2Video', 'UATVR'):
        encoder.temporal_layers = size.layers
    encoder.text = dict(
        type='SimulatedText',
        dim=own,
        trained=not text.get('frozen', False),
        projected=None if clips else width,
        aligned=clips,
        sentence='last' if clips else 'first',
    )
    return Inputs(width)


def _features(encoder: ConfigDict, size: Size) -> Inputs:
    """Stored frame and word features behind encoders of a width of their own."""
    widths = encoder.frames.in_dim, encoder.text.in_dim
    frames, words = (size.width or width for width in widths)
    aligned = widths[0] == widths[1] and frames == words
    encoder.frames = dict(type='SimulatedFrames', dim=frames, trained=False)
    encoder.text = dict(
        type='SimulatedText', dim=words, trained=False, aligned=aligned, sentence='none'
    )
    if size.width:
        encoder.dim = size.width
    return Inputs(frames, aligned)


def _hgr(encoder: ConfigDict, size: Size) -> Inputs:
    """Its word table is trained, so it stays: only the words' numbers are others."""
    width = size.width or encoder.frames.in_dim
    encoder.frames = dict(type='SimulatedFrames', dim=width, trained=False)
    encoder.text.update(words=VOCABULARY, pretrained=None)
    if size.width:
        encoder.text.dim = encoder.dim = size.width
    return Inputs(width, aligned=False, roles=True)


def _mmt(encoder: ConfigDict, size: Size) -> Inputs:
    """A transformer over experts, of MMT, HiT or TACo."""
    hidden = size.width or _hidden(encoder.text)
    trained = not encoder.text.get('frozen', False)
    encoder.text = dict(type='SimulatedText', dim=hidden, trained=trained, aligned=False)
    encoder.text.sentence = 'first'
    if size.width:
        encoder.experts = {name: size.width for name in encoder.experts}
        encoder.layers = size.layers
        encoder.feedforward = encoder.get('feedforward', 3072) * size.width // encoder.dim
        encoder.dim = size.width
    return Inputs(max(encoder.experts.values()), experts=dict(encoder.experts))


def _ce(encoder: ConfigDict, size: Size) -> Inputs:
    """Rows of experts and words, which are stored: all that learns is its own."""
    words = size.width or encoder.text.in_dim
    encoder.text = dict(
        type='SimulatedText', dim=words, trained=False, aligned=False, sentence='none'
    )
    if size.width:
        encoder.experts = {name: size.width for name in encoder.experts}
        encoder.dim = None if encoder.get('gating', 'pairwise') is None else size.width
    return Inputs(max(encoder.experts.values()), experts=dict(encoder.experts))


def _taco(encoder: ConfigDict, size: Size) -> Inputs:
    inputs = _mmt(encoder, size)
    if size.width:
        encoder.heads = HEADS
    return inputs._replace(interest=True)


def _ssb(encoder: ConfigDict, size: Size) -> Inputs:
    hidden = size.width or _hidden(encoder.text)
    trained = not encoder.text.get('frozen', False)
    encoder.text = dict(
        type='SimulatedText', dim=hidden, trained=trained, aligned=False, sentence='none'
    )
    if size.width:
        encoder.in_dim = encoder.dim = size.width
    return Inputs(encoder.in_dim, aligned=False)


#: By type, what replaces an encoder's towers.
ENCODERS = dict(
    CLIP2Video=_dual,
    CLIP4Clip=_dual,
    DLDKDEncoder=_features,
    UATVR=_dual,
    CEEncoder=_ce,
    ARLEncoder=_features,
    MSSLEncoder=_features,
    GMMFormerEncoder=_features,
    HGREncoder=_hgr,
    HiTEncoder=_mmt,
    MMTEncoder=_mmt,
    SSBEncoder=_ssb,
    TACoEncoder=_taco,
)


def _joint_width(encoder: ConfigDict) -> int:
    """Width of the space of two towers."""
    frames = encoder.frames
    if bare_name(frames) == 'FeatureFrames':
        return frames.get('dim') or frames.in_dim
    if bare_name(frames) != 'OpenCLIPFrames':
        raise Unknown(f'the simulator does not know frame tower {frames.type!r}')
    if isinstance(frames.model, dict):
        return frames.model['embed_dim']
    import open_clip

    config = open_clip.get_model_config(frames.model)
    if config is None:
        raise Unknown(f'open_clip knows no model {frames.model!r}')
    return config['embed_dim']


def _hidden(text: ConfigDict) -> int:
    """Hidden width of a transformer, by the name or the dict of its config."""
    model = text.get('model')
    if isinstance(model, dict):
        return model.get('hidden_size') or model.get('d_model')
    if model not in KNOWN_WIDTHS:
        raise Unknown(
            f'the simulator does not know how wide text tower {text.type}({model!r}) is: it knows '
            f'{sorted(KNOWN_WIDTHS)}; add it to KNOWN_WIDTHS in mmvtr/rehearsal/simulated.py'
        )
    return KNOWN_WIDTHS[model]


def _t5(width: int) -> dict[str, Any]:
    """A small decoder of the simulated words."""
    return dict(
        model_type='t5',
        vocab_size=VOCABULARY,
        d_model=width,
        d_kv=16,
        d_ff=2 * width,
        num_layers=1,
        num_decoder_layers=2,
        num_heads=4,
    )


# -- data ------------------------------------------------------------------------------------------


def _simulate_data(cfg: Config, inputs: Inputs, size: Size, notes: list[str]) -> None:
    loader = cfg.train_dataloader
    share = min(1.0, (size.batch or loader.batch_size) / loader.batch_size)
    if share < 1:
        notes.append(f'batch {size.batch} in place of {loader.batch_size}, the set in proportion')
        loader.batch_size = size.batch
        _shrink(cfg.model, share, notes)
    loader.update(num_workers=0, persistent_workers=False, pin_memory=False)
    train = loader.dataset
    loader.dataset = _dataset(train, inputs, size, notes, share=share)
    if cfg.get('test_dataloader') is not None:
        tested = cfg.test_dataloader
        tested.update(num_workers=0, persistent_workers=False, pin_memory=False)
        tested.dataset = _dataset(tested.dataset, inputs, size, notes, first=TEST_FIRST)
    for metric in _listed(cfg.get('test_evaluator')):
        if 'train' in metric:
            metric.train = loader.dataset


def _shrink(model: ConfigDict, share: float, notes: list[str]) -> None:
    """What is as many items as it is because of the batch: of a smaller one there are fewer.

    The hard negatives of a cascade are the best of a batch, and a bank remembers some batches.
    """
    for retriever in _retrievers(model):
        for key, (type_, default, name) in BATCHES.items():
            if bare_name(retriever) == type_:
                own = retriever.get(key, default)
                retriever[key] = max(1, round(share * own))
                note = f'{retriever[key]} {name} in place of {own}'
                notes += [] if note in notes else [note]


def _listed(value: Any) -> list[ConfigDict]:
    return list(value) if isinstance(value, (list, tuple)) else [value] if value else []


def _dataset(
    dataset: ConfigDict,
    inputs: Inputs,
    size: Size,
    notes: list[str],
    *,
    share: float = 1.0,
    first: int = 0,
) -> ConfigDict:
    kind = DATASETS.get(dataset.type)
    split = _size_of(kind, dataset, notes)
    videos, texts = max(2, round(split.videos * share)), max(2, round(split.texts * share))
    if first:  # a small gallery with as many captions a video
        videos, texts = min(videos, TEST_VIDEOS), texts * min(videos, TEST_VIDEOS) // videos
        texts = min(texts, 5 * videos)
    made = ConfigDict(
        type='SimulatedDataset',
        name=f'{getattr(kind, "title", kind.__name__)} {dataset.split}',
        videos=videos,
        texts=max(texts, 2),
        width=inputs.width,
        aligned=inputs.aligned,
        frames=_frames(dataset, size, notes),
        first=first,
        roles=inputs.roles,
        interest=inputs.interest,
        has_classes=dataset.get('classes') is not None or issubclass(kind, EPICKitchensDataset),
    )
    teachers = [s for s in dataset.video_pipeline if bare_name(s) == 'LoadFrameVectors']
    if teachers:
        (name,) = teachers[0].stores
        made.teacher = (name, size.width or TEACHER)
    if issubclass(kind, PRVRDataset):
        made.moments = 4
    if issubclass(kind, EPICKitchensDataset):
        made.recording = RECORDING
    if inputs.experts is not None:
        made.update(experts=inputs.experts, expert_rows=2 if size.width else 8)
    if inputs.vectors is not None and not first:
        made.vectors = inputs.vectors
    if split.texts < split.videos and not first:
        made.group = round(split.videos / split.texts)
    for key in ('epoch_unit', 'related'):
        if dataset.get(key) is not None:
            made[key] = dataset[key]
    if dataset.get('environments') is not None:
        made.environments = _environments(dataset.environments, made, notes)
    return made


class Count(NamedTuple):
    """Videos and texts of a set."""

    videos: int
    texts: int


def _size_of(kind: Optional[type], dataset: ConfigDict, notes: list[str]) -> Count:
    """As published; or as the table says, if it is there."""
    if kind is not None and issubclass(kind, PublishedDataset):
        split = kind.splits[dataset.split]
        return Count(split.videos, split.texts)
    if kind is None or not issubclass(kind, TableDataset):
        raise Unknown(
            f'the simulator takes the size of a set from a published split or from a table; '
            f'{dataset.type!r} has neither: it knows subclasses of PublishedDataset and of '
            'TableDataset'
        )
    if Path(dataset.table).is_file():
        unread = dict(video_pipeline=[], text_pipeline=[], read_durations=False)
        made = DATASETS.build(ConfigDict({**dataset, **unread}))
        return Count(len(made.videos), len(made.texts))
    videos = round(OWN_VIDEOS * dataset.get('fractions', FRACTIONS).get(dataset.split, 1))
    notes.append(f'{videos} videos of {OWN_TEXTS} texts in place of {dataset.table}, not there')
    return Count(videos, OWN_TEXTS * videos)


def _environments(component: ConfigDict, train: ConfigDict, notes: list[str]) -> ConfigDict:
    """Those that read a test set read a simulated one, which has classes of its own."""
    component = copy.deepcopy(component)
    for part in (component, component.get('like') or {}):
        if part.get('action') is not None:
            notes.append(f'all classes are thinned out in place of {tuple(part.action)}')
            part.action = None
        if part.get('test') is not None:
            part.test = ConfigDict(
                {**train, 'first': TEST_FIRST, 'videos': train.videos // 7 + 2},
                texts=train.texts // 7 + 2,
            )
    return component


def _frames(dataset: ConfigDict, size: Size, notes: list[str]) -> int:
    """How many frames the pipeline gives a video."""
    counts = [step.num_frames for step in dataset.video_pipeline if step.get('num_frames')]
    count = min(counts) if counts else 12
    if size.frames and count > size.frames:
        note = f'{size.frames} frames in place of {count}'
        notes += [] if note in notes else [note]
        return size.frames
    return count


def _quiet(cfg: Config, notes: list[str]) -> None:
    """No files but the log's, no validation: what is looked at is looked at by the rehearsal."""
    cfg.val_dataloader = cfg.val_cfg = cfg.val_evaluator = None
    cfg.default_hooks.checkpoint = None
    cfg.load_from, cfg.resume = None, False
    for hook in cfg.get('custom_hooks') or []:
        if bare_name(hook) == 'MembersHook' and hook.get('start') is not None:
            notes.append(f'members that start untrained in place of {hook.start}')
            hook.start = None
    cfg.custom_imports = dict(
        imports=[*(cfg.get('custom_imports') or {}).get('imports', []), 'mmvtr.rehearsal'],
        allow_failed_imports=False,
    )
    cfg.visualizer = None
