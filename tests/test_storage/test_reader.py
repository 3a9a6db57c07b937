"""Files of torch.save: sealed, damaged, of others; what is refused, and in which words."""

import io
import logging
import re
import tarfile
import zipfile

import pytest
import torch

from campaign import flips
from children import ROOT
from mmvtr.storage import read_plain, seal, write_plain
from mmvtr.storage.reader import digest_holds

CONTENT = dict(state_dict=dict(w=torch.arange(600.0)), meta=dict(epoch=3, name='x'))


@pytest.fixture
def sealed(tmp_path):
    write_plain(CONTENT, tmp_path / 'sealed.pth')
    return tmp_path / 'sealed.pth'


@pytest.fixture
def warnings(monkeypatch):
    """All that the reader warns of."""
    found = []
    monkeypatch.setattr(
        'mmvtr.storage.reader.print_log', lambda text, logger, level: found.append((text, level))
    )
    return found


def refusal(path) -> str:
    """The message of a file that is refused; never torch's advice."""
    with pytest.raises(RuntimeError) as error:
        read_plain(path, kind='checkpoint')
    said = str(error.value)
    assert said.startswith(f'checkpoint {path} cannot be read: ')
    assert len(said) - len(str(path)) < 300
    assert not any(word in said for word in ('weights_only', 'torch.load', 'trust', 'PyTorch'))
    return said


def test_a_sealed_file_is_one_of_torch(sealed, warnings):
    assert flips.same(read_plain(sealed, kind='checkpoint'), CONTENT)
    assert not warnings
    for mmap in (False, True):
        assert flips.same(torch.load(sealed, weights_only=True, mmap=mmap), CONTENT)
    with open(sealed, 'rb') as file:
        assert flips.same(torch.load(file, weights_only=True), CONTENT)
    assert zipfile.ZipFile(sealed).testzip() is None
    assert [path.name for path in sealed.parent.iterdir()] == ['sealed.pth']


def test_every_byte_of_the_end_counts(sealed):
    """The directory, the digest and what says that there is one; inside, see the campaign."""
    whole = sealed.read_bytes()
    start = whole.index(b'PK\x01\x02')
    assert len(whole) - start > 500
    for place in range(start, len(whole)):
        raw = bytearray(whole)
        raw[place] ^= 1 << place % 8
        sealed.write_bytes(raw)
        refusal(sealed)


def test_cut_and_longer_files(sealed):
    whole = sealed.read_bytes()
    for length in [*range(0, len(whole) - 200, 97), *range(len(whole) - 200, len(whole))]:
        sealed.write_bytes(whole[:length])
        refusal(sealed)
    sealed.write_bytes(whole + b'\0')
    assert 'the SHA-256 at its end is gone' in refusal(sealed)


def test_a_digest_that_was_taken_away(sealed):
    with zipfile.ZipFile(sealed, 'a') as archive:
        archive.comment = b''
    assert flips.same(torch.load(sealed, weights_only=True), CONTENT)  # nothing else is wrong
    assert 'the SHA-256 at its end is gone' in refusal(sealed)


def test_another_content_with_an_old_digest(sealed):
    end = sealed.read_bytes()[-77:]
    torch.save(dict(CONTENT, more=1), sealed)
    sealed.write_bytes(sealed.read_bytes() + end)
    assert 'do not have the SHA-256' in refusal(sealed)


def test_files_of_others_are_read_with_one_warning(tmp_path, warnings):
    torch.save(CONTENT, tmp_path / 'zip.pth')
    torch.save(CONTENT, tmp_path / 'old.pth', _use_new_zipfile_serialization=False)
    for name in ('zip', 'old'):
        for _ in range(2):
            assert flips.same(read_plain(tmp_path / f'{name}.pth', kind='file'), CONTENT)
    assert len(warnings) == 2 and {level for _, level in warnings} == {logging.WARNING}
    assert f'file {tmp_path}/zip.pth has no digest' in warnings[0][0]
    assert f'file {tmp_path}/old.pth is of an old format' in warnings[1][0]


def test_damaged_weights_of_others(tmp_path, warnings):
    path = tmp_path / 'zip.pth'
    torch.save(CONTENT, path)
    raw = bytearray(path.read_bytes())
    place = raw.index(torch.arange(600.0).numpy().tobytes())
    raw[place + 100] ^= 4
    path.write_bytes(raw)
    assert not flips.same(torch.load(path, weights_only=True), CONTENT)  # torch sees nothing
    assert "the checksum of its record 'zip/data/0' does not hold" in refusal(path)
    assert not warnings


@pytest.mark.parametrize('content', [b'', b'{"a": 1}', b'\x80\x02}q\x00.', b'PK\x03\x04 and more'])
def test_no_files_of_torch(tmp_path, content):
    (tmp_path / 'x.pth').write_bytes(content)
    refusal(tmp_path / 'x.pth')


def test_programs_and_tar_archives(tmp_path):
    torch.jit.script(torch.nn.Linear(2, 2)).save(tmp_path / 'program.pth')
    assert 'TorchScript' in refusal(tmp_path / 'program.pth')
    with tarfile.open(tmp_path / 'x.pth', 'w') as archive:
        archive.addfile(tarfile.TarInfo('storages'), io.BytesIO())
    assert 'not a file of torch.save' in refusal(tmp_path / 'x.pth')


def test_missing_and_unreadable(tmp_path):
    for path in (tmp_path, tmp_path / 'none.pth'):
        with pytest.raises(FileNotFoundError, match='bank .* does not exist'):
            read_plain(path, kind='bank')


def test_sealing_keeps_a_large_archive(tmp_path):
    """Of more records than one piece holds; and its records stay aligned for a memory map."""
    content = {str(i): torch.full((i,), i, dtype=torch.int16) for i in range(300)}
    with open(tmp_path / 'x.pth', 'w+b') as file:
        torch.save(content, file)
        seal(file)
        assert digest_holds(file)
    assert flips.same(torch.load(tmp_path / 'x.pth', weights_only=True, mmap=True), content)
    assert flips.same(read_plain(tmp_path / 'x.pth', kind='x'), content)


def test_flips(tmp_path):
    trials = flips.run(40, 1, tmp_path)
    assert len(trials) == 40 and {trial.verdict for trial in trials} == {'refused'}, trials


def test_the_campaign_sees_what_passes(tmp_path, monkeypatch):
    """With the digest unread a flipped weight is 'silent', so that the trial can fail."""
    monkeypatch.setattr('mmvtr.storage.reader.digest_holds', lambda file: True)
    trials = flips.run(60, 1, tmp_path)
    assert 'silent' in {trial.verdict for trial in trials}


def test_it_is_the_only_one():
    """Nothing else of the package or the tools reads a file with torch."""
    found = [
        str(path.relative_to(ROOT))
        for folder in ('mmvtr', 'tools')
        for path in sorted((ROOT / folder).rglob('*.py'))
        if re.search(r'\btorch\.load\(|load_state_dict_from_url', path.read_text())
    ]
    assert found == ['mmvtr/storage/reader.py']
