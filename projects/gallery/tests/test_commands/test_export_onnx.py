"""ONNX graphs of both towers against PyTorch, on inputs made as their json says."""

import json
import sys

import numpy as np
import open_clip
import pytest
import torch
from torch import nn

from children import run_tool
from mmvtr.apis import encode_texts, encode_videos, fingerprint, load_retriever, vectors
from mmvtr.datasets import read_frames
from mmvtr.utils import load_config

onnxruntime = pytest.importorskip('onnxruntime')
pytest.importorskip('onnxscript')

from mmvtr_gallery import onnx_export  # noqa: E402 - what it imports may be missing

CLIP = dict(
    embed_dim=16,
    vision_cfg=dict(layers=1, width=16, head_width=8, patch_size=16, image_size=16),
    text_cfg=dict(context_length=9, width=16, heads=2, layers=1),
    custom_text=True,
)
CONFIG = """
default_scope = 'mmvtr'
name = 'local-dir:clip'
model = dict(
    type='VideoTextRetriever',
    data_preprocessor=dict(type='VideoTextDataPreprocessor', mean=None, std=None),
    encoder=dict(
        type='CLIP4Clip',
        frames=dict(type='OpenCLIPFrames', model=name),
        text=dict(type='OpenCLIPText', model=name),
    ),
    similarity=dict(type='CosineSimilarity'),
    losses=dict(nce=dict(type='ContrastiveLoss')),
)
test_dataloader = dict(
    batch_size=4,
    collate_fn=dict(type='mmvtr.collate_retrieval'),
    dataset=dict(
        video_pipeline=[
            dict(type='LoadVideo', num_frames=4), dict(type='OpenCLIPResize', model=name)
        ],
        text_pipeline=[dict(type='OpenCLIPTokenize', model=name)],
    ),
)
"""  # fmt: skip
MODELS = {
    'seqTransf': dict(type='CLIP4Clip', aggregator='transformer', temporal_layers=1),
    'clip2video': dict(type='CLIP2Video', temporal_layers=1),
}


@pytest.fixture
def folder(tmp_path, write_video, monkeypatch):
    """A config, the model in ``clip/``, its weights, and three videos of 2 to 6 frames."""
    (tmp_path / 'clip').mkdir()
    told = dict(model_cfg=CLIP, preprocess_cfg=dict(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4)))
    (tmp_path / 'clip/open_clip_config.json').write_text(json.dumps(told))
    (tmp_path / 'config.py').write_text(CONFIG)
    for number, name in enumerate('abc'):
        greys = [50 * number + 20 * i for i in range(2 + 2 * number)]
        write_video(tmp_path / f'{name}.mp4', greys, size=(16, 16))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=['CPUExecutionProvider'])


@pytest.mark.nightly
@torch.no_grad()
def test_the_tool_and_what_the_json_says(folder):
    """Zero-shot (meanP): raw files through the graphs, by the json alone."""
    tool = 'export_onnx.py', 'config.py', '--out', 'out'
    code, printed = run_tool(folder, *tool)
    assert code == 1 and 'clip has a config and no weights' in printed
    code, printed = run_tool(folder, *tool, '--random-weights')
    assert code == 0, printed
    assert "out/videos.onnx: video ['batch', 4, 3, 16, 16], frame_mask ['batch', 4]" in printed
    said = json.loads((folder / 'out/retriever.json').read_text())
    video, text = said['video'], said['text']
    frames, masks = np.zeros((3, 4, 3, *video['size']), np.float32), np.zeros((3, 4), bool)
    for row, name in enumerate('abc'):
        shown = read_frames(
            f'{name}.mp4', lambda t: np.linspace(0, len(t) - 1, min(len(t), 4)).astype(int)
        )
        images = (np.stack(shown) - np.array(video['mean'])) / np.array(video['std'])
        frames[row, : len(shown)] = images.transpose(0, 3, 1, 2)
        masks[row, : len(shown)] = True
    words = ['a dog', 'a cat runs', 'x', 'two men', 'sun']
    ids = open_clip.SimpleTokenizer()(words, text['context_length']).numpy()
    assert text['tokenizer']['type'] == 'OpenCLIPTokenize' and text['context_length'] == 9
    (v,) = session('out/videos.onnx').run(None, dict(video=frames, frame_mask=masks))
    (t,) = session('out/texts.onnx').run(None, dict(text=ids, text_mask=ids != 0))

    model, cfg = load_retriever('config.py', None, random_weights=True, device='cpu')
    expected = vectors(model, encode_videos(model, cfg, [f'{n}.mp4' for n in 'abc']).levels)
    np.testing.assert_allclose(v, expected.numpy(), atol=1e-4)
    expected = vectors(model, encode_texts(model, cfg, words).levels)
    np.testing.assert_allclose(t, expected.numpy(), atol=1e-4)
    assert said['fingerprint'] == fingerprint(model) and said['opset'] == 18
    assert said['checkpoint'] is None and said['config'] == 'config.py'
    graph = pytest.importorskip('onnx').load('out/videos.onnx')
    assert graph.opset_import[0].version == 18


@pytest.mark.nightly
@pytest.mark.parametrize('name', ['seqTransf', 'clip2video'])
@torch.no_grad()
def test_trained_encoders(folder, name):
    cfg = load_config('config.py', {f'model.encoder.{k}': v for k, v in MODELS[name].items()})
    if name == 'clip2video':
        cfg.model.similarity.levels = ('global', 'aligned')
        cfg.model.encoder.max_frames = 5
    model, _ = load_retriever(cfg, None, random_weights=True, device='cpu')
    said = onnx_export.export_onnx(model, cfg, folder / 'out', checkpoint='dir/epoch_3.pth')
    assert said['checkpoint'] == 'epoch_3.pth'
    for kind in ('video', 'text'):
        items, mask = onnx_export.Side(kind, tuple(said[kind]['inputs'][kind][1:]),
                                       40 if kind == 'text' else None).drawn(7)  # fmt: skip
        names = said[kind]['inputs']
        (found,) = session(folder / 'out' / said[kind]['file']).run(
            None, dict(zip(names, (items.numpy(), mask.numpy())))
        )
        encode = model.encode_video if kind == 'video' else model.encode_text
        inputs = dict(zip(names, (items, mask)))
        for row in (0, 6):  # each item alone, and without its padding
            own = {key: x[row : row + 1, : int(mask[row].sum())] for key, x in inputs.items()}
            expected = vectors(model, encode(own))
            np.testing.assert_allclose(found[row : row + 1], expected.numpy(), atol=1e-4)


def export(cfg, folder):
    model, _ = load_retriever(cfg, None, random_weights=True, device='cpu')
    return onnx_export.export_onnx(model, cfg, folder)


def test_what_is_refused(folder, monkeypatch):
    best = dict(type='BestFrameSimilarity', _delete_=True)
    with pytest.raises(ValueError, match='BestFrameSimilarity are not inner products'):
        export(load_config('config.py', {'model.similarity': best}), folder / 'out')
    cfg = load_config('config.py')
    cfg.test_dataloader.dataset.video_pipeline[0] = dict(type='LoadVideo')
    with pytest.raises(ValueError, match='the number of frames is not known.*has num_frames'):
        export(cfg, folder / 'out')
    clips = dict(_delete_=True, type='TorchvisionClips', model='mc3_18')
    text = dict(_delete_=True, type='TransformersText', dim=512, model=dict(model_type='bert',
                hidden_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=8,
                intermediate_size=8))  # fmt: skip
    towers = {'model.encoder.frames': clips, 'model.encoder.text': text}
    with pytest.raises(ValueError, match='windows of frames .* are not exported'):
        export(load_config('config.py', towers), folder / 'out')
    assert not (folder / 'out').exists()
    monkeypatch.setitem(sys.modules, 'onnxscript', None)
    with pytest.raises(ImportError, match=r"onnxscript.*pip install -e 'projects/gallery\[onnx\]'"):
        export(load_config('config.py'), folder / 'out')


class Counting(nn.Module):
    """A function that no graph can hold, and one whose graph is that of another."""

    def __init__(self, branch):
        super().__init__()
        self.branch, self.scale = branch, nn.Parameter(torch.ones(()))

    def forward(self, items, mask):
        if self.branch and items.sum() > 0:
            return items * 2
        return items * (self.scale if torch.compiler.is_compiling() else 2 * self.scale)


def test_a_graph_that_cannot_be_or_is_wrong(tmp_path):
    side = onnx_export.Side('video', (2, 3))
    with pytest.raises(RuntimeError, match='torch cannot export the graph of videos: ') as error:
        with onnx_export._reason('video'):
            onnx_export._write(Counting(True), side, tmp_path / 'a.onnx')
    assert len(str(error.value)) < 500
    onnx_export._write(Counting(False), side, tmp_path / 'b.onnx')
    with pytest.raises(RuntimeError, match='b.onnx: vectors of onnxruntime are .* must not be'):
        onnx_export.compare(Counting(False), side, tmp_path / 'b.onnx')


def test_sides_of_features_and_unknown_lengths(folder):
    cfg = load_config('config.py')
    cfg.model.encoder.frames = dict(type='FeatureFrames', in_dim=16)
    cfg.model.data_preprocessor = dict(type='VideoTextDataPreprocessor')
    model, _ = load_retriever(cfg, None, random_weights=True, device='cpu')
    data = cfg.test_dataloader.dataset
    assert onnx_export.video_side(model, data) == ('video', (4, 16), None)
    assert onnx_export.text_side(model, data) == ('text', (9,), 49408)
