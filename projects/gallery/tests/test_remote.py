"""An embedder on a server, against a stub that speaks its protocol; its faults; a gallery."""

import socket
import time

import embedding_stub
import numpy as np
import pytest
import torch

from children import ROOT, run_tool
from mmvtr.apis import fingerprint
from mmvtr.datasets import TextBytes
from mmvtr_gallery import remote
from mmvtr_gallery.remote import RemoteEncoder, ServerAway, ServerRefuses

GREYS = ([10, 30], [200, 220, 240], [120])


@pytest.fixture
def stub(monkeypatch):
    monkeypatch.setattr(remote, 'WAIT', 0.01)
    monkeypatch.delenv('MMVTR_EMBEDDINGS_TOKEN', raising=False)
    with embedding_stub.running() as stub:
        monkeypatch.setenv('MMVTR_EMBEDDINGS_URL', stub.url + '/')
        yield stub


def tokens(*texts):
    rows = [torch.as_tensor(TextBytes().transform(dict(text=text))['token_ids']) for text in texts]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return padded, torch.arange(padded.shape[1]) < torch.tensor([[len(row)] for row in rows])


def videos():
    clips = [torch.stack([torch.full((3, 16, 16), x) for x in greys]).byte() for greys in GREYS]
    mask = torch.arange(3) < torch.tensor([[len(clip)] for clip in clips])
    return clips, mask


def unit(rows):
    rows = np.asarray(rows)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def color(grey):
    return np.concatenate(([grey / 255] * 3, np.ones(embedding_stub.DIM - 3)))


def test_messages_one_an_item(stub):
    encoder = RemoteEncoder('m', text_prompt='find: ', connections=3)
    texts = ['a dog', 'ein rёd cat …', 'x'] * 3
    found = encoder.encode_text(*tokens(*texts))['global'].mean
    expected = unit([embedding_stub.of_text('find: ' + text) for text in texts])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert len(stub.bodies) == 9 and {body['model'] for body in stub.bodies} == {'m'}
    found = encoder.encode_video(*videos())['global'].mean
    expected = unit([np.mean([color(x) for x in greys], axis=0) for greys in GREYS])
    np.testing.assert_allclose(found, expected, atol=5e-3)  # JPEG
    assert len(stub.bodies) == 12 and encoder.dim == embedding_stub.DIM
    assert encoder.protocol() == dict(remote='m (messages)', prompt="text 'find: '")


def test_images_in_batches(stub):
    encoder = RemoteEncoder('m', style='images', batch=4, text_prompt='find: ')
    texts = list('abcdefghi')
    found = encoder.encode_text(*tokens(*texts))['global'].mean
    np.testing.assert_allclose(
        found, unit([embedding_stub.of_text(f'find: {text}') for text in texts]), atol=1e-6
    )
    assert [len(body['input']) for body in stub.bodies] == [4, 4, 1]
    found = encoder.encode_video(*videos())['global'].mean
    expected = unit([unit([color(x) for x in greys]).mean(0) for greys in GREYS])
    np.testing.assert_allclose(found, expected, atol=5e-3)
    assert [len(body['input']) for body in stub.bodies[3:]] == [4, 2]


def test_it_asks_again_and_then_says_so_in_one_sentence(stub, monkeypatch):
    encoder = RemoteEncoder('m', style='images', attempts=3)
    stub.faults = [503, lambda handler: handler.connection.close()]
    assert encoder.encode_text(*tokens('a'))['global'].mean.shape == (1, embedding_stub.DIM)
    stub.faults = [503, 429, 503]
    with pytest.raises(ServerAway, match=r'does not answer \(3 attempts\): 503: .*fault 503'):
        encoder.encode_text(*tokens('a'))
    waits = []
    monkeypatch.setattr(remote.time, 'sleep', waits.append)
    stub.faults = [lambda handler: handler.tell(429, {}, **{'Retry-After': '7'}), 503]
    encoder.encode_text(*tokens('a'))
    assert waits == [7, 14]
    before = len(stub.bodies)
    stub.faults = [400]
    with pytest.raises(ServerRefuses, match='refuses the request, 400: .*fault 400'):
        encoder.encode_text(*tokens('a'))
    assert len(stub.bodies) == before + 1


def test_time_runs_out(stub):
    encoder = RemoteEncoder('m', style='images', attempts=2, timeout=0.1)
    stub.faults = [lambda handler: time.sleep(0.5)] * 2
    began = time.monotonic()
    with pytest.raises(ServerAway, match='timed out'):
        encoder.encode_text(*tokens('a'))
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    'answer',
    [
        b'no json',
        {},
        dict(data=[]),
        dict(data=[dict(index=1, embedding=[1.0])]),
        dict(data=[dict(index=0, embedding=[float('nan')])]),
        dict(data=[dict(index=0, embedding='text')]),
    ],
)
def test_answers_that_are_none(stub, answer):
    stub.faults = [lambda handler: handler.tell(200, answer)]
    with pytest.raises(ServerRefuses, match='/v1'):
        RemoteEncoder('m').encode_text(*tokens('a'))


def test_where_and_who_are_of_the_environment(stub, monkeypatch):
    monkeypatch.setenv('MMVTR_EMBEDDINGS_TOKEN', 'secret')
    encoder = RemoteEncoder('m')
    encoder.encode_text(*tokens('a'))
    assert stub.headers[-1]['Authorization'] == 'Bearer secret'
    with socket.socket() as nobody:  # bound, but nobody listens
        nobody.bind(('127.0.0.1', 0))
        monkeypatch.setenv('MMVTR_EMBEDDINGS_URL', f'http://127.0.0.1:{nobody.getsockname()[1]}/v1')
        with pytest.raises(ServerAway, match=r'4 attempts\): .*refused'):
            encoder.encode_text(*tokens('a'))
    for wrong in ('', 'localhost:8000', 'file:///etc/passwd'):
        monkeypatch.setenv('MMVTR_EMBEDDINGS_URL', wrong)
        with pytest.raises(ValueError, match='MMVTR_EMBEDDINGS_URL=http'):
            encoder.encode_text(*tokens('a'))


def test_fingerprints_tell_models_apart_without_a_server():
    made = [
        RemoteEncoder('m'),
        RemoteEncoder('n'),
        RemoteEncoder('m', style='images'),
        RemoteEncoder('m', text_prompt='find: '),
    ]
    assert len({fingerprint(encoder) for encoder in made}) == 4
    assert fingerprint(RemoteEncoder('m', timeout=3)) == fingerprint(made[0])


def test_of_nothing_there_are_levels_of_nothing(stub):
    encoder = RemoteEncoder('m')
    none = torch.zeros(0, 3, dtype=torch.bool)
    assert encoder.encode_video([], none)['global'].mean.shape == (0, embedding_stub.DIM)
    assert encoder.encode_text(none.long(), none)['global'].mean.shape == (0, embedding_stub.DIM)
    assert len(stub.bodies) == 1  # that asks how wide vectors are


def test_what_it_cannot_be_is_refused():
    with pytest.raises(ValueError, match='style'):
        RemoteEncoder('m', style='video')
    with pytest.raises(ValueError, match='1 or more'):
        RemoteEncoder('m', batch=0)
    with pytest.raises(ValueError, match='takes no video_prompt'):
        RemoteEncoder('m', style='images', video_prompt='x')
    with pytest.raises(ValueError, match='normalise=False'):
        RemoteEncoder('m').encode_video([torch.rand(4, 3, 8, 8)], torch.ones(1, 4).bool())


# -- the config, and a gallery -----------------------------------------------------------------


def test_test_export_and_search_by_a_server(stub, tmp_path, write_video):
    (tmp_path / 'clips').mkdir()
    for n in range(3):
        write_video(tmp_path / f'clips/v{n}.mp4', [20 + 60 * n] * 4, size=(40, 48), codec='ffv1')
    (tmp_path / 'own.csv').write_text('video,text\nv0.mp4,a dog\nv1.mp4,a cat\nv2.mp4,a cow\n')
    where = dict(environ={'MMVTR_EMBEDDINGS_URL': stub.url + '/'})
    options = ['frames=2', 'table=own.csv', 'videos=clips', 'test_dataloader.num_workers=0']
    config = ROOT / 'configs/zeroshot/zeroshot_own_remote.py'
    code, printed = run_tool(tmp_path, 'test.py', config, '--cfg-options', *options, **where)
    assert code == 0, printed[-2000:]
    assert '| remote Qwen/' in ' '.join(printed.split())
    code, printed = run_tool(
        tmp_path, 'export_index.py', config, '--out', 'g',
        '--cfg-options', *options, **where,
    )  # fmt: skip
    assert code == 0, printed[-2000:]
    code, printed = run_tool(tmp_path, 'search.py', 'g', 'a dog', '--k', '3', **where)
    assert code == 0 and printed.count('.mp4') == 3, printed[-2000:]
    code, printed = run_tool(
        tmp_path, 'search.py', 'g', '--add', 'clips/v0.mp4', '--delete', 'v0', **where
    )
    assert code == 0, printed[-2000:]
    stub.faults = [503] * 4
    code, printed = run_tool(tmp_path, 'search.py', 'g', 'a dog', **where)
    assert code == 1 and printed.strip().splitlines()[-1].startswith('error: the embedding server')
    code, printed = run_tool(
        tmp_path, 'export_index.py', ROOT / 'configs/zeroshot_own.py', '--out', 'h',
        '--cfg-options', *options, **where,
    )  # fmt: skip
    assert code == 1 and 'needs their CHECKPOINT' in printed
