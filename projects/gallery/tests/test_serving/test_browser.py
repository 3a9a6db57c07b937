"""A real browser searches, browses, filters, changes a gallery, and plays at the moment."""

from __future__ import annotations

import re
import shutil
import tempfile
import time

import pytest

selenium = pytest.importorskip('selenium', reason='a browser is driven by selenium')
pytest.importorskip(
    'fastapi', reason='the service is an extra: pip install projects/gallery[serve]'
)
pytest.importorskip(
    'faiss', reason='a store in memory is an extra: pip install projects/gallery[index]'
)

from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

from mmvtr import apis  # noqa: E402
from mmvtr.functional.uncertainty.calibration import Calibration  # noqa: E402
from mmvtr_gallery.extraction.windows import encoder_of_parts, windows_of  # noqa: E402
from mmvtr_gallery.serving.gallery import Gallery, try_to_take  # noqa: E402
from mmvtr_gallery.store import create_store, open_store  # noqa: E402
from mmvtr_gallery.store.moments import MomentStore, Windowing  # noqa: E402
from services import TOKEN, served  # noqa: E402

pytestmark = pytest.mark.nightly
FLAGS = (
    'headless', 'no-sandbox', 'disable-gpu', 'disable-quic', 'no-first-run',
    'disable-background-networking', 'disable-component-update', 'disable-sync',
)  # fmt: skip


@pytest.fixture
def browser():
    chromium, driver = shutil.which('chromium'), shutil.which('chromedriver')
    if not (chromium and driver):
        pytest.skip('there is no chromium with its chromedriver')
    with tempfile.TemporaryDirectory() as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in (*FLAGS, f'user-data-dir={folder}', 'window-size=1100,900'):
            options.add_argument(f'--{flag}')
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        window = webdriver.Chrome(options=options, service=Service(driver))
        try:
            yield window
        finally:
            window.quit()


def until(condition, seconds=30):
    """What a condition gives as soon as that is something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError('it did not become true')


HOSTILE = '<img src=x onerror="document.title=1">'
HEBREW = 'שלום עולם'
LONG = 'a very long caption ' * 12


def crowd(folder, place, write_video):
    """A gallery of 60 clips, some of which have captions that a page may stumble over."""
    import torch

    names = [f'clip {i:02d}' for i in range(60)]
    names[3], names[4] = HOSTILE, 'קליפ 7'
    captions = [f'caption {i}' for i in range(60)]
    captions[3:6] = HOSTILE, HEBREW, LONG
    library = place / 'library'
    library.mkdir(parents=True)
    paths = [str(library / f'{i:02d}.mp4') for i in range(60)]
    for number, path in enumerate(paths):
        write_video(path, [30 + 3 * number] * 2 + [220 - 3 * number] * 2)
    model, cfg = apis.load_retriever(str(folder / 'config.py'), str(folder / 'config.pth'))
    about = dict(checkpoint=str(folder / 'config.pth'), note='sixty', examples=['hello', LONG])
    options = dict(model=apis.fingerprint(model), about=about)
    with create_store(place / 'store', 2, **options) as store:
        columns = dict(
            caption=captions,
            views=[None if i == 9 else i * i for i in range(60)],
            split=[('train', 'test', 'val')[i % 3] for i in range(60)],
            odd=[i % 2 == 1 for i in range(60)],
        )
        levels = apis.encode_videos(model, cfg, paths, ids=names).levels
        store.add(names, apis.vectors(model, levels), paths=paths, metadata=columns)
        bank = apis.encode_texts(
            model, cfg, [f'{"abc"[i % 3] * (i % 9 + 1)} {i}' for i in range(90)]
        )
        store.refit(apis.vectors(model, bank.levels), temperature=0.1)
        grid = torch.linspace(0.11, 0.14, 301, dtype=torch.float64)
        store.calibrate(
            Calibration('platt', torch.tensor([200.0, -25.0]), grid, grid, grid, debiased=True)
        )
        store.persist()
    cfg.dump(place / 'store' / 'config.json')
    return library


def test_a_browser(browser, place):
    gallery = Gallery.open(place)
    with served(gallery) as client:
        browser.get(f'http://127.0.0.1:{client.port}/')
        find = lambda css: browser.find_elements(By.CSS_SELECTOR, css)  # noqa: E731
        until(lambda: find('#size')[0].text == '7 items')
        find('#text')[0].send_keys('hello\n')
        until(lambda: len(find('.hit')) == 7)
        pictures = 'return [...document.images].every((x) => x.complete && x.naturalWidth > 0)'
        browser.execute_script('window.scrollTo(0, document.body.scrollHeight)')
        until(lambda: browser.execute_script(pictures))
        until(lambda: len([x for x in find('.at') if x.is_displayed()]) == 7)

        def shown():
            moved = (By.CLASS_NAME, 'moved')
            return [(x.get_attribute('data-id'), x.find_element(*moved).text) for x in find('.hit')]

        debiased = shown()
        best = client.search(text='hello', k=7)['hits']
        assert [name for name, _ in debiased] == [hit['id'] for hit in best]
        find('.switch label')[1].click()
        until(lambda: shown() != debiased)
        raw = client.search(text='hello', k=7, transform=False)['hits']
        assert [name for name, _ in shown()] == [hit['id'] for hit in raw]
        ranks = {name: rank for rank, (name, _) in enumerate(debiased, 1)}
        for rank, (name, words) in enumerate(shown(), 1):
            place = 'same rank' if ranks[name] == rank else f'from {ranks[name]}'
            assert place in words
        find('.strip')[0].click()
        now = 'return document.getElementById("video").currentTime'
        moment = client('POST', '/moment', dict(id=raw[0]['id'], text='hello'))[2]
        until(lambda: browser.execute_script(now) > moment['start'])
        find('#close')[0].click()
        assert not [x for x in browser.get_log('browser') if x['level'] == 'SEVERE']
        find('#text')[0].clear()
        find('#text')[0].send_keys('x' * 1001 + '\n')
        until(lambda: 'at most 1000 characters' in find('#message')[0].text)
        assert find('#message')[0].get_attribute('role') == 'alert' and not find('.hit')
        browser.get(f'http://127.0.0.1:{client.port}/docs')
        until(lambda: 'POST/search' in [x.text for x in find('h2')])
        loaded = 'return performance.getEntriesByType("resource").map((x) => new URL(x.name).host)'
        assert set(browser.execute_script(loaded)) == {f'127.0.0.1:{client.port}'}


class Window:
    """A browser on the page of a service."""

    def __init__(self, browser, client):
        self.browser, self.url = browser, f'http://127.0.0.1:{client.port}/'

    def __call__(self, css):
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def go(self, query=''):
        self.browser.get(self.url + query)
        until(lambda: self('#size')[0].text)

    def ids(self):
        """Of what is shown; none while it is being changed."""
        script = "return [...document.querySelectorAll('.hit')].map((x) => x.dataset.id)"
        return self.browser.execute_script(script)

    def choose(self, css, value):
        script = "const [x, y] = arguments; x.value = y; x.dispatchEvent(new Event('change'))"
        self.browser.execute_script(script, self(css)[0], value)

    def click(self, css):
        """Of the page's own, as what is shown may be changing."""
        self.browser.execute_script('document.querySelector(arguments[0]).click()', css)

    def press(self, key):
        self.browser.switch_to.active_element.send_keys(key)

    def text(self, css):
        return self(css)[0].text


@pytest.fixture
def crowded(folder, tmp_path, write_video, browser):
    """A browser on the page of 60 clips that may be changed."""
    library = crowd(folder, tmp_path, write_video)
    gallery = Gallery.open(tmp_path / 'store', library=library)
    assert try_to_take(gallery) is None
    with served(gallery) as client:
        window = Window(browser, client)
        window.go()
        yield window, client
        errors = [x for x in browser.get_log('browser') if x['level'] == 'SEVERE']
        assert not [x for x in errors if 'responded with a status of 4' not in x['message']]
        assert browser.title == 'Gallery'  # no caption has run


def test_browsing(crowded):
    window, client = crowded
    names = [item['id'] for item in client('POST', '/items', dict(limit=60))[2]['items']]
    window('#view')[0].click()
    until(lambda: window.ids() == names[:24])
    assert window.text('#place') == '1 to 24 of 60' and 'page=1' in window.browser.current_url
    window.browser.find_element(By.TAG_NAME, 'body').send_keys('n')
    until(lambda: window.ids() == names[24:48])
    window('#next')[0].click()
    until(lambda: window.ids() == names[48:])
    assert window.text('#place') == '49 to 60 of 60' and not window('#next')[0].is_enabled()
    window.browser.back()
    until(lambda: window.ids() == names[24:48])
    window.choose('#sort', 'views')
    until(lambda: window.ids()[:2] == ['clip 00', 'clip 01'])
    window('#descending')[0].click()
    until(lambda: window.ids()[:2] == ['clip 59', 'clip 58'])
    shared = window.browser.current_url
    window.go()
    window.browser.get(shared)
    until(lambda: window.ids()[:2] == ['clip 59', 'clip 58'])
    window.choose('#which', 'never_found')
    never = client('POST', '/items', dict(mark='never_found', sort='views', descending=True))[2]
    until(lambda: window.ids() == [item['id'] for item in never['items']][:24])
    why = window.text('.why')
    assert re.search(r'none of \d+ queries', why) and window.text('.marked') == 'never found'
    assert never['total'] > 0 and f'{never["total"]} never found' in window.text('#told')


def test_strips_are_asked_for_as_they_come_into_view(crowded):
    window, _ = crowded
    window('#view')[0].click()
    until(lambda: len(window.ids()) == 24)
    asked = 'return [...document.images].filter((x) => x.src).length'
    until(lambda: window.browser.execute_script(asked) > 0)
    time.sleep(0.5)
    assert window.browser.execute_script(asked) < 24
    window.browser.execute_script('window.scrollTo(0, document.body.scrollHeight)')
    shown = (
        'const last = [...document.images].at(-1); return last.complete && last.naturalWidth > 0'
    )
    until(lambda: window.browser.execute_script(shown))


def test_captions_are_text(crowded):
    window, _ = crowded
    window('#view')[0].click()
    until(lambda: len(window.ids()) == 24)
    window.choose('#sort', 'views')
    until(lambda: window.ids()[:2] == ['clip 00', 'clip 01'])
    for words in (HOSTILE, HEBREW):
        assert any(x.text == words for x in window('.caption'))
    assert HOSTILE in [x.text for x in window('.name')]
    long = next(x for x in window('.caption') if x.text.startswith('a very long'))
    assert len(long.text) == 140 and long.get_attribute('title') == LONG
    assert not window('.hit img[onerror]') and window.browser.title == 'Gallery'
    width = 'return document.documentElement.scrollWidth - document.documentElement.clientWidth'
    assert window.browser.execute_script(width) == 0
    chip = window('#examples button')[1]
    assert len(chip.text) == 60 and chip.get_attribute('title') == LONG


def test_filters(crowded):
    window, client = crowded
    window('#filters summary')[0].click()
    assert {x.get_attribute('data-name') for x in window('#fields [data-name]')} == {
        'caption', 'views', 'split', 'odd',
    }  # fmt: skip
    window('#text')[0].send_keys('hello\n')
    until(lambda: len(window.ids()) == 12)
    window.choose('[data-name=split]', '"test"')
    window.choose('[data-name=views][data-key=min]', '400')
    fitting = dict(split='test', views=dict(min=400))
    expected = [x['id'] for x in client.search(text='hello', k=12, filter=fitting)['hits']]
    until(lambda: window.ids() == expected)
    assert window.text('#active') == '(2)'
    shared = window.browser.current_url
    window.go()
    window.browser.get(shared)
    until(lambda: window.ids() == expected)
    assert window('[data-name=views][data-key=min]')[0].get_attribute('value') == '400'
    window.choose('[data-name=caption]', 'no such caption')
    until(lambda: 'Nothing fits' in window.text('#message'))
    window('#clear')[0].click()
    until(lambda: len(window.ids()) == 12)
    window('#more')[0].click()
    until(lambda: len(window.ids()) == 24)


def test_p_match_and_its_threshold(crowded):
    window, client = crowded
    window.choose('#least', '0.7')
    window('#text')[0].send_keys('hello\n')
    until(lambda: len(window.ids()) == 12)
    said = client.search(text='hello', k=12, min_precision=0.7)
    assert 0 < said['threshold_p_match'] < 1
    debiased = client('GET', '/health')[2]['calibration']['debiased']
    good = [hit['raw'] + debiased * hit['bias'] >= said['threshold'] for hit in said['hits']]
    last = max((row for row, x in enumerate(good) if x), default=-1)
    kinds = [x.get_attribute('class') for x in window('#results > li')]
    if last == 11:
        assert 'line' not in kinds
    else:
        assert kinds.index('line') == last + 1 and kinds.count('line') == 1
        assert 'robably nothing here' in window.text('.line')
        assert all('unlikely' in x for x in kinds[last + 2 :])
    for hit, meter in zip(said['hits'], window('.meter')):
        assert float(meter.get_attribute('aria-valuenow')) == pytest.approx(
            hit['p_match'], abs=1e-3
        )
        full, tick = (meter.find_element(By.CLASS_NAME, x) for x in ('full', 'tick'))
        width = meter.size['width']
        assert full.size['width'] == pytest.approx(hit['p_match'] * width, abs=1.5)
        at = tick.location['x'] - meter.location['x']
        assert at == pytest.approx(said['threshold_p_match'] * width, abs=2.5)
    window.choose('#least', '0.95')
    until(lambda: 'precision=0.95' in window.browser.current_url)


def test_the_keyboard(crowded):
    window, client = crowded
    body = window.browser.find_element(By.TAG_NAME, 'body')
    window.browser.execute_script('document.activeElement.blur()')
    body.send_keys('/')
    window.press('hello' + Keys.ENTER)
    until(lambda: len(window.ids()) == 12)
    debiased = window.ids()
    window.browser.execute_script('document.activeElement.blur()')
    focused = "return document.activeElement.closest('li')?.dataset.id"
    body.send_keys('j')
    window.press('j')
    assert window.browser.execute_script(focused) == debiased[1]
    window.press('k')
    assert window.browser.execute_script(focused) == debiased[0]
    window.press('s')
    until(lambda: window.text('#said').startswith('videos like'))
    assert debiased[0] in window.text('#said') and 'like=' in window.browser.current_url
    window.browser.back()
    until(lambda: window.ids() == debiased)
    window.browser.execute_script('document.activeElement.blur()')
    body.send_keys('r')
    raw = [x['id'] for x in client.search(text='hello', k=12, transform=False)['hits']]
    until(lambda: window.ids() == raw)
    window.browser.execute_script('document.activeElement.blur()')
    body.send_keys('?')
    until(lambda: window('#help')[0].is_displayed())
    window('#known')[0].click()
    window.browser.execute_script('document.activeElement.blur()')
    body.send_keys('b')
    until(lambda: len(window.ids()) == 24)


def test_changes(crowded, folder, tmp_path, write_video):
    window, client = crowded
    new = write_video(tmp_path / 'a new <b>.mp4', [90, 90, 200, 200])
    window('#view')[0].click()
    until(lambda: len(window.ids()) == 24)
    first = window.ids()[0]
    window.click('.delete')
    until(lambda: window('#asking')[0].is_displayed())
    window('#token')[0].send_keys('wrong' + Keys.ENTER)
    until(lambda: 'not the token of this gallery' in window.text('#refused'))
    assert window.text('#size') == '60 items'
    window('#token')[0].send_keys(TOKEN + Keys.ENTER)
    until(lambda: window.text('#size') == '59 items')
    until(lambda: window.ids() and first not in window.ids())
    assert window.text('#undo') == 'Undo the delete of 1 item'
    window('#undo')[0].click()  # the token is not asked for again
    until(lambda: window.text('#size') == '60 items' and first in window.ids())
    until(lambda: window.text('#undo') == 'Redo the delete of 1 item')
    assert 'The delete of 1 item is undone' in window.text('#done')
    window('#new')[0].send_keys(str(new))
    until(lambda: window.text('#size') == '61 items')
    assert '1 video added; 61 items now' in window.text('#done')
    assert client('GET', '/video?id=a%20new%20%3Cb%3E.mp4')[2] == new.read_bytes()
    broken = tmp_path / 'broken.mp4'
    broken.write_bytes(b'no video')
    other = write_video(tmp_path / 'other.mp4', [10, 250])
    window('#new')[0].send_keys('\n'.join(map(str, [new, broken, other])))  # all are tried
    until(lambda: '1 of 3 videos added; 62 items now' in window.text('#done'))
    why = [line.text for line in window('#done li')]
    assert 'the library has a file' in why[0] and why[0].startswith('a new <b>.mp4: ')
    assert why[1].startswith('broken.mp4: the file cannot be read as a video')
    window('#refit')[0].click()
    window('#texts')[0].send_keys('hello\nyou')
    window('#do')[0].click()
    until(lambda: '2 different queries are too few' in window.text('#unfit'))
    assert window('#texts')[0].get_attribute('value') == 'hello\nyou'  # and stays open
    window('#fewer')[0].click()
    window('#do')[0].click()
    until(lambda: window.text('#done').startswith('Re-fitted to 2 texts'))
    until(lambda: window.text('#undo') == 'Undo the re-fit')
    window('#undo')[0].click()
    until(lambda: 'The re-fit is undone' in window.text('#done'))
    assert client('GET', '/stats')[2]['refit']['num_queries'] == 90
    drop = """
        const data = new DataTransfer();
        data.items.add(new File(['no video'], 'broken.mp4'));
        const options = {dataTransfer: data, bubbles: true, cancelable: true};
        for (const name of ['dragenter', 'dragover', 'drop'])
            document.body.dispatchEvent(new DragEvent(name, options));
    """
    window.browser.execute_script(drop)
    until(lambda: window.text('#done').startswith('No video was added.\nbroken.mp4: the file'))


def test_marks_of_hits(crowded):
    window, client = crowded
    window('#text')[0].send_keys('hello\n')
    until(lambda: len(window.ids()) == 12)
    marks = {x['id']: x for x in client('POST', '/items', dict(limit=60))[2]['items']}
    expected = [name for name in window.ids() if marks[name]['mark']]
    shown = """
        return [...document.querySelectorAll('.hit')]
            .filter((x) => !x.querySelector('.marked').hidden).map((x) => x.dataset.id)
    """
    until(lambda: window.browser.execute_script(shown) == expected)
    if expected:
        chip = next(x for x in window('.marked') if x.is_displayed())
        chip.click()
        assert chip.get_attribute('aria-expanded') == 'true'
        assert any(x.is_displayed() and 'queries' in x.text for x in window('.why'))


def clock(seconds):
    return f'{int(seconds // 60)}:{seconds % 60:04.1f}'


def test_moments(folder, tmp_path, write_video, browser):
    """Windows of the hits are shown, played, and ranked by; only the others are asked for."""
    crowd(folder, tmp_path, write_video)
    model, cfg = apis.load_retriever(str(folder / 'config.py'), str(folder / 'config.pth'))
    cut, encode = Windowing(0.2, 0.1), encoder_of_parts(model, cfg)
    with open_store(tmp_path / 'store') as store:
        with MomentStore.create(store, tmp_path / 'store', cut) as moments:
            for item in store.get(sorted(store.table(['id'])[1]['id'])[10:]):
                moments.put({item.id: windows_of(item.path, None, None, cut, encode)})
            moments.windows.persist()
    with served(Gallery.open(tmp_path / 'store')) as client:
        window = Window(browser, client)
        window.go('?q=hello')
        hits = client.search(text='hello', k=12)['hits']
        until(lambda: window.ids() == [hit['id'] for hit in hits])
        assert any(hit['moment'] for hit in hits)
        for hit, card in zip(hits, window('.hit')):
            if hit['moment'] is None:
                continue
            when, bar, strip = (
                card.find_element(By.CLASS_NAME, name) for name in ('when', 'at', 'strip')
            )
            start, end = hit['moment']['start'], hit['moment']['end']
            assert when.text == f'{clock(start)} to {clock(end)}'
            length = hit['moment']['item_end'] - hit['moment']['item_start']
            width = strip.size['width']
            assert bar.size['width'] == pytest.approx(width * (end - start) / length, abs=2)
        asked = """
            const all = performance.getEntriesByType('resource');
            return all.filter((x) => x.name.endsWith('/moment')).length
        """
        without = sum(hit['moment'] is None for hit in hits)
        until(lambda: len([x for x in window('.at') if x.is_displayed()]) == 12)
        assert browser.execute_script(asked) == without
        window.choose('#by', 'moments')
        ranked = client.search(text='hello', k=12, rank_by='moments')['hits']
        until(lambda: window.ids() == [hit['id'] for hit in ranked])
        until(lambda: 'by=moments' in browser.current_url)
        assert not window('#precision')[0].is_displayed()
        late = next(hit for hit in ranked if hit['moment']['start'] > 0)
        strip = window('.hit')[window.ids().index(late['id'])].find_element(By.CLASS_NAME, 'strip')
        browser.execute_script('arguments[0].scrollIntoView({block: "center"})', strip)
        drawn = 'return [...document.images].every((x) => x.complete || !x.checkVisibility())'
        until(lambda: browser.execute_script(drawn))  # cards may move until then
        strip.click()
        now = 'return document.getElementById("video").currentTime'
        until(lambda: browser.execute_script(now) >= late['moment']['start'])
        assert clock(late['moment']['start']) in window.text('#when')


def test_quarantine(crowded):
    window, client = crowded
    window('#view')[0].click()
    until(lambda: len(window.ids()) == 24)
    first = window.ids()[0]
    window.click('.hold')
    until(lambda: window('#asking')[0].is_displayed())
    window('#token')[0].send_keys(TOKEN + Keys.ENTER)
    until(
        lambda: window.text('#done') == f'No search finds “{first}” now; it stays in the gallery.'
    )
    chip = 'const x = document.querySelector(".held"); return x && !x.hidden'
    until(lambda: window.browser.execute_script(chip))
    held = 'const x = document.querySelector(".hit img"); return x?.naturalWidth > 0 && x.src'
    # Its picture comes with the token.
    assert until(lambda: window.browser.execute_script(held)).startswith('blob:')
    assert first not in [hit['id'] for hit in client.search(text='hello', k=60)['hits']]
    until(lambda: window.text('.hold') == 'Release')
    until(lambda: window.text('#undo') == 'Undo the quarantine of 1 item')
    window.click('.hold')
    until(lambda: window.text('#done') == f'Searches find “{first}” again.')
    until(lambda: window.ids() and not window.browser.execute_script(chip))


def test_a_judgment_is_shown_and_stays(crowded):
    window, client = crowded
    window('#text')[0].send_keys('hello' + Keys.ENTER)
    until(lambda: len(window.ids()) == 12)
    first, second = window.ids()[:2]
    pressed = """
        return [...document.querySelectorAll('.acts [aria-pressed=true]')]
            .map((x) => [x.closest('li').dataset.id, x.textContent])
    """
    window.browser.execute_script('document.querySelector(".strip").focus()')
    window.press('y')  # by the keyboard
    until(lambda: window('#asking')[0].is_displayed())
    window('#token')[0].send_keys(TOKEN + Keys.ENTER)
    until(lambda: window.browser.execute_script(pressed) == [[first, 'Right']])
    assert window.text('#done') == f'“{first}”: right for “hello”. 1 judgment now.'
    window('.hit .no')[1].click()
    until(lambda: window.browser.execute_script(pressed) == [[first, 'Right'], [second, 'Wrong']])
    said = client.search(text='hello', k=2)['hits']
    assert [hit['judged'] for hit in said] == [True, False]
    window.browser.refresh()
    until(lambda: window.browser.execute_script(pressed) == [[first, 'Right'], [second, 'Wrong']])
    window('.hit .no')[1].click()  # taken back
    until(lambda: window.browser.execute_script(pressed) == [[first, 'Right']])
    window.go('?like=clip 00')  # no text to be right for
    until(lambda: len(window.ids()) == 12)
    assert not [x for x in window('.yes, .no') if x.is_displayed()]
