"""One thread, batches of what waits, and nobody who suffers from another's text."""

import threading

import pytest

pytest.importorskip(
    'fastapi', reason='the service is an extra: pip install projects/gallery[serve]'
)

from mmvtr_gallery.serving.batching import Busy, ModelThread  # noqa: E402


class Encoder:
    """Squares numbers in batches; the first batch waits until it may go on."""

    def __init__(self):
        self.go, self.batches, self.threads = threading.Event(), [], set()

    def __call__(self, texts):
        self.go.wait(10)
        self.threads.add(threading.get_ident())
        self.batches.append(list(texts))
        return [int(text) ** 2 for text in texts]


def test_what_waits_is_a_batch_and_a_bad_text_is_alone():
    encode = Encoder()
    thread = ModelThread(encode, most=4)
    first = thread.text('1')
    while thread._waiting:  # it is being encoded
        pass
    rest = [thread.text(text) for text in ('2', 'x', '3', '4', '5')]
    job = thread.job(threading.get_ident)
    rest[3].cancel()
    encode.go.set()
    assert first.result(10) == 1 and [rest[i].result(10) for i in (0, 2, 4)] == [4, 9, 25]
    with pytest.raises(ValueError, match="'x'"):
        rest[1].result(10)
    assert job.result(10) in encode.threads and len(encode.threads) == 1
    # 2, x and 3 (4 has gone away) come one by one after their batch has failed
    assert encode.batches == [['1'], ['2', 'x', '3'], ['2'], ['x'], ['3'], ['5']]
    assert (thread.texts, thread.batches, thread.largest) == (4, 4, 1)
    thread.close()
    with pytest.raises(Busy):
        thread.text('6')


def test_too_many_are_refused_and_the_end_leaves_nobody_waiting():
    encode = Encoder()
    thread = ModelThread(encode, limit=2)
    thread.text('1')
    while thread._waiting:
        pass
    waiting = [thread.text('2'), thread.text('3')]
    with pytest.raises(Busy, match='2 requests are waiting already'):
        thread.text('4')
    failing = thread.job(lambda: 1 / 0)
    closing = threading.Thread(target=thread.close)
    closing.start()
    while not thread._closed:
        pass
    encode.go.set()
    closing.join(10)
    assert all(future.cancelled() for future in (*waiting, failing))
