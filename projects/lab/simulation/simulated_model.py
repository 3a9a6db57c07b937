"""The model of a rehearsal: the config's own, on simulated towers, and narrower."""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple, Optional

from mmengine.config import ConfigDict

from mmvtr.registry import bare_name
from simulation.world import VOCABULARY

#: Hidden width of the transformers that configs name.
KNOWN_WIDTHS = {'bert-base-cased': 768, 'bert-base-uncased': 768, 't5-base': 768}
#: Attention heads of a narrow trunk, where twelve heads would have a width of four each.
HEADS = 4
#: Model keys that count items in proportion to the batch -> model type, default, description.
BATCHES = dict(
    negatives=('CascadeRetriever', 8, 'hard negatives'),
    bank_size=('MomentumRetriever', 4096, 'keys of a bank'),
)


class Size(NamedTuple):
    """Size of a rehearsal.

    Attributes:
        width: width of tokens and of the trunk; None: the config's own.
        batch: maximal items per step; None: the config's own.
        frames: maximal frames of a video; None: the config's own.
        layers: layers of the transformer behind the towers; None: the config's own.
        items: share of an epoch's items to use, to shorten the schedule.
    """

    width: Optional[int] = None
    batch: Optional[int] = None
    frames: Optional[int] = None
    layers: Optional[int] = None
    items: float = 1.0


FULL, NARROW = Size(), Size(width=48, batch=32, frames=16, layers=1)


class Unknown(ValueError):
    """The simulator cannot replace a part of the config; the message says what it needs."""


def retrievers(model: ConfigDict) -> Iterator[ConfigDict]:
    """Yield the model, or each distinct member config."""
    if 'encoder' in model:
        yield model
    done: list[ConfigDict] = []
    for value in model.values():
        for part in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(part, dict) and 'encoder' in part and 'losses' in part:
                if not any(part is other for other in done):
                    done.append(part)
                    yield part


class Inputs(NamedTuple):
    """The kinds of input that the encoder reads.

    Attributes:
        width: width of the frames.
        experts: width by name, or None.
        extra: additional input of a text, a key of the dataset's :data:`EXTRA`, or None.
        vectors: names of the stored vectors that a supervision reads, by side.
    """

    width: int
    experts: Optional[dict[str, int]] = None
    extra: Optional[str] = None
    vectors: Optional[dict[str, list[str]]] = None


def simulate_model(model: ConfigDict, size: Size) -> Inputs:
    """Replace the towers of one retriever in place."""
    encoder = model.encoder
    inner = encoder.encoder if bare_name(encoder) == 'TwoBranches' else encoder
    if bare_name(inner) not in ENCODERS:
        raise Unknown(
            f'the simulator does not know encoder {inner.type!r}: it knows {sorted(ENCODERS)}. '
            'Give it a function in simulation/simulated_model.py that replaces its towers, '
            'and '
            'says what they read'
        )
    if model.get('supervision') and bare_name(model.supervision) == 'CombinedSupervision':
        raise Unknown(
            'nothing is expected of a CombinedSupervision, so that a rehearsal would show nothing: '
            f'rehearse each of its parts {[*model.supervision.parts]} as the supervision'
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
    """Return the names of stored vectors that a supervision reads, by side; None without any."""
    if supervision and bare_name(supervision) == 'GuideSupervision':
        if supervision.get('guide', 'vectors') != 'vectors':
            return None
        sides = (side for side in ('text', 'video') if supervision.get('by') in (None, f'{side}s'))
        return {side: [supervision.get('name', 'guide')] for side in sides}
    names = list(supervision.get('teachers', ()))
    if names:
        supervision.teachers = names  # simulated items bring their vectors along
        return dict(text=names, video=names)
    return dict(text=[supervision.sentences]) if supervision.get('sentences') else None


def _parts(model: ConfigDict, name: str) -> list[ConfigDict]:
    return [part for part in (model.get(name) or {}).values() if isinstance(part, dict)]


def _frames(encoder: ConfigDict, width: int, *, trained: bool = False) -> None:
    encoder.frames = dict(type='SimulatedFrames', dim=width, trained=trained)


def _text(encoder: ConfigDict, dim: int, sentence: str, *, trained: bool, **options: Any) -> None:
    """Replace the text tower by a simulated one; ``options`` are its further arguments."""
    options = dict(dict(aligned=False), **options)
    encoder.text = dict(
        type='SimulatedText', dim=dim, trained=trained, sentence=sentence, **options
    )


def _trained(tower: ConfigDict) -> bool:
    return not tower.get('frozen', False)


def _dual(encoder: ConfigDict, size: Size) -> Inputs:
    """Simulate CLIP's two towers of one width, or replacements of one of them."""
    width, text = size.width or _joint_width(encoder), encoder.text
    _frames(encoder, width, trained=_trained(encoder.frames))
    if size.layers and bare_name(encoder) in ('CLIP2Video', 'UATVR'):
        encoder.temporal_layers = size.layers
    if bare_name(text) == 'OpenCLIPText':
        _text(encoder, width, 'last', trained=_trained(text), aligned=True)
    else:
        own = size.width or _hidden(text)
        _text(encoder, own, 'first', trained=_trained(text), projected=width)
    return Inputs(width)


def _features(encoder: ConfigDict, size: Size) -> Inputs:
    """Simulate stored frame and word features behind encoders of their own width."""
    if not {'in_dim'} <= encoder.frames.keys() & encoder.text.keys():
        raise Unknown(
            f'the simulator takes stored features of frames and words; {bare_name(encoder)} has '
            f'{bare_name(encoder.frames)} and {bare_name(encoder.text)}'
        )
    widths = encoder.frames.in_dim, encoder.text.in_dim
    frames, words = (size.width or width for width in widths)
    _frames(encoder, frames)
    _text(encoder, words, 'none', trained=False, aligned=widths[0] == widths[1])
    if size.width:
        encoder.dim = size.width
    return Inputs(frames)


def _hgr(encoder: ConfigDict, size: Size) -> Inputs:
    """Keep the trained word table, and replace only the word ids."""
    width = size.width or encoder.frames.in_dim
    _frames(encoder, width)
    encoder.text.update(words=VOCABULARY, pretrained=None)
    if size.width:
        encoder.text.dim = encoder.dim = size.width
    return Inputs(width, extra='roles')


def _experts(encoder: ConfigDict, size: Size) -> Inputs:
    if size.width:
        encoder.experts = {name: size.width for name in encoder.experts}
    return Inputs(max(encoder.experts.values()), experts=dict(encoder.experts))


def _mmt(encoder: ConfigDict, size: Size) -> Inputs:
    """Simulate the inputs of a transformer over experts (MMT, HiT or TACo)."""
    text = encoder.text
    _text(encoder, size.width or _hidden(text), 'first', trained=_trained(text))
    if size.width:
        encoder.layers = size.layers
        encoder.feedforward = encoder.get('feedforward', 3072) * size.width // encoder.dim
        encoder.dim = size.width
    return _experts(encoder, size)


def _ce(encoder: ConfigDict, size: Size) -> Inputs:
    """Simulate stored rows of experts and words; all trained parts are the config's own."""
    _text(encoder, size.width or encoder.text.in_dim, 'none', trained=False)
    if size.width:
        encoder.dim = None if encoder.get('gating', 'pairwise') is None else size.width
    return _experts(encoder, size)


def _taco(encoder: ConfigDict, size: Size) -> Inputs:
    if size.width:
        encoder.heads = HEADS
    return _mmt(encoder, size)._replace(extra='interest')


def _ssb(encoder: ConfigDict, size: Size) -> Inputs:
    text = encoder.text
    _text(encoder, size.width or _hidden(text), 'none', trained=_trained(text))
    if size.width:
        encoder.in_dim = encoder.dim = size.width
    return Inputs(encoder.in_dim)


#: Encoder type -> function that replaces its towers.
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
    """Return the common width of two towers."""
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
    """Return a transformer's hidden width, from its config's name or dict."""
    model = text.get('model')
    if isinstance(model, dict):
        return model.get('hidden_size') or model.get('d_model')
    if model not in KNOWN_WIDTHS:
        raise Unknown(
            f'the simulator does not know how wide text tower {text.type}({model!r}) is: it knows '
            f'{sorted(KNOWN_WIDTHS)}; add it to KNOWN_WIDTHS in simulation/simulated_model.py'
        )
    return KNOWN_WIDTHS[model]


def _t5(width: int) -> dict[str, Any]:
    """Return the config of a small decoder for the simulated words."""
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


def shrink(model: ConfigDict, share: float, notes: list[str]) -> None:
    """Scale down counts that depend on the batch size, in place.

    A cascade's hard negatives are the best of a batch, and a bank holds some batches.
    """
    for key, (type_, default, name) in BATCHES.items():
        if share < 1 and bare_name(model) == type_:
            own = model.get(key, default)
            model[key] = max(1, round(share * own))
            notes.append(f'{model[key]} {name} in place of {own}')
