"""Request and response bodies, and their limits."""

from __future__ import annotations

from typing import Annotated, Any, Iterable, Literal, Optional, Union

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)

from mmvtr.functional.transforms.transform_table import OF_QUERIES, TRANSFORMS
from mmvtr_gallery.serving.answers import HITS
from mmvtr_gallery.store.items import LONGEST_ID

#: Characters of a text, hits of an answer, items of a change, texts of a bank.
LONGEST_TEXT, MOST_HITS, MOST_ITEMS, MOST_TEXTS = 1000, 1000, 100, 16384
#: Texts, or vectors, of one request.
MOST_QUERIES = 64
#: Rounds, or neighbours, of a refit.
MOST_ROUNDS = 1000
#: Items per page of the gallery.
MOST_PAGE = 200
#: Bytes of a request body, and of an uploaded video.
BODY, UPLOAD = 8 * 2**20, 256 * 2**20


def sendable(value: Any) -> Any:
    """Return a value that UTF-8 can encode: a lone surrogate (of a file name that is no UTF-8)
    becomes its escape, as ``\\udcff``.
    """
    if isinstance(value, str):
        return value.encode('utf-8', 'backslashreplace').decode()
    if isinstance(value, dict):
        return {sendable(key): sendable(x) for key, x in value.items()}
    return [sendable(x) for x in value] if isinstance(value, list) else value


Text = Field(min_length=1, max_length=LONGEST_TEXT)
Id = Field(min_length=1, max_length=LONGEST_ID)


class Body(BaseModel):
    """A request body in which unknown keys are errors."""

    model_config = ConfigDict(extra='forbid')


def _check_texts(texts: list[str]) -> None:
    for row, text in enumerate(texts):
        if not text.strip() or len(text) > LONGEST_TEXT:
            raise ValueError(f'text {row} is empty or longer than {LONGEST_TEXT} characters')


def _check_widths(vectors: list[list[float]]) -> None:
    for row, vector in enumerate(vectors):
        if len(vector) != len(vectors[0]):
            raise ValueError(
                f'vector {row} has {len(vector)} entries, and vector 0 has {len(vectors[0])}'
            )


def _examples(*bodies: dict[str, Any]) -> ConfigDict:
    """Return pydantic's config with examples for the API reference."""
    return ConfigDict(json_schema_extra=dict(examples=list(bodies)))


def _options_of(transforms: Iterable[str]) -> type[Body]:
    """Return a body with all numeric options of the transforms, null for the default."""
    fields: dict[str, Any] = {}
    for name in transforms:
        for option in TRANSFORMS[name].described:
            kind = int if 'int' in option.type else float
            kind = Union[float, str] if option.name == 'temperature' else kind
            if 'int' in option.type or 'float' in option.type:
                most = dict(le=MOST_ROUNDS) if kind is int else {}
                said = Field(None, description=option.unit, **most)
                fields[option.name] = (Optional[kind], said)
    return create_model('Options', __base__=Body, **fields)


class _Asked(Body):
    """Fields that all searches by text, vector or item share."""

    k: Optional[int] = Field(
        None,
        ge=1,
        le=MOST_HITS,
        description=f'default: {HITS}; a gallery with fewer items answers with all of them',
    )
    filter: Optional[dict[str, Any]] = Field(
        None, description='column -> value, list of values, or {"min": x, "max": y}'
    )
    transform: Optional[bool] = Field(
        None, description='rank with biases; default: yes for texts and vectors, no for `like`'
    )
    compare: bool = Field(False, description='also tell the rank that a hit has in the other way')
    min_precision: Optional[float] = Field(
        None,
        gt=0,
        lt=1,
        description='also tell from which score on this share matches, of texts and vectors',
    )
    unless_shifted: bool = Field(
        False,
        description='no P(match) and no threshold where /drift has last found that the served '
        'queries are not like those of the calibration',
    )
    rank_by: Literal['items', 'moments'] = Field(
        'items',
        description='moments: rank by the best window of each item (galleries with windows)',
    )

    @model_validator(mode='after')
    def precision_of_items(self) -> '_Asked':
        """Raise ValueError if a precision is given for moments."""
        if self.rank_by == 'moments' and self.min_precision is not None:
            raise ValueError('min_precision is for items, not for moments')
        return self


class Search(_Asked):
    """A search by one of `text`, `vector` and `like`."""

    model_config = _examples(
        dict(text='a dog runs', k=5, filter=dict(start=dict(max=60))),
        dict(text='a dog runs', k=5, rank_by='moments'),
    )

    text: Optional[str] = Field(None, min_length=1, max_length=LONGEST_TEXT)
    vector: Optional[list[float]] = Field(None, description='of a query, by the same model')
    like: Optional[str] = Field(None, max_length=LONGEST_ID, description='id of an item')

    @model_validator(mode='after')
    def one_query(self) -> 'Search':
        """Raise ValueError unless exactly one of the three is given."""
        given = [name for name in ('text', 'vector', 'like') if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f'one of text, vector and like expected, got {given or "none"}')
        if self.text is not None and not self.text.strip():
            raise ValueError('the text is empty')
        if self.like is not None and self.min_precision is not None:
            raise ValueError('min_precision is for texts and vectors, not for like')
        return self


class SearchTexts(_Asked):
    """Several texts, each searched like a text of `/search`."""

    model_config = _examples(dict(texts=['a dog runs', 'two people dance'], k=5))

    texts: list[str] = Field(min_length=1, max_length=MOST_QUERIES)

    @model_validator(mode='after')
    def good_texts(self) -> 'SearchTexts':
        """Raise ValueError if a text is empty or too long."""
        _check_texts(self.texts)
        return self


class SearchVectors(_Asked):
    """Several vectors, each searched like a vector of `/search`."""

    model_config = _examples(dict(vectors=[[0.6, 0.8], [1.0, 0.0]], k=5))

    vectors: list[list[float]] = Field(
        min_length=1, max_length=MOST_QUERIES, description='of queries, by the same model'
    )

    @model_validator(mode='after')
    def one_width(self) -> 'SearchVectors':
        """Raise ValueError if vectors differ in width."""
        _check_widths(self.vectors)
        return self


class Added(Body):
    """An item to add: a file of the library, or a vector, or a vector and its file."""

    id: str = Id
    file: Optional[str] = Field(None, min_length=1, max_length=1024, description='in the library')
    vector: Optional[list[float]] = None
    start: Optional[float] = Field(None, ge=0, description='seconds')
    end: Optional[float] = Field(None, gt=0, description='seconds')
    metadata: dict[str, Any] = {}


class Add(Body):
    """Items to add, all or none."""

    model_config = _examples(dict(items=[dict(id='new', file='more/new.mp4')]))

    items: list[Added] = Field(min_length=1, max_length=MOST_ITEMS)


class Delete(Body):
    """Items to remove, all or none."""

    model_config = _examples(dict(ids=['new']))

    ids: list[str] = Field(min_length=1, max_length=MOST_ITEMS)


class Quarantine(Body):
    """Items to exclude from all searches, or to release."""

    ids: list[str] = Field(min_length=1, max_length=MOST_ITEMS)
    release: bool = Field(False, description='let searches find them again')


class Refit(_options_of(OF_QUERIES)):
    """A request for new biases from texts or vectors; else from the sample of served queries."""

    model_config = _examples(dict(texts=['a dog runs', 'two people dance'], fewer=True))

    texts: Optional[list[str]] = Field(None, min_length=1, max_length=MOST_TEXTS)
    vectors: Optional[list[list[float]]] = Field(
        None, min_length=1, max_length=MOST_TEXTS, description='of texts, by the same model'
    )
    transform: Literal[('same', 'auto', *OF_QUERIES)] = 'same'
    fewer: bool = Field(False, description='take fewer texts than the gallery has items')

    @model_validator(mode='after')
    def good_bank(self) -> 'Refit':
        """Raise ValueError for texts beside vectors, a bad text, or vectors of several widths."""
        if self.texts is not None and self.vectors is not None:
            raise ValueError('texts or vectors expected, got both')
        _check_texts(self.texts or [])
        _check_widths(self.vectors or [])
        return self


class When(Body):
    """A request for the time in an item at which a text matches."""

    model_config = _examples(dict(id='new', text='a dog runs'))

    id: str = Id
    text: str = Text


class Judge(Body):
    """A judgment: whether an item is right for a text."""

    model_config = _examples(dict(text='a dog runs', id='new', right=True))

    text: str = Text
    id: str = Id
    right: Optional[bool] = Field(description='null: withdraw what was said of the two')


class Undo(Body):
    """A request to undo the last change, or the last refit even if other changes followed."""

    model_config = _examples({})

    kind: Optional[Literal['refit']] = None


class Items(Body):
    """A request for a page of the gallery."""

    model_config = _examples(
        dict(sort='found', descending=True, limit=10), dict(mark='never_found')
    )

    filter: Optional[dict[str, Any]] = Field(None, description='as of /search')
    mark: Optional[Literal['hub', 'never_found']] = Field(
        None,
        description='only hubs, which many more queries find than other items, or items that no '
        'query finds',
    )
    sort: str = Field(
        'id',
        min_length=1,
        max_length=64,
        description='id, start, end, sigma, added, bias, found, or a column of metadata; what has '
        'no value there comes last',
    )
    descending: bool = False
    offset: int = Field(0, ge=0, le=2**31)
    limit: int = Field(24, ge=1, le=MOST_PAGE)


Sent = Annotated[str, BeforeValidator(sendable)]


class BestMoment(BaseModel):
    """The best-matching window of an item, in seconds of the file."""

    start: float
    end: float
    score: float
    raw: float = Field(description='without its bias')
    bias: float
    item_start: float = Field(description='where the first window of the item begins')
    item_end: float = Field(description='where the last one ends')


class Hit(BaseModel):
    """A found item."""

    rank: int
    id: Sent
    score: float = Field(description='by which it was ranked, of the moment if by moments')
    raw: float = Field(description='without its bias')
    bias: float
    moment: Optional[BestMoment] = Field(
        None, description='null: the item, or the gallery, has no windows'
    )
    p_match: Optional[float] = Field(
        None,
        description='probability of a match with the text or vector; if the gallery has top-k '
        'probabilities, that this place is right; null: not calibrated',
    )
    judged: Optional[bool] = Field(
        None, description='whether people have judged it right for this text; null: not judged'
    )
    sigma: Optional[float] = Field(description='of models with probabilistic heads')
    start: Optional[float]
    end: Optional[float]
    file: Optional[Sent] = Field(
        description='its name in the library; elsewhere with as many folders as tell it from others'
    )
    metadata: Annotated[dict[str, Any], BeforeValidator(sendable)]
    moved: Optional[int] = Field(
        None, description='rank in the other way, null beyond the first 100 there'
    )


class CutText(BaseModel):
    """Token counts of a text that exceeds the model's context length, with begin and end tokens."""

    read: int
    of: int


class Found(BaseModel):
    """The answer to a search."""

    hits: list[Hit]
    transform: bool = Field(description='whether biases have ranked the hits')
    cut: Optional[CutText] = Field(
        None, description='what of the text the model has read; null: all of it'
    )
    scaled: bool = Field(False, description='whether the vector was brought to length 1')
    sigma: Optional[float] = Field(description='of the query')
    wider_than: Optional[float] = Field(
        description='share of the texts known to the gallery whose sigma is smaller'
    )
    threshold: Optional[float] = Field(
        None,
        description='score (with the bias, if the calibration is for debiased scores) from which '
        'on min_precision is reached; null: by none, or the places say it (threshold_p_match)',
    )
    threshold_p_match: Optional[float] = Field(None, description='P(match) at the threshold')
    note: Optional[str] = Field(
        None, description='why P(match) may be too high, or why there is no threshold'
    )
    count: int = Field(description='items of the gallery')
    ms: float = Field(description='milliseconds that it took')
