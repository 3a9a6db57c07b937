"""Embedders of sentence-transformers with random weights, which tests make in a second."""

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    VideoMAEImageProcessor,
    XCLIPConfig,
    XCLIPModel,
    XCLIPProcessor,
)

WORDS = 'a the red blue green white dog cat man bird runs sits sings sleeps'.split()
SIDE = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
FRAMES = 4
MODALITIES = {
    'text': dict(method='get_text_features', method_output_name='pooler_output'),
    'video': dict(method='get_video_features', method_output_name='pooler_output'),
}


def tokenizer(words, *, length=16):
    """One id a word; ``[EOS]`` has the highest."""
    names = ['[PAD]', '[UNK]', '[SOS]', *words, '[EOS]']
    ids = {name: i for i, name in enumerate(names)}
    made = Tokenizer(models.WordLevel(ids, unk_token='[UNK]'))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single='[SOS] $A [EOS]', special_tokens=[(n, ids[n]) for n in ('[SOS]', '[EOS]')]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token='[PAD]',
        unk_token='[UNK]',
        bos_token='[SOS]',
        eos_token='[EOS]',
        model_max_length=length,
    )


def text_model(folder, words=tuple(WORDS), *, seed=0):
    """A text embedder of mean tokens, D = 16, without dropout."""
    torch.manual_seed(seed)
    words = tokenizer(words)
    config = BertConfig(
        **SIDE,
        vocab_size=len(words),
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    BertModel(config).save_pretrained(folder)
    words.save_pretrained(folder)
    module = Transformer(str(folder))
    return SentenceTransformer(modules=[module, Pooling(16)], device='cpu')


def video_model(folder, *, seed=0):
    """A tiny X-CLIP of texts and videos of four frames, D = 12."""
    torch.manual_seed(seed)
    words = tokenizer(WORDS)
    text = dict(
        SIDE,
        vocab_size=len(words),
        max_position_embeddings=16,
        eos_token_id=words.eos_token_id,
        bos_token_id=words.bos_token_id,
        pad_token_id=0,
    )
    vision = dict(
        SIDE,
        image_size=32,
        patch_size=16,
        num_frames=FRAMES,
        drop_path_rate=0.0,
        mit_hidden_size=12,
        mit_intermediate_size=24,
        mit_num_hidden_layers=1,
        mit_num_attention_heads=2,
    )
    config = XCLIPConfig(text_config=text, vision_config=vision, projection_dim=12)
    XCLIPModel(config).save_pretrained(folder)
    frames = VideoMAEImageProcessor(
        size={'shortest_edge': 32}, crop_size={'height': 32, 'width': 32}
    )
    XCLIPProcessor(frames, words).save_pretrained(folder)
    module = Transformer(
        str(folder), modality_config=MODALITIES, module_output_name='sentence_embedding'
    )
    return SentenceTransformer(modules=[module], device='cpu')


def pairs(count, *, seed=0):
    """Texts of colour, animal and deed, and videos of that colour in that corner.

    Returns:
        texts, videos (uint8 [F, 3, 40, 48] each) and a number for each pair of colour and animal.
    """
    draw = np.random.default_rng(seed)
    colours = dict(red=(250, 20, 20), blue=(20, 20, 250), green=(20, 250, 20), white=(250,) * 3)
    animals = ['dog', 'cat', 'man', 'bird']
    texts, videos, labels = [], [], []
    for _ in range(count):
        colour, animal, deed = draw.integers(4), draw.integers(4), draw.integers(4)
        texts.append(f'a {[*colours][colour]} {animals[animal]} {WORDS[-4 + deed]}')
        video = draw.integers(0, 60, (FRAMES, 3, 40, 48), dtype=np.uint8)
        row, column = divmod(animal, 2)
        place = (slice(20 * row, 20 * row + 20), slice(24 * column, 24 * column + 24))
        video[:, :, place[0], place[1]] = np.array([*colours.values()][colour])[:, None, None]
        videos.append(video)
        labels.append(int(4 * colour + animal))
    return texts, videos, labels
