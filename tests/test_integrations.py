"""docs/integrations.md: each of its five blocks runs alone, in the trainer that it is for."""

import contextlib
import importlib.util
import io
import re

import open_clip
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from children import ROOT

PAGE = ROOT / 'docs/integrations.md'
BLOCK = re.compile(r'```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?', flags=re.DOTALL)
SECTIONS = dict(
    re.findall(r'^## (.*?)\n(.*?)(?=^## |\Z)', PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
)
LATER = ['open_clip', "Hugging Face's Trainer", 'Lightning', 'Plain PyTorch']


def run(title):
    """Run the block of a section alone; what it defines, what it prints, what the page shows."""
    ((block, shown),) = BLOCK.findall(SECTIONS[title])
    names, printed = {'__name__': 'page'}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, f'{PAGE.name}: {title}', 'exec'), names)
    return names, printed.getvalue(), shown


def test_all_sections_are_run():
    assert [*SECTIONS] == ['sentence-transformers', *LATER]


def vectors(*shape, seed):
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=1)


def test_ten_lines_train_and_evaluate_an_embedder(tmp_path, monkeypatch):
    pytest.importorskip('sentence_transformers', reason="needs the extra 'sentence-transformers'")
    pytest.importorskip('accelerate', reason="needs the extra 'sentence-transformers'")
    import tiny_embedders

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    tiny_embedders.video_model(tmp_path / 'base').save(str(tmp_path / 'my_embedder'))
    (tmp_path / 'my_data.py').write_text(
        'import tiny_embedders\n'
        'texts, videos, ids = tiny_embedders.pairs(96)\n'
        'test_texts, test_videos, _ = tiny_embedders.pairs(24, seed=1)\n'
    )
    found, printed, shown = run('sentence-transformers')
    assert printed.splitlines()[-1] + '\n' == shown
    losses = [row['loss'] for row in found['trainer'].state.log_history if 'loss' in row]
    assert found['trainer'].state.global_step == 6 and all(x > 0 for x in losses)
    assert 0 < found['figures']['raw_recall@10'] <= 1
    block = BLOCK.findall(SECTIONS['sentence-transformers'])[0][0]
    lines = [line for line in block.splitlines() if line and 'import' not in line]
    assert len(lines) <= 10


def test_the_loss_of_open_clip():
    names, *_ = run('open_clip')
    texts, images = vectors(12, 8, seed=0), vectors(12, 8, seed=1)
    scale = torch.tensor(20.0)
    loss = names['DebiasedClipLoss']()
    debiased = loss(images, texts, scale)
    named = loss(images, texts, scale, output_dict=True)
    assert named == {'contrastive_loss': debiased}
    loss.supervision = None
    torch.testing.assert_close(
        loss(images, texts, scale), open_clip.loss.ClipLoss()(images, texts, scale)
    )
    assert debiased < loss(images, texts, scale)
    assert loss(images, texts, scale, ids=torch.arange(12) // 2) != loss(images, texts, scale)


def test_the_trainer_of_hugging_face(tmp_path):
    pytest.importorskip('accelerate', reason="needs the extra 'sentence-transformers'")
    from transformers import CLIPConfig, CLIPModel, Trainer, TrainingArguments

    side = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
    text = dict(side, vocab_size=20, max_position_embeddings=8, eos_token_id=19, bos_token_id=1)
    vision = dict(side, image_size=16, patch_size=8)
    torch.manual_seed(0)
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=12))
    numbers = torch.arange(16) // 2  # two texts an image
    images = torch.randn(8, 3, 16, 16)
    data = [
        dict(
            input_ids=torch.tensor([1, 2 + int(n), 10 + i % 2, 19]),
            pixel_values=images[n],
            labels=int(n),
        )
        for i, n in enumerate(numbers)
    ]
    args = TrainingArguments(
        str(tmp_path), max_steps=30, per_device_train_batch_size=16, learning_rate=5e-3,
        report_to=[], disable_tqdm=True, logging_steps=1, save_strategy='no', use_cpu=True,
        label_names=['labels'],
    )  # fmt: skip
    names, *_ = run("Hugging Face's Trainer")
    trainer = Trainer(model, args, train_dataset=data, compute_loss_func=names['DebiasedLoss']())
    trainer.train()
    losses = [row['loss'] for row in trainer.state.log_history if 'loss' in row]
    assert losses[-1] < losses[0] - 0.3


def test_lightning(tmp_path):
    if importlib.util.find_spec('lightning') is None:
        pytest.skip('needs lightning, which no extra brings')
    import lightning

    names, *_ = run('Lightning')
    torch.manual_seed(0)
    module = names['Retriever'](nn.Linear(20, 16), nn.Linear(30, 16), 16)
    before = {name: p.clone() for name, p in module.named_parameters()}
    data = [
        dict(text=torch.randn(20), video=torch.randn(30), id=torch.tensor(i // 2))
        for i in range(24)
    ]
    trainer = lightning.Trainer(
        max_epochs=2, accelerator='cpu', logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=12))
    still = {n for n, p in module.named_parameters() if torch.equal(p, before[n])}
    assert all('attention' in name for name in still)  # of one token it has nothing to learn


def test_plain_pytorch():
    names, *_ = run('Plain PyTorch')
    assert names['figures']['eta_ramp'] == 1 and names['value'] < 1.5
    assert names['target'].weights.shape == (60, 60) and names['target'].weights.min() < 1


def test_our_loss_in_a_model_of_mmengine():
    page = (ROOT / 'docs/downstream.md').read_text().split('## Our loss in your model')[1]
    found = {'__name__': 'downstream'}
    exec(re.findall(r'```python\n(.*?)```', page, flags=re.DOTALL)[0], found)
    torch.manual_seed(0)
    model = found['YourModel']()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    batch = dict(
        text=torch.randn(12, 20), video=torch.randn(12, 30), video_id=torch.arange(12) // 2
    )
    values = []
    for _ in range(20):
        loss, told = model.parse_losses(model(**batch))
        assert {'loss_debiased', 'eta_negative'} <= {*told}
        values.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert values[-1] < values[0] - 0.5
