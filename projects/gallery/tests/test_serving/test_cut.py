"""Of a text that is longer than the model reads the answer says how much was read."""

from __future__ import annotations

import pytest

from gallery_service import taken
from mmvtr import apis
from mmvtr.storage import write_plain
from services import CONFIG, kept

#: As many as the toy tower has embeddings, less the begin and the end of a text.
WORDS = ['x', 'yy', 'zxy', 'q', 'hello', 'you']


@pytest.fixture
def client(folder, tmp_path):
    """Of a model that reads four words of a text, and a token at either end."""
    (folder / 'vocab.txt').write_text('\n'.join(WORDS))
    step = f"dict(type='WordTokenize', vocab_file='{folder / 'vocab.txt'}', context_length=6)"
    (folder / 'words.py').write_text(CONFIG.replace("dict(type='ToySay')", step))
    model, _ = apis.load_retriever(
        str(folder / 'words.py'), None, random_weights=True, device='cpu'
    )
    write_plain(dict(state_dict=model.state_dict()), folder / 'words.pth')
    with taken(kept(folder, tmp_path / 'store', config='words')) as client:
        yield client


def test_how_much_of_a_text_is_read(client):
    short = client.search(text='hello you x q', k=7)
    assert short['cut'] is None
    for count in (5, 6, 30):
        text = ' '.join(['hello you x q', *(WORDS * 5)[: count - 4]])
        said = client.search(text=text, k=7)
        assert said['cut'] == dict(read=6, of=count + 2)
        assert [hit['id'] for hit in said['hits']] == [hit['id'] for hit in short['hits']]
    assert client.search(like='a', k=1)['cut'] is None
    assert client.search(vector=[0.6, 0.8], k=1)['cut'] is None


def test_a_refit_counts_the_texts_that_are_cut(client):
    texts = [' '.join(WORDS[i:]) for i in range(6)]
    texts += [f'{one} {two}' for one in WORDS for two in WORDS]
    status, _, said = client.change('/refit', texts=texts)
    assert status == 200 and said['texts_cut'] == 2  # those of six and of five words
